"""Where the grader asks SQLite: sandboxes of its own, in which no agent's statement ever ran."""

import json
from collections.abc import Sequence
from typing import Any

from agent_envs.envs.sql.backend import Done
from agent_envs.envs.sql.boxes import IMPORT, WALL_TO_CPU, kept
from agent_envs.envs.sql.database import Database
from agent_envs.envs.sql.statements import split
from agent_envs.errors import BackendUnavailable
from agent_envs.sandbox import ExecResult
from agent_envs.verifiers.sql import Failed, Outcome, Rows, State, Table, Value

FILE = "database"
"""Where the host leaves bytes for the code inside."""
MOST_ROWS = 20_000
"""Rows of a query that is graded."""


def json_of(result: ExecResult) -> Any:
    """The JSON value that a cell of ours printed. Raises BackendUnavailable where there is none."""
    if result.ok:
        try:
            return json.loads(result.stdout)
        except ValueError:
            pass
    raise BackendUnavailable(f"the sandbox's SQLite does not answer: {result.text()[-500:]}")


def done_of(one: dict[str, Any]) -> Done:
    if "columns" not in one:
        return Done(changed=one["changed"])
    rows = tuple(tuple(map(value, row)) for row in one["rows"])
    return Done(tuple(one["columns"]), rows, one["count"], one["whole"])


def value(plain: Any) -> Value:
    """The inverse of `inside.plain`."""
    if isinstance(plain, dict):
        return bytes.fromhex(plain["bytes"]) if "bytes" in plain else float(plain["float"])
    found: Value = plain
    return found


class SQLiteEngine:
    """Runs queries for the grader, each on fresh copies in a sandbox that holds nothing else."""

    def __init__(self, sandbox: str, seconds: float) -> None:
        self.sandbox, self.seconds = sandbox, seconds

    def ask(self, query: str, databases: Sequence[Database]) -> list[Outcome]:
        """See `Engine`."""
        data = [database.serialized for database in databases]
        cell = f"inside.ask_all(databases, {query!r}, {self.seconds}, {MOST_ROWS + 1})"
        answer = self._in_box(cell, data)
        if isinstance(answer, str):
            return [Failed(answer)] * len(databases)
        return [_outcome(one) for one in answer]

    def gold(self, query: str, databases: Sequence[Database]) -> list[Outcome]:
        """See `Engine`: in a call of its own, after a rollback."""
        return self.ask(query, databases)

    def after(self, script: str, database: Database) -> State:
        """See `Engine`."""
        statements = split(script)
        cell = f"inside.after(databases[0], {statements!r}, {self.seconds})"
        answer = self._in_box(cell, [database.serialized])
        if isinstance(answer, str) or "error" in answer:
            why = answer if isinstance(answer, str) else answer["error"]
            raise ValueError(f"the gold statements fail: {why}: {script:.200}")
        return _state(answer)

    def state(self, data: bytes) -> State | Failed:
        """The state that the bytes of a database hold."""
        answer = self._in_box(f"inside.state(databases[0], {self.seconds})", [data])
        return Failed(answer) if isinstance(answer, str) else _state(answer)

    def _in_box(self, expression: str, data: list[bytes]) -> Any:
        """What an expression over `databases` comes to; a text says why it came to nothing."""
        size = sum(map(len, data))
        box = kept.take(self.sandbox, self.seconds, size)
        sizes = [len(one) for one in data]
        cell = f"{IMPORT}\ndatabases = inside.read({FILE!r}, {sizes})\ninside.say({expression})"
        try:
            box.sandbox.write_file(FILE, b"".join(data))
            wall = self.seconds * WALL_TO_CPU * len(data) + 5
            result = box.sandbox.run_python(cell, seconds=wall)
        except BaseException:
            box.sandbox.close()
            raise
        if not result.ok:
            box.sandbox.close()
            return {"timeout": "out of time"}.get(result.ended, f"it fails: {result.ended}")
        kept.give_back(box)
        return json_of(result)


def _outcome(one: dict[str, Any]) -> Outcome:
    if "error" in one:
        return Failed("out of time" if one.get("timeout") else one["error"])
    if "columns" not in one:
        return Failed("it gives no rows")
    done = done_of(one)
    if done.count > len(done.rows) or done.count > MOST_ROWS:
        return Failed(f"more than {MOST_ROWS:,} rows, or too long ones")
    return Rows(len(done.names), done.rows)


def _state(answer: dict[str, Any]) -> State:
    tables = {
        name: Table(
            table["columns"],
            tuple(tuple(map(value, row)) for row in table["rows"]),
            tuple(table["constraints"]),
        )
        for name, table in answer["tables"].items()
    }
    return State(tables, tuple(answer["others"]))
