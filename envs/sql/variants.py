"""Other rows for the tables of a database that somebody brought: like its own, but not these."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from agent_envs.streams import derive

_NULLS, _COPIED = 0.1, 0.55
"""How often a value is missing, a row begins as a copy of one."""
_TRIES = 50


@dataclass
class TableFacts:
    """What is known of a table: rows in the order of `columns`."""

    columns: list[str]
    rows: list[list[Any]]
    optional: set[str]
    unique: list[tuple[str, ...]]
    """Columns, or groups of them, that are no two times the same."""
    references: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Declared ones: table and column."""

    def values(self, column: str) -> list[Any]:
        """The values of a column, without nulls."""
        at = self.columns.index(column)
        return [row[at] for row in self.rows if row[at] is not None]


def find_links(tables: Mapping[str, TableFacts]) -> None:
    """Note what is unique in fact, and what refers to what without saying so."""
    for facts in tables.values():
        for column in facts.columns:
            found = facts.values(column)
            alone = len(found) == len(facts.rows) >= 3 and len(set(found)) == len(found)
            if alone and not isinstance(found[0], float) and (column,) not in facts.unique:
                facts.unique.append((column,))
    for name, facts in tables.items():
        for column in facts.columns:
            target = _target(tables, name, column)
            if target is not None and (column,) not in facts.unique:
                facts.references.setdefault(column, target)


def _target(tables: Mapping[str, TableFacts], name: str, column: str) -> tuple[str, str] | None:
    """The unique column of another table that this one takes its values from."""
    own = set(tables[name].values(column))
    for other, facts in tables.items():
        for key, *more in facts.unique:
            named = key == column or (other in column and column.endswith(key))
            if more or other == name or not named or not own:
                continue
            if len(own & set(facts.values(key))) >= len(own) / 2:
                return other, key
    return None


def variant(tables: Mapping[str, TableFacts], key: str, seed: int) -> dict[str, list[list[Any]]]:
    """Other rows for all tables, a function of the arguments alone. Each table's first row is its
    columns' names; referenced tables come first."""
    out: dict[str, list[list[Any]]] = {}
    for name in in_order(tables):
        rng = Random(derive("sql variant", key, seed, name))
        out[name] = [tables[name].columns, *_rows(tables[name], out, rng)]
    return out


def in_order(tables: Mapping[str, TableFacts]) -> list[str]:
    """The tables, those that others refer to first."""
    done: list[str] = []

    def visit(name: str, above: tuple[str, ...]) -> None:
        for target, _ in tables[name].references.values():
            if target not in above:
                visit(target, (*above, target))
        if name not in done:
            done.append(name)

    for name in tables:
        visit(name, (name,))
    return done


def _rows(facts: TableFacts, made: Mapping[str, list[list[Any]]], rng: Random) -> list[list[Any]]:
    count = rng.randint(max(3, len(facts.rows)), len(facts.rows) * 5 // 2 + 3)
    fresh = {key: _distinct(facts, key, count, rng) for (key, *more) in facts.unique if not more}
    taken: dict[tuple[str, ...], set[tuple[Any, ...]]] = {key: set() for key in facts.unique}
    rows: list[list[Any]] = []
    for number in range(count):
        for _ in range(_TRIES):
            row = _row(facts, made, rng)
            for column, values in fresh.items():
                row[facts.columns.index(column)] = values[number]
            marks = {key: tuple(row[facts.columns.index(c)] for c in key) for key in taken}
            if all(mark not in taken[key] for key, mark in marks.items()):
                rows.append(row)
                for key, mark in marks.items():
                    taken[key].add(mark)
                break
    return rows


def _distinct(facts: TableFacts, column: str, count: int, rng: Random) -> list[Any]:
    """Values for a unique column: most of the old ones, and new ones."""
    old = sorted(set(facts.values(column)), key=repr)
    pool = rng.sample(old, max(1, len(old) * 9 // 10))
    while len(pool) < count:
        value = _other(rng.choice(old), old, rng, fresh=True)
        if value not in pool:
            pool.append(value)
        elif isinstance(value, int):
            pool.append(max(pool) + 1)
    rng.shuffle(pool)
    return pool[:count]


def _row(facts: TableFacts, made: Mapping[str, list[list[Any]]], rng: Random) -> list[Any]:
    copied = list(rng.choice(facts.rows)) if rng.random() < _COPIED else None
    return [
        copied[i]
        if copied is not None and rng.random() < 0.7 and _leads(facts, column, copied[i], made)
        else _value(facts, column, made, rng)
        for i, column in enumerate(facts.columns)
    ]


def _leads(facts: TableFacts, column: str, value: Any, made: Mapping[str, list[list[Any]]]) -> bool:
    """Whether a value may be copied: what it refers to is there."""
    table, key = facts.references.get(column, ("", ""))
    names, *rows = made.get(table, [[]])
    return value is None or not rows or value in [row[names.index(key)] for row in rows]


def _value(facts: TableFacts, column: str, made: Mapping[str, list[list[Any]]], rng: Random) -> Any:
    if column in facts.optional and rng.random() < _NULLS:
        return None
    if column in facts.references:
        table, key = facts.references[column]
        names, *rows = made.get(table, [[]])
        if rows:
            return rng.choice(rows)[names.index(key)]
    found = facts.values(column)
    if not found:
        return None
    return _other(rng.choice(found), found, rng, fresh=False)


def _other(value: Any, found: Sequence[Any], rng: Random, *, fresh: bool) -> Any:
    """A value of the kind of another one."""
    if isinstance(value, bool):
        return rng.random() < 0.5
    if isinstance(value, int | float):
        numbers = [x for x in found if isinstance(x, int | float)]
        low, high = min(numbers), max(numbers)
        room = max(4, (high - low) * 0.3)
        drawn = rng.uniform(low if low >= 0 and low < room else low - room, high + room)
        return round(drawn) if isinstance(value, int) else round(drawn, 1)
    if isinstance(value, str) and value.lstrip("-").isdigit():
        return str(int(value) + rng.randint(-400, 400))
    if isinstance(value, str) and (fresh or rng.random() < 0.12):
        return rng.choice([f"{value} {rng.randint(2, 99)}", f"New {value}", value.upper()])
    return value
