"""What the tables of an SQLite database are, in words, and all that they hold: runs inside.

The source is sent into a sandbox as it stands, with that of `inside`; it needs the standard library
alone.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Any, Protocol


class Asked(Protocol):
    """What answers statements of ours."""

    def trusted(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        """Rows of a statement, past all limits."""


def names(db: Asked) -> list[str]:
    """The tables and views that a user made, by name; temporary ones too."""
    found = db.trusted(
        "SELECT DISTINCT name FROM (SELECT name, type FROM sqlite_master UNION ALL "
        "SELECT name, type FROM sqlite_temp_master) "
        "WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite^_%' ESCAPE '^' ORDER BY name"
    )
    return [name for (name,) in found]


def quoted(name: str) -> str:
    """An identifier."""
    return '"' + name.replace('"', '""') + '"'


def tables(db: Asked) -> list[list[Any]]:
    """Name, number of columns and of rows of each table."""
    out = []
    for name in names(db):
        columns = db.trusted("SELECT count(*) FROM pragma_table_info(?)", name)[0][0]
        out.append([name, columns, db.trusted(f"SELECT count(*) FROM {quoted(name)}")[0][0]])
    return out


def describe(db: Asked, name: str) -> dict[str, Any] | None:
    """The columns of a table and its constraints, in words; None where there is none."""
    known = {one.lower(): one for one in names(db)}
    if name.lower() not in known:
        return None
    name = known[name.lower()]
    return {"columns": [*columns(db, name).items()], "constraints": constraints(db, name)}


def columns(db: Asked, name: str) -> dict[str, str]:
    """What is declared of each column."""
    out = {}
    for _, column, kind, required, default, _, hidden in db.trusted(
        "SELECT * FROM pragma_table_xinfo(?)", name
    ):
        words = [kind.upper() or "ANY"]
        words += ["NOT NULL"] if required else []
        words += [f"DEFAULT {bare(default)}"] if default is not None else []
        words += ["GENERATED"] if hidden else []
        out[column] = " ".join(words)
    return out


def bare(expression: str) -> str:
    """Without the parentheses around it."""
    text = expression.strip()
    while text.startswith("(") and text.endswith(")"):
        text = text[1:-1].strip()
    return text


def constraints(db: Asked, name: str) -> list[str]:
    """Keys, references, uniqueness, indexes and checks."""
    keys = db.trusted("SELECT name FROM pragma_table_info(?) WHERE pk ORDER BY pk", name)
    out = [f"PRIMARY KEY ({listed(keys)})"] if keys else []
    out += references(db, name)
    out += indexes(db, name)
    (sql,) = db.trusted("SELECT sql FROM sqlite_master WHERE name = ?", name) or [("",)]
    out += [f"CHECK ({text})" for text in checks(sql[0] or "")]
    return sorted(out)


def listed(rows: Iterable[tuple[Any, ...]]) -> str:
    """The first value of each row, with commas."""
    return ", ".join(str(row[0]) for row in rows)


def references(db: Asked, name: str) -> Iterator[str]:
    """Foreign keys."""
    found: dict[int, list[tuple[Any, ...]]] = {}
    for row in db.trusted("SELECT * FROM pragma_foreign_key_list(?) ORDER BY id, seq", name):
        found.setdefault(row[0], []).append(row)
    for rows in found.values():
        _, _, table, _, _, on_update, on_delete, _ = rows[0]
        here, there = ", ".join(r[3] for r in rows), ", ".join(str(r[4]) for r in rows)
        text = f"FOREIGN KEY ({here}) REFERENCES {table} ({there})"
        text += f" ON UPDATE {on_update}" if on_update != "NO ACTION" else ""
        yield text + (f" ON DELETE {on_delete}" if on_delete != "NO ACTION" else "")


def indexes(db: Asked, name: str) -> Iterator[str]:
    """Uniqueness and indexes, without the names that somebody gave them."""
    for _, index, unique, origin, partial in db.trusted(
        "SELECT * FROM pragma_index_list(?) ORDER BY name", name
    ):
        if origin == "pk":
            continue
        over = listed(db.trusted("SELECT name FROM pragma_index_info(?) ORDER BY seqno", index))
        (sql,) = db.trusted("SELECT sql FROM sqlite_master WHERE name = ?", index)
        where = sql[0].lower().partition(" where ")[2] if partial and sql[0] else ""
        yield f"{'UNIQUE' if unique else 'INDEX'} ({over}){' WHERE ' + where if where else ''}"


CHECK = re.compile(
    r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|--[^\n]*|/\*.*?\*/|\bcheck\s*\(""", re.I | re.S
)


def checks(sql: str) -> Iterator[str]:
    """The conditions of a table's CHECK clauses, with white space and quotes made alike."""
    for found in CHECK.finditer(sql):
        if found[0][:5].lower() == "check":
            inner = sql[found.end() : closing(sql, found.end())]
            yield " ".join(inner.replace('"', "").split())


def closing(sql: str, at: int) -> int:
    """Where the parenthesis that is open at a place is closed."""
    depth, quote = 1, ""
    for i in range(at, len(sql)):
        c = sql[i]
        if quote:
            quote = "" if c == quote else quote
        elif c in "'\"":
            quote = c
        else:
            depth += (c == "(") - (c == ")")
        if depth == 0:
            return i
    return len(sql)


def state(db: Asked) -> dict[str, Any]:
    """Everything: each table with its rows, and what else there is. Needs a sound database."""
    problem = db.trusted("PRAGMA integrity_check")[0][0]
    broken = db.trusted("PRAGMA foreign_key_check")
    kinds = db.trusted(
        "SELECT type || ' ' || name FROM sqlite_master WHERE type IN ('view', 'trigger') ORDER BY 1"
    )
    others = [kind for (kind,) in kinds]
    others += [f"broken: {problem}"] if problem != "ok" else []
    others += [f"a broken reference in {row[0]}" for row in broken]
    found = [row[0] for row in db.trusted("SELECT name FROM sqlite_master WHERE type = 'table'")]
    own = [name for name in found if not name.startswith("sqlite_")]
    return {"tables": {name: whole(db, name) for name in own}, "others": others}


def whole(db: Asked, name: str) -> dict[str, Any]:
    """A table's columns with their affinities, constraints and rows."""
    declared = columns(db, name)
    rows = db.trusted(f"SELECT * FROM {quoted(name)}")
    return {
        "columns": {column: by_affinity(text) for column, text in declared.items()},
        "constraints": constraints(db, name),
        "rows": rows,
    }


def by_affinity(declared: str) -> str:
    """A declaration with the type's affinity: INT and INTEGER are one."""
    kind = re.split(r" (?:NOT NULL|DEFAULT|GENERATED)", declared)[0]
    return affinity(kind) + declared[len(kind) :]


def affinity(kind: str) -> str:
    """As SQLite derives it from a declared type."""
    for name, words in (
        ("INTEGER", ("INT",)),
        ("TEXT", ("CHAR", "CLOB", "TEXT")),
        ("BLOB", ("BLOB", "ANY")),
        ("REAL", ("REAL", "FLOA", "DOUB")),
    ):
        if any(word in kind for word in words):
            return name
    return "NUMERIC"
