"""Families of change tasks of level 4, and all of them: statements that leave the data just so."""

from random import Random
from typing import Any

from sqlalchemy import Column, Table, delete, insert, select, update

from agent_envs.envs.sql import several
from agent_envs.envs.sql.change import Change, Changer, ids, scripts
from agent_envs.envs.sql.deciding import Trusted
from agent_envs.envs.sql.schemas import World
from agent_envs.envs.sql.wording import (
    condition,
    conditions,
    having,
    label,
    links,
    noun,
    plural,
    some,
    values,
)
from agent_envs.verifiers.sql import Rows


def _leaf(rng: Random, world: World) -> tuple[Table, Column[Any], Table]:
    """A table that nothing refers to, its reference, and the parent."""
    parents = {parent for _, _, parent in links(world)}
    return some(rng, [link for link in links(world) if link[0] not in parents])  # type: ignore[no-any-return]


def add(world: World, rng: Random, seen: Trusted) -> Change:
    """A new row, some of whose values have to be looked up."""
    child, ref, parent = _leaf(rng, world)
    name = some(rng, having(parent, "name") or having(parent, "key"))
    taken = set(ids(seen, child))
    new = max(taken) + rng.randint(1, 40)
    owner = rng.choice(ids(seen, parent))
    called = seen.ask(f"SELECT {name.name} FROM {parent.name} WHERE id = {owner}")
    assert isinstance(called, Rows)
    record = {"id": new, ref.name: owner}
    told = []
    for column in child.columns:
        if column.name in record:
            continue
        if column.foreign_keys:
            target = next(iter(column.foreign_keys)).column.table
            record[column.name] = rng.choice(ids(seen, target))
        else:
            record[column.name] = _value(rng, world, child, column)
        told.append(f"{label(column)} {_said(record[column.name])}")
    text = (
        f"Add a {noun(child)} with the id {new} to the {noun(parent)} whose {label(name)} is "
        f"'{called.rows[0][0]!s}': {', '.join(told)}."
    )
    return Change("add", text, scripts(insert(child).values(**_typed(child, record))))


def _value(rng: Random, world: World, table: Table, column: Column[Any]) -> Any:
    if column.nullable and rng.random() < 0.4:
        return None
    return rng.choice(values(world.name, table.name, column.name))


def _said(value: Any) -> str:
    if value is None:
        return "not known (NULL)"
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"'{value}'" if isinstance(value, str) else str(value)


def _typed(table: Table, record: dict[str, Any]) -> dict[str, Any]:
    """The record with dates as dates."""
    return {
        name: table.c[name].type.python_type.fromisoformat(value)
        if table.c[name].info["role"] == "date" and value is not None
        else value
        for name, value in record.items()
    }


def adjust(world: World, rng: Random, seen: Trusted) -> Change:
    """A number moved in the rows under a condition on the parent too."""
    child, ref, parent = some(rng, [x for x in links(world) if having(x[0], "number")])
    number = some(rng, having(child, "number"))
    one, words, _ = condition(rng, world, child, avoid=(number,))
    two, more, _ = condition(rng, world, parent)
    step = rng.randint(2, 30)
    statement = update(child).values({number.name: number + step})
    inside = select(parent.c.id).where(two)
    return Change(
        "adjust",
        f"Raise {label(number)} by {step} in all {plural(child)} whose {words} and whose "
        f"{noun(parent)} is one whose {more}."
        + (" Where it is not known it stays so." if number.nullable else ""),
        scripts(statement.where(one, ref.in_(inside))),
    )


def rename(world: World, rng: Random, seen: Trusted) -> Change:
    """Another category for some rows."""
    table = some(rng, [t for t in world.metadata.sorted_tables if having(t, "category")])
    column = some(rng, having(table, "category"))
    where, words = conditions(rng, world, table, 2)
    new = f"{rng.choice(['new', 'old', 'special', 'other'])} {column.name}"
    return Change(
        "rename",
        f"Set {label(column)} to '{new}' for all {plural(table)} whose {words}.",
        scripts(update(table).values({column.name: new}).where(*where)),
    )


def remove(world: World, rng: Random, seen: Trusted) -> Change:
    """Rows that nothing refers to, under a condition on the parent."""
    child, ref, parent = _leaf(rng, world)
    one, words, _ = condition(rng, world, child)
    two, more, _ = condition(rng, world, parent)
    inside = select(parent.c.id).where(two)
    return Change(
        "remove",
        f"Delete all {plural(child)} whose {words} and whose {noun(parent)} is one whose {more}.",
        scripts(delete(child).where(one, ref.in_(inside))),
    )


CHANGERS: tuple[tuple[Changer, ...], ...] = (
    (add, adjust, rename, remove),
    (
        several.uproot,
        several.batches,
        several.widen,
        several.summarise,
        several.restructure,
    ),
)
"""The families of levels 4 and 5."""
