"""Thousands of coding episodes: nothing stays, memory is flat, and many at once do not stall.

Counts are those of `make soak`; `make test` runs a fiftieth.
"""

import gc
import os
import threading
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from agent_envs.envs.code import workspace
from agent_envs.envs.code.env import Code
from agent_envs.envs.code.tasks import CodeTasks
from agent_envs.sandbox import Limits, close_zygotes, probe
from agent_envs.task import Task
from agent_envs.turns import ToolCall
from agent_envs.verifiers.unit_tests import close_kept
from tests.sandbox.leftovers import NONE_LEFT, descriptors, left_since, of_sandboxes, traces

MEGABYTE = 1 << 20
QUICK = Limits(seconds=0.5, cpu_seconds=2)
"""For the episodes that run out of time."""
TASKS = CodeTasks()
LEVELS = [TASKS.split("train", level) for level in range(4)]
PACKAGES = TASKS.split("train", 4)


@pytest.fixture(autouse=True)
def tidy() -> Iterator[None]:
    """What a backend does not enforce is said elsewhere; and nothing is left for other tests."""
    warnings.simplefilter("ignore")
    if not (probe("namespace").works or probe("landlock").works):
        pytest.skip("no sandbox for untrusted code works on this machine: see agent-envs doctor")
    yield
    close_kept()
    close_zygotes()


def light(task: Task) -> Task:
    """With a few tests only: it is not the tests that are tried here."""
    data = {**task.data, "hidden": task.data["hidden"][:4], "visible": task.data["visible"][:1]}
    return Task(f"{task.id}/light", task.split, task.prompt, data, task.level)


EVERY_LEVEL = [light(task) for tasks in zip(*LEVELS, strict=True) for task in tasks]
NOTHING = {"solution.py": "", "shop/cart.py": "", "library/shelf.py": "", "texts/code.py": ""}
"""Wrong for every task."""


def task_of(n: int) -> Task:
    """Functions and programs in turn, and now and then a package."""
    if n % 100 == 49:
        return PACKAGES[n // 100 % len(PACKAGES)]
    return EVERY_LEVEL[n % len(EVERY_LEVEL)]


def write(env: Code, files: dict[str, str]) -> None:
    """Put files into the workspace."""
    for path, content in files.items():
        assert env.call(ToolCall("write_file", {"path": path, "content": content})).error is None


def episode(env: Code, n: int) -> None:
    """A wrong branch and a right one from a snapshot; now and then a timeout, a crash, a fork."""
    task = task_of(n)
    env.reset(seed=n, options={"task": task})
    env.call(ToolCall("python", {"code": f"x = {n}"}))
    start = env.snapshot()
    write(env, NOTHING)
    if n % 10 == 0:
        env.call(ToolCall("run_tests", {}))
    if n % 25 == 7:
        env.call(ToolCall("python", {"code": "import os; os._exit(1)"}))
    if n % 40 == 11:
        assert env.call(ToolCall("python", {"code": "while True: pass"})).error == "timeout"
    if n % 4 == 0:
        verdict = env.finish("done")
        assert verdict is not None and not verdict.passed
    if n % 60 == 13:
        with env.fork(start) as twin:
            assert twin.call(ToolCall("python", {"code": "x"})).content == str(n)
    env.rollback(start)
    assert env.call(ToolCall("python", {"code": "x"})).content == str(n)
    write(env, task.data["solution"])
    verdict = env.finish("done")
    assert verdict is not None and verdict.passed, (task, n)
    if n % 3:
        env.release(start)


def resident(pid: int) -> int:
    """Bytes of memory that a process has to itself or shares."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


@pytest.mark.soak(5_000)
def test_episodes_leave_nothing_and_memory_is_flat(
    rounds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two episodes a round, ten rounds an env."""
    close_zygotes()
    before = traces(os.getpid())
    marks = [ten_rounds(first, rounds, monkeypatch) for first in range(0, rounds, 10)]
    warm, end = marks[len(marks) // 4], marks[-1]
    assert end.descriptors <= warm.descriptors and end.processes <= warm.processes
    grown = end.memory - warm.memory
    print(f"{2 * rounds} episodes; {grown / MEGABYTE:.1f} MB more")
    assert grown < 16 * MEGABYTE, f"{grown} bytes more"
    close_kept()
    close_zygotes()
    assert left_since(before) == NONE_LEFT


def ten_rounds(first: int, rounds: int, monkeypatch: pytest.MonkeyPatch) -> "Mark":
    """The episodes of an env's life, and what is held after it."""
    with Code(max_snapshots=3) as env:
        for n in range(first, min(first + 10, rounds)):
            with monkeypatch.context() as patch:
                if 2 * n % 40 == 10:
                    patch.setattr(workspace, "LIMITS", QUICK)
                episode(env, 2 * n)
                episode(env, 2 * n + 1)
    gc.collect()
    return Mark(resident(os.getpid()), len(descriptors()), len(of_sandboxes(os.getpid())))


class Mark(NamedTuple):
    """What this process holds: bytes, and counts."""

    memory: int
    descriptors: int
    processes: int


@pytest.mark.soak(600)
def test_64_episodes_at_once_do_not_stall(rounds: int) -> None:
    """`rounds` is seconds: ten minutes of 64 threads, each with an env of its own."""
    until = time.monotonic() + rounds
    done = [0] * 64
    problems: list[object] = []

    def work(n: int) -> None:
        try:
            with Code(max_snapshots=2) as env:
                while time.monotonic() < until or done[n] == 0:
                    play(env, EVERY_LEVEL[(n + 64 * done[n]) % len(EVERY_LEVEL)], done[n] % 2 == 0)
                    done[n] += 1
        except BaseException as error:
            problems.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(64)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(rounds + 300)
    assert not problems and not any(thread.is_alive() for thread in threads), problems
    print(f"{sum(done)} episodes in {rounds} s; each thread at least {min(done)}")
    assert min(done) > 0


def play(env: Code, task: Task, passes: bool) -> None:
    """A right or a wrong solution, after a branch."""
    env.reset(options={"task": task})
    start = env.snapshot()
    env.call(ToolCall("python", {"code": "import os; os.remove('solution.py')"}))
    env.rollback(start)
    write(env, task.data["solution"] if passes else NOTHING)
    verdict = env.finish("done")
    assert verdict is not None and verdict.passed is passes, task
