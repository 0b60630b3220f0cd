"""The SQL environment on both backends: tools, snapshots, limits, and who is paid."""

import threading
import time
from collections.abc import Iterator
from typing import Any

import gymnasium
import pytest
from gymnasium.envs.registration import EnvSpec

from agent_envs.env import ToolEnv
from agent_envs.envs.sql import boxes
from agent_envs.envs.sql.cheats import CHEATS
from agent_envs.envs.sql.cluster import lacks
from agent_envs.envs.sql.env import SQL
from agent_envs.envs.sql.server import close_servers
from agent_envs.envs.sql.tasks import SQLTasks
from agent_envs.errors import SnapshotUnsupported
from agent_envs.policy import Policy, ScriptedPolicy, null, oracle
from agent_envs.rollout import rollout
from agent_envs.sandbox import probe_all
from agent_envs.task import Task
from agent_envs.testing import check_tool_env
from agent_envs.testing.check import CHECKS, run_check
from agent_envs.testing.play import Subject
from agent_envs.turns import ToolCall, ToolResult

pytestmark = pytest.mark.skipif(
    not any(report.works for report in probe_all() if report.backend in ("namespace", "landlock")),
    reason="no sandbox for untrusted code works on this machine: see agent-envs doctor",
)
TASKS = SQLTasks()
SECONDS = 1.0


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def backend(request: pytest.FixtureRequest) -> Iterator[str]:
    """Each backend that there is here."""
    if request.param == "postgresql" and lacks():
        pytest.skip(lacks())
    yield request.param
    close_servers()
    boxes.kept.close()


@pytest.fixture
def env(backend: str) -> Iterator[SQL]:
    """An env on a task that changes data, reset."""
    made = SQL(backend=backend, query_seconds=SECONDS, max_turns=100, max_calls=100)
    made.reset(seed=1, options={"task": first("change").id})
    yield made
    made.close()


def first(kind: str, family: str = "") -> Task:
    """The first task of a kind, or of a family."""
    return next(
        t
        for t in TASKS.split("heldout")
        if t.data["kind"] == kind and family in ("", t.tags[0]) and not t.data.get("migrates")
    )


def use(env: SQL, tool: str, **arguments: str) -> ToolResult:
    """One call."""
    return env.call(ToolCall(tool, arguments))


def query(env: SQL, sql: str) -> str:
    """What a query that works shows."""
    result = use(env, "query", sql=sql)
    assert result.error is None, result
    return result.content


def execute(env: SQL, sql: str) -> str:
    """What statements that work say."""
    result = use(env, "execute", sql=sql)
    assert result.error is None, result
    return result.content


def a_table(env: SQL) -> str:
    """A table that no other refers to."""
    leaves = {"shop": "item", "library": "loan", "clinic": "prescription", "flights": "booking"}
    return leaves.get(env.task.data["world"], "entry")


def count(env: SQL) -> str:
    """How many rows that table has."""
    return query(env, f"SELECT count(*) AS n FROM {a_table(env)}").split("\n")[2].strip()


# -- tools ---------------------------------------------------------------------------------------


def test_it_tells_of_the_tables(env: SQL) -> None:
    listed = use(env, "list_tables").content
    assert listed.startswith("SQLite" if env.dialect == "sqlite" else "PostgreSQL")
    assert f"{a_table(env)} " in listed and "| columns | rows" in listed
    told = use(env, "describe_table", name=a_table(env).upper()).content
    assert "column" in told and "PRIMARY KEY (id)" in told and "REFERENCES" in told
    assert use(env, "describe_table", name="nowhere").error == "failed"


def test_rows_are_an_aligned_table_with_a_count(env: SQL) -> None:
    assert query(env, "SELECT 1 AS one, 'a' AS t, NULL AS n UNION ALL SELECT 22, 'bc', NULL") == (
        "one | t  | n\n----+----+-----\n  1 | a  | NULL\n 22 | bc | NULL\n(2 rows)"
    )
    many = "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 312) "
    assert query(env, f"{many} SELECT n FROM r").endswith("(50 of 312 rows)")
    long = query(env, "SELECT replace('xxxxxxxxxx', 'x', 'abcdefghijklmnop\n') AS s")
    assert len(long.split("\n")) == 4 and "..." in long


