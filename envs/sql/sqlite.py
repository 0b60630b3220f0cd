"""SQLite for an episode: in memory, inside a sandbox, whose snapshots are the database's."""

from collections.abc import Iterable
from typing import Any

from sqlalchemy import create_engine
from sqlalchemy.pool import StaticPool

from agent_envs.envs.sql.backend import Kind, Ran, TableInfo
from agent_envs.envs.sql.boxes import IMPORT, kept
from agent_envs.envs.sql.database import Database
from agent_envs.envs.sql.deciding import Trusted
from agent_envs.envs.sql.facts import facts_of
from agent_envs.envs.sql.grading import FILE, SQLiteEngine, done_of, json_of
from agent_envs.envs.sql.layout import SHOWN, WIDEST
from agent_envs.envs.sql.variants import TableFacts
from agent_envs.errors import BackendUnavailable
from agent_envs.sandbox import ExecResult, Sandbox, SandboxSnapshot
from agent_envs.sandbox.outcome import LOST_INTERPRETER, LOST_SESSION
from agent_envs.verifiers.sql import Failed, State

WALL = 1.4
"""The clock may show that many times the limit of a statement."""
LOST = "the database crashed and is now as it was at the start of the task"


class TooLarge(Exception):
    """The database cannot be written out."""


class SQLiteSession:
    """An episode's database: cells of ours in a sandbox, with SQL of the agent's in them."""

    def __init__(self, backend: "SQLite", database: Database) -> None:
        self.backend, self.database = backend, database
        self.kept = 0
        self.whole = kept.take(backend.sandbox, backend.seconds, len(database.serialized))
        self.box: Sandbox = self.whole.sandbox
        try:
            self._begin()
        except BaseException:
            self.box.close()
            raise

    def _begin(self) -> None:
        data = self.database.serialized
        self.box.write_file(FILE, data)
        made = f"inside.Database(*inside.read({FILE!r}, [{len(data)}]), {self.backend.seconds})"
        result = self.box.run_python(f"{IMPORT}; db = {made}", seconds=60)
        if not result.ok:
            raise BackendUnavailable(f"the sandbox's SQLite does not start: {result.text()[-500:]}")

    def run(self, kind: Kind, statements: list[str]) -> Ran:
        """See `Session`. A statement that the clock stops leaves everything as before the call."""
        cell = f"inside.say(db.run({kind!r}, {statements!r}, {SHOWN}, {WIDEST}))"
        result = self.box.run_python(cell, seconds=self.backend.seconds * WALL * len(statements))
        if self._is_lost(result):
            return Ran((), LOST)
        if result.ended in ("timeout", "memory", "output"):
            why = "" if result.ended == "timeout" else f"too much {result.ended}"
            return Ran((), f"{why}; nothing was changed".lstrip("; "), result.ended == "timeout")
        answer = json_of(result)
        *_, last = answer["done"]
        done = tuple(done_of(one) for one in answer["done"] if "error" not in one)
        error = last.get("error", "")
        return Ran(done, error, bool(last.get("timeout")), answer["open"])

    def tables(self) -> list[tuple[str, int, int]]:
        """See `Session`."""
        return [tuple(one) for one in self._ask("inside.tables(db)")]

    def describe(self, name: str) -> TableInfo | None:
        """See `Session`."""
        found = self._ask(f"inside.describe(db, {name!r})")
        if found is None:
            return None
        columns = tuple((column, declared) for column, declared in found["columns"])
        return TableInfo(columns, tuple(found["constraints"]))

    def _ask(self, expression: str) -> Any:
        result = self.box.run_python(f"inside.say({expression})")
        if self._is_lost(result):
            return self._ask(expression)
        return json_of(result)

    def _is_lost(self, result: ExecResult) -> bool:
        """Whether the process is gone, which only its own SQL can have done; then begin anew."""
        if LOST_INTERPRETER in result.notes or LOST_SESSION in result.notes:
            self._begin()
            return True
        return False

    def serialized(self) -> bytes:
        """What is committed, as the bytes of a database file. Ends an open transaction."""
        cell = f"inside.say(open({FILE!r}, 'wb').write(db.committed()))"
        result = self.box.run_python(cell, seconds=60)
        if self._is_lost(result):
            return self.serialized()
        if result.ended in ("error", "memory"):
            raise TooLarge
        json_of(result)
        return self.box.read_file(FILE)

    def state(self) -> State | Failed:
        """See `Session`: a copy is read in a sandbox of the grader's."""
        try:
            return self.backend.engine.state(self.serialized())
        except TooLarge:
            return Failed("the database has grown so large that it cannot be read")

    def save(self) -> SandboxSnapshot:
        """See `Session`: with open transactions, temporary tables and all."""
        snapshot = self.box.snapshot()
        self.kept += 1
        return snapshot

    def load(self, saved: SandboxSnapshot) -> None:
        """See `Session`."""
        self.box.rollback(saved)

    def drop(self, saved: SandboxSnapshot) -> None:
        """See `Session`."""
        self.kept -= 1
        self.box.release(saved)

    def leave(self) -> None:
        """See `Session`: its sandbox is rolled back before it is used again."""
        kept.give_back(self.whole)

    def close(self) -> None:
        """See `Session`."""
        self.box.close()


class SQLite:
    """The SQLite backend: `sandbox` is one of the sandbox's own backends, `seconds` the limit."""

    dialect = "sqlite"
    volatile: frozenset[str] = frozenset()

    def __init__(self, sandbox: str, seconds: float) -> None:
        self.sandbox, self.seconds = sandbox, seconds
        self.engine = SQLiteEngine(sandbox, seconds)

    def start(self, database: Database, kind: Kind) -> SQLiteSession:
        """See `Backend`."""
        return SQLiteSession(self, database)

    def facts(self, script: str) -> dict[str, TableFacts]:
        """See `Backend`."""
        connection = Database(script).connect()
        engine = create_engine("sqlite://", creator=lambda: connection, poolclass=StaticPool)
        try:
            return facts_of(engine)
        finally:
            engine.dispose()
            connection.close()

    def trusted(self, database: Database, wanted: Iterable[str]) -> Trusted:
        """See `Backend`: in this process, where queries only read."""
        return Trusted(database)
