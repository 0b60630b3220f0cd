"""What a query orders by, as columns of its result: so that ties can be told."""

import re

from agent_envs.envs.sql.mutants import clauses
from agent_envs.envs.sql.statements import bare, words

_TAIL = re.compile(r"\s+(?:ASC|DESC|NULLS\s+(?:FIRST|LAST))\b", re.IGNORECASE)
_ALIAS = re.compile(r"(.*\S)\s+AS\s+\"?(\w+)\"?\s*", re.IGNORECASE | re.DOTALL)


def is_ordered(sql: str) -> bool:
    """Whether the outermost query has an ORDER BY."""
    return _order(sql) is not None


def with_keys(sql: str) -> tuple[str, int]:
    """The query with what it orders by behind its columns, and how many keys these are.

    Raises ValueError where it has no order, or one that cannot be read."""
    order = _order(sql)
    listed = _listed(sql)
    if order is None or listed is None:
        raise ValueError("no ORDER BY that can be read")
    items = _parts(sql, *listed)
    head = re.match(r"ORDER\s+BY", sql[order[0] :], re.IGNORECASE)
    assert head is not None
    terms = _parts(sql, order[0] + head.end(), order[1])
    keys = [_key(_TAIL.sub("", bare_of(term)), items) for term in terms]
    return f"{sql[: listed[1]].rstrip()}, {', '.join(keys)} {sql[listed[1] :]}", len(keys)


def bare_of(term: str) -> str:
    """A term without white space around it."""
    return f" {term} ".rstrip()


def _key(term: str, items: list[str]) -> str:
    """The expression that a term of an ORDER BY stands for."""
    term = term.strip()
    if term.isdigit() and 0 < int(term) <= len(items):
        return _expression(items[int(term) - 1])
    for item in items:
        alias = _ALIAS.fullmatch(item)
        if alias and alias[2].lower() == term.strip('"').lower():
            return alias[1]
    return term


def _expression(item: str) -> str:
    alias = _ALIAS.fullmatch(item)
    return alias[1] if alias else item


def _order(sql: str) -> tuple[int, int] | None:
    """Where the outermost ORDER BY stands."""
    outer = [span for span in clauses(sql, "ORDER") if _depth(sql, span[0]) == 0]
    return outer[-1] if outer else None


def _listed(sql: str) -> tuple[int, int] | None:
    """Where the columns of the outermost SELECT stand."""
    tokens = [(word, at) for word, at, depth in words(sql) if depth == 0]
    starts = [at for word, at in tokens if word == "SELECT"]
    ends = [at for word, at in tokens if word == "FROM"]
    if len(starts) != 1 or len(ends) != 1:
        return None
    start = starts[0] + len("SELECT")
    distinct = re.match(r"\s+DISTINCT\b", sql[start:], re.IGNORECASE)
    return start + (distinct.end() if distinct else 0), ends[0]


def _depth(sql: str, at: int) -> int:
    before = bare(sql)[:at]
    return before.count("(") - before.count(")")


def _parts(sql: str, start: int, end: int) -> list[str]:
    """A stretch of SQL cut at its own commas."""
    parts, depth, begin = [], 0, start
    for i, c in enumerate(bare(sql)[start:end], start):
        depth += (c == "(") - (c == ")")
        if c == "," and depth == 0:
            parts.append(sql[begin:i].strip())
            begin = i + 1
    return [*parts, sql[begin:end].strip()]
