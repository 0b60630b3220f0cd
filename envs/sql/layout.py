"""Results as text for a model: an aligned table, and how many rows it leaves out."""

from collections.abc import Sequence

from agent_envs.verifiers.sql import Typed, Value

SHOWN = 50
"""Rows of a result."""
WIDEST = 80
"""Characters of a cell."""


def cell(value: Value) -> str:
    """A value on one line."""
    match value:
        case None:
            return "NULL"
        case bool():
            return "true" if value else "false"
        case bytes():
            text = f"x'{value.hex()}'"
        case Typed():
            text = value.text
        case _:
            text = str(value)
    text = "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
    return text if len(text) <= WIDEST else text[: WIDEST - 3] + "..."


def table(names: Sequence[str], rows: Sequence[Sequence[Value]], count: str) -> str:
    """Names, a rule, the rows, and a last line that says how many there are."""
    cells = [[cell(x) for x in row] for row in rows]
    heads = [cell(name) for name in names]
    widths = [max(map(len, column)) for column in zip(heads, *cells, strict=True)]
    right = [all(_is_number(row[i]) for row in rows) for i in range(len(heads))]
    lines = [" | ".join(map(str.ljust, heads, widths)).rstrip()]
    lines.append("-+-".join("-" * width for width in widths))
    for row in cells:
        padded = (
            text.rjust(width) if number else text.ljust(width)
            for text, width, number in zip(row, widths, right, strict=True)
        )
        lines.append(" | ".join(padded).rstrip())
    return "\n".join([*lines, f"({count})"])


def counted(shown: int, count: int, whole: bool) -> str:
    """`12 rows`, `50 of 312 rows`, `50 of over 10000 rows`."""
    if shown == count:
        return "1 row" if count == 1 else f"{count} rows"
    return f"{shown} of {'' if whole else 'over '}{count} rows"


def _is_number(value: Value) -> bool:
    return not isinstance(value, bool | str | bytes | Typed)