def test_query_only_reads(env: SQL) -> None:
    before = count(env)
    for sql in (
        f"DELETE FROM {a_table(env)}",
        f"WITH gone AS (SELECT 1) DELETE FROM {a_table(env)} RETURNING *",
        f"WITH x AS (DELETE FROM {a_table(env)} RETURNING *) SELECT * FROM x",
        "BEGIN",
        "SELECT 1; SELECT 2",
        "CREATE TEMP TABLE t (i INTEGER)",
    ):
        assert use(env, "query", sql=sql).error == "failed", sql
    assert count(env) == before


def test_execute_is_for_changes_only(env: SQL) -> None:
    assert execute(env, f"DELETE FROM {a_table(env)} WHERE id < 0") == "rows changed: 0"
    env.reset(seed=1, options={"task": first("read").id})
    refused = use(env, "execute", sql=f"DELETE FROM {a_table(env)}")
    assert refused.error == "failed" and "there is no execute" in refused.content


def test_errors_are_the_engines_own_and_short(env: SQL) -> None:
    said = use(env, "query", sql="SELECT nope FROM " + a_table(env)).content
    assert "nope" in said and "\n" not in said and len(said) < 200
    failed = execute_fails(env, f"INSERT INTO {a_table(env)} (id) VALUES (-1); SELECT 1")
    assert "id" not in failed.split(":")[0] and "statements done before it: 0" in failed
    half = f"DELETE FROM {a_table(env)} WHERE id < 0; UPDATE {a_table(env)} SET nope = 1"
    assert "statements done before it: 1" in execute_fails(env, half)


def execute_fails(env: SQL, sql: str) -> str:
    """What is said of statements that do not all work."""
    result = use(env, "execute", sql=sql)
    assert result.error == "failed", result
    return result.content


def test_transactions_stay_open_from_call_to_call(env: SQL) -> None:
    before = count(env)
    assert execute(env, "BEGIN").endswith("a transaction is open")
    execute(env, f"DELETE FROM {a_table(env)} WHERE id = 1")
    assert count(env) == str(int(before) - 1)
    execute(env, "ROLLBACK")
    assert count(env) == before


def test_constraints_hold(env: SQL) -> None:
    parent = {"item": "product", "loan": "book", "prescription": "visit", "booking": "flight"}
    table = parent.get(a_table(env), "account")
    for sql in (f"DELETE FROM {table}", f"UPDATE {a_table(env)} SET id = 1"):
        assert use(env, "execute", sql=sql).error == "failed", sql


# -- time ------------------------------------------------------------------------------------------

RUNAWAYS = {
    "a recursion": "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) "
    "SELECT count(*) FROM r",
    "a cross join": "SELECT count(*) FROM {0} a, {0} b, {0} c, {0} d, {0} e, {0} f",
    "a flood of rows": "SELECT a.* FROM {0} a, {0} b, {0} c, {0} d, {0} e",
    "a sort": "SELECT a.id FROM {0} a, {0} b, {0} c, {0} d ORDER BY a.id * b.id * c.id * d.id",
    "a giant text": {
        "sqlite": "SELECT length(group_concat(a.id || b.id || c.id)) FROM {0} a, {0} b, {0} c, {0}",
        "postgresql": "SELECT length(string_agg(repeat('x', 100000), '')) FROM {0} a, {0} b",
    },
    "one giant call": {
        "sqlite": "SELECT length(replace(hex(zeroblob(400000)), '0', hex(zeroblob(400000))))",
        "postgresql": "SELECT repeat('x', 1000000000)",
    },
    "a pattern": {
        "sqlite": "SELECT hex(zeroblob(400000)) LIKE '%0%0%0%0%0%0%0%0%0%0%0%0%1'",
        "postgresql": "SELECT repeat('a', 100000) ~ '(a*)*(a*)*(a*)*b'",
    },
    "a nap": {"sqlite": "SELECT 1", "postgresql": "SELECT pg_sleep(10)"},
}


