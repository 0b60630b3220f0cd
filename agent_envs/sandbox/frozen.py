"""Handles to snapshots, and the budget of frozen copies that all sandboxes of a process share."""

import os
import threading
import uuid
import weakref
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Protocol

from agent_envs.sandbox.log import Step


@dataclass(frozen=True)
class SandboxSnapshot:
    """A state of one sandbox: its interpreter and its files. The state stays with the sandbox."""

    id: int
    owner: str
    """Which sandbox took it."""
    step: Step | None = field(repr=False, compare=False)
    """The last action before it; None at the start."""


class Thaws(Protocol):
    """Who holds frozen copies and can let one go."""

    def thaw(self, snapshot: int) -> None:
        """Let go of the copy; the snapshot can be replayed."""


class Budget:
    """At most `most` frozen copies in this process; the least recently used goes first.

    A snapshot that loses its copy is not lost: it is brought about again from its history.
    """

    def __init__(self, most: int = 1024) -> None:
        self.most = most
        self._lock = threading.Lock()
        self._used: OrderedDict[tuple[str, int], weakref.ref[Thaws]] = OrderedDict()

    def use(self, owner: str, snapshot: int, holder: Thaws) -> None:
        """Note that a copy was made or used; others may have to go for it."""
        with self._lock:
            self._used[owner, snapshot] = weakref.ref(holder)
            self._used.move_to_end((owner, snapshot))
            over = [self._used.popitem(last=False) for _ in range(len(self._used) - self.most)]
        for (_, oldest), reference in over:
            if found := reference():
                found.thaw(oldest)

    def forget(self, owner: str, snapshot: int) -> None:
        """A copy is no more."""
        with self._lock:
            self._used.pop((owner, snapshot), None)

    def renew(self) -> None:
        """In a fork of this process: the copies are the parent's."""
        self._lock = threading.Lock()  # a thread that is not in this fork may have held it
        self._used.clear()

    def __len__(self) -> int:
        return len(self._used)


budget = Budget()
"""The one of this process. Set `budget.most` to have another limit."""
os.register_at_fork(after_in_child=budget.renew)


def new_owner() -> str:
    """A name for a sandbox that no other has."""
    return uuid.uuid4().hex
