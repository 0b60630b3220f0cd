"""Families of read tasks: draws of a query and of the words that ask for it.

Level 0 asks one table, level 1 joins and groups; level 2 is in `nesting`.
"""

from collections.abc import Callable
from random import Random
from typing import Any

from sqlalchemy import Table, func, literal, select

from agent_envs.envs.sql import nesting
from agent_envs.envs.sql.schemas import World
from agent_envs.envs.sql.wording import (
    Draft,
    condition,
    conditions,
    having,
    label,
    links,
    noun,
    plural,
    real,
    some,
)

Family = Callable[[World, Random], Draft]


def _table(rng: Random, world: World) -> Table:
    return rng.choice(world.metadata.sorted_tables)


def _shown(rng: Random, table: Table, count: int) -> list[Any]:
    """Columns to show: the name, or else the key, and others."""
    first = having(table, "name") or having(table, "key")
    others = [c for c in having(table, "category", "number", "date", "flag") if c not in first]
    return [first[0], *rng.sample(others, min(count - 1, len(others)))]


def _by_key(table: Table) -> tuple[Any, bool, str]:
    return table.c.id, False, "id"


# -- level 0 ---------------------------------------------------------------------------------------


def selection(world: World, rng: Random) -> Draft:
    """Rows of one table under two conditions."""
    table = _table(rng, world)
    where, words = conditions(rng, world, table, 2)
    shown = _shown(rng, table, 3)
    return Draft(
        "selection",
        f"Find the {plural(table)} whose {words}.",
        select(*shown).where(*where),
        tuple(map(label, shown)),
    )


def top(world: World, rng: Random) -> Draft:
    """The first few of an order, in which ties are broken."""
    table = _table(rng, world)
    number = some(rng, having(table, "number", optional=False))
    expression, words, _ = condition(rng, world, table, avoid=(number,))
    count, down = rng.randint(3, 7), rng.random() < 0.7
    shown = [table.c.id, number]
    return Draft(
        "top",
        f"Of the {plural(table)} whose {words}, find the {count} with the "
        f"{'highest' if down else 'lowest'} {label(number)}; among equals those with the lower id.",
        select(*shown).where(expression),
        tuple(map(label, shown)),
        ((number, down, label(number)), _by_key(table)),
        count,
    )


def distinct(world: World, rng: Random) -> Draft:
    """The different values of a column, sorted."""
    table = _table(rng, world)
    column = some(rng, having(table, "category", optional=False))
    where, words = conditions(rng, world, table, 2, (column,))
    return Draft(
        "distinct",
        f"Which values does {label(column)} take among the {plural(table)} whose {words}? "
        "Each value once.",
        select(column).where(*where).distinct(),
        (label(column),),
        ((column, rng.random() < 0.5, label(column)),),
    )


def missing(world: World, rng: Random) -> Draft:
    """Rows in which something is not known, in an order with ties."""
    tables = [t for t in world.metadata.sorted_tables if _optional(t)]
    table = some(rng, tables)
    unknown = some(rng, _optional(table))
    expression, words, used = condition(rng, world, table, avoid=(unknown,))
    key = some(rng, [c for c in having(table, "category", "date", optional=False) if c is not used])
    shown = [table.c.id, key]
    return Draft(
        "missing",
        f"Find the {plural(table)} whose {label(unknown)} is not known and whose {words}.",
        select(*shown).where(unknown.is_(None), expression),
        tuple(map(label, shown)),
        ((key, rng.random() < 0.5, label(key)),),
    )


def _optional(table: Table) -> list[Any]:
    return having(table, "number", "category", "date", optional=True)


# -- level 1 ---------------------------------------------------------------------------------------


def joined(world: World, rng: Random) -> Draft:
    """Rows of a child with something of its parent, under conditions on both."""
    child, ref, parent = rng.choice(links(world))
    one, words, _ = condition(rng, world, child)
    two, more, _ = condition(rng, world, parent)
    mine = some(rng, having(child, "number", "date", optional=False))
    theirs = some(rng, having(parent, "name") or having(parent, "category"))
    return Draft(
        "joined",
        f"Find the {plural(child)} whose {words} and whose {noun(parent)} is one whose {more}.",
        select(child.c.id, mine, theirs).join(parent, ref == parent.c.id).where(one, two),
        (f"id of the {noun(child)}", label(mine), f"{label(theirs)} of the {noun(parent)}"),
    )