@pytest.mark.parametrize("name", RUNAWAYS)
def test_runaway_queries_end_and_the_next_one_works(env: SQL, name: str) -> None:
    wanted: Any = RUNAWAYS[name]
    sql = wanted if isinstance(wanted, str) else wanted[env.dialect]
    before, began = count(env), time.monotonic()
    result = use(env, "query", sql=sql.format(a_table(env)))
    took = time.monotonic() - began
    assert result.error in (None, "timeout", "failed")
    assert took < 30, f"{name} takes {took} s"
    assert count(env) == before


def test_a_limit_is_no_word_of_the_session(env: SQL) -> None:
    """Where a session could lift its own limit, ours holds all the same."""
    if env.dialect == "sqlite":
        pytest.skip("there is no such setting")
    lost = wire_limit(env)
    assert lost.error == "timeout"
    assert count(env)


def wire_limit(env: SQL) -> ToolResult:
    """A runaway query in a session whose own timeout an administrator has lifted."""
    session: Any = env._session
    session.connection.execute("SET statement_timeout = 0")
    return use(env, "query", sql=RUNAWAYS["a recursion"])  # type: ignore[arg-type]


def test_close_ends_a_running_call(env: SQL) -> None:
    slow = SQL(backend=env.dialect, query_seconds=20.0)
    slow.reset(seed=1, options={"task": first("read").id})
    ended: list[Any] = []
    call = ToolCall("query", {"sql": RUNAWAYS["a recursion"]})
    thread = threading.Thread(target=lambda: ended.append(slow.act([call])))
    thread.start()
    time.sleep(0.5)
    slow.close()
    thread.join(5)
    assert not thread.is_alive() and ended[0][4]["infrastructure_error"]


# -- snapshots -------------------------------------------------------------------------------------


def test_a_rollback_brings_the_rows_back(env: SQL) -> None:
    start, before = env.snapshot(), count(env)
    execute(env, f"DELETE FROM {a_table(env)} WHERE id > 3")
    later = env.snapshot()
    execute(env, f"DELETE FROM {a_table(env)}")
    for _ in range(2):
        env.rollback(later)
        assert count(env) == "3"
        env.rollback(start)
        assert count(env) == before
    fork = env.fork(later)
    execute(fork, f"DELETE FROM {a_table(fork)}")
    assert (count(fork), count(env)) == ("0", before)
    env.close()
    assert count(fork) == "0"
    fork.close()


def test_open_transactions_are_kept_or_refused_by_name(env: SQL) -> None:
    execute(env, f"BEGIN; DELETE FROM {a_table(env)} WHERE id > 3")
    if env.dialect == "postgresql":
        with pytest.raises(SnapshotUnsupported, match="an open transaction"):
            env.snapshot()
        assert env.snapshot(on_refusal="mark").refused
        execute(env, "ROLLBACK")
        env.snapshot()
        return
    kept, before = env.snapshot(), count(env)
    execute(env, "COMMIT")
    env.rollback(kept)
    assert count(env) == before == "3"
    execute(env, "ROLLBACK")
    assert count(env) != before


def test_temporary_tables_are_kept_or_not_to_be_had(env: SQL) -> None:
    made = use(env, "execute", sql="CREATE TEMP TABLE mine AS SELECT 7 AS x")
    if env.dialect == "postgresql":
        assert made.error == "failed"
        return
    kept = env.snapshot()
    execute(env, "DROP TABLE mine")
    env.rollback(kept)
    assert "7" in query(env, "SELECT x FROM mine")


def test_no_setting_outlives_a_call(env: SQL) -> None:
    """So that a copy goes on as the original would."""
    for sql in ("SET search_path = nowhere", "PREPARE p AS SELECT 1", "PRAGMA foreign_keys = OFF"):
        use(env, "execute", sql=sql)
        use(env, "query", sql=sql)
    assert count(env)
    table = {"item": "product", "loan": "book", "prescription": "visit", "booking": "flight"}
    parent = table.get(a_table(env), "account")
    assert use(env, "execute", sql=f"DELETE FROM {parent}").error == "failed"


