"""How fast environments are, or with --suite how well a policy does on the benchmark suite.

Speed is steps, resets, snapshots and rollbacks per second, in one process. The moves are the gold
ones, written as text where the protocol can write them, so that reading them counts. Each figure is
the median of several rounds. Only what is named is timed: the step between two rollbacks is not.

--suite plays fixed tasks under fixed conditions, see docs/benchmark.md; with --out DIR it keeps
every episode, and DIR/bench.json is what --json prints.
"""

import argparse
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count, cycle, islice
from pathlib import Path
from statistics import median
from typing import Any

import agent_envs
from agent_envs.cli import scores, suite
from agent_envs.cli.common import (
    Failed,
    Usage,
    as_text,
    at_least,
    check_id,
    make,
    note,
    one_line,
    print_json,
    table,
)
from agent_envs.cli.machine import machine
from agent_envs.cli.players import add_model_options, policy_name
from agent_envs.env import ToolEnv
from agent_envs.errors import BackendUnavailable, SnapshotUnsupported
from agent_envs.task import Task
from agent_envs.trajectory import assistant_message
from agent_envs.turns import Action, Malformed, StepResult

FIGURES = ("steps_per_s", "resets_per_s", "snapshots_per_s", "rollbacks_per_s")
ROUNDS = 5

_EPISODES = 20
"""How many gold episodes are played, where there is time."""
_BATCH = 20
"""How many resets, or snapshots, are timed together where they take microseconds."""
_LONG = 0.001
"""Seconds that are long enough to be timed."""

Turn = tuple[Callable[[Any], StepResult], Any]
"""What plays a turn, `step` or `act`, and its argument."""

Timed = Iterator[tuple[int, float]]
"""Each item is a piece of work that was done: how many operations, and the seconds they took."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """See the module's docstring."""
    parser.add_argument("ids", nargs="*", metavar="ID", help="of environments (default: all)")
    parser.add_argument("--seconds", type=float, default=2.0, help="how long for each environment")
    group = parser.add_argument_group("the suite")
    group.add_argument("--suite", action="store_true", help="score a policy instead of timing")
    group.add_argument("--policy", type=policy_name, default="oracle", help="who plays")
    group.add_argument("--tasks", type=at_least(1), default=suite.TASKS, help="of each environment")
    group.add_argument(
        "--samples", type=at_least(1), default=suite.SAMPLES, help="episodes of each task"
    )
    group.add_argument("--workers", type=at_least(1), default=16, help="environments at once")
    group.add_argument("--out", type=Path, metavar="DIR", help="where to keep the episodes")
    group.add_argument("--resume", action="store_true", help="go on with what is in DIR")
    add_model_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Measure. 1 where an environment could not be measured; the others' rows are written."""
    if arguments.suite:
        return scores.run(arguments)
    if not 0 < arguments.seconds < float("inf"):
        raise Usage(f"--seconds {arguments.seconds}: a number above 0")
    ids = arguments.ids or agent_envs.ids()
    for env_id in ids:
        check_id(env_id)
    rows = [_row(env_id, arguments.seconds) for env_id in ids]
    if arguments.json:
        print_json({"rows": rows, "machine": machine()})
    else:
        print(_text(rows))
    return int(any(row["error"] for row in rows))


def _row(env_id: str, seconds: float) -> dict[str, Any]:
    row: dict[str, Any] = {"id": env_id, **dict.fromkeys(FIGURES), "error": None}
    try:
        with make(env_id) as env:
            note(f"{env_id}: about {seconds:g} s")
            row.update(measure(env, seconds))
    except (Failed, BackendUnavailable, NotImplementedError) as error:
        row["error"] = one_line(str(error))
    return row


# -- measuring -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Script:
    """The gold turns of an episode."""

    task: Task
    seed: int
    turns: list[Turn]


