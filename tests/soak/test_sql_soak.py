"""Thousands of SQL episodes: no connection, database, role, process or file is left.

Counts are those of `make soak`; `make test` runs a fiftieth.
"""

import gc
import os
import random
import warnings
from collections.abc import Iterator
from typing import Any

import pytest

from agent_envs.envs.sql import boxes
from agent_envs.envs.sql.cluster import lacks
from agent_envs.envs.sql.env import SQL
from agent_envs.envs.sql.server import close_servers, server
from agent_envs.envs.sql.tasks import SQLTasks
from agent_envs.sandbox import close_zygotes, probe_all
from agent_envs.turns import ToolCall
from tests.sandbox.leftovers import descriptors, of_sandboxes, traces, wait_until

pytestmark = pytest.mark.skipif(
    not any(report.works for report in probe_all() if report.backend in ("namespace", "landlock")),
    reason="no sandbox for untrusted code works on this machine: see agent-envs doctor",
)
MEGABYTE = 1 << 20
ENDLESS = "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT max(n) FROM r"
TASKS = [*SQLTasks().split("train")]


@pytest.fixture(autouse=True)
def nothing_stays() -> Iterator[None]:
    """What a backend does not enforce is said elsewhere; what is kept for reuse ends here."""
    warnings.simplefilter("ignore")
    yield
    close_servers()
    boxes.kept.close()


def episode(env: SQL, n: int) -> None:
    """One with a branch, sometimes a fork, a runaway query, or no end; right every other time."""
    dice = random.Random(n)
    task = dice.choice(TASKS)
    env.reset(seed=n, options={"task": task})
    move: Any = env.oracle(task, [])
    env.act(move)
    kept = None
    if n % 3 == 0:
        kept = env.snapshot()
    if task.data["kind"] == "change":
        table = env.call(ToolCall("list_tables", {})).content.split("\n")[3].split(" ")[0]
        env.call(ToolCall("execute", {"sql": f"DELETE FROM {table}"}))
    if n % 50 == 0:
        assert env.call(ToolCall("query", {"sql": ENDLESS})).error == "timeout"
    if kept is not None:
        if n % 15 == 0:
            env.fork(kept).close()
        env.rollback(kept)
    if n % 7:
        finish(env, passes=task.data["kind"] != "change" or kept is not None)


def finish(env: SQL, *, passes: bool) -> None:
    """Play the gold solution from here."""
    heard = [{"role": "tool", "content": "SQLite" if env.dialect == "sqlite" else "PostgreSQL"}]
    move: Any = env.oracle(env.task, heard)
    if isinstance(move, list):
        env.act(move)
        move = "done"
    verdict = env.finish(move)
    assert verdict is not None and (verdict.passed or not passes), env.task


def resident(pids: set[int]) -> int:
    """Bytes of memory that processes have to themselves or share."""
    total = 0
    for pid in pids:
        try:
            with open(f"/proc/{pid}/statm") as file:
                total += int(file.read().split()[1])
        except OSError:
            continue
    return total * os.sysconf("SC_PAGESIZE")


@pytest.mark.soak(10_000)
def test_sqlite_episodes_leave_nothing(rounds: int) -> None:
    warm = min(rounds // 4, 100)
    groups = traces(os.getpid()).groups  # of browsers that live on from other tests
    env = SQL(query_seconds=0.3)
    for n in range(warm):
        episode(env, n)
    gc.collect()
    opened, memory = len(descriptors()), resident({os.getpid()})
    for n in range(warm, rounds):
        if n % 100 == 0:
            env.close()
            env = SQL(query_seconds=0.3)
        episode(env, n)
    env.close()
    gc.collect()
    assert len(descriptors()) <= opened
    assert resident({os.getpid()}) - memory < 48 * MEGABYTE
    boxes.kept.close()
    close_zygotes()
    assert wait_until(lambda: traces(os.getpid()).groups <= groups)
    assert wait_until(lambda: not of_sandboxes(os.getpid()))


@pytest.mark.soak(500)
def test_postgresql_episodes_leave_nothing(rounds: int) -> None:
    if lacks():
        pytest.skip(lacks())
    env = SQL(backend="postgresql", query_seconds=0.3)
    owner = server(None)
    assert owner.cluster is not None
    base, keeper = owner.cluster.base, owner.cluster.process.pid
    for n in range(rounds):
        if n % 100 == 0:
            env.close()
            env = SQL(backend="postgresql", query_seconds=0.3)
        episode(env, n)
    env.close()
    owner.drain()
    assert names(owner, "datname", "pg_database") == set()
    assert names(owner, "rolname", "pg_roles") == set()
    sessions = owner.admin.execute(
        "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'"
    ).fetchone()
    assert sessions is not None and sessions[0] <= 2, "the administrator's and the janitor's"
    close_servers()
    assert wait_until(lambda: not os.path.exists(base) and not os.path.exists(f"/proc/{keeper}"))


def names(owner: Any, column: str, table: str) -> set[str]:
    """The databases or roles of episodes and snapshots; those that are kept to copy from stay."""
    found = owner.admin.execute(f"SELECT {column} FROM {table}".encode()).fetchall()
    own = [name.rpartition("_")[2] for (name,) in found if owner.run in name]
    places = sum(name.startswith("g") and name[1:].isdigit() for name in own)
    episodes = {name for name in own if name[0] in "es" and name[1:].isdigit()}
    roles = sorted(name for name in own if name[0] == "r" and name[1:].isdigit())
    return episodes | set(roles[: max(0, len(roles) - max(places, 5))])
