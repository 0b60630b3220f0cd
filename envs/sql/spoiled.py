"""Wrong and truncated results that look like sound ones."""

import re

from agent_envs.envs.sql.layout import counted

_RULE = re.compile(r"-+(?:-\+-+)*")
_COUNT = re.compile(r"\((\d+)( of (?:over )?\d+)? rows?\)")
_LAST_DIGIT = re.compile(r"[0-9](?![0-9])")
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


def spoiled(kind: str, content: str, u: float) -> str:
    """Another digit or letter in a row of a table; or fewer rows. Unchanged where there is none."""
    lines = content.split("\n")
    start, end = _rows(lines)
    if kind == "truncated":
        return "\n".join(_shortened(lines, start, end, u)) if end > start else content
    if end == start:
        return _another(content, _places(content, 0), u)
    before = sum(len(line) + 1 for line in lines[:start])
    after = before + sum(len(line) + 1 for line in lines[start:end])
    places = _places(content[:after], before)
    return _another(content, places, u)


def _rows(lines: list[str]) -> tuple[int, int]:
    """Where the rows of the last table start and end; the same place where there are none."""
    rules = [i for i, line in enumerate(lines) if _RULE.fullmatch(line) and i]
    if not rules:
        return 0, 0
    start = rules[-1] + 1
    ends = [i for i in range(start, len(lines)) if lines[i].startswith("(")]
    return start, (ends[0] if ends else len(lines))


def _places(text: str, start: int) -> list[int]:
    """The last digits of numbers from a place on, or else the letters."""
    digits = [found.start() for found in _LAST_DIGIT.finditer(text, start)]
    return digits or [i for i in range(start, len(text)) if text[i].lower() in _LETTERS]


def _another(text: str, places: list[int], u: float) -> str:
    if not places:
        return text
    place = places[int(u * len(places))]
    old = text[place]
    if old.isdigit():
        pool = "123456789" if old != "0" and not text[place - 1 : place].isdigit() else "0123456789"
    else:
        pool = _LETTERS if old.islower() else _LETTERS.upper()
    others = pool.replace(old, "")
    return text[:place] + others[int(u * 7919) % len(others)] + text[place + 1 :]


def _shortened(lines: list[str], start: int, end: int, u: float) -> list[str]:
    """Without the last rows, and with a count that agrees."""
    kept = int(u * (end - start))
    rest = list(lines[end:])
    found = _COUNT.fullmatch(rest[0]) if rest else None
    if found:
        more = found[2] or ""
        rest[0] = f"({kept}{more} rows)" if more else f"({counted(kept, kept, True)})"
    return [*lines[:start], *lines[start : start + kept], *rest]
