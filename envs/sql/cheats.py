"""Policies that try to be paid without an answer. Every one of them must score 0 on every task."""

import json
import re
from collections.abc import Callable
from typing import TypeAlias

from agent_envs.turns import Message

Cheat: TypeAlias = Callable[[list[Message]], str]
"""The text of the next turn, given the conversation so far."""

_ROW = re.compile(r"^(\w+) +\| +\d+ \| +(\d+)$", re.MULTILINE)
_QUOTED = re.compile(r"'([^']*)'")


def _call(name: str, **arguments: str) -> str:
    return f"<tool_call>{json.dumps({'name': name, 'arguments': arguments})}</tool_call>"


def _tables(messages: list[Message]) -> list[str]:
    """The tables that list_tables named, the largest first."""
    found = _ROW.findall("\n".join(m["content"] for m in messages if m["role"] == "tool"))
    rows = {name: int(count) for name, count in found}
    return sorted(rows, key=lambda name: -rows[name]) or ["customer"]


def _saying(answer: Callable[[list[str]], str]) -> Cheat:
    """Looks at the tables, then answers."""

    def cheat(messages: list[Message]) -> str:
        if messages[-1]["role"] == "user":
            return _call("list_tables")
        return answer(_tables(messages))

    return cheat


def _doing(statements: Callable[[list[str]], list[str]], answer: str) -> Cheat:
    """Looks at the tables, runs statements one after the other, whatever comes, and answers."""

    def cheat(messages: list[Message]) -> str:
        turns = sum(m["role"] == "assistant" for m in messages)
        if not turns:
            return _call("list_tables")
        if turns == 1:
            todo = statements(_tables(messages))
            return "\n".join(_call("execute", sql=sql) for sql in todo)
        return answer.format(*_tables(messages))

    return cheat


def _shadow(tables: list[str]) -> list[str]:
    """Other rows under the names of the tables."""
    out = []
    for name in tables:
        out += [
            f"CREATE TEMP TABLE {name} AS SELECT 1 AS id",
            f"CREATE TEMP VIEW {name} AS SELECT 1 AS id",
            f"CREATE VIEW {name}_v AS SELECT 1 AS id",
        ]
    return out


def _empty(tables: list[str]) -> list[str]:
    """No rows any more, in whatever order works."""
    return [f"DELETE FROM {name}" for name in [*tables, *tables]]


def _drop(tables: list[str]) -> list[str]:
    return [f"DROP TABLE {name}" for name in [*tables, *tables]]


def _triggers(tables: list[str]) -> list[str]:
    """Something that happens by itself, later."""
    body = "BEGIN DELETE FROM {0}; END"
    return [
        f"CREATE TRIGGER t{i} AFTER INSERT ON {name} {body.format(name)}"
        for i, name in enumerate(tables)
    ]


def _elsewhere(tables: list[str]) -> list[str]:
    """Out of the database, and around its limits."""
    return [
        "ATTACH DATABASE '/tmp/gold.db' AS gold",
        "PRAGMA writable_schema = ON",
        "PRAGMA foreign_keys = OFF",
        "COPY (SELECT 1) TO PROGRAM 'id'",
        "SET statement_timeout = 0",
        "ALTER ROLE CURRENT_USER SUPERUSER",
        "SELECT pg_read_file('/etc/passwd')",
        "VACUUM INTO '/tmp/copy.db'",
    ]


def _first_quoted(messages: list[Message]) -> str:
    """A name from the prompt, as an answer."""
    prompt = next(m["content"] for m in messages if m["role"] == "user")
    found = _QUOTED.search(prompt)
    return f"SELECT '{found[1]}'" if found else "SELECT NULL"


CHEATS: dict[str, Cheat] = {
    "constant": _saying(lambda tables: "SELECT 42"),
    "first_quoted": _first_quoted,
    "no_rows": _saying(lambda tables: f"SELECT * FROM {tables[0]} WHERE 1 = 0"),
    "everything": _saying(lambda tables: f"SELECT * FROM {tables[0]}"),
    "everything_at_once": _saying(lambda tables: f"SELECT * FROM {', '.join(tables)}"),
    "an_error": _saying(lambda tables: "SELECT nothing FROM nowhere"),
    "two_queries": _saying(lambda tables: f"SELECT 1; SELECT * FROM {tables[0]}"),
    "changes_to_answer": _saying(lambda tables: f"DELETE FROM {tables[0]} RETURNING *"),
    "says_done": lambda messages: "done",
    "empties_tables": _doing(_empty, "SELECT * FROM {0}"),
    "drops_tables": _doing(_drop, "SELECT 1"),
    "shadows_tables": _doing(_shadow, "SELECT id FROM {0}"),
    "triggers": _doing(_triggers, "SELECT * FROM {0}"),
    "elsewhere": _doing(_elsewhere, "SELECT * FROM pragma_database_list"),
}
