"""Wrong variants of a query, one slip each: what hidden data have to tell from the right one."""

import re
from collections.abc import Iterator

from agent_envs.envs.sql.statements import bare, words

_CLAUSES = frozenset(
    "FROM WHERE GROUP HAVING ORDER LIMIT OFFSET UNION EXCEPT INTERSECT WINDOW RETURNING".split()
)
_COMPARISONS = (
    (r"(?<![<>!=])>(?![=<>])", ">="),
    (r"(?<![<>!=])<(?![=<>])", "<="),
    (r">=", ">"),
    (r"<=", "<"),
)


def mutants(sql: str) -> list[str]:
    """Variants of a query, each once, the query itself never among them."""
    found = [*dropped(sql), *distinct(sql), *ordered(sql), *compared(sql), *combined(sql)]
    return [text for text in dict.fromkeys(found) if text != sql]


def dropped(sql: str) -> Iterator[str]:
    """Without one of the conditions of a WHERE, or without a HAVING."""
    for start, end in clauses(sql, "WHERE"):
        parts = conjuncts(sql, start + len("WHERE"), end)
        for left_out in range(len(parts)):
            kept = [text for i, text in enumerate(parts) if i != left_out]
            where = f"WHERE {' AND '.join(kept)} " if kept else ""
            yield sql[:start] + where + sql[end:]
    for start, end in clauses(sql, "HAVING"):
        yield sql[:start] + sql[end:]


def distinct(sql: str) -> Iterator[str]:
    """With a DISTINCT more or less."""
    for word in re.finditer(r"\bDISTINCT\s+", bare(sql), re.I):
        yield sql[: word.start()] + sql[word.end() :]
    first = re.match(r"\s*SELECT\s+(?!DISTINCT\b)", sql, re.I)
    if first:
        yield f"{sql[: first.end()]}DISTINCT {sql[first.end() :]}"


def ordered(sql: str) -> Iterator[str]:
    """In another order, or of another length."""
    for start, end in clauses(sql, "ORDER")[-1:]:
        yield sql[:start] + sql[end:]
        terms = sql[start:end]
        if re.search(r"\bDESC\b", bare(terms), re.I):
            flipped = re.sub(r"\bDESC\b( NULLS (?:FIRST|LAST))?", "ASC", terms, count=1, flags=re.I)
        else:
            first, _, rest = terms.partition(",")
            head = re.sub(r"\s+(?:ASC\b.*|NULLS \w+\s*)$", "", first.rstrip(), flags=re.I)
            flipped = f"{head} DESC{',' + rest if rest else ' '}"
        yield sql[:start] + flipped + sql[end:]
    for start, end in clauses(sql, "LIMIT")[-1:]:
        count = re.search(r"\d+", sql[start:end])
        if count:
            for other in (int(count[0]) + 1, int(count[0]) - 1):
                yield f"{sql[:start]}LIMIT {other} {sql[end:]}"
        yield sql[:start] + sql[end:]


def compared(sql: str) -> Iterator[str]:
    """With a comparison that is off by its border."""
    syntax = bare(sql)
    for pattern, other in _COMPARISONS:
        for found in re.finditer(pattern, syntax):
            yield sql[: found.start()] + other + sql[found.end() :]


def combined(sql: str) -> Iterator[str]:
    """With another join, or another set operation."""
    syntax = bare(sql)
    for pattern, other in (
        (r"\bLEFT (?:OUTER )?JOIN\b", "JOIN"),
        (r"(?<!LEFT )(?<!OUTER )\bJOIN\b", "LEFT JOIN"),
        (r"\bUNION\b(?! ALL)", "UNION ALL"),
        (r"\bEXCEPT\b", "UNION"),
        (r"\bINTERSECT\b", "UNION"),
    ):
        for found in re.finditer(pattern, syntax, re.I):
            yield sql[: found.start()] + other + sql[found.end() :]


def clauses(sql: str, keyword: str) -> list[tuple[int, int]]:
    """Where each clause of a kind starts and ends, those of nested queries first."""
    tokens = [*words(sql)]
    found = []
    for i, (word, start, depth) in enumerate(tokens):
        if word != keyword or (keyword == "ORDER" and _is_in_window(sql, start)):
            continue
        ends = [at for w, at, d in tokens[i + 1 :] if d == depth and w in _CLAUSES]
        close = _closing(sql, start)
        found.append((depth, start, min([*ends, close])))
    return [(start, end) for _, start, end in sorted(found, reverse=True)]


def _is_in_window(sql: str, at: int) -> bool:
    """Whether an ORDER BY belongs to a window or an aggregate."""
    inside, syntax = 0, bare(sql)
    for i in range(at - 1, -1, -1):
        inside += (syntax[i] == ")") - (syntax[i] == "(")
        if inside < 0:
            return not re.match(r"\(\s*(?:SELECT|WITH)\b", syntax[i:], re.I)
    return False


def _closing(sql: str, at: int) -> int:
    """Where what is open around a place is closed."""
    depth = 0
    for i, c in enumerate(bare(sql)[at:], at):
        depth += (c == "(") - (c == ")")
        if depth < 0:
            return i
    return len(sql.rstrip().rstrip(";"))


def conjuncts(sql: str, start: int, end: int) -> list[str]:
    """The conditions of a stretch of SQL that are joined by AND."""
    parts, at, between = [], start, False
    for word, place, depth in words(sql[start:end]):
        if depth == 0 and word == "BETWEEN":
            between = True
        elif depth == 0 and word == "AND" and between:
            between = False
        elif depth == 0 and word == "AND":
            parts.append(sql[at : start + place].strip())
            at = start + place + len("AND")
    return [*parts, sql[at:end].strip()]