def test_clock_and_chance(env: SQL) -> None:
    kept = env.snapshot()
    first = query(env, "SELECT random() AS r, CURRENT_TIMESTAMP AS t")
    env.rollback(kept)
    again = query(env, "SELECT random() AS r, CURRENT_TIMESTAMP AS t")
    if env.dialect == "sqlite":
        assert first == again and "2025-06-30 12:00:00" in first
        assert "2025-07-01" in query(env, "SELECT date('now', '+1 day')")
        assert "30.06" in query(env, "SELECT strftime('%d.%m')")
        assert not env.volatile
    else:
        assert {"clock", "random"} <= env.volatile


def test_the_portable_form(env: SQL, tmp_path: Any) -> None:
    if env.dialect == "postgresql":
        with pytest.raises(SnapshotUnsupported, match="portable"):
            env.serialized()
        return
    import sqlite3

    file = tmp_path / "copy.db"
    file.write_bytes(env.serialized())
    found = sqlite3.connect(file)
    assert str(found.execute(f"SELECT count(*) FROM {a_table(env)}").fetchone()[0]) == count(env)
    found.close()


# -- who is paid -----------------------------------------------------------------------------------


def play(backend: str, policy: Policy, tasks: list[Task]) -> list[float]:
    """The rewards of some tasks."""
    with SQL(backend=backend, query_seconds=1.0) as env:
        played = rollout(env, policy, tasks, seed=1, progress=False)
    assert all(one.valid for one in played), [one.error for one in played if not one.valid]
    return [one.reward for one in played]


def some(step: int) -> list[Task]:
    """A spread of the tasks of every split."""
    return [*TASKS][::step]


def test_the_oracle_passes(backend: str) -> None:
    tasks = some(9 if backend == "sqlite" else 23)
    rewards = play(backend, oracle(SQL, TASKS), tasks)
    assert [t.id for t, r in zip(tasks, rewards, strict=True) if r != 1.0] == []


@pytest.mark.parametrize("name", ["null", *CHEATS])
def test_nobody_else_does(backend: str, name: str) -> None:
    policy = null() if name == "null" else ScriptedPolicy(CHEATS[name])
    tasks = some(61 if backend == "sqlite" else 97)
    assert play(backend, policy, tasks) == [0.0] * len(tasks)


def test_what_is_not_committed_does_not_count(env: SQL) -> None:
    task = first("change", "adjust")
    script = task.data["script"][env.dialect]
    env.reset(seed=1, options={"task": task.id})
    for statements, passes in (
        (script, True),
        (f"BEGIN; {script}; COMMIT", True),
        (f"BEGIN; {script}", False),
        (f"{script}; DELETE FROM {a_table(env)} WHERE id = 1", False),
    ):
        env.reset(seed=1, options={"task": task.id})
        use(env, "execute", sql=statements)
        verdict = env.finish("done")
        assert verdict is not None and verdict.passed == passes, statements


def test_a_batch_that_breaks_half_way_must_leave_nothing(env: SQL) -> None:
    task = first("change", "batches")
    words = task.data["script"]["sqlite"].split()
    statement = f"UPDATE {words[1]} SET {words[3]} = {words[3]} + ({{}}) WHERE id = {{}}"
    batches = [line for line in task.prompt.splitlines() if line.startswith("Batch ")]
    env.reset(seed=1, options={"task": task.id})
    for line in batches:
        steps = [part.split()[-2:] for part in line.partition(": ")[2].split(", ")]
        sql = ";".join(statement.format(step, id.rstrip(":")) for id, step in steps)
        if use(env, "execute", sql=f"BEGIN; {sql}; COMMIT").error:
            execute(env, "ROLLBACK")
    verdict = env.finish("done")
    assert verdict is not None and verdict.passed
    env.reset(seed=1, options={"task": task.id})
    for line in batches:  # step by step, without transactions
        for part in line.partition(": ")[2].split(", "):
            id, step = part.split()[-2:]
            use(env, "execute", sql=statement.format(step, id.rstrip(":")))
    verdict = env.finish("done")
    assert verdict is not None and not verdict.passed


