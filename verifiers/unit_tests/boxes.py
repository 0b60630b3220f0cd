"""The sandboxes of a verification: a new one for the graded code, and kept ones for tests."""

import json
import os
import threading
import time
from functools import cache
from pathlib import Path
from typing import Any

from agent_envs.errors import BackendUnavailable, SnapshotUnsupported
from agent_envs.sandbox import (
    ExecResult,
    Limits,
    Sandbox,
    SandboxClosed,
    SandboxFileError,
    SandboxSnapshot,
)

PACKAGE = "agent_envs.verifiers.unit_tests"
ORDER = ".order"
WALL_TO_CPU = 10
"""A busy machine must not change a verdict: wall limits are that many times the CPU limits."""
MOST_TIMEOUTS = 2
"""Calls of a verification that may run out of time; after that nothing more is run."""
OUTPUT = 4_000_000
"""Bytes of an answer."""
TOTAL = "out of time, all tests together"
MOST_KEPT = 64
"""Sandboxes for tests that wait for their next use, a backend."""
ENDED = {
    "timeout": "out of time",
    "memory": "out of memory",
    "output": "too long an answer",
    "killed": "its process ended",
}


class Clock:
    """The limits of one verification: CPU seconds a call, and of all together."""

    def __init__(self, cpu_seconds: int, total_seconds: float) -> None:
        self.wall = float(cpu_seconds * WALL_TO_CPU)
        self.end = time.monotonic() + total_seconds * WALL_TO_CPU
        self.timeouts = 0

    def seconds(self) -> float:
        """How long the next call may last; 0 if there is no time left for any."""
        if self.timeouts >= MOST_TIMEOUTS:
            return 0.0
        return max(0.0, min(self.wall, self.end - time.monotonic()))

    def note(self, result: ExecResult) -> None:
        """Count a call that ran out of time."""
        self.timeouts += result.ended == "timeout"


class Box:
    """A sandbox, and in it some of our modules, from the first cell on; answers as JSON."""

    def __init__(self, backend: str, cpu_seconds: int, modules: tuple[str, ...]) -> None:
        limits = Limits(
            seconds=float(cpu_seconds * WALL_TO_CPU), cpu_seconds=cpu_seconds, output=OUTPUT
        )
        self.first = installing(modules)
        self.sandbox = Sandbox(backend, limits=limits)

    def ask(self, cell: str, order: Any, clock: Clock) -> dict[str, Any]:
        """Run a cell with an order, and read its answer; `broken` says why there is none."""
        result = self.run(cell, json.dumps(order), clock)
        return {"broken": result} if isinstance(result, str) else read(result)

    def run(self, cell: str, order: str, clock: Clock) -> ExecResult | str:
        """Run a cell that finds an order in its file. A text says why it did not come to an end."""
        seconds = clock.seconds()
        if not seconds:
            return TOTAL
        try:
            self.sandbox.write_file(ORDER, order)
        except SandboxFileError as error:
            return f"its workspace: {error}"
        result = self.sandbox.run_python(self.first + cell, seconds=seconds)
        self.first = ""
        clock.note(result)
        return ENDED.get(result.ended, result)

    def install(self) -> SandboxSnapshot:
        """Have the modules there, and nothing else. Raises BackendUnavailable."""
        result = self.sandbox.run_python(self.first)
        self.first = ""
        if not result.ok:
            self.sandbox.close()
            raise BackendUnavailable(f"a sandbox for verification does not start: {result.text()}")
        return self.sandbox.snapshot()

    def go_to(self, snapshot: SandboxSnapshot) -> str:
        """Roll back. Says why that is not possible, which is the doing of the code inside."""
        try:
            self.sandbox.rollback(snapshot)
        except SnapshotUnsupported as error:
            return f"its state is lost: {error}"
        return ""

    def close(self) -> None:
        """End it."""
        self.sandbox.close()


class Tester(Box):
    """A sandbox for tests."""

    def __init__(self, backend: str, cpu_seconds: int) -> None:
        super().__init__(backend, cpu_seconds, ("codec", "asking", "remote"))
        self.start = self.install()


def read(result: ExecResult) -> dict[str, Any]:
    """The one JSON object that a cell wrote."""
    try:
        answer = json.loads(result.stdout)
    except (ValueError, RecursionError):
        answer = None
    return answer if isinstance(answer, dict) else {"broken": "it leaves no answer that is one"}


@cache
def installing(modules: tuple[str, ...]) -> str:
    """Code that makes modules of this package importable inside, by their own names."""
    sources = {f"{PACKAGE}.{name}": _source(name) for name in modules}
    return f"""import sys, types
for name, source in {sources!r}.items():
    module = sys.modules[name] = types.ModuleType(name)
    exec(compile(source, name, "exec"), vars(module))
    globals()[name.rpartition(".")[2]] = module
"""


def _source(name: str) -> str:
    return (Path(__file__).parent / f"{name}.py").read_text(encoding="utf-8")


class Kept:
    """Sandboxes for tests: no graded code runs in them, so they are rolled back and used again."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._free: dict[tuple[str, int], list[Tester]] = {}

    def take(self, backend: str, cpu_seconds: int) -> Tester:
        """One that is as at its start. Raises BackendUnavailable."""
        with self._lock:
            free = self._free.get((backend, cpu_seconds), [])
            box = free.pop() if free else None
        if box is not None:
            try:
                if not box.go_to(box.start):
                    return box
            except (SandboxClosed, BackendUnavailable):
                pass  # its zygote has ended: start another
            box.close()
        return Tester(backend, cpu_seconds)

    def give_back(
        self, box: Tester, backend: str, cpu_seconds: int, *taken: SandboxSnapshot
    ) -> None:
        """Keep one for the next time, without the snapshots that were taken in it."""
        box.sandbox.release(*taken)
        with self._lock:
            free = self._free.setdefault((backend, cpu_seconds), [])
            if len(free) < MOST_KEPT:
                free.append(box)
                return
        box.close()

    def close(self) -> None:
        """End all that are kept."""
        with self._lock:
            boxes = [box for free in self._free.values() for box in free]
            self._free.clear()
        for box in boxes:
            box.close()

    def forget(self) -> None:
        """In a fork of this process: leave them to the parent."""
        self.__init__()  # type: ignore[misc]


kept = Kept()
"""Those of this process."""
os.register_at_fork(after_in_child=kept.forget)
