"""What runs inside a sandbox: one SQLite database in memory, behind limits.

Only SQL of others runs here, never their Python; all the same the host believes nothing but plain
values. The source is sent in as it stands, so it needs the standard library alone.
"""

import contextlib
import json
import os
import random
import sqlite3
import time
from collections.abc import Callable, Iterator
from typing import Any

from agent_envs.envs.sql import catalogue

NOW = "2025-06-30 12:00:00"
"""What every clock function says."""
EVERY = 1000
"""Instructions of SQLite's machine between two looks at the budget."""
PER_SECOND = 40_000_000
"""Instructions that count as a second: so a statement ends at the same point on every machine."""
HEAP_ROOM = 64 << 20
"""Bytes of heap beside twice the database."""

LIMITS = {
    sqlite3.SQLITE_LIMIT_LENGTH: 1_000_000,
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: 100_000,
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
    sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 100,
    sqlite3.SQLITE_LIMIT_COMPOUND_SELECT: 50,
    sqlite3.SQLITE_LIMIT_VDBE_OP: 250_000,
    sqlite3.SQLITE_LIMIT_FUNCTION_ARG: 32,
    sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 1000,
    sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH: 10,
    sqlite3.SQLITE_LIMIT_WORKER_THREADS: 0,
}

READING = {
    sqlite3.SQLITE_SELECT,
    sqlite3.SQLITE_READ,
    sqlite3.SQLITE_RECURSIVE,
}
CHANGING = READING | {
    sqlite3.SQLITE_INSERT,
    sqlite3.SQLITE_UPDATE,
    sqlite3.SQLITE_DELETE,
    sqlite3.SQLITE_TRANSACTION,
    sqlite3.SQLITE_SAVEPOINT,
    sqlite3.SQLITE_CREATE_TEMP_TABLE,
    sqlite3.SQLITE_DROP_TEMP_TABLE,
    sqlite3.SQLITE_CREATE_TEMP_INDEX,
    sqlite3.SQLITE_DROP_TEMP_INDEX,
}
MIGRATING = CHANGING | {
    sqlite3.SQLITE_CREATE_TABLE,
    sqlite3.SQLITE_DROP_TABLE,
    sqlite3.SQLITE_ALTER_TABLE,
    sqlite3.SQLITE_CREATE_INDEX,
    sqlite3.SQLITE_DROP_INDEX,
    sqlite3.SQLITE_REINDEX,
}
MAY = {"query": READING, "change": CHANGING, "migrate": MIGRATING}
"""What statements of each kind may do."""
PRAGMAS = {
    "table_info",
    "table_xinfo",
    "table_list",
    "index_list",
    "index_info",
    "foreign_key_list",
}
"""Those that only tell, with the pragma functions of the same names."""
REFUSED = {"load_extension", "fts3_tokenizer", "readfile", "writefile", "edit", "zipfile"}
CATALOGUE = {"sqlite_master", "sqlite_schema", "sqlite_sequence"}
WRITING = {sqlite3.SQLITE_INSERT, sqlite3.SQLITE_UPDATE, sqlite3.SQLITE_DELETE}


