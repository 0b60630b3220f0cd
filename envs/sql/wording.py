"""Conditions and columns, each as an expression and as the words that mean it."""

import datetime
from dataclasses import dataclass, field
from functools import cache
from random import Random
from typing import Any

from sqlalchemy import Column, ColumnElement, Double, Select, Table
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.expression import FunctionElement

from agent_envs.envs.sql.schemas import DIALECTS, World
from agent_envs.envs.sql.worlds import database

SAMPLE = 0
"""The seed of the rows that constants are drawn from; no task has these."""


class DontFit(Exception):
    """A family has no task of this world, or these dice."""


@dataclass(frozen=True, eq=False)
class Draft:
    """A question whose answer is a query."""

    family: str
    text: str
    query: Select[Any]
    outputs: tuple[str, ...]
    order: tuple[tuple[ColumnElement[Any], bool, str], ...] = ()
    """What to sort by: an expression, whether it descends, and what it is called."""
    limit: int | None = None
    floats: tuple[int, ...] = field(default=())


class days_between(FunctionElement[int]):
    """Whole days from one date to another."""

    inherit_cache = True


@compiles(days_between, "sqlite")
def _days_sqlite(element: Any, compiler: Any, **kw: Any) -> str:
    start, end = (compiler.process(x, **kw) for x in element.clauses)
    return f"CAST(julianday({end}) - julianday({start}) AS INTEGER)"


@compiles(days_between, "postgresql")
def _days_postgresql(element: Any, compiler: Any, **kw: Any) -> str:
    start, end = (compiler.process(x, **kw) for x in element.clauses)
    return f"(CAST({end} AS DATE) - CAST({start} AS DATE))"


class real(FunctionElement[float]):
    """A number as a double, so that a division keeps its fraction."""

    inherit_cache = True
    type = Double()


@compiles(real)
def _real(element: Any, compiler: Any, **kw: Any) -> str:
    (inner,) = (compiler.process(x, **kw) for x in element.clauses)
    return f"CAST({inner} AS {'REAL' if compiler.dialect.name == 'sqlite' else 'DOUBLE PRECISION'})"


def render(statement: Any, dialect: str) -> str:
    """A statement as text, on one line."""
    compiled = statement.compile(dialect=DIALECTS[dialect], compile_kwargs={"literal_binds": True})
    return " ".join(str(compiled).split())


def noun(table: Table) -> str:
    """A row of a table, in a word."""
    return str(table.info["noun"])


def plural(table: Table) -> str:
    """Rows of a table."""
    return str(table.info["plural"])


def label(column: Column[Any]) -> str:
    """A column, in words."""
    return str(column.info["label"])


def having(table: Table, *roles: str, optional: bool | None = None) -> list[Column[Any]]:
    """The columns of a table that have one of some roles."""
    return [
        c
        for c in table.columns
        if c.info["role"] in roles and (optional is None or bool(c.nullable) == optional)
    ]


def some(rng: Random, found: list[Any]) -> Any:
    """One of them. Raises DontFit where there is none."""
    if not found:
        raise DontFit
    return rng.choice(found)


def links(world: World) -> list[tuple[Table, Column[Any], Table]]:
    """Child, its reference, and the parent, for each reference of a world."""
    return [
        (table, column, next(iter(column.foreign_keys)).column.table)
        for table in world.metadata.sorted_tables
        for column in table.columns
        if column.foreign_keys
    ]


@cache
def values(world: str, table: str, column: str) -> list[Any]:
    """The values of a column in the sample, sorted, nulls left out."""
    assert database(world, SAMPLE, False, "sqlite").rows is not None
    names, *rows = database(world, SAMPLE, False, "postgresql").rows[table]  # type: ignore[index]
    at = names.index(column)
    return sorted(row[at] for row in rows if row[at] is not None)


def between(rng: Random, found: list[Any], low: float = 0.2, high: float = 0.8) -> Any:
    """A value from the middle of sorted ones."""
    return found[int(len(found) * rng.uniform(low, high))]


def condition(
    rng: Random, world: World, table: Table, *, avoid: tuple[Column[Any], ...] = ()
) -> tuple[ColumnElement[bool], str, Column[Any]]:
    """A condition on a row, its words (after "whose"), and the column that it is on."""
    columns = [c for c in having(table, "category", "number", "date", "flag") if c not in avoid]
    column = some(rng, columns)
    if column.nullable and rng.random() < 0.25:
        return column.is_not(None), f"{label(column)} is known", column
    found = values(world.name, table.name, column.name)
    role = column.info["role"]
    expression, words = _CONDITIONS[role](rng, column, found)
    return expression, words, column


def _category(rng: Random, column: Column[Any], found: list[Any]) -> tuple[Any, str]:
    pool = sorted(set(found))
    if len(pool) > 3 and rng.random() < 0.35:
        one, two = sorted(rng.sample(pool, 2))
        return column.in_([one, two]), f"{label(column)} is '{one}' or '{two}'"
    value = rng.choice(found)
    if not column.nullable and rng.random() < 0.3:
        return column != value, f"{label(column)} is not '{value}'"
    return column == value, f"{label(column)} is '{value}'"


def _number(rng: Random, column: Column[Any], found: list[Any]) -> tuple[Any, str]:
    value = between(rng, found)
    match rng.randrange(4):
        case 0:
            return column > value, f"{label(column)} is above {value}"
        case 1:
            return column >= value, f"{label(column)} is at least {value}"
        case 2:
            return column < value, f"{label(column)} is below {value}"
    low, high = sorted([between(rng, found, 0.1, 0.4), between(rng, found, 0.6, 0.9)])
    return column.between(low, high), f"{label(column)} is from {low} to {high}, both included"


def _date(rng: Random, column: Column[Any], found: list[Any]) -> tuple[Any, str]:
    value = between(rng, found)
    day = datetime.date.fromisoformat(value)
    match rng.randrange(3):
        case 0:
            return column < day, f"{label(column)} is before {value}"
        case 1:
            return column >= day, f"{label(column)} is {value} or later"
    start, end = datetime.date(day.year, 1, 1), datetime.date(day.year, 12, 31)
    return column.between(start, end), f"{label(column)} is in the year {day.year}"


def _flag(rng: Random, column: Column[Any], found: list[Any]) -> tuple[Any, str]:
    wanted = rng.random() < 0.6
    expression = column.is_(True) if wanted else column.is_(False)
    return expression, f"{label(column)} is {'true' if wanted else 'false'}"


_CONDITIONS = {"category": _category, "number": _number, "date": _date, "flag": _flag}


def conditions(
    rng: Random, world: World, table: Table, count: int, avoid: tuple[Column[Any], ...] = ()
) -> tuple[list[ColumnElement[bool]], str]:
    """Several conditions on different columns, and their words."""
    expressions, words, used = [], [], list(avoid)
    for _ in range(count):
        expression, text, column = condition(rng, world, table, avoid=tuple(used))
        used.append(column)
        expressions.append(expression)
        words.append(text)
    return expressions, " and ".join(words)
