"""Families of read tasks of level 2: nested queries, windows, sets, dates."""

import datetime
from random import Random
from typing import Any

from sqlalchemy import Date, Select, String, Table, case, cast, func, literal, select

from agent_envs.envs.sql.schemas import World
from agent_envs.envs.sql.wording import (
    Draft,
    condition,
    days_between,
    having,
    label,
    links,
    noun,
    plural,
    real,
    some,
)

FIXED_DAY = datetime.date(2025, 1, 1)


def _table(rng: Random, world: World) -> Table:
    return rng.choice(world.metadata.sorted_tables)


def above_average(world: World, rng: Random) -> Draft:
    """Rows above the average of their own group."""
    table = _table(rng, world)
    group = some(rng, having(table, "category", optional=False))
    number = some(rng, having(table, "number", optional=False))
    expression, words, _ = condition(rng, world, table, avoid=(group, number))
    other = table.alias("other")
    mean = select(func.avg(other.c[number.name])).where(other.c[group.name] == group)
    return Draft(
        "above_average",
        f"Find the {plural(table)} whose {words} and whose {label(number)} is above the average "
        f"{label(number)} of all {plural(table)} of the same {label(group)}.",
        select(table.c.id, group, number).where(expression, number > mean.scalar_subquery()),
        ("id", label(group), label(number)),
        ((number, True, label(number)),),
    )


def best_of_group(world: World, rng: Random) -> Draft:
    """The first or second place in each group, all that share it."""
    table = _table(rng, world)
    group = some(rng, having(table, "category", optional=False))
    number = some(rng, having(table, "number", optional=False))
    expression, words, _ = condition(rng, world, table, avoid=(group, number))
    second = rng.random() < 0.5
    place = func.dense_rank().over(partition_by=group, order_by=number.desc()).label("place")
    inner = select(table.c.id, group, number, place).where(expression).subquery("ranked")
    query = select(inner.c.id, inner.c[group.name], inner.c[number.name])
    return Draft(
        "best_of_group",
        f"Take the {plural(table)} whose {words}. For each {label(group)} among them, find those "
        f"with the {'second highest value' if second else 'highest value'} of {label(number)}; "
        "where several share it, all of them.",
        query.where(inner.c.place == (2 if second else 1)),
        ("id", label(group), label(number)),
    )


def running(world: World, rng: Random) -> Draft:
    """A running total for each parent."""
    child, ref, parent = rng.choice(links(world))
    number = some(rng, having(child, "number", optional=False))
    date = some(rng, having(child, "date", optional=False))
    expression, words, _ = condition(rng, world, parent)
    total = func.sum(number).over(partition_by=ref, order_by=(date, child.c.id))
    query = select(child.c.id, ref, total.label("total")).join(parent, ref == parent.c.id)
    return Draft(
        "running",
        f"For the {plural(child)} of each {noun(parent)} whose {words}: what is the sum of "
        f"{label(number)} up to and including each {noun(child)}, going by {label(date)} and, "
        f"on the same day, by id?",
        query.where(expression),
        (f"id of the {noun(child)}", f"id of the {noun(parent)}", f"sum of {label(number)} so far"),
    )


def sets(world: World, rng: Random) -> Draft:
    """Parents with children of one kind, and with or without some of another."""
    child, ref, parent = rng.choice(links(world))
    one, words, used = condition(rng, world, child)
    two, more, _ = condition(rng, world, child, avoid=(used,))
    both = rng.random() < 0.4
    first, second = select(ref).where(one), select(ref).where(two)
    combined = first.intersect(second) if both else first.except_(second)
    found = combined.subquery("found")
    return Draft(
        "sets",
        f"Which ids of {plural(parent)} occur among the {plural(child)} whose {words}, "
        f"{'and also' if both else 'but not'} among those whose {more}? Each id once.",
        select(found.c[0]),
        (f"id of the {noun(parent)}",),
    )


def monthly(world: World, rng: Random) -> Draft:
    """Counts by month."""
    tables = [t for t in world.metadata.sorted_tables if having(t, "date", optional=False)]
    table = some(rng, tables)
    date = some(rng, having(table, "date", optional=False))
    expression, words, _ = condition(rng, world, table, avoid=(date,))
    month = func.substr(cast(date, String), 1, 7)
    query: Select[Any] = select(month, func.count()).where(expression)
    return Draft(
        "monthly",
        f"How many {plural(table)} whose {words} are there in each month of {label(date)}? Write "
        "the month like 2024-07, and leave out months without any.",
        query.group_by(month),
        ("month", f"number of {plural(table)}"),
        ((month, False, "month"),),
    )


def shares(world: World, rng: Random) -> Draft:
    """What part of each group meets a condition."""
    table = _table(rng, world)
    group = some(rng, having(table, "category", optional=False))
    expression, words, _ = condition(rng, world, table, avoid=(group,))
    part = real(func.sum(case((expression, 1), else_=0))) / func.count()
    return Draft(
        "shares",
        f"For each {label(group)}: which share of its {plural(table)}, from 0 to 1, are those "
        f"whose {words}?",
        select(group, part).group_by(group),
        (label(group), "share"),
        floats=(1,),
    )


def ages(world: World, rng: Random) -> Draft:
    """Days between dates, for each parent the longest."""
    child, ref, parent = rng.choice(links(world))
    date = some(rng, having(child, "date", optional=False))
    expression, words, _ = condition(rng, world, child, avoid=(date,))
    longest = func.max(days_between(date, literal(FIXED_DAY, Date)))
    query = select(ref, longest).where(expression).group_by(ref)
    return Draft(
        "ages",
        f"Take the {plural(child)} whose {words}. For each id of its {noun(parent)}: how "
        f"many days lie between the earliest {label(date)} and {FIXED_DAY}?",
        query,
        (f"id of the {noun(parent)}", "days"),
        ((longest, True, "days"),),
    )
