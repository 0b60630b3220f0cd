"""How a world is defined: SQLAlchemy tables for both dialects, with the words that tasks use.

A table has `info["noun"]` and `info["plural"]`, a column `info["label"]` and a `role` that says
what questions it is good for: key, ref, name, category, number, date, flag.
"""

import datetime
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

from sqlalchemy import (
    CheckConstraint,
    Column,
    ForeignKey,
    Integer,
    MetaData,
    Table,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.schema import CreateTable

DIALECTS: dict[str, Any] = {
    "sqlite": sqlite.dialect(),
    "postgresql": postgresql.dialect(paramstyle="named"),  # type: ignore[no-untyped-call]
}
FIRST_DAY, DAYS = datetime.date(2022, 1, 1), 1095

Record = dict[str, Any]
Fill = Callable[[Random, bool], Mapping[str, list[Record]]]
"""The records of every table, referenced ones first; texts are hostile where the flag is set."""


@dataclass(frozen=True, eq=False)
class World:
    """A schema, and how its tables are filled."""

    name: str
    metadata: MetaData
    fill: Fill

    def script(self, dialect: str) -> str:
        """The CREATE TABLE statements in a dialect."""
        tables = self.metadata.sorted_tables
        made = [str(CreateTable(t).compile(dialect=DIALECTS[dialect])).strip() for t in tables]
        return ";\n".join(" ".join(text.split()) for text in made) + ";\n"

    def table(self, name: str) -> Table:
        """A table by name."""
        return self.metadata.tables[name]


def key(name: str = "id") -> Column[Any]:
    """The primary key: a number that is always given, never drawn from a sequence."""
    return Column(
        name, Integer, primary_key=True, autoincrement=False, info={"label": "id", "role": "key"}
    )


def ref(name: str, target: str) -> Column[Any]:
    """A reference."""
    info = {"label": name.removesuffix("_id") + " id", "role": "ref"}
    return Column(name, Integer, ForeignKey(f"{target}.id"), nullable=False, info=info)


def col(
    name: str, kind: Any, role: str, label: str = "", *, optional: bool = False, check: str = ""
) -> Column[Any]:
    """Any other column."""
    info = {"label": label or name.replace("_", " "), "role": role}
    checks = [CheckConstraint(check)] if check else []
    return Column(name, kind, *checks, nullable=optional, info=info)


def table(metadata: MetaData, name: str, plural: str, *parts: Any) -> None:
    """A table with the words for its rows."""
    noun = name.replace("_", " ")
    Table(name, metadata, *parts, info={"noun": noun, "plural": plural})


def day(rng: Random) -> str:
    """A date of three years."""
    return (FIRST_DAY + datetime.timedelta(days=rng.randrange(DAYS))).isoformat()


def maybe(rng: Random, value: Any, missing: float = 0.25) -> Any:
    """The value, or nothing."""
    return None if rng.random() < missing else value


def skewed(rng: Random, pool: list[Any]) -> Any:
    """One of a pool, the first ones more often."""
    return pool[int(len(pool) * rng.random() ** 1.6)]
