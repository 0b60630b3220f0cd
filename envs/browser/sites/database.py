"""A site's whole state: one SQLite database, its clock, its sessions and its chain of events.

`serialize()` gives a snapshot as bytes and `connect(nonce, data)` brings it back. The nonce of the
episode is an attribute of the connection and is never written into the database: so whoever reads
one can neither guess the session of another episode nor extend its chain of events.
"""

import hashlib
import hmac
import json
import sqlite3
from collections import Counter
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

_EPOCH = datetime(2026, 1, 1)
_PAGE_SIZE = 1024
"""Bytes. Small tables in small pages: a snapshot takes a third of what 4,096 would."""

SCHEMA = """
CREATE TABLE clock (start INTEGER NOT NULL, minute INTEGER NOT NULL);
CREATE TABLE sessions (token TEXT PRIMARY KEY, user INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE events (seq INTEGER PRIMARY KEY, time INTEGER NOT NULL, kind TEXT NOT NULL,
                     data TEXT NOT NULL, chain TEXT NOT NULL);
"""
_OWN = frozenset({"clock", "sessions", "events"})


class Database(sqlite3.Connection):
    """A connection in memory that knows its episode's nonce. One caller at a time, any thread."""

    nonce: bytes = b""

    def one(self, sql: str, *values: object) -> Any:
        """The first row of a query, or None."""
        return self.execute(sql, values).fetchone()

    def all(self, sql: str, *values: object) -> list[Any]:
        """All rows of a query."""
        return self.execute(sql, values).fetchall()

    def value(self, sql: str, *values: object) -> Any:
        """The first column of the first row; None where there is none."""
        row = self.one(sql, *values)
        return row[0] if row else None

    def insert(self, table: str, *values: object) -> None:
        """Add a row to a table, whose name is the code's own."""
        marks = ", ".join("?" * len(values))
        self.execute(f"INSERT INTO {table} VALUES ({marks})", values)

    def next_id(self, table: str) -> int:
        """The number of the next row of a table."""
        return int(self.value(f"SELECT coalesce(max(id), 0) + 1 FROM {table}"))


class BrokenChain(ValueError):
    """The events of a database are not those that the site wrote in this episode."""


@dataclass(frozen=True)
class Event:
    """One change, as the site wrote it down; `time` in minutes of the site's clock."""

    seq: int
    time: int
    kind: str
    data: dict[str, Any]


def connect(nonce: bytes, data: bytes | None = None) -> Database:
    """An empty database, or one with the contents that `serialize()` gave. The caller closes it."""
    db = sqlite3.connect(
        ":memory:", factory=Database, isolation_level=None, check_same_thread=False
    )
    db.nonce = nonce
    db.row_factory = sqlite3.Row
    if data is None:
        db.execute(f"PRAGMA page_size={_PAGE_SIZE}")
    else:
        db.deserialize(data)
    db.execute("PRAGMA foreign_keys=ON")
    return db


def token(nonce: bytes) -> str:
    """The session token of the episode's user: what the cookie `session` has to hold."""
    return hmac.new(nonce, b"session", hashlib.sha256).hexdigest()[:32]


def sign_in(db: Database, user: int) -> None:
    """Let the holder of the episode's token be this user."""
    db.execute("INSERT OR REPLACE INTO sessions VALUES (?, ?)", (token(db.nonce), user))


def moment(minute: int) -> datetime:
    """A time of the clock as a date and time."""
    return _EPOCH + timedelta(minutes=minute)


def now(db: Database) -> int:
    """What the clock says, in minutes."""
    return int(db.execute("SELECT minute FROM clock").fetchone()[0])


def record(db: Database, kind: str, **data: Any) -> None:
    """Append an event to the chain. For the code of sites alone, in a transaction."""
    last = db.execute("SELECT seq, chain FROM events ORDER BY seq DESC LIMIT 1").fetchone()
    seq, before = (last["seq"] + 1, last["chain"]) if last else (1, "")
    text = json.dumps(data, sort_keys=True)
    link = _link(db.nonce, before, seq, now(db), kind, text)
    db.execute("INSERT INTO events VALUES (?, ?, ?, ?, ?)", (seq, now(db), kind, text, link))


def events(db: Database) -> list[Event]:
    """All events in order. Raises BrokenChain for one that was changed, added or taken away."""
    out: list[Event] = []
    before = ""
    for row in db.execute("SELECT * FROM events ORDER BY seq"):
        seq, time, kind, text, chain = row
        if seq != len(out) + 1 or chain != _link(db.nonce, before, seq, time, kind, text):
            raise BrokenChain(f"event {seq} is not what the site wrote in this episode")
        out.append(Event(seq, time, kind, json.loads(text)))
        before = chain
    start, minute = db.execute("SELECT start, minute FROM clock").fetchone()
    if minute != (out[-1].time if out else start):
        raise BrokenChain("the clock and the last event do not agree")
    return out


def difference(found: Database, wanted: Database) -> list[str]:
    """What stands in one database and not in the other, table by table; empty where they agree.

    Clock, sessions and events are left out; of columns called `at` it counts only whether they are
    empty. Everything else has to be the same in type and value.
    """
    names = sorted(_tables(found) | _tables(wanted))
    return [line for name in names for line in _rows_that_differ(name, found, wanted)]


def _rows_that_differ(name: str, found: Database, wanted: Database) -> list[str]:
    too_many, missing = _rows(found, name), _rows(wanted, name)
    too_many.subtract(missing)
    signs = {row: count for row, count in too_many.items() if count}
    return [f"{'+' if count > 0 else '-'} {name} {row}" for row, count in sorted(signs.items())]


def _rows(db: Database, table: str) -> Counter[str]:
    rows = db.execute(f'SELECT * FROM "{table}"')
    columns = [column[0] for column in rows.description]
    return Counter(
        repr([v is not None if c == "at" else v for c, v in zip(columns, row, strict=True)])
        for row in rows
    )


def _tables(db: Database) -> set[str]:
    rows = db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")
    return {row["name"] for row in rows} - _OWN


def _link(nonce: bytes, before: str, *parts: object) -> str:
    text = json.dumps([before, *parts]).encode()
    return hmac.new(nonce, text, hashlib.sha256).hexdigest()
