"""Forks of ours, which do without what Python does after every fork for code that may need it.

`random` is seeded anew in every child: a rollback must find the numbers as they were. `threading`
clears up after threads, which costs a third of the fork even where there were none. Both go on as
usual in forks that model code makes.
"""

import _thread
import os
from collections.abc import Callable
from typing import Any

Hook = Callable[[], Any]
_hooks: list[Hook] = []


def _note(*, after_in_child: Hook) -> None:
    _hooks.append(after_in_child)


_register, os.register_at_fork = os.register_at_fork, _note  # type: ignore[assignment]
try:
    import random

    _seeding = len(_hooks)
    import threading  # noqa: F401
finally:
    os.register_at_fork = _register


class Ours:
    """`with OURS:` around a fork."""

    def __init__(self, seed: list[Hook], clear_up: list[Hook]) -> None:
        self.seed = seed
        self.clear_up = clear_up
        self.on = False
        self.threads = 0

    def __enter__(self) -> None:
        self.threads = _thread._count()
        self.on = True

    def __exit__(self, *exception: object) -> None:
        self.on = False

    def after_in_child(self) -> None:
        """What Python would do, as far as it is needed."""
        for hook in [] if self.on else self.seed:
            hook()
        for hook in [] if self.on and not self.threads else self.clear_up:
            hook()


OURS = Ours(_hooks[:_seeding], _hooks[_seeding:])
os.register_at_fork(after_in_child=OURS.after_in_child)
__all__ = ["OURS", "random"]
