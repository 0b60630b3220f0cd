"""Plain JSON in both directions: strict reading of what a model wrote, one way out to logs."""

import json
import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any


def parse_json(text: str) -> Any:
    """The value of a JSON text, as the standard has it.

    Raises ValueError for everything else: NaN and infinities, numbers too long, a key that stands
    twice, a lone surrogate, nesting too deep for the interpreter.
    """
    try:
        value = JSON.decode(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if "\\u" in text and has_lone_surrogate(value):
        raise ValueError("a lone surrogate")
    return value


def has_lone_surrogate(value: Any) -> bool:
    """Whether a parsed JSON value holds a string that UTF-8 cannot write."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return True
    return False


def to_plain(value: Any) -> Any:
    """`value` as dicts, lists, strings, numbers, booleans and None: what `json.dumps` takes.

    Objects with a `to_dict` of their own say it themselves; other dataclasses become dicts of their
    fields; numpy scalars and arrays become numbers and lists; infinities and NaN, which JSON
    has not, become their names. Anything else is a TypeError.
    """
    if isinstance(value, float) and not math.isfinite(value):
        return repr(value)
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, Mapping):
        return {str(k): to_plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [to_plain(v) for v in value]
    if hasattr(value, "to_dict"):
        return to_plain(value.to_dict())
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: to_plain(getattr(value, f.name)) for f in fields(value)}
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"no JSON form for a {type(value).__name__}")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out = dict(pairs)
    if len(out) != len(pairs):
        raise ValueError("a key stands twice")
    return out


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _finite(text: str) -> float:
    value = float(text)
    if value - value != 0:
        raise ValueError(f"{text[:20]} is too large")
    return value


JSON = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_refuse, parse_float=_finite)
"""The strict decoder behind `parse_json`; `raw_decode` reads a value out of a longer text."""
