"""A database as a value: a script in one dialect, and maybe other rows than the script's own."""

import hashlib
import json
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

from agent_envs.envs.sql.statements import split

Rows: TypeAlias = Mapping[str, Sequence[Sequence[Any]]]
"""Of each table, its columns' names in the first row, and then its rows. Referenced ones first."""


@dataclass(frozen=True, eq=False)
class Database:
    """What a script makes; where `rows` are given, with these in all of its tables instead."""

    script: str = field(repr=False)
    rows: Rows | None = field(default=None, repr=False)

    @cached_property
    def schema_key(self) -> str:
        """The same for databases that differ in their rows alone."""
        return hashlib.sha256(self.script.encode()).hexdigest()[:16]

    @cached_property
    def key(self) -> str:
        """The same for databases that are the same."""
        rows = json.dumps(self.rows, sort_keys=True)
        return hashlib.sha256(f"{self.schema_key} {rows}".encode()).hexdigest()[:16]

    @cached_property
    def serialized(self) -> bytes:
        """The bytes of the SQLite database. Raises ValueError for a script that fails."""
        connection = self.connect()
        try:
            return connection.serialize()
        finally:
            connection.close()

    def connect(self) -> sqlite3.Connection:
        """A new SQLite database in this process's memory; only trusted statements belong in it."""
        connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        try:
            self._fill(connection)
        except sqlite3.Error as error:
            connection.close()
            raise ValueError(f"the database's script fails: {error}") from None
        return connection

    def _fill(self, connection: sqlite3.Connection) -> None:
        connection.execute("BEGIN")
        for statement in split(self.script):
            if statement.split()[0].upper() not in ("BEGIN", "COMMIT", "PRAGMA"):
                connection.execute(statement)
        if self.rows is not None:
            for name in reversed([*self.rows]):
                connection.execute(f"DELETE FROM {quoted(name)}")
            for name, (columns, *rows) in self.rows.items():
                marks = ", ".join("?" * len(columns))
                connection.executemany(f"{insert(name, columns)} VALUES ({marks})", rows)
        connection.execute("COMMIT")


def insert(name: str, columns: Sequence[str]) -> str:
    """How an INSERT begins."""
    return f"INSERT INTO {quoted(name)} ({', '.join(map(quoted, columns))})"


def quoted(name: str) -> str:
    """An identifier, in either dialect."""
    return '"' + name.replace('"', '""') + '"'
