"""Speeds of the SQL environment, with their floors, interleaved in one run.

    python -m tests.benchmarks.bench_sql [--rounds 15] [--out FILE] [--no-peers]

SQLite's floor is a bare `sqlite3` call and a bare sandbox call in turn; PostgreSQL's is
what a copy of a database takes by itself: end the session, CREATE DATABASE TEMPLATE, connect. The
peer's SQL tool runs in a virtual environment under build/bench and isolates nothing. Figures are
wall time, medians with the least and the largest. No figure fails the run: the log says what was
met.
"""

import argparse
import json
import os
import sqlite3
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from agent_envs.envs.sql import boxes
from agent_envs.envs.sql.cluster import lacks
from agent_envs.envs.sql.database import Database
from agent_envs.envs.sql.env import SQL
from agent_envs.envs.sql.server import close_servers, server
from agent_envs.envs.sql.sqlite import SQLite
from agent_envs.envs.sql.worlds import database
from agent_envs.sandbox import Sandbox, close_zygotes, probe
from agent_envs.turns import ToolCall
from tests.benchmarks.programs import PEERS, ROOT, SCRATCH, interpreter
from tests.benchmarks.report import Bench, Log, machine, times

QUERY = "SELECT status, count(*) AS n FROM purchase GROUP BY status ORDER BY n DESC"
TIMES_FLOOR, TIMES_COPY, STATE_MS = 3.0, 1.3, 5.0


def timed(call: Callable[[], object]) -> float:
    """Milliseconds of a call."""
    began = time.perf_counter()
    call()
    return (time.perf_counter() - began) * 1e3


def steps(bench: Bench) -> None:
    """A query through the whole environment, against a bare one and a bare sandbox call."""
    bare = database("shop", 1, False, "sqlite").connect()
    tasks = [t for t in SQL.tasks.split("train", 0) if t.data["world"] == "shop"]
    with SQL(max_turns=10**9, max_calls=10**9) as env, Sandbox() as box:
        env.reset(seed=1, options={"task": tasks[0].id})
        box.run_python("x = 1")
        call = ToolCall("query", {"sql": QUERY})
        floor, ours, resets = [], [], []
        for _ in range(bench.rounds * 20):
            floor.append(timed(lambda: bare.execute(QUERY).fetchall()))
            floor[-1] += timed(lambda: box.run_python("x=1"))
            ours.append(timed(lambda: env.act([call])))
        for _ in range(bench.rounds * 5):
            resets.append(timed(lambda: env.reset(seed=1, options={"task": tasks[0].id})))
    bare.close()
    bench.add("bare sqlite3 call and bare sandbox call", floor)
    bench.add("SQLite query step", ours)
    bench.ratio("SQLite query step, as a multiple", times(ours, floor), TIMES_FLOOR)
    bench.add("SQLite reset", resets)


def of_size(megabytes: int) -> Database:
    """A database of so many megabytes."""
    rows = [[i, "x" * 90] for i in range(megabytes * 10_000)]
    script = "CREATE TABLE t (id INTEGER PRIMARY KEY, b TEXT);"
    return Database(script, {"t": [["id", "b"], *rows]})


def states(bench: Bench) -> None:
    """Snapshot and rollback of SQLite, whatever the size."""
    for megabytes in (1, 10, 100):
        session = SQLite("auto", 5.0).start(of_size(megabytes), "change")
        taken, back = [], []
        start = session.save()
        for n in range(bench.rounds * 3):
            change = f"UPDATE t SET b = 'y' WHERE id BETWEEN {n * 9} AND {n * 9 + 9}"
            session.run("change", [change])
            began = time.perf_counter()
            kept = session.save()
            taken.append((time.perf_counter() - began) * 1e3)
            back.append(timed(lambda: session.load(start)))  # noqa: B023
            session.drop(kept)
        session.close()
        bench.add(f"SQLite snapshot, {megabytes} MB", taken, STATE_MS)
        bench.add(f"SQLite rollback, {megabytes} MB", back, STATE_MS)


