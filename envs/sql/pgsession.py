"""PostgreSQL for an episode: a database of its own, snapshots by template."""

import re
import socket
from collections.abc import Sequence

from psycopg import pq

from agent_envs.envs.sql import pgstate, wire
from agent_envs.envs.sql.backend import Done, Kind, Ran, TableInfo
from agent_envs.envs.sql.database import Database, quoted
from agent_envs.envs.sql.layout import SHOWN, WIDEST
from agent_envs.envs.sql.server import Connection, Server
from agent_envs.envs.sql.statements import bare, first_word
from agent_envs.errors import BackendUnavailable, SnapshotUnsupported, ToolError
from agent_envs.verifiers.sql import Failed, State

SIZE = 16 << 20
"""Bytes of a result that are read."""
READS = frozenset("SELECT WITH VALUES TABLE EXPLAIN SHOW".split())
CHANGES = frozenset(
    "SELECT WITH VALUES INSERT UPDATE DELETE MERGE BEGIN START COMMIT END ROLLBACK ABORT SAVEPOINT "
    "RELEASE".split()
)
MIGRATES = re.compile(
    r"\s*(?:CREATE\s+TABLE|CREATE\s+(?:UNIQUE\s+)?INDEX|ALTER\s+TABLE|DROP\s+(?:TABLE|INDEX))\b",
    re.IGNORECASE,
)
LOST = "the connection was ended; an open transaction is rolled back"
_IDLE, _OPEN = pq.TransactionStatus.IDLE, pq.TransactionStatus.INTRANS
_PEEK = "agent_envs_peek"


