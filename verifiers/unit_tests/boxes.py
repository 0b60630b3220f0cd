"""The sandboxes of a verification: one that no code has run in yet, and one for the tests."""

import contextlib
import json
import os
import threading
import time
from collections.abc import Iterator, Mapping
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
from agent_envs.verifiers.unit_tests.codec import BYTES

PACKAGE = "agent_envs.verifiers.unit_tests"
INSIDE = ("codec", "graded", "objects", "asking", "remote", "running")
IMPORT = f"from {PACKAGE} import {', '.join(INSIDE)}"
ORDER = ".order"
SHORT = 30_000
"""Characters of an order that goes with its cell; a longer one goes by a file."""
WALL_TO_CPU = 10
"""A busy machine must not change a verdict: wall limits are that many times the CPU limits, and as
many times more as there are processes for each processor."""
MOST_TIMEOUTS = 2
"""Calls that may run out of time; after that nothing more is run."""
PATIENCE = 20.0
"""Seconds."""
COST = 0.005
"""Seconds of CPU that a call costs around what runs in it."""
TOTAL = "out of time, all tests together"
ENDED = {
    "timeout": "out of time",
    "memory": "out of memory",
    "output": "too long an answer",
    "killed": "its process ended",
}


class Clock:
    """How long a verification, or a turn of an agent, may go on.

    `total` is seconds of CPU. The wall may show ten times what was used of it (on a machine that is
    not crowded), and `PATIENCE` more for what waits instead of computing: a solution that sleeps
    fails, and hangs nobody.
    """

    def __init__(self, total: float) -> None:
        self.left = total
        self.end = time.monotonic() + PATIENCE * crowding()
        self.timeouts = 0

    def seconds(self, cpu_seconds: int) -> float:
        """How long a call of so much CPU time may last; 0 if there is no time left for any."""
        if self.timeouts >= MOST_TIMEOUTS or self.left <= 0:
            return 0.0
        wall = cpu_seconds * WALL_TO_CPU * crowding()
        return max(0.0, min(wall, self.end - time.monotonic()))

    def note(self, result: ExecResult) -> None:
        """Count a call's time, and whether it ran out of it."""
        self.left -= result.cpu_seconds
        self.end += WALL_TO_CPU * crowding() * (result.cpu_seconds + COST)
        self.timeouts += result.ended == "timeout"


def crowding() -> float:
    """How many processes there are for each processor, now or in the last minute; at least 1."""
    running = int(Path("/proc/loadavg").read_text().split()[3].partition("/")[0])
    return max(1.0, max(running, os.getloadavg()[0]) / len(os.sched_getaffinity(0)))


class Box:
    """A sandbox with our modules in it; it answers as JSON. Raises BackendUnavailable."""

    answer: str
    """The module inside whose `answer` writes the answers."""
    output: int
    """Bytes of an answer."""

    def __init__(self, backend: str, cpu_seconds: int) -> None:
        wall = float(cpu_seconds * WALL_TO_CPU)
        limits = Limits(seconds=wall, cpu_seconds=cpu_seconds, output=self.output)
        self.sandbox = Sandbox(backend, limits=limits, modules=modules())
        self._at: SandboxSnapshot | None = None  # where it is, if nothing has been run since
        try:
            self.start = self.keep()
        except BaseException:
            self.close()
            raise

    def ask(self, work: str, order: Any, clock: Clock) -> dict[str, Any]:
        """Have a function inside do an order; `broken` says why there is no answer."""
        text = json.dumps(order)
        short = len(text) <= SHORT
        asked = f"{work}, {text!r}" if short else work
        cell = f"{self.answer}.answer({asked})"
        result = self.run(cell, None if short else text, clock)
        return {"broken": result} if isinstance(result, str) else read(result)

    def run(self, cell: str, order: str | None, clock: Clock) -> ExecResult | str:
        """Run a cell that may find an order in its file. A text says why it came to no end."""
        seconds = clock.seconds(self.sandbox.limits.cpu_seconds)
        if not seconds:
            return TOTAL
        self._at = None
        if order is not None:
            try:
                self.sandbox.write_file(ORDER, order)
            except SandboxFileError as error:
                return f"its workspace: {error}"
        result = self.sandbox.run_python(f"{IMPORT}; {cell}", seconds=seconds)
        clock.note(result)
        return ENDED.get(result.ended, result)

    def lay(self, files: Mapping[str, str]) -> str:
        """Write files to the workspace. Says what cannot be written."""
        self._at = None
        for path, text in files.items():
            try:
                self.sandbox.write_file(path, text.encode("utf-8", "surrogateescape"))
            except (SandboxFileError, ValueError) as error:
                return f"{path}: {error}"
        return ""

    def keep(self) -> SandboxSnapshot:
        """A snapshot. Raises SnapshotUnsupported."""
        self._at = self.sandbox.snapshot()
        return self._at

    def go_to(self, snapshot: SandboxSnapshot) -> str:
        """Roll back. Says why that is not possible, which is the doing of the code inside."""
        if snapshot == self._at:
            return ""
        try:
            self.sandbox.rollback(snapshot)
        except SnapshotUnsupported as error:
            return f"its state is lost: {error}"
        self._at = snapshot
        return ""

    def is_ready(self) -> bool:
        """Whether it can be taken back to its start; not where its zygote has ended."""
        self._at = None
        try:
            return not self.go_to(self.start)
        except (SandboxClosed, BackendUnavailable):
            return False

    def close(self) -> None:
        """End it."""
        self.sandbox.close()


class Graded(Box):
    """For the graded code: used once, so that no code before has touched it."""

    answer = "graded"
    output = BYTES + 100_000  # of one value, and what is around it

    def is_ready(self) -> bool:
        """Never used, so it is at its start as long as it is there."""
        try:
            return not self.sandbox.list_files()
        except (SandboxFileError, SandboxClosed, BackendUnavailable):
            return False


class Tester(Box):
    """For tests: no graded code runs in it, so it is rolled back and used again."""

    answer = "asking"
    output = 4_000_000


class Stop:
    """Ends a verification from another thread, at once: give it to `verify`, then call it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._boxes: set[Box] = set()
        self._called = False

    def __call__(self) -> None:
        """End what is running, and what would start; `verify` raises SandboxClosed."""
        with self._lock:
            self._called = True
            boxes = list(self._boxes)
        for box in boxes:
            box.close()

    @contextlib.contextmanager
    def watching(self, box: Box) -> Iterator[None]:
        """A box is in use."""
        with self._lock:
            self._boxes.add(box)
            called = self._called
        if called:
            box.close()
        try:
            yield
        finally:
            with self._lock:
                self._boxes.discard(box)


def read(result: ExecResult) -> dict[str, Any]:
    """The one JSON object that a cell wrote."""
    try:
        answer = json.loads(result.stdout)
    except (ValueError, RecursionError):
        answer = None
    return answer if isinstance(answer, dict) else {"broken": "it leaves no answer that is one"}


@cache
def modules() -> dict[str, str]:
    """The sources of what runs inside, by name. The graded code and the tests have the same."""
    folder = Path(__file__).parent
    return {f"{PACKAGE}.{name}": (folder / f"{name}.py").read_text("utf-8") for name in INSIDE}