def test_answers_may_stand_in_a_fence(env: SQL) -> None:
    task = first("read")
    gold = task.data["gold"][env.dialect][0]["answer"]
    for answer, passes in (
        (gold, True),
        (f"```sql\n{gold};\n```", True),
        (f"-- so\n{gold} -- and so", True),
        (f"The answer: {gold}", False),
        (f"```sql\n{gold}\n```\nor\n```sql\nSELECT 1\n```", False),
        (f"{gold}; {gold}", False),
    ):
        env.reset(seed=1, options={"task": task.id})
        verdict = env.finish(answer)
        assert verdict is not None and verdict.passed == passes, answer


# -- making one ------------------------------------------------------------------------------------


def test_arguments_that_do_not_fit() -> None:
    arguments: Any
    for arguments, why in (
        ({"backend": "oracle"}, "no backend"),
        ({"url": "postgresql://x"}, "goes with backend"),
        ({"sandbox": "none"}, "no sandbox"),
        ({"backend": ["sqlite"]}, "no backend"),
        ({"sandbox": "namespce"}, "did you mean 'namespace'"),
        ({"url": 5, "backend": "postgresql"}, "url=5: text such as"),
        ({"database": 5, "tasks": "x.jsonl"}, "database=5: the path"),
        *(({"query_seconds": x}, "above 0") for x in (0, "2", None, float("inf"), float("nan"))),
        ({"database": "x.sql"}, "goes with tasks"),
    ):
        with pytest.raises(ValueError, match=why):
            SQL(**arguments)


def test_what_the_class_declares() -> None:
    assert issubclass(SQL, ToolEnv) and not SQL.state_is_data
    assert SQL.components == ("solved", "visible")
    assert list(SQL.tools) == ["list_tables", "describe_table", "query", "execute"]


def test_the_spec_survives_json(backend: str) -> None:
    env: Any = gymnasium.make("agent/SQL-v0", backend=backend, query_seconds=3.0, split="heldout")
    again: Any = gymnasium.make(EnvSpec.from_json(env.spec.to_json()))
    assert (again.dialect, again.reset(seed=3)[0]) == (backend, env.reset(seed=3)[0])
    env.close()
    again.close()


LEVELS = range(6)
QUICKLY: dict[str, Any] = {"query_seconds": 0.5}


@pytest.mark.soak(len(LEVELS))
def test_it_conforms(rounds: int) -> None:
    """On each level; an episode of level 0 takes the least time."""
    for level in LEVELS[:rounds]:

        def made(level: int = level, **arguments: Any) -> SQL:
            env: Any = gymnasium.make("agent/SQL-v0", level=level, **{**QUICKLY, **arguments})
            assert isinstance(env, SQL)
            return env

        check_tool_env(made, examples=3, depth=12, tasks=1)


QUICK_CHECKS = (
    "info_has_its_form", "tools_meet_no_bugs", "same_seed_same_bytes", "limits_hold", "start_law",
    "rollback_undoes_a_detour", "handles_travel", "histories_travel", "forks_outlive_their_parent",
    "nothing_leaks", "faults_keep_the_form",
)  # fmt: skip


@pytest.mark.soak(50)
def test_postgresql_conforms(rounds: int) -> None:
    """With rounds for it, to everything."""
    if lacks():
        pytest.skip(lacks())

    def made(**arguments: Any) -> SQL:
        return SQL(backend="postgresql", level=4, **{**QUICKLY, **arguments})

    subject = Subject.of(made, examples=2, depth=5, tasks=1)
    for check in CHECKS:
        if rounds > 1 or check.__name__ in QUICK_CHECKS:
            run_check(check, subject)
    close_servers()