class PostgreSQLSession:
    """An episode's database. No setting, plan or lock of a session outlives a call, so that a new
    connection to a copy goes on as the old one would; an open transaction is all that is left to
    refuse a snapshot."""

    def __init__(self, server: Server, database: Database, kind: Kind, seconds: float) -> None:
        self.closed = True
        self.server, self.kind, self.seconds = server, kind, seconds
        self.saved: set[str] = set()
        self.connection: Connection | None = None
        self.role, self.password = server.role(kind)
        self.name, self.closed = "", False
        try:
            self._go_to(server.template(database))
        except BaseException:
            self.close()
            raise

    @property
    def kept(self) -> int:
        """See `Session`."""
        return len(self.saved)

    def _go_to(self, source: str) -> None:
        """Be in a fresh copy of a database; what was before goes."""
        self._hang_up()
        old, self.name = self.name, self.server.copy(source, "e")
        self.server.open_to(self.name, self.role)
        self._connect()
        if old:
            self.server.drop("DATABASE", old)

    def _connect(self) -> Connection:
        milliseconds = int(self.seconds * 1000)
        options = f"-c statement_timeout={milliseconds} -c search_path=public"
        self.connection = self.server.connect(
            self.name, user=self.role, password=self.password, options=options
        )
        return self.connection

    def _hang_up(self) -> None:
        if self.connection is not None:
            self.connection.close()
            self.connection = None

    # -- statements --------------------------------------------------------------------------------

    def run(self, kind: Kind, statements: list[str]) -> Ran:
        """See `Session`."""
        done: list[Done] = []
        for statement in statements:
            refusal = refused(kind, statement)
            result = wire.Result(error=refusal) if refusal else self._run(kind, statement)
            if result.error or result.timeout:
                return Ran(tuple(done), result.error, result.timeout, self._status() != _IDLE)
            shown = result.rows, result.count, result.whole, result.changed
            done.append(Done(result.names, *shown))
        return Ran(tuple(done), in_transaction=self._status() != _IDLE)

    def _run(self, kind: Kind, statement: str) -> wire.Result:
        try:
            result = self._peek(statement) if kind == "query" else self._send(statement)
            if self._status() == _IDLE:
                self._send("DISCARD ALL")
            return result
        except wire.Lost as lost:
            return self._after_loss(lost)

    def _send(self, statement: str, most: int = SHOWN, cut: int = WIDEST) -> wire.Result:
        connection = self.connection or self._connect()
        return wire.ask(connection, statement, self.seconds, most=most, size=SIZE, cut=cut)

    def _peek(self, statement: str) -> wire.Result:
        """Run a statement that cannot change anything, in or outside of a transaction."""
        status = self._status()
        if status not in (_IDLE, _OPEN):
            return wire.Result(error="the current transaction has failed: end it with ROLLBACK")
        if status == _IDLE:
            before, after = ["BEGIN READ ONLY"], ["ROLLBACK"]
        else:
            before = [f"SAVEPOINT {_PEEK}", "SET LOCAL transaction_read_only = on"]
            after = [f"ROLLBACK TO SAVEPOINT {_PEEK}", f"RELEASE SAVEPOINT {_PEEK}"]
        for one in before:
            self._send(one)
        result = self._send(statement)
        for one in after:
            self._send(one)
        return result

    def _after_loss(self, lost: wire.Lost) -> wire.Result:
        """Go on with another connection, where there still is a server."""
        self._hang_up()
        if self.closed:
            raise BackendUnavailable("the env was closed during the call")
        if not self.server.answers():
            raise self.server.down(lost)
        self.server.end_sessions(self.name)
        self._connect()
        timeout = "does not end" in str(lost)
        return wire.Result(error=LOST, timeout=timeout)

    def _status(self) -> pq.TransactionStatus:
        return self.connection.info.transaction_status if self.connection is not None else _IDLE

    # -- the schema --------------------------------------------------------------------------------

    def _rows(self, statement: str) -> Sequence[tuple[object, ...]]:
        """Rows of a statement of ours, as the agent's role sees them, in its transaction."""
        try:
            result = self._peek_at(statement)
        except wire.Lost as lost:
            self._after_loss(lost)
            result = self._peek_at(statement)
        if result.error:
            raise ToolError(result.error)
        return result.rows

    def _peek_at(self, statement: str) -> wire.Result:
        if self._status() not in (_IDLE, _OPEN):
            raise ToolError("the current transaction has failed: end it with ROLLBACK")
        return self._send(statement, most=10_000, cut=10_000)

    def tables(self) -> list[tuple[str, int, int]]:
        """See `Session`."""
        out = []
        for name, columns in self._rows(pgstate.TABLES):
            count = self._rows(f"SELECT count(*) FROM public.{quoted(str(name))}")[0][0]
            out.append((str(name), int(str(columns)), int(str(count))))
        return out

    def describe(self, name: str) -> TableInfo | None:
        """See `Session`."""
        known = {str(one).lower(): str(one) for one, _ in self._rows(pgstate.TABLES)}
        if name.lower() not in known:
            return None
        columns, constraints = (
            self._rows(text.format(pgstate.literal(known[name.lower()])))
            for text in (pgstate.COLUMNS, pgstate.CONSTRAINTS)
        )
        return TableInfo(
            tuple((str(column), str(declared)) for column, declared in columns),
            tuple(str(row[0]) for row in constraints),
        )

    # -- states ------------------------------------------------------------------------------------

    def state(self) -> State | Failed:
        """See `Session`: read with the agent's own powers, in a new session."""
        try:
            self._hang_up()
            self.server.end_sessions(self.name)
            return pgstate.read(self._connect(), self.seconds)
        except wire.Lost as lost:
            self._after_loss(lost)
            return Failed(f"the database cannot be read: {lost}")

    def save(self) -> str:
        """See `Session`: a copy that nobody can connect to."""
        if self._status() != _IDLE:
            raise SnapshotUnsupported("an open transaction: end it with COMMIT or ROLLBACK")
        self._hang_up()
        self.server.end_sessions(self.name)
        name = self.server.copy(self.name, "s")
        self.saved.add(name)
        self._connect()
        return name

    def load(self, saved: str) -> None:
        """See `Session`."""
        self._go_to(saved)

    def drop(self, saved: str) -> None:
        """See `Session`."""
        self.saved.discard(saved)
        self.server.drop("DATABASE", saved)

    def leave(self) -> None:
        """See `Session`."""
        self.close()

    def close(self) -> None:
        """See `Session`."""
        if self.closed:
            return
        self.closed = True
        connection = self.connection
        if connection is not None and not connection.closed:
            with socket.socket(fileno=socket.dup(connection.fileno())) as twin:
                twin.shutdown(socket.SHUT_RDWR)  # ends a call that another thread waits in
            connection.close()
        self.server.drop("DATABASE", *filter(None, [self.name, *self.saved]))
        self.server.drop("ROLE", self.role)

    def __del__(self) -> None:
        """An env that nobody closed leaves no database either."""
        if not self.closed:
            self.close()


def refused(kind: Kind, statement: str) -> str:
    """Why a statement is not for a task of a kind; empty where it is."""
    word = first_word(statement)
    if word in (READS if kind == "query" else CHANGES):
        return ""
    if kind == "migrate" and MIGRATES.match(bare(statement)):
        return ""
    return f"{word[:20] or 'this'} is not available here"