class Budget:
    """What a statement may use: a number of instructions, and CPU time as a second line."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.start()

    def start(self) -> None:
        """Begin anew."""
        self.left = int(self.seconds * PER_SECOND / EVERY)
        self.end = time.process_time() + self.seconds

    def __call__(self) -> bool:
        self.left -= 1
        return self.left < 0 or time.process_time() > self.end


class Database:
    """A database in memory, a copy of serialized bytes."""

    def __init__(self, data: bytes, seconds: float) -> None:
        self.connection = sqlite3.connect(":memory:", isolation_level=None)
        self.connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
        self.may = MAY["query"]
        copy_into(self.connection, data)
        self.budget = Budget(seconds)
        fix_functions(self.connection)
        restrict(self.connection, 2 * len(data) + HEAP_ROOM)
        self.connection.set_progress_handler(self.budget, EVERY)
        self.connection.set_authorizer(self.allows)

    def allows(self, action: int, one: str | None, two: str | None, *_: object) -> int:
        """SQLite's question whether a statement may do something."""
        return sqlite3.SQLITE_OK if self._may(action, one or "", two or "") else sqlite3.SQLITE_DENY

    def _may(self, action: int, one: str, two: str) -> bool:
        if action == sqlite3.SQLITE_FUNCTION:
            return two.lower() not in REFUSED
        if action == sqlite3.SQLITE_PRAGMA:
            return one.lower() in PRAGMAS
        if action in WRITING and one.lower() in CATALOGUE and self.may is not MAY["migrate"]:
            return False
        return action in self.may

    def run(self, kind: str, statements: list[str], most: int, cut: int) -> dict[str, Any]:
        """Run statements up to the first that fails; each with the outcome that it had.

        `most`: rows that are kept of a result; `cut`: characters of a text in it.
        """
        self.may = MAY[kind]
        done: list[dict[str, Any]] = []
        for statement in statements:
            done.append(self._one(statement, most, cut))
            if "error" in done[-1]:
                break
        return {"done": done, "open": self.connection.in_transaction}

    def _one(self, statement: str, most: int, cut: int) -> dict[str, Any]:
        self.budget.start()
        try:
            cursor = self.connection.execute(statement)
            if cursor.description is None:
                return {"changed": max(0, cursor.rowcount)}
            rows, count, whole = take(cursor, most, cut)
            cursor.close()
            names = [column[0] for column in cursor.description or ()]
        except MemoryError:
            return {"error": "out of memory"}
        except sqlite3.OperationalError as error:
            return {"error": str(error), "timeout": str(error) == "interrupted"}
        except (sqlite3.Error, sqlite3.Warning, ValueError, OverflowError) as error:
            return {"error": str(error)}
        return {"columns": names, "rows": rows, "count": count, "whole": whole}

    def trusted(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        """Rows of a statement of ours, past all limits."""
        with self.unguarded():
            return self.connection.execute(sql, values).fetchall()

    @contextlib.contextmanager
    def unguarded(self) -> Iterator[None]:
        """Past the limits, for what is ours."""
        self.connection.set_authorizer(None)
        self.connection.set_progress_handler(None, 0)
        try:
            yield
        finally:
            self.connection.set_progress_handler(self.budget, EVERY)
            self.connection.set_authorizer(self.allows)

    def committed(self) -> bytes:
        """The database as a new connection would find it: what is in an open transaction is not."""
        with self.unguarded():
            if self.connection.in_transaction:
                self.connection.execute("ROLLBACK")
            return self.connection.serialize()


def take(cursor: Any, most: int, cut: int) -> tuple[list[list[Any]], int, bool]:
    """The first rows, how many there are in all, and whether that was counted to the end."""
    rows: list[list[Any]] = []
    count, size = 0, 0
    for row in cursor:
        count += 1
        if count <= most and size < MOST_BYTES:
            rows.append([plain(x, cut) for x in row])
            size += sum(len(x) if isinstance(x, str) else 8 for x in rows[-1])
        if count >= MOST_COUNTED:
            return rows, count, False
    return rows, count, True


MOST_COUNTED = 50_000
MOST_BYTES = 3_000_000


def plain(value: Any, cut: int) -> Any:
    """A value as JSON has it; what JSON has not is an object of one key."""
    if isinstance(value, str) and len(value) > cut:
        return value[:cut] + "..."
    if isinstance(value, bytes):
        return {"bytes": value[:cut].hex()}
    if isinstance(value, float) and value - value != 0:
        return {"float": str(value)}
    return value


def copy_into(connection: sqlite3.Connection, data: bytes) -> None:
    """Fill an empty database from serialized bytes: a plain one in memory, with its journal."""
    source = sqlite3.connect(":memory:")
    source.deserialize(data)
    source.backup(connection)
    source.close()


def restrict(connection: sqlite3.Connection, heap: int) -> None:
    """Set what holds for all statements."""
    for pragma in (
        "foreign_keys=ON",
        "temp_store=MEMORY",
        "cell_size_check=ON",
        "recursive_triggers=OFF",
        f"hard_heap_limit={heap}",
    ):
        connection.execute(f"PRAGMA {pragma}").fetchall()
    for limit, most in LIMITS.items():
        connection.setlimit(limit, most)


def fix_functions(connection: sqlite3.Connection) -> None:
    """Clocks stand still, and chance is the same in every run; both go with a snapshot."""
    chance = random.Random(0)
    connection.create_function("random", 0, lambda: chance.getrandbits(64) - (1 << 63))
    connection.create_function("randomblob", 1, lambda n: chance.randbytes(max(1, min(n, 10**6))))
    native = sqlite3.connect(":memory:")
    for name in ("date", "time", "datetime", "julianday", "unixepoch", "strftime"):
        at = 1 if name == "strftime" else 0
        connection.create_function(name, -1, still(native, name, at), deterministic=True)
    for name, start, end in (("date", 0, 10), ("time", 11, None), ("timestamp", 0, None)):
        fixed = NOW[start:end]
        connection.create_function(f"current_{name}", 0, lambda x=fixed: x, deterministic=True)


def still(native: sqlite3.Connection, name: str, at: int) -> Callable[..., Any]:
    """A date function for which it is always `NOW`; `at` is where its time value stands."""

    def function(*given: Any) -> Any:
        args = [*given, NOW] if len(given) == at else list(given)
        if len(args) > at and isinstance(args[at], str) and args[at].strip().lower() == "now":
            args[at] = NOW
        marks = ", ".join("?" * len(args))
        return native.execute(f"SELECT {name}({marks})", args).fetchone()[0]

    return function


# -- what the host calls ---------------------------------------------------------------------------


def read(path: str, sizes: list[int]) -> list[bytes]:
    """The parts of a file that the host left; the file goes."""
    with open(path, "rb") as file:
        parts = [file.read(size) for size in sizes]
    os.unlink(path)
    return parts


def say(answer: Any) -> None:
    """Print an answer as one JSON value."""
    print(json.dumps(answer))


def ask_all(databases: list[bytes], query: str, seconds: float, most: int) -> list[dict[str, Any]]:
    """What a query gives on each database, each a fresh copy; after a failure no more are asked."""
    out: list[dict[str, Any]] = []
    for data in databases:
        if out and "error" in out[-1]:
            out.append(out[-1])
            continue
        db = Database(data, seconds)
        out.append(db.run("query", [query], most, 10**9)["done"][0])
        db.connection.close()
    return out


def tables(db: Database) -> list[list[Any]]:
    """Name, number of columns and of rows of each table."""
    return catalogue.tables(db)


def describe(db: Database, name: str) -> dict[str, Any] | None:
    """A table's columns and constraints in words; None where there is none."""
    return catalogue.describe(db, name)


def state(data: bytes, seconds: float) -> dict[str, Any]:
    """Everything that the bytes of a database hold."""
    found = catalogue.state(Database(data, seconds))
    for table in found["tables"].values():
        table["rows"] = [[plain(x, 10**9) for x in row] for row in table["rows"]]
    return found


def after(data: bytes, statements: list[str], seconds: float) -> dict[str, Any]:
    """The state that statements leave; `error` is why they did not all work. A ROLLBACK may stand
    among them."""
    db = Database(data, seconds)
    last = db.run("migrate", statements, 0, 0)["done"][-1]
    return {"error": last["error"]} if "error" in last else state(db.committed(), seconds)
