"""One statement on a PostgreSQL connection, under limits that this side keeps.

The session may undo its own timeouts, and its rows may be larger than memory: so time and bytes are
counted here, and a query that exceeds them is cancelled, or loses its connection.
"""

import fcntl
import select
import struct
import termios
import time
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import psycopg
from psycopg import pq
from psycopg.postgres import types

from agent_envs.verifiers.sql import Typed, Value

GRACE = 0.3
"""What part of the limit a cancelled query has to end."""
CANCELLED = "57014"
_TEXTS = frozenset({"text", "varchar", "bpchar", "name", '"char"', "unknown"})
_WHOLE = frozenset({"int2", "int4", "int8", "oid"})
_ROWS = (pq.ExecStatus.SINGLE_TUPLE, pq.ExecStatus.TUPLES_OK)


class Lost(Exception):
    """The connection is gone: closed by either side, or because nothing else ended a query."""


@dataclass(frozen=True)
class Result:
    """What a statement came to. `error` is the server's words; `names` is empty without rows."""

    names: tuple[str, ...] = ()
    rows: tuple[tuple[Value, ...], ...] = ()
    count: int = 0
    whole: bool = True
    changed: int = 0
    error: str = ""
    timeout: bool = False


def ask(
    connection: "psycopg.Connection[Any]",
    sql: str,
    seconds: float,
    *,
    most: int,
    size: int,
    cut: int,
) -> Result:
    """Run one statement: at most `most` rows are kept, `size` bytes read, `cut` characters of a
    text shown. Raises Lost."""
    wire = connection.pgconn
    try:
        wire.send_query_params(sql.encode(), None)
        wire.set_single_row_mode()
        return _Reader(wire, seconds, most, size, cut).read()
    except (psycopg.Error, OSError, ValueError) as error:
        connection.close()
        raise Lost(str(error).strip() or "the connection is closed") from None


class _Reader:
    def __init__(self, wire: pq.abc.PGconn, seconds: float, most: int, size: int, cut: int) -> None:
        self.wire, self.most, self.size, self.cut = wire, most, size, cut
        self.end = time.monotonic() + seconds
        self.last = self.end + seconds * GRACE
        self.cancelled = ""
        self.names: tuple[str, ...] = ()
        self.kinds: tuple[str, ...] = ()
        self.rows: list[tuple[Value, ...]] = []
        self.count = self.changed = 0
        self.error = ""
        self.timeout = False

    def read(self) -> Result:
        """All results, to their end."""
        while True:
            while self.wire.is_busy():
                self._wait()
            result = self.wire.get_result()
            if result is None:
                break
            self._take(result)
            result.clear()
        too_much = self.cancelled == "size"
        timeout = not too_much and (self.timeout or self.cancelled == "time")
        error = "" if too_much and self.names else self.error
        return Result(
            self.names,
            tuple(self.rows),
            self.count,
            not too_much,
            self.changed,
            error,
            timeout,
        )

    def _wait(self) -> None:
        """Read what comes, until there is no time left; then cancel, and in the end give up."""
        until = self.last if self.cancelled else self.end
        ready, _, _ = select.select([self.wire.socket], [], [], max(0.0, until - time.monotonic()))
        if ready:
            waiting = fcntl.ioctl(self.wire.socket, termios.FIONREAD, b"\0" * 4)
            self.size -= struct.unpack("i", waiting)[0]
            self.wire.consume_input()
            if self.size < 0 and not self.cancelled:
                self._cancel("size")
        elif self.cancelled:
            raise ValueError("the query does not end")
        else:
            self._cancel("time")

    def _cancel(self, why: str) -> None:
        self.cancelled = why
        self.last = max(self.last, time.monotonic() + GRACE)
        self.wire.get_cancel().cancel()

    def _take(self, result: pq.abc.PGresult) -> None:
        if result.status in _ROWS:
            self._describe(result)
            for row in range(result.ntuples):
                self.count += 1
                if len(self.rows) < self.most and not self.cancelled:
                    self.rows.append(self._row(result, row))
            if result.status == pq.ExecStatus.TUPLES_OK and not self.names:
                self.changed = result.command_tuples or 0
        elif result.status == pq.ExecStatus.COMMAND_OK:
            self.changed = result.command_tuples or 0
        elif result.status == pq.ExecStatus.FATAL_ERROR:
            self._fail(result)
        else:
            raise ValueError(f"the server goes on with {result.status}")

    def _fail(self, result: pq.abc.PGresult) -> None:
        field = pq.DiagnosticField
        parts = [result.error_field(f) for f in (field.MESSAGE_PRIMARY, field.MESSAGE_DETAIL)]
        self.error = ": ".join(part.decode(errors="replace") for part in parts if part)
        self.timeout = result.error_field(field.SQLSTATE) == CANCELLED.encode()

    def _describe(self, result: pq.abc.PGresult) -> None:
        if not self.names and result.nfields:
            columns = range(result.nfields)
            self.names = tuple((result.fname(i) or b"").decode(errors="replace") for i in columns)
            self.kinds = tuple(_kind(result.ftype(i)) for i in columns)

    def _row(self, result: pq.abc.PGresult, row: int) -> tuple[Value, ...]:
        raw = (result.get_value(row, i) for i in range(result.nfields))
        return tuple(
            None if x is None else value(kind, x.decode(errors="replace"), self.cut)
            for kind, x in zip(self.kinds, raw, strict=True)
        )


def _kind(oid: int) -> str:
    known = types.get(oid)
    return known.name if known is not None else f"type {oid}"


def value(kind: str, text: str, cut: int) -> Value:
    """A value from the server's text for it."""
    if kind in _TEXTS:
        return text if len(text) <= cut else text[:cut] + "..."
    if kind in _WHOLE:
        return int(text)
    if kind in ("float4", "float8"):
        return float(text)
    if kind == "numeric":
        return Decimal(text)
    if kind == "bool":
        return text == "t"
    if kind == "bytea" and text.startswith("\\x"):
        return bytes.fromhex(text[2:][: 2 * cut])
    return Typed(kind, text[:cut])
