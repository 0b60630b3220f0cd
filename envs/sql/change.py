"""What every change task is made of."""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from sqlalchemy import Table

from agent_envs.envs.sql.deciding import Trusted
from agent_envs.envs.sql.schemas import DIALECTS, World
from agent_envs.envs.sql.wording import render
from agent_envs.verifiers.sql import Rows


@dataclass(frozen=True)
class Change:
    """A change and the statements that make it, by dialect. `migrates`: the schema changes too."""

    family: str
    text: str
    scripts: dict[str, str]
    migrates: bool = False


Changer = Callable[[World, Random, Trusted], Change]


def scripts(*statements: Any) -> dict[str, str]:
    """Statements as a script in each dialect; texts are the same in both."""
    return {
        dialect: ";\n".join(
            one if isinstance(one, str) else render(one, dialect) for one in statements
        )
        for dialect in DIALECTS
    }


def ids(seen: Trusted, table: Table) -> list[int]:
    """The ids that a table has."""
    result = seen.ask(f"SELECT id FROM {table.name} ORDER BY id")
    assert isinstance(result, Rows)
    return [int(row[0]) for row in result.rows]  # type: ignore[arg-type]