def grouped(world: World, rng: Random) -> Draft:
    """Counts and sums by a column of the parent."""
    child, ref, parent = rng.choice(links(world))
    group = some(rng, having(parent, "category", optional=False))
    number = some(rng, having(child, "number", optional=False))
    expression, words, _ = condition(rng, world, child, avoid=(number,))
    count, total = func.count(child.c.id), func.sum(number)
    query = select(group, count, total).join(parent, ref == parent.c.id).where(expression)
    return Draft(
        "grouped",
        f"For each {label(group)} of the {noun(parent)}: how many {plural(child)} are there whose "
        f"{words}, and what is the sum of their {label(number)}? Leave out where there are none.",
        query.group_by(group),
        (label(group), f"number of {plural(child)}", f"sum of {label(number)}"),
        ((count, True, f"number of {plural(child)}"),),
    )


def averages(world: World, rng: Random) -> Draft:
    """An average by group, nulls left out."""
    table = _table(rng, world)
    group = some(rng, having(table, "category", optional=False))
    number = some(rng, having(table, "number", optional=True) or having(table, "number"))
    expression, words, _ = condition(rng, world, table, avoid=(group, number))
    known = " (leave out those for which it is not known)" if number.nullable else ""
    query = select(group, func.avg(real(number)), func.count(number)).where(expression)
    return Draft(
        "averages",
        f"For each {label(group)}, what is the average {label(number)} of the "
        f"{plural(table)} whose {words}{known}, and over how many is it taken?",
        query.where(number.is_not(None)).group_by(group),
        (label(group), f"average {label(number)}", "how many"),
        floats=(1,),
    )


def having_many(world: World, rng: Random) -> Draft:
    """Parents with at least so many children."""
    child, ref, parent = rng.choice(links(world))
    expression, words, _ = condition(rng, world, child)
    least = rng.randint(2, 3)
    first = (having(parent, "name") or [parent.c.id])[0]
    shown = [parent.c.id, first] if first is not parent.c.id else [first]
    count = func.count(child.c.id)
    query = select(*shown, count).join(child, ref == parent.c.id).where(expression)
    return Draft(
        "having_many",
        f"Which {plural(parent)} have at least {least} {plural(child)} whose {words}? "
        "Say how many.",
        query.group_by(*shown).having(count >= least),
        (*map(label, shown), f"number of {plural(child)}"),
        ((count, True, f"number of {plural(child)}"),),
    )


def with_none(world: World, rng: Random) -> Draft:
    """A count for every parent, zero included."""
    child, ref, parent = rng.choice(links(world))
    expression, words, _ = condition(rng, world, child)
    limits, more, _ = condition(rng, world, parent)
    count = func.count(child.c.id)
    query = select(parent.c.id, count).select_from(
        parent.outerjoin(child, (ref == parent.c.id) & expression)
    )
    return Draft(
        "with_none",
        f"For every {noun(parent)} whose {more}: how many {plural(child)} does it have whose "
        f"{words}? Those without any count 0.",
        query.where(limits).group_by(parent.c.id),
        (f"id of the {noun(parent)}", f"number of {plural(child)}"),
    )


def without(world: World, rng: Random) -> Draft:
    """Parents that have no child of a kind."""
    child, ref, parent = rng.choice(links(world))
    expression, words, _ = condition(rng, world, child)
    limits, more, _ = condition(rng, world, parent)
    shown = _shown(rng, parent, 2)
    inner = select(literal(1)).where(ref == parent.c.id, expression).exists()
    return Draft(
        "without",
        f"Which {plural(parent)} whose {more} have no {noun(child)} whose {words}?",
        select(parent.c.id, *shown).where(limits, ~inner)
        if shown[0] is not parent.c.id
        else select(*shown).where(limits, ~inner),
        ("id", *map(label, shown)) if shown[0] is not parent.c.id else tuple(map(label, shown)),
    )


LEVELS: tuple[tuple[Family, ...], ...] = (
    (selection, top, distinct, missing),
    (joined, grouped, averages, having_many, with_none, without),
    (
        nesting.above_average,
        nesting.best_of_group,
        nesting.running,
        nesting.sets,
        nesting.monthly,
        nesting.shares,
        nesting.ages,
    ),
)
"""The families of levels 0, 1 and 2."""
