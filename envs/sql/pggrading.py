"""Where the grader asks PostgreSQL: databases in which no agent's statement ever ran."""

import contextlib
import threading
from collections.abc import Iterable, Iterator, Sequence

import psycopg

from agent_envs.envs.sql import wire
from agent_envs.envs.sql.backend import Kind
from agent_envs.envs.sql.database import Database
from agent_envs.envs.sql.filling import load
from agent_envs.envs.sql.pgsession import PostgreSQLSession
from agent_envs.envs.sql.server import Connection, Server, server
from agent_envs.envs.sql.statements import split
from agent_envs.verifiers.sql import Failed, Outcome, Rows, State

MOST_ROWS, SIZE = 20_000, 64 << 20
PATIENCE = 3
"""How many times the limit a graded query has: a busy machine must not change a verdict."""


class Place:
    """A database with a schema and no rows, and a role that may fill it for a transaction."""

    def __init__(self, owner: Server, database: Database) -> None:
        self.lock = threading.Lock()
        rows = database.rows or {}
        empty = Database(database.script, {name: table[:1] for name, table in rows.items()})
        self.server = owner
        self.name = owner.copy(owner.template(empty), "g")
        self.role, self.password = owner.role("change")
        owner.open_to(self.name, self.role)

    @contextlib.contextmanager
    def filled(self, database: Database) -> Iterator[Connection]:
        """A session in which the rows of a database are there, and can only be read."""
        with self.lock:
            connection = self.server.connect(
                self.name, user=self.role, password=self.password, options="-c search_path=public"
            )
            try:
                connection.execute("BEGIN")
                load(connection, database)
                connection.execute("SET TRANSACTION READ ONLY")
                yield connection
            finally:
                connection.close()


class PostgreSQLEngine:
    """Runs queries for the grader: rows are there for one transaction, which is never committed."""

    def __init__(self, url: str | None, seconds: float) -> None:
        self.url, self.seconds = url, seconds

    def ask(self, query: str, databases: Sequence[Database]) -> list[Outcome]:
        """See `Engine`."""
        out: list[Outcome] = []
        for database in databases:
            out.append(self._ask(query, database))
            if isinstance(out[-1], Failed):  # it would fail on the others too, or it fails enough
                out += [out[-1]] * (len(databases) - len(out))
                break
        return out

    def _ask(self, query: str, database: Database) -> Outcome:
        owner = server(self.url)
        try:
            with _place(owner, database).filled(database) as connection:
                limits = {"most": MOST_ROWS + 1, "size": SIZE, "cut": 1 << 30}
                result = wire.ask(connection, query, self.seconds * PATIENCE, **limits)
        except wire.Lost as lost:
            if not owner.answers():
                raise owner.down(lost) from None
            return Failed(str(lost))
        except psycopg.OperationalError as error:
            raise owner.down(error) from None
        return _outcome(result)

    def gold(self, query: str, databases: Sequence[Database]) -> list[Outcome]:
        """See `Engine`."""
        return self.ask(query, databases)

    def many(self, queries: Iterable[str], database: Database) -> dict[str, Outcome]:
        """What each of the user's own queries gives, in one session."""
        limits = {"most": MOST_ROWS + 1, "size": SIZE, "cut": 1 << 30}
        out: dict[str, Outcome] = {}
        with _place(server(self.url), database).filled(database) as connection:
            for query in queries:
                connection.execute("SAVEPOINT before")
                out[query] = _outcome(wire.ask(connection, query, self.seconds, **limits))
                connection.execute("ROLLBACK TO SAVEPOINT before")
        return out

    def after(self, script: str, database: Database) -> State:
        """See `Engine`: in a copy of its own, with the powers that an agent has."""
        kind: Kind = "migrate"
        session = PostgreSQLSession(server(self.url), database, kind, self.seconds * PATIENCE)
        try:
            ran = session.run(kind, split(script))
            state = session.state()
        finally:
            session.close()
        if ran.error or ran.timeout or isinstance(state, Failed):
            why = ran.error or (state.why if isinstance(state, Failed) else "out of time")
            raise ValueError(f"the gold statements fail: {why}: {script:.200}")
        return state


def _outcome(result: wire.Result) -> Outcome:
    if result.error or result.timeout:
        return Failed("out of time" if result.timeout else result.error)
    if not result.names:
        return Failed("it gives no rows")
    if not result.whole or result.count > MOST_ROWS:
        return Failed(f"more than {MOST_ROWS:,} rows, or too long ones")
    return Rows(len(result.names), result.rows)


_places: dict[tuple[str, str], Place] = {}
_lock = threading.Lock()


def _place(owner: Server, database: Database) -> Place:
    """The place for a schema on a server's run."""
    key = (owner.run, database.schema_key)
    with _lock:
        if key not in _places:
            _places[key] = Place(owner, database)
        return _places[key]
