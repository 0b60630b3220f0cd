"""A busy machine changes no verdict and no observation."""

import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from agent_envs.envs.code.env import Code
from agent_envs.envs.code.tasks import CodeTasks
from agent_envs.plain import to_plain
from agent_envs.sandbox import probe_all
from agent_envs.task import Task
from agent_envs.turns import ToolCall
from agent_envs.verifiers.unit_tests import close_kept, verify

pytestmark = pytest.mark.skipif(
    not any(report.works for report in probe_all() if report.backend in ("namespace", "landlock")),
    reason="no sandbox for untrusted code works on this machine: see agent-envs doctor",
)
TASKS = [CodeTasks().split("heldout", level)[2] for level in range(5)]
SPIN = "while True: pass"
LONG = "import time\nwhile time.process_time() < 0.5: pass\n"
"""Half of the CPU time that a call may take here."""


@pytest.fixture(scope="module")
def busy() -> Iterator[None]:
    """A process a core that does nothing but compute."""
    cores = os.sched_getaffinity(0)
    spinning = [subprocess.Popen([sys.executable, "-c", SPIN]) for _ in cores]
    yield
    for process in spinning:
        process.kill()
        process.wait()
    close_kept()


def results(data: dict[str, Any], files: dict[str, str]) -> list[Any]:
    """Every test's result."""
    return [to_plain(vars(result)) for result in verify(data, files).results]


@pytest.fixture(scope="module")
def when_idle() -> list[Any]:
    """What comes of right and wrong solutions, before the machine is busy."""
    return [outcome(task) for task in TASKS]


def outcome(task: Task) -> list[Any]:
    """The gold solution's results, and those of two mutants."""
    data = task.data
    solutions = [data["solution"], *data["mutants"][:2]]
    return [results(data, data["files"] | files) for files in solutions]


def test_the_same_results_for_every_family(when_idle: list[Any], busy: None) -> None:
    assert [outcome(task) for task in TASKS] == when_idle
    for gold, *mutants in when_idle:
        assert all(result["passed"] for result in gold)
        assert not any(all(result["passed"] for result in mutant) for mutant in mutants)


@pytest.mark.parametrize(("source", "passes"), [(LONG, True), (SPIN, False)])
def test_cpu_time_decides(busy: None, source: str, passes: bool) -> None:
    body = source.replace("\n", "\n    ")
    data = {**TASKS[0].data, "cpu_seconds": 1, "hidden": [{"args": "(3,)", "returns": "3"}]}
    name = data["entry_point"]
    found = verify(data, {"solution.py": f"def {name}(x):\n    {body}\n    return x\n"})
    assert found.passed is passes
    assert passes or found.results[0].reason == "out of time"


CELLS = [
    "import threading, time\nthreading.Thread(target=time.sleep, args=(0.05,)).start()\n1",
    "import subprocess\nchild = subprocess.Popen(['/bin/sleep', '0.05'])\n2",
    "import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)",
    "x = [n * n for n in range(1000)]\nsum(x)",
]


def test_the_same_observations(busy: None) -> None:
    env = Code()
    said = []
    for _ in range(2):
        env.reset(seed=1, options={"task": TASKS[0]})
        said.append([env.call(ToolCall("python", {"code": cell})).content for cell in CELLS])
        snapshots = [env.snapshot() for _ in range(3)]
        for snapshot in snapshots * 3:
            env.rollback(snapshot)
            assert env.snapshot().refused is None
            assert env.call(ToolCall("python", {"code": "x[3]"})).content == "9"
    assert said[0] == said[1]
    assert said[0][:2] == ["1", "2"] and said[0][3] == "332833500"
    env.close()