def copies(bench: Bench) -> None:
    """PostgreSQL: a snapshot against the bare sequence of what it is made of, round by round."""
    with SQL(backend="postgresql", max_turns=10**9, max_calls=10**9, max_snapshots=10**6) as env:
        env.reset(seed=1)
        session: Any = env._session
        owner, source = server(None), session.server.copy(session.server.template(seen()), "e")
        owner.open_to(source, session.role)
        floor, ours, back, steps, resets = [], [], [], [], []
        call = ToolCall("query", {"sql": "SELECT 1"})
        for _ in range(bench.rounds * 2):
            floor.append(timed(lambda: bare_copy(owner, source, session)))
            began = time.perf_counter()
            kept = env.snapshot()
            ours.append((time.perf_counter() - began) * 1e3)
            back.append(timed(lambda: env.rollback(kept)))  # noqa: B023
            env.release(kept)
            steps.append(timed(lambda: env.act([call])))
            owner.drain()
        for _ in range(bench.rounds):
            resets.append(timed(lambda: env.reset(seed=1)))
    bench.add("bare terminate, CREATE DATABASE TEMPLATE, connect", floor)
    bench.add("PostgreSQL snapshot", ours)
    bench.ratio("PostgreSQL snapshot, as a multiple", times(ours, floor), TIMES_COPY)
    bench.add("PostgreSQL rollback", back)
    bench.add("PostgreSQL query step", steps)
    bench.add("PostgreSQL reset", resets)


def seen() -> Database:
    """A database of the shop."""
    return database("shop", 1, False, "postgresql")


def bare_copy(owner: Any, source: str, session: Any) -> None:
    """End the session in a database, copy it, and connect to it again."""
    who = {"user": session.role, "password": session.password}
    if BARE:
        BARE.pop().close()
    owner.end_sessions(source)
    name = owner.name("s")
    owner.admin.execute(f"CREATE DATABASE {name} TEMPLATE {source} STRATEGY file_copy".encode())
    BARE.append(owner.connect(source, **who))
    owner.drop("DATABASE", name)


BARE: list[Any] = []
"""The floor's one connection."""


def peer(bench: Bench) -> None:
    """SkyRL-Gym's SQL tool on the same query: a new connection each time, and no isolation."""
    SCRATCH.mkdir(parents=True, exist_ok=True)
    python = interpreter("skyrl_gsm8k", PEERS["skyrl_gsm8k"])
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "shop").mkdir()
        copy = sqlite3.connect(Path(folder, "shop", "shop.sqlite"))
        made = database("shop", 1, False, "sqlite").connect()
        made.backup(copy)
        made.close()
        copy.close()
        command = [str(python), "-c", PEER, folder, QUERY, str(bench.rounds * 20)]
        ran = subprocess.run(command, capture_output=True, text=True)
    if ran.returncode:
        raise SystemExit(f"the peer failed:\n{ran.stderr[-2000:]}")
    bench.add("SkyRL-Gym's SQL tool", json.loads(ran.stdout.splitlines()[-1]))


PEER = """
import json, sys, time
from skyrl_gym.tools import SQLCodeExecutorToolGroup
folder, query, count = sys.argv[1:]
tool, times = SQLCodeExecutorToolGroup(db_file_path=folder), []
for _ in range(int(count)):
    began = time.perf_counter()
    said = tool.execute_tool("sql", "shop", query, 3)
    times.append((time.perf_counter() - began) * 1e3)
assert "shipped" in said, said
print(json.dumps(times))
"""


def measure(rounds: int, with_peers: bool) -> Bench:
    """Everything, in order."""
    bench = Bench(rounds)
    steps(bench)
    states(bench)
    if not lacks():
        copies(bench)
    if with_peers:
        peer(bench)
    return bench


def main() -> None:
    """Measure, and write the log."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "measured" / "sql.md")
    parser.add_argument("--no-peers", action="store_true", help="only ours and the floors")
    arguments = parser.parse_args()
    report = probe("namespace")
    if not report.works:
        raise SystemExit(f"nothing to measure: {report.why}")
    options = f" --rounds {arguments.rounds}{' --no-peers' if arguments.no_peers else ''}"
    log = Log("Speed: the SQL environment", f"bench_sql{options}")
    bench = measure(arguments.rounds, not arguments.no_peers)
    close_servers()
    boxes.kept.close()
    close_zygotes()
    where = f"Machine: {machine([] if arguments.no_peers else PEERS['skyrl_gsm8k'])}"
    engines = f"SQLite {sqlite3.sqlite_version}; uid {os.getuid()}"
    left_out = [f"PostgreSQL was left out: {lacks()}"] if lacks() else []
    log.write(arguments.out, [where, engines, *left_out], bench.table())


if __name__ == "__main__":
    main()
