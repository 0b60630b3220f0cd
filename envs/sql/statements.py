"""Reading SQL text just far enough: where a statement ends, what it begins with."""

import re
from collections.abc import Iterator

LONGEST = 20_000
"""Characters of a query or script."""

_SKIPPED = re.compile(
    r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|`(?:[^`]|``)*`|\[[^\]\n]*\]
    |--[^\n]*|/\*.*?\*/|\$(?P<tag>\w*)\$.*?\$(?P=tag)\$""",
    re.DOTALL | re.VERBOSE,
)
"""What is no syntax: texts, quoted names, comments."""
_COMMENT = re.compile(r"\s*(?:--[^\n]*(?:\n|$)|/\*.*?(?:\*/|$))", re.DOTALL)
_WORD = re.compile(r"\s*([A-Za-z_]+)")
_FENCE = re.compile(r"\s*```[a-zA-Z]*[ \t]*\n(.*?)\n?[ \t]*```\s*", re.DOTALL)
_PIECE = re.compile(rf"({_SKIPPED.pattern})|(;)", re.DOTALL | re.VERBOSE)

READS = frozenset({"SELECT", "WITH", "VALUES"})
"""What a query begins with."""


def split(script: str) -> list[str]:
    """The statements of a script, without their semicolons, and without empty ones."""
    parts, start = [], 0
    for found in _PIECE.finditer(script):
        if found[0] == ";":
            parts.append(script[start : found.start()])
            start = found.end()
    return [text.strip() for text in (*parts, script[start:]) if first_word(text)]


def first_word(statement: str) -> str:
    """The keyword that a statement begins with, in capitals; empty where there is none."""
    at = 0
    while comment := _COMMENT.match(statement, at):
        at = comment.end()
    word = _WORD.match(statement, at)
    if word:
        return word[1].upper()
    return statement[at:].strip()[:1]


def bare(statement: str) -> str:
    """A statement with what is no syntax replaced by blanks, place for place."""
    return _SKIPPED.sub(lambda found: " " * len(found[0]), statement)


def answered(answer: str) -> str:
    """The query in a final answer: all of it, or all that stands in its one code fence."""
    fenced = _FENCE.fullmatch(answer)
    return fenced[1] if fenced and "```" not in fenced[1] else answer


def one_query(answer: str) -> str:
    """The one query that an answer is. Raises ValueError, which says what is wrong."""
    text = answered(answer)
    if len(text) > LONGEST:
        raise ValueError(f"a query has at most {LONGEST:,} characters")
    found = split(text)
    if len(found) != 1:
        raise ValueError(f"{len(found)} statements; the answer is one query")
    if first_word(found[0]) not in READS:
        raise ValueError(f"the answer begins with one of {', '.join(sorted(READS))}")
    return found[0]


def words(statement: str) -> Iterator[tuple[str, int, int]]:
    """The words of a statement outside texts, in capitals, with place and depth of parentheses."""
    depth = 0
    for found in re.finditer(r"[A-Za-z_][A-Za-z_0-9]*|[()]", bare(statement)):
        if found[0] == "(":
            depth += 1
        elif found[0] == ")":
            depth -= 1
        else:
            yield found[0].upper(), found.start(), depth
