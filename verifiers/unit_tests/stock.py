"""Sandboxes that are warm before they are asked for, in this process."""

import contextlib
import os
import threading
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, TypeVar

from agent_envs.errors import BackendUnavailable
from agent_envs.verifiers.unit_tests.boxes import Box, Graded, Tester

Kind = TypeVar("Kind", bound=Box)


class Stock(Generic[Kind]):
    """Boxes of one kind by backend and CPU limit, all as at their start. Safe for threads."""

    def __init__(self, kind: type[Kind], most: int) -> None:
        self.kind = kind
        self.most = most
        self._lock = threading.Lock()
        self._free: dict[tuple[str, int], list[Kind]] = {}
        self._coming = 0
        self._workers = ThreadPoolExecutor(most, "agent-envs-stock")
        self._ends: deque[Future[None]] = deque()

    def take(self, backend: str, cpu_seconds: int) -> Kind:
        """One that is as at its start. Raises BackendUnavailable."""
        with self._lock:
            free = self._free.get((backend, cpu_seconds), [])
            box = free.pop() if free else None
        if box is not None:
            if box.is_ready():
                return box
            box.close()
        return self.kind(backend, cpu_seconds)

    def put(self, box: Kind, backend: str, cpu_seconds: int) -> None:
        """Keep one for the next time, or end it where there are enough."""
        with self._lock:
            free = self._free.setdefault((backend, cpu_seconds), [])
            kept = len(free) < self.most
            if kept:
                free.append(box)
        if not kept:
            box.close()

    @contextlib.contextmanager
    def refilled(self, backend: str, cpu_seconds: int) -> Iterator[None]:
        """Meanwhile make one for the next time, unless there are enough; it is there at the end."""
        with self._lock:
            waiting = len(self._free.get((backend, cpu_seconds), [])) + self._coming
            wanted = waiting < self.most
            self._coming += wanted
        if not wanted:
            yield
            return
        made = self._workers.submit(self._make, backend, cpu_seconds)
        try:
            yield
        finally:
            made.result()

    def _make(self, backend: str, cpu_seconds: int) -> None:
        """What goes wrong here is found out by who needs a box."""
        try:
            with contextlib.suppress(BackendUnavailable, OSError):
                self.put(self.kind(backend, cpu_seconds), backend, cpu_seconds)
        finally:
            with self._lock:
                self._coming -= 1

    def end(self, box: Kind) -> None:
        """End a box that is of no more use. Only who would end very many at once waits for it."""
        self._ends.append(self._workers.submit(box.close))
        while len(self._ends) > self.most:
            self._wait()

    def _wait(self) -> None:
        """For the oldest of those that are ending, unless another thread does."""
        with contextlib.suppress(IndexError):
            self._ends.popleft().result()

    def close(self) -> None:
        """End all that wait."""
        with self._lock:
            boxes = [box for free in self._free.values() for box in free]
            self._free.clear()
        for box in boxes:
            box.close()
        while self._ends:
            self._wait()

    def forget(self) -> None:
        """In a fork of this process: leave them to the parent."""
        self.__init__(self.kind, self.most)  # type: ignore[misc]


fresh = Stock(Graded, most=4)
"""Never used; whoever takes one ends it."""
testers = Stock(Tester, most=64)
"""They come back after use."""


def _forget() -> None:
    fresh.forget()
    testers.forget()


os.register_at_fork(after_in_child=_forget)
