"""Sandboxes that hold our code for SQLite and nothing else; used again where that is safe."""

import os
import threading
from functools import cache
from pathlib import Path

from agent_envs.errors import BackendUnavailable, SnapshotUnsupported
from agent_envs.sandbox import Limits, Sandbox, SandboxClosed, SandboxSnapshot

MEGABYTE = 1 << 20
OUTPUT = 8 * MEGABYTE
"""Bytes of an answer."""
WALL_TO_CPU = 10
"""A busy machine must not change a verdict: the clock may show that many times a limit."""
MOST_KEPT = 32
"""Sandboxes that wait for their next use."""
PACKAGE = "agent_envs.envs.sql"
IMPORT = f"from {PACKAGE} import inside"
"""What a cell that uses it begins with."""


def limits(size: int, seconds: float) -> Limits:
    """What a sandbox needs for databases of so many bytes."""
    return Limits(
        seconds=max(10.0, seconds * WALL_TO_CPU),
        cpu_seconds=max(10, int(seconds * 20)),
        memory=512 * MEGABYTE + 8 * size,
        total_memory=1024 * MEGABYTE + 32 * size,
        workspace=32 * MEGABYTE + 3 * size,
        output=OUTPUT,
        entries=64,
    )


@cache
def modules() -> dict[str, str]:
    """The sources of what runs in a sandbox, by name."""
    folder = Path(__file__).parent
    names = ("catalogue", "inside")
    return {f"{PACKAGE}.{name}": (folder / f"{name}.py").read_text("utf-8") for name in names}


class Box:
    """A sandbox for so many bytes of databases, with the code of `inside` in it.

    Raises BackendUnavailable."""

    start: SandboxSnapshot

    def __init__(self, sandbox: str, seconds: float, size: int) -> None:
        self.key = (sandbox, seconds)
        self.small = size <= MEGABYTE
        enough = limits(max(size, MEGABYTE), seconds)
        self.sandbox = Sandbox(sandbox, limits=enough, modules=modules())
        try:
            self.start = self.sandbox.snapshot()
        except BaseException:
            self.sandbox.close()
            raise

    def is_back(self) -> bool:
        """Roll back to the clean start; False where that is no longer possible."""
        try:
            self.sandbox.rollback(self.start)
        except (SandboxClosed, SnapshotUnsupported, BackendUnavailable):
            self.sandbox.close()
            return False
        return True


class Kept:
    """Boxes for small databases that wait for their next use, each rolled back to its start."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._free: dict[tuple[str, float], list[Box]] = {}

    def take(self, sandbox: str, seconds: float, size: int) -> Box:
        """One that is as at its clean start, for so many bytes of databases."""
        while size <= MEGABYTE:
            with self._lock:
                free = self._free.get((sandbox, seconds))
                box = free.pop() if free else None
            if box is None:
                break
            if box.is_back():
                return box
        return Box(sandbox, seconds, size)

    def give_back(self, box: Box) -> None:
        """Keep one for the next time, or end it."""
        with self._lock:
            free = self._free.setdefault(box.key, [])
            if box.small and len(free) < MOST_KEPT:
                free.append(box)
                return
        box.sandbox.close()

    def close(self) -> None:
        """End all of them."""
        with self._lock:
            boxes = [box for free in self._free.values() for box in free]
            self._free.clear()
        for box in boxes:
            box.sandbox.close()

    def forget(self) -> None:
        """In a fork of this process: leave them to the parent."""
        self.__init__()  # type: ignore[misc]


kept = Kept()
"""Those of this process."""
os.register_at_fork(after_in_child=kept.forget)
