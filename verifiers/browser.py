"""Grades an episode in a browser: the site's state and its own events, once, at the end.

A site's family of tasks knows what a finished task leaves behind. It is handed the database as
bytes, after the last request, and neither a page nor an address: what a page shows is the agent's
to change. A database that cannot be read is one that the agent has spoiled, and has solved nothing.
"""

import sqlite3
from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

VERSION = "1"
COMPONENTS = ("state", "events", "answer")


class Outcome(Protocol):
    """What a family says of an end."""

    @property
    def passed(self) -> bool:
        """Whether the task was solved."""

    @property
    def components(self) -> Mapping[str, float]:
        """`state`, `events` and `answer`, each 0.0 or 1.0."""

    @property
    def reason(self) -> str:
        """What was wrong, for logs."""


class Report(NamedTuple):
    """The grade. `passed` needs every component: nothing of a task is paid by itself."""

    passed: bool
    components: dict[str, float]
    reason: str


def judge(check: Callable[[], Outcome]) -> Report:
    """Ask once. A broken database fails the task; any other exception is a bug and goes on."""
    try:
        outcome = check()
    except sqlite3.DatabaseError as error:
        return Report(False, dict.fromkeys(COMPONENTS, 0.0), f"the database is broken: {error}")
    components = {name: float(outcome.components[name]) for name in COMPONENTS}
    passed = outcome.passed and all(value == 1.0 for value in components.values())
    return Report(passed, components, outcome.reason)
