"""What the environment needs of a backend, and what a statement came to."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from agent_envs.envs.sql.database import Database
from agent_envs.envs.sql.deciding import Asked
from agent_envs.envs.sql.variants import TableFacts
from agent_envs.verifiers.sql import Engine, Failed, State, Value

Kind = Literal["query", "change", "migrate"]
"""What statements may do: read; change rows; change the schema too."""


@dataclass(frozen=True)
class Done:
    """One statement that worked: rows (`names` is not empty), or how many rows it changed."""

    names: tuple[str, ...] = ()
    rows: tuple[tuple[Value, ...], ...] = field(default=(), repr=False)
    count: int = 0
    whole: bool = True
    """Whether the rows were counted to the end."""
    changed: int = 0


@dataclass(frozen=True)
class Ran:
    """A script: its statements up to the first that failed, and why that one did."""

    done: tuple[Done, ...]
    error: str = ""
    timeout: bool = False
    in_transaction: bool = False


@dataclass(frozen=True)
class TableInfo:
    """What `describe_table` says: columns with their declarations, and constraints."""

    columns: tuple[tuple[str, str], ...]
    constraints: tuple[str, ...]


class Session(Protocol):
    """The database of an episode, where the agent's statements run; and kept states of it."""

    @property
    def kept(self) -> int:
        """How many states are kept of it."""

    def run(self, kind: Kind, statements: list[str]) -> Ran:
        """Run statements one by one. BackendUnavailable where something of ours is down."""

    def tables(self) -> list[tuple[str, int, int]]:
        """Name, columns and rows of each table."""

    def describe(self, name: str) -> TableInfo | None:
        """One table; None where there is no such."""

    def state(self) -> State | Failed:
        """All that is committed, read where no statement of the agent's can reach."""

    def save(self) -> Any:
        """Keep the state. SnapshotUnsupported names what cannot be."""

    def load(self, saved: Any) -> None:
        """Go back to a kept state."""

    def drop(self, saved: Any) -> None:
        """Give up a kept state."""

    def leave(self) -> None:
        """Done with it: nothing runs in it, and no state is kept of it."""

    def close(self) -> None:
        """End it with all kept states, from any thread; a call that is running ends."""


class Backend(Protocol):
    """Sessions for agents, and an engine for the grader."""

    @property
    def dialect(self) -> str:
        """Of SQL: sqlite or postgresql."""

    @property
    def seconds(self) -> float:
        """How long a statement may take."""

    @property
    def volatile(self) -> frozenset[str]:
        """What it cannot fix."""

    @property
    def engine(self) -> Engine[Database]:
        """What grades."""

    def start(self, database: Database, kind: Kind) -> Session:
        """A fresh copy of a database for an episode in which statements may do `kind` at most."""

    def facts(self, script: str) -> dict[str, TableFacts]:
        """The tables that a user's script makes, with their rows."""

    def trusted(self, database: Database, wanted: Iterable[str]) -> Asked:
        """A database that answers the wanted queries, which are the user's own gold."""
