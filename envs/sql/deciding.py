"""Proof that data decide a task: which hidden databases make a wrong query show."""

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from agent_envs.envs.sql.database import Database
from agent_envs.envs.sql.mutants import clauses, mutants
from agent_envs.verifiers.sql import Failed, Gold, Outcome, Rows, canonical, same_rows
from agent_envs.verifiers.sql.verify import fractional

LEAST, MOST, ENOUGH = 3, 5, 10
"""Hidden databases of a task, and from how many that decide they are chosen."""
_EVERY, _BUDGET = 1000, 1500
"""Instructions between two looks at the budget, and how many looks a query has."""
_MOST_ROWS = 5000
_READING = frozenset(
    {
        sqlite3.SQLITE_SELECT,
        sqlite3.SQLITE_READ,
        sqlite3.SQLITE_FUNCTION,
        sqlite3.SQLITE_RECURSIVE,
    }
)


class Asked(Protocol):
    """A database that answers queries of ours."""

    def ask(self, sql: str) -> Outcome:
        """What a query gives."""


@dataclass(frozen=True)
class Accepted:
    """A gold query: as it is compared, with the keys of its order, and as somebody would answer."""

    gold: Gold
    keyed: Gold
    answer: str


class Trusted:
    """A database in this process, for queries that are ours, or the user's own gold."""

    def __init__(self, database: Database) -> None:
        self.connection = database.connect()
        self.connection.execute("PRAGMA query_only=ON")
        self.connection.set_authorizer(_reads_only)
        self.known: dict[str, Outcome] = {}

    def ask(self, sql: str) -> Outcome:
        """What a query gives; every query is run once."""
        if sql not in self.known:
            self.known[sql] = self._ask(sql)
        return self.known[sql]

    def _ask(self, sql: str) -> Outcome:
        left = iter(range(_BUDGET))
        self.connection.set_progress_handler(lambda: next(left, None) is None, _EVERY)
        try:
            cursor = self.connection.execute(sql)
            if cursor.description is None:
                return Failed("no query")
            rows = tuple(cursor.fetchmany(_MOST_ROWS))
            return Rows(len(cursor.description), rows)
        except (sqlite3.Error, sqlite3.Warning) as error:
            return Failed(str(error))


def _reads_only(action: int, *_: object) -> int:
    allowed = (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION)
    return (
        sqlite3.SQLITE_OK if action in (*allowed, sqlite3.SQLITE_RECURSIVE) else sqlite3.SQLITE_DENY
    )


class Known:
    """A database whose answers were asked for before."""

    def __init__(self, known: dict[str, Outcome]) -> None:
        self.known = known

    def ask(self, sql: str) -> Outcome:
        """What a query gives."""
        return self.known[sql]


def queries(accepted: Sequence[Accepted]) -> Iterator[str]:
    """All that will be asked to decide on a database."""
    for one in accepted:
        yield from (one.gold.sql, one.keyed.sql)
        yield from (without_limit(one.keyed.sql),)
    yield from mutants(accepted[0].answer)


def without_limit(sql: str) -> str:
    """A query without its last LIMIT, if it has one."""
    for start, end in clauses(sql, "LIMIT")[-1:]:
        return sql[:start] + sql[end:]
    return sql


def undecided(gold: Gold, asked: Asked) -> str:
    """Empty where a gold query has one answer on a database, else why it has not."""
    result = asked.ask(gold.sql)
    if isinstance(result, Failed):
        return f"it fails: {result.why}"
    if not result.rows:
        return "it gives no rows"
    values = {value for row in result.cut(gold.keys or 0).rows for value in row}
    if values == {None}:
        return "it gives nothing but nulls"
    if gold.keys:
        keys = [row[-gold.keys :] for row in result.rows]
        if any(value is None for key in keys for value in key):
            return "it is ordered by a column with nulls"
        if any(map(_is_number_as_text, keys)):
            return "it is ordered by numbers kept as text"
    return _tied(gold, asked, len(result.rows))


def _is_number_as_text(key: Sequence[object]) -> bool:
    return any(isinstance(x, str) and x.lstrip("-").replace(".", "", 1).isdigit() for x in key)


def _tied(gold: Gold, asked: Asked, cut: int) -> str:
    """Whether a LIMIT cuts through equals, or through an order that nobody knows."""
    whole = asked.ask(without_limit(gold.sql))
    if isinstance(whole, Failed) or len(whole.rows) <= cut:
        return ""
    if not gold.keys:
        return "it has a LIMIT and no order that is known"
    last, after = (whole.rows[i][-gold.keys :] for i in (cut - 1, cut))
    tied = tuple(map(canonical, last)) == tuple(map(canonical, after))
    return "its LIMIT cuts through a tie" if tied else ""


def differs(gold: Gold, query: str, asked: Asked) -> bool:
    """Whether a query gives something else than the gold on a database."""
    wanted, given = asked.ask(gold.sql), asked.ask(query)
    if isinstance(wanted, Failed) or isinstance(given, Failed):
        return isinstance(given, Failed)
    keys = None if gold.keys is None else [row[wanted.columns - gold.keys :] for row in wanted.rows]
    rows = wanted.cut(gold.keys or 0)
    floats = gold.floats if gold.floats is not None else fractional([(rows, None)])
    return bool(same_rows(rows, given, keys=keys, floats=floats))


def choose(
    accepted: Sequence[Accepted], seen: Asked, candidates: Iterable[tuple[int, Asked]]
) -> tuple[list[int], int, int]:
    """The hidden databases that tell the most wrong variants from the gold, by their numbers.

    `seen` is the database that the agent sees: what is right there is wrong on each of these.
    Returns them with how many variants there are, and how many are told. Fewer than `LEAST` come
    back where not more decide.
    """
    gold = accepted[0].gold
    first = seen.ask(gold.sql)
    usable = []
    for number, asked in candidates:
        if asked.ask(gold.sql) != first and not any(undecided(x.keyed, asked) for x in accepted):
            usable.append((number, asked))
        if len(usable) == ENOUGH:
            break
    wrong = mutants(accepted[0].answer)
    told = {
        n: {m for m in wrong if all(differs(x.gold, m, asked) for x in accepted)}
        for n, asked in usable
    }
    return _cover(told), len(wrong), len(set().union(*told.values()))


def _cover(told: dict[int, set[str]]) -> list[int]:
    """Those that tell the most together, each time the one that adds most."""
    chosen: list[int] = []
    covered: set[str] = set()
    while len(chosen) < min(MOST, len(told)):
        left = [n for n in told if n not in chosen]
        best = max(left, key=lambda n: (len(told[n] - covered), -n))
        if len(chosen) >= LEAST and not told[best] - covered:
            break
        chosen.append(best)
        covered |= told[best]
    return chosen
