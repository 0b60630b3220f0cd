"""Families of change tasks of level 5: several statements, transactions, migrations."""

from random import Random
from typing import Any

from sqlalchemy import Column, Table

from agent_envs.envs.sql.change import Change, ids, scripts
from agent_envs.envs.sql.deciding import Trusted
from agent_envs.envs.sql.schemas import DIALECTS, World
from agent_envs.envs.sql.wording import (
    between,
    condition,
    having,
    label,
    links,
    noun,
    plural,
    render,
    some,
    values,
)
from agent_envs.verifiers.sql import Rows


def uproot(world: World, rng: Random, seen: Trusted) -> Change:
    """A row with all that refers to it, over as many steps as there are."""
    _, _, parent = some(rng, links(world))
    named = having(parent, "name")
    victim = rng.choice(ids(seen, parent))
    who = f"the {noun(parent)} with the id {victim}"
    if named:
        called = seen.ask(f"SELECT {named[0].name} FROM {parent.name} WHERE id = {victim}")
        assert isinstance(called, Rows)
        who = f"the {noun(parent)} whose {label(named[0])} is '{called.rows[0][0]!s}'"
    return Change(
        "uproot",
        f"Delete {who}, together with everything that refers to it, directly or through others. "
        "Keep all the rest.",
        scripts(*_uproot(world, parent, f"= {victim}")),
    )


def _uproot(world: World, table: Table, which: str) -> list[str]:
    """The deletes, leaves first."""
    out = []
    for child, ref, parent in links(world):
        if parent is table:
            inner = f"IN (SELECT id FROM {child.name} WHERE {ref.name} {which})"
            out += _uproot(world, child, inner)
    return [*out, f"DELETE FROM {table.name} WHERE id {which}"]


def batches(world: World, rng: Random, seen: Trusted) -> Change:
    """Batches of steps, each all or nothing: one of them breaks a constraint half way."""
    table, column = some(rng, _floored(world))
    result = seen.ask(f"SELECT id, {column.name} FROM {table.name}")
    assert isinstance(result, Rows)
    stock = {int(i): int(n) for i, n in result.rows}  # type: ignore[arg-type]
    orders, broken = [], rng.randrange(3)
    for number in range(3):
        batch, after = _batch(rng, stock, number == broken)
        orders.append(batch)
        stock = after if number != broken else stock
    lines = [
        f"Batch {number}: " + ", ".join(f"id {i}: {step:+}" for i, step in batch)
        for number, batch in enumerate(orders, 1)
    ]
    good = [batch for number, batch in enumerate(orders) if number != broken]
    text = (
        f"Apply three batches of changes to {label(column)} of {plural(table)}, one after the "
        "other, each as a transaction: either all of its steps, or, if one of them violates a "
        "constraint of the database, none of them. Each step says by how much the value of a row "
        "goes up or down; after each step the constraints must hold.\n\n" + "\n".join(lines)
    )
    update_one = f"UPDATE {table.name} SET {column.name} = {column.name} + {{}} WHERE id = {{}}"
    steps = [update_one.format(step, i) for batch in good for i, step in batch]
    return Change("batches", text, scripts(*steps))


def _floored(world: World) -> list[tuple[Table, Column[Any]]]:
    """Columns that must not fall below zero."""
    checked = {
        (table, column)
        for table in world.metadata.sorted_tables
        for column in table.columns
        if any(str(c.sqltext) == f"{column.name} >= 0" for c in column.constraints)  # type: ignore[attr-defined]
    }
    return sorted(checked, key=str)


def _batch(
    rng: Random, stock: dict[int, int], broken: bool
) -> tuple[list[tuple[int, int]], dict[int, int]]:
    """Three or four steps on different rows, and the values after them."""
    rows, after = rng.sample(sorted(stock), rng.randint(3, 4)), dict(stock)
    steps = []
    for place, i in enumerate(rows):
        step = rng.randint(1, 25)
        if rng.random() < 0.5 and after[i] >= step:
            step = -step
        if broken and place == len(rows) // 2:
            step = -(after[i] + rng.randint(1, 9))
        after[i] += step
        steps.append((i, step))
    return steps, after


def widen(world: World, rng: Random, seen: Trusted) -> Change:
    """A column more, filled by a rule."""
    table = some(
        rng, [t for t in world.metadata.sorted_tables if having(t, "number", optional=False)]
    )
    number = some(rng, having(table, "number", optional=False))
    border = between(rng, values(world.name, table.name, number.name), 0.3, 0.7)
    name = f"{number.name}_class"
    high, low = rng.choice([("high", "low"), ("upper", "lower"), ("a", "b")])
    return Change(
        "widen",
        f"Add to the table `{table.name}` a column `{name}` of the type VARCHAR, not null, with "
        f"the default '{low}'. It must say '{high}' for all {plural(table)} whose {label(number)} "
        f"is {border} or more, and '{low}' for the others.",
        scripts(
            f"ALTER TABLE {table.name} ADD COLUMN {name} VARCHAR NOT NULL DEFAULT '{low}'",
            f"UPDATE {table.name} SET {name} = '{high}' WHERE {number.name} >= {border}",
        ),
        True,
    )


def summarise(world: World, rng: Random, seen: Trusted) -> Change:
    """A new table that holds sums."""
    child, ref, parent = some(
        rng, [x for x in links(world) if having(x[0], "number", optional=False)]
    )
    number = some(rng, having(child, "number", optional=False))
    name = f"{parent.name}_{number.name}"
    one, words, _ = condition(rng, world, child, avoid=(number,))
    made = (
        f"CREATE TABLE {name} ({ref.name} INTEGER NOT NULL PRIMARY KEY REFERENCES {parent.name} "
        f"(id), total INTEGER NOT NULL)"
    )
    inner = {d: render(one, d) for d in DIALECTS}
    fill = {
        d: f"INSERT INTO {name} SELECT {ref.name}, SUM({number.name}) FROM {child.name} WHERE "
        f"{inner[d]} GROUP BY {ref.name}"
        for d in DIALECTS
    }
    return Change(
        "summarise",
        f"Create a table `{name}` with two columns, both INTEGER and not null: `{ref.name}`, its "
        f"primary key and a reference to the id of `{parent.name}`, and `total`. Fill it with the "
        f"sum of {label(number)} of the {plural(child)} whose {words}, a row for each "
        f"{noun(parent)} that has any.",
        {d: f"{made};\n{fill[d]}" for d in DIALECTS},
        True,
    )


def restructure(world: World, rng: Random, seen: Trusted) -> Change:
    """A column renamed, and another dropped."""
    table = some(rng, [t for t in world.metadata.sorted_tables if len(_plain(t)) > 1])
    kept, gone = rng.sample(_plain(table), 2)
    new = f"{kept.name}_{rng.choice(['value', 'info', 'data', 'field'])}"
    return Change(
        "restructure",
        f"In the table `{table.name}`, rename the column `{kept.name}` to `{new}` and drop the "
        f"column `{gone.name}`. Every other column stays as it is.",
        scripts(
            f"ALTER TABLE {table.name} RENAME COLUMN {kept.name} TO {new}",
            f"ALTER TABLE {table.name} DROP COLUMN {gone.name}",
        ),
        True,
    )


def _plain(table: Table) -> list[Column[Any]]:
    """Columns that no constraint speaks of."""
    return [c for c in having(table, "category", "number", "date", "flag") if not c.constraints]
