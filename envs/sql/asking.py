"""Families of question tasks: the answer is one value, which several steps lead to."""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any, Literal

from sqlalchemy import ColumnElement, Select, func, select

from agent_envs.envs.sql.schemas import World
from agent_envs.envs.sql.wording import (
    DontFit,
    condition,
    having,
    label,
    links,
    noun,
    plural,
    some,
)


@dataclass(frozen=True, eq=False)
class Question:
    """A question for a value of the database that is seen. `query` gives it, in one row; for an
    extreme, the runner-up in a second row, which must have another measure (the last column)."""

    family: str
    text: str
    query: Select[Any]
    reads: Literal["number", "exact"]


Asker = Callable[[World, Random], Question]


def _two_steps(world: World, rng: Random) -> tuple[Any, Any, Any, Any, Any]:
    """A grandchild, its reference, the child, its reference, and the parent."""
    found = [
        (a, ref, b, other, c)
        for a, ref, b in links(world)
        for middle, other, c in links(world)
        if middle is b
    ]
    return some(rng, found)  # type: ignore[no-any-return]


def total(world: World, rng: Random) -> Question:
    """A sum over two joins."""
    low, ref, mid, other, high = _two_steps(world, rng)
    number = some(rng, having(low, "number", optional=False))
    one, words, _ = condition(rng, world, high)
    two, more, _ = condition(rng, world, mid)
    query = select(func.sum(number)).join(mid, ref == mid.c.id).join(high, other == high.c.id)
    return Question(
        "total",
        f"What is the sum of {label(number)} over all {plural(low)} whose {noun(mid)} is one whose "
        f"{more}, and belongs to a {noun(high)} whose {words}?",
        query.where(one, two),
        "number",
    )


def _by_parent(world: World, rng: Random) -> tuple[Any, Any, Any, str, Any, ColumnElement[Any]]:
    child, ref, parent = rng.choice(links(world))
    number = some(rng, having(child, "number", optional=False))
    expression, words, _ = condition(rng, world, child, avoid=(number,))
    return child, ref, parent, words, number, expression


def leader(world: World, rng: Random) -> Question:
    """The name of the parent with the largest sum."""
    child, ref, parent, words, number, expression = _by_parent(world, rng)
    name = some(rng, having(parent, "name"))
    measure = func.sum(number)
    query = select(name, measure).join(child, ref == parent.c.id).where(expression)
    return Question(
        "leader",
        f"Take the {plural(child)} whose {words}, and add up their {label(number)} for each "
        f"{noun(parent)}. What is the {label(name)} of the {noun(parent)} with the largest sum?",
        query.group_by(parent.c.id, name).order_by(measure.desc(), parent.c.id).limit(2),
        "exact",
    )


def gap(world: World, rng: Random) -> Question:
    """By how much the largest group sum exceeds the smallest."""
    child, ref, parent, words, number, expression = _by_parent(world, rng)
    group = some(rng, having(parent, "category", optional=False))
    sums = select(func.sum(number).label("total")).join(parent, ref == parent.c.id)
    inner = sums.where(expression).group_by(group).subquery("sums")
    return Question(
        "gap",
        f"Take the {plural(child)} whose {words}, and add up their {label(number)} for each "
        f"{label(group)} of the {noun(parent)}, leaving out where there are none. By how much is "
        "the largest of these sums above the smallest?",
        select(func.max(inner.c.total) - func.min(inner.c.total)),
        "number",
    )


def remainder(world: World, rng: Random) -> Question:
    """A sum over rows whose parent is not among those with something."""
    child, ref, parent, words, number, expression = _by_parent(world, rng)
    other, more, _ = condition(rng, world, child)
    with_it = select(ref).where(other)
    return Question(
        "remainder",
        f"Leave out every {noun(parent)} that has a {noun(child)} whose {more}. For all the "
        f"others together: what is the sum of {label(number)} of their {plural(child)} whose "
        f"{words}?",
        select(func.sum(number)).where(expression, ref.not_in(with_it)),
        "number",
    )


def median_place(world: World, rng: Random) -> Question:
    """A value at a place of an order."""
    child, ref, parent, words, number, expression = _by_parent(world, rng)
    limits, more, _ = condition(rng, world, parent)
    place = rng.randint(2, 6)
    dates = having(child, "date", optional=False)
    if not dates:
        raise DontFit
    date = rng.choice(dates)
    so_far = (
        select(number, date, child.c.id)
        .join(parent, ref == parent.c.id)
        .where(expression, limits)
        .order_by(date, child.c.id)
        .limit(place)
        .subquery("first")
    )
    return Question(
        "first_few",
        f"Take the {plural(child)} whose {words} and whose {noun(parent)} is one whose {more}. "
        f"What is the sum of {label(number)} of the first {place} of them, going by {label(date)} "
        "and, on the same day, by id? (If there are fewer, of all.)",
        select(func.sum(so_far.c[0])),
        "number",
    )


ASKERS: tuple[Asker, ...] = (total, leader, gap, remainder, median_place)
