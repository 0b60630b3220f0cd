"""What this package raises, and what the messages have in common.

    RuntimeError
    |-- BackendUnavailable     something of ours is down; says the command that fixes it
    `-- SnapshotUnsupported    a state that cannot be captured or brought back, by name
    Exception
    `-- ToolError              raised inside a tool: its message is what the model reads

A model's own mistakes are never exceptions: they are observations (`ToolResult.error`).

A caller's are Python's own: ValueError or KeyError for an argument that cannot be, TypeError for
something else than the object that a method takes.
"""

import difflib
import math
import operator
from collections.abc import Iterable
from numbers import Real
from typing import Any


class BackendUnavailable(RuntimeError):
    """Something that the environment needs is missing or down. It is never the model's doing.

    Raised at `make` or `reset` it reaches the caller; raised in mid-episode it truncates the
    episode with `info["infrastructure_error"]`, which no trainer may learn from.
    """


class SnapshotUnsupported(RuntimeError):
    """A state that cannot be captured, or brought back. The message names what is in the way."""


class ToolError(Exception):
    """A tool's way of saying that a call did not work out; the model reads the message."""


def near(given: str, known: Iterable[str]) -> str:
    """` (did you mean 'x'?)` with the one of the known words that is most like a given one, for the
    end of a message; nothing where none is."""
    found = difflib.get_close_matches(given, list(known), 1)
    return f" (did you mean {found[0]!r}?)" if found else ""


def whole(name: str, value: Any, least: int | None = None, of: str = "") -> int:
    """An argument that is a whole number (of what `of` says), as a plain int. Raises ValueError
    where it is none, or below `least`."""
    try:
        number = operator.index(value)
    except TypeError:
        number = None
    if number is None or isinstance(value, bool) or (least is not None and number < least):
        unit, from_where = of and f" of {of}", "" if least is None else f" from {least} up"
        raise ValueError(f"{name}={value!r}: a whole number{unit}{from_where}")
    return number


def seconds_of(name: str, value: Any) -> float:
    """An argument that is a time in seconds. Raises ValueError for what no wait can last: anything
    but a finite number above 0."""
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    if not is_number or not 0 < value < math.inf:
        raise ValueError(f"{name}={value!r}: a number of seconds above 0")
    return float(value)
