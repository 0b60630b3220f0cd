"""An engine that remembers what gold gives: the same for every episode of a task."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from agent_envs.envs.sql.database import Database
from agent_envs.verifiers.sql import Engine, Outcome, State

MOST = 512
"""Results that are remembered in this process."""

T = TypeVar("T")
_known: OrderedDict[tuple[Any, ...], Any] = OrderedDict()
_lock = threading.Lock()


class CachedEngine:
    """An engine whose gold results, never the graded ones, are remembered."""

    def __init__(self, engine: Engine[Database], dialect: str) -> None:
        self.engine, self.dialect = engine, dialect

    def ask(self, query: str, databases: Sequence[Database]) -> list[Outcome]:
        """See `Engine`."""
        return self.engine.ask(query, databases)

    def gold(self, query: str, databases: Sequence[Database]) -> list[Outcome]:
        """See `Engine`."""
        key = ("gold", self.dialect, query, tuple(database.key for database in databases))
        return _remembered(key, lambda: self.engine.gold(query, databases))

    def after(self, script: str, database: Database) -> State:
        """See `Engine`."""
        key = ("after", self.dialect, script, database.key)
        return _remembered(key, lambda: self.engine.after(script, database))


def _remembered(key: tuple[Any, ...], work_out: Callable[[], T]) -> T:
    with _lock:
        if key in _known:
            _known.move_to_end(key)
            found: T = _known[key]
            return found
    found = work_out()
    with _lock:
        _known[key] = found
        while len(_known) > MOST:
            _known.popitem(last=False)
    return found