def measure(env: ToolEnv, seconds: float) -> dict[str, float | None]:
    """The four figures of an env; None for snapshots that it refuses.

    Raises NotImplementedError where it ships no oracle."""
    tasks = env.tasks.split(env.split, env.level)
    stride, until = max(1, len(tasks) // _EPISODES), time.monotonic() + seconds
    scripts: list[Script] = []
    for seed, task in enumerate(tasks[::stride]):
        if not scripts or time.monotonic() < until:
            scripts.append(record(env, task, seed))
    longest = max(scripts, key=lambda script: len(script.turns))
    work = (_steps(env, scripts), _resets(env), _snapshots(env, longest), _rollbacks(env, longest))
    share = seconds / len(FIGURES)
    return {name: _rate(timed, share) for name, timed in zip(FIGURES, work, strict=True)}


def record(env: ToolEnv, task: Task, seed: int) -> Script:
    """Play the gold solution of a task once, and write its turns down."""
    info = env.reset(seed=seed, options={"task": task})[1]
    messages = list(info["messages"])
    turns: list[Turn] = []
    while not env.ended:
        move = env.oracle(task, messages)
        if isinstance(move, Malformed):
            raise NotImplementedError("its oracle plays a malformed turn")
        text = as_text(env, move)
        turns.append((env.act, move) if text is None else (env.step, text))
        play, turn = turns[-1]
        info = play(turn)[4]
        calls = move if isinstance(move, list) else None
        messages.append(assistant_message(Action(text or "", calls=calls)))
        messages += info["messages"]
    return Script(task, seed, turns)


def _rate(timed: Timed, seconds: float) -> float | None:
    """Operations a second: the median of the rounds that fit into the time."""
    rates = []
    try:
        for _ in range(ROUNDS):
            done, spent, until = 0, 0.0, time.monotonic() + seconds / ROUNDS
            while not done or time.monotonic() < until:
                operations, took = next(timed)
                done, spent = done + operations, spent + took
            rates.append(done / spent)
    except SnapshotUnsupported:
        return None
    return median(rates)


def _steps(env: ToolEnv, scripts: list[Script]) -> Timed:
    for script in cycle(scripts):
        env.reset(seed=script.seed, options={"task": script.task})
        began = time.perf_counter()
        for play, turn in script.turns:
            play(turn)
        yield len(script.turns), time.perf_counter() - began


def _resets(env: ToolEnv) -> Timed:
    seeds, size = count(), 1
    while True:
        began = time.perf_counter()
        for seed in islice(seeds, size):
            env.reset(seed=seed)
        took = time.perf_counter() - began
        yield size, took
        size = _next_size(size, took)


def _next_size(size: int, took: float) -> int:
    return size if took >= _LONG else min(2 * size, _BATCH)


def _half_way(env: ToolEnv, script: Script) -> Turn:
    """Bring the env into the middle of an episode; returns the turn that comes next."""
    env.reset(seed=script.seed, options={"task": script.task})
    middle = (len(script.turns) - 1) // 2
    for play, turn in script.turns[:middle]:
        play(turn)
    return script.turns[middle]


def _snapshots(env: ToolEnv, script: Script) -> Timed:
    _half_way(env, script)
    size = 1
    while True:
        began = time.perf_counter()
        kept = [env.snapshot() for _ in range(size)]
        took = time.perf_counter() - began
        env.release(*kept)
        yield size, took
        size = _next_size(size, took)


def _rollbacks(env: ToolEnv, script: Script) -> Timed:
    play, turn = _half_way(env, script)
    kept = env.snapshot()
    while True:
        play(turn)
        began = time.perf_counter()
        env.rollback(kept)
        yield 1, time.perf_counter() - began


def _text(rows: list[dict[str, Any]]) -> str:
    head = ["", *(name.replace("_per_s", "/s") for name in FIGURES)]
    cells = [
        [row["id"], *("-" if row[name] is None else f"{row[name]:,.0f}" for name in FIGURES)]
        for row in rows
    ]
    errors = [f"{row['id']} was not measured: {row['error']}" for row in rows if row["error"]]
    return "\n".join([table(head, cells), *errors])
