"""A whole database as plain values, and how two of them differ."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from agent_envs.verifiers.sql.rows import Row
from agent_envs.verifiers.sql.values import canonical


@dataclass(frozen=True)
class Table:
    """A table's columns, by name what is declared of each, its rows, and its constraints."""

    columns: Mapping[str, str]
    rows: tuple[Row, ...]
    """In the order of `columns`."""
    constraints: tuple[str, ...] = ()
    """Keys, references, checks and indexes, in words that are the same for the same thing."""


@dataclass(frozen=True)
class State:
    """Every table by name, and every other object (a view, a trigger, a function)."""

    tables: Mapping[str, Table]
    others: tuple[str, ...] = field(default=())


def differences(expected: State, found: State) -> list[str]:
    """What is missing, what is too much, and what is another, table by table. Empty: nothing."""
    return [*_differences(expected, found)]


def _differences(expected: State, found: State) -> Iterator[str]:
    yield from _names("table", expected.tables, found.tables)
    yield from _names("object", Counter(expected.others), Counter(found.others))
    for name, table in expected.tables.items():
        if name in found.tables:
            for what in _in_table(table, found.tables[name]):
                yield f"{name}: {what}"


def _names(kind: str, expected: Mapping[str, object], found: Mapping[str, object]) -> Iterator[str]:
    yield from (f"the {kind} {name} is missing" for name in expected if name not in found)
    yield from (f"there is another {kind}, {name}" for name in found if name not in expected)


def _in_table(expected: Table, found: Table) -> Iterator[str]:
    yield from _names("column", expected.columns, found.columns)
    for name, declared in expected.columns.items():
        if found.columns.get(name, declared) != declared:
            yield f"{name} is declared {found.columns[name]}, not {declared}"
    wanted, there = Counter(expected.constraints), Counter(found.constraints)
    yield from (f"no {what}" for what in (wanted - there))
    yield from (f"also {what}" for what in (there - wanted))
    if expected.columns.keys() == found.columns.keys():
        rows, others = _bag(expected), _bag(found)
        missing, extra = (rows - others).total(), (others - rows).total()
        if missing or extra:
            yield f"{missing} rows are missing, {extra} are too many"


def _bag(table: Table) -> Counter[object]:
    """The rows, whatever order their columns are in."""
    places = [i for _, i in sorted((name, i) for i, name in enumerate(table.columns))]
    return Counter(tuple(canonical(row[i]) for i in places) for row in table.rows)
