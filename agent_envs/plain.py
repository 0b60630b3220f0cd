"""Plain JSON in both directions: strict reading of what a model wrote, one way out to logs."""

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, TypeAlias

MAX_DEPTH = 100
"""How deep arrays and objects may be nested, read or written."""

_DIGITS = 4000
_BITS = 13_000  # about as many as the digits above
_SPACE = frozenset(" \t\r\n")
_BLANK = re.compile(r"[ \t\r\n]*")
_TOO_DEEP = f"arrays or objects nested over {MAX_DEPTH} levels deep"


def parse_json(text: str) -> Any:
    """The value of a JSON text, as the standard has it.

    Raises ValueError, with a message of at most 300 characters, for everything else: NaN and
    infinities, integers over 4,000 digits, a key that stands twice, a lone surrogate, nesting over
    `MAX_DEPTH`.
    """
    value, end = read_json(text)
    if end != len(text):
        raise ValueError(f"something more after the JSON, at {text[end : end + 20]!r}")
    return value


def read_json(text: str, at: int = 0) -> tuple[Any, int]:
    """The JSON value that starts at `at`, and where it ends; white space around it belongs to it.

    Raises ValueError as `parse_json` does.
    """
    start = _after_blank(text, at)
    try:
        value, end = _DECODER.raw_decode(text, start)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    except json.JSONDecodeError as error:
        found = text[error.pos : error.pos + 20]
        where = repr(found) if found else "the end of the text"
        raise ValueError(f"{error.msg.removesuffix(' at').rstrip(': ')} at {where}") from None
    if text.count("[", start, end) + text.count("{", start, end) > MAX_DEPTH:
        _check_depth(value, MAX_DEPTH)
    if (not text.isascii() or "\\u" in text) and has_lone_surrogate(value):
        raise ValueError("a lone surrogate, which is no character")
    return value, _after_blank(text, end)


def has_lone_surrogate(value: Any) -> bool:
    """Whether a JSON value holds a string that UTF-8 cannot write."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return True
    return False


def _no_json(value: Any) -> Any:
    raise TypeError(f"no JSON form for a {type(value).__name__}")


Default: TypeAlias = Callable[[Any], Any]


def to_plain(value: Any, default: Default = _no_json) -> Any:
    """`value` as dicts, lists, strings, numbers, booleans and None: what `json.dumps` takes.

    Objects with a `to_dict` of their own say it themselves; other dataclasses become dicts of their
    fields; numpy scalars and arrays become numbers and lists; sets become sorted lists. What JSON
    has not becomes a string: infinities and NaN their names, integers over 4,000 digits their
    hexadecimal form, what is nested over `MAX_DEPTH` a remark. For anything else there is
    `default`, by default a TypeError.
    """
    return _to_plain(value, MAX_DEPTH, default)


def _to_plain(value: Any, depth: int, default: Default) -> Any:
    if value is None or isinstance(value, str | bool):
        return value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else repr(float(value))
    if isinstance(value, int):
        return int(value) if value.bit_length() <= _BITS else hex(value)
    if depth == 0:
        return f"({_TOO_DEEP})"
    if isinstance(value, Mapping):
        return _plain_dict(value, depth - 1, default)
    if isinstance(value, list | tuple):
        return [_to_plain(x, depth - 1, default) for x in value]
    if isinstance(value, set | frozenset):
        return sorted((_to_plain(x, depth - 1, default) for x in value), key=repr)
    if hasattr(value, "to_dict"):
        return _to_plain(value.to_dict(), depth - 1, default)
    if is_dataclass(value) and not isinstance(value, type):
        own = {f.name: getattr(value, f.name) for f in fields(value)}
        return _plain_dict(own, depth - 1, default)
    if hasattr(value, "tolist"):
        return _to_plain(value.tolist(), depth - 1, default)
    return default(value)


def _plain_dict(value: Mapping[Any, Any], depth: int, default: Default) -> dict[str, Any]:
    out = {str(k): _to_plain(x, depth, default) for k, x in value.items()}
    if len(out) != len(value):
        raise TypeError(f"no JSON form for a dict with two keys of one name: {sorted(out)[:9]}")
    return out


def _check_depth(value: Any, depth: int) -> None:
    if isinstance(value, dict | list):
        if depth == 0:
            raise ValueError(_TOO_DEEP)
        for inner in value.values() if isinstance(value, dict) else value:
            _check_depth(inner, depth - 1)


def _after_blank(text: str, at: int) -> int:
    if text[at : at + 1] not in _SPACE:
        return at
    blank = _BLANK.match(text, at)
    return blank.end() if blank else at


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out = dict(pairs)
    if len(out) != len(pairs):
        [(twice, _)] = Counter(name for name, _ in pairs).most_common(1)
        raise ValueError(f"the key {twice[:20]!r} stands twice in an object")
    return out


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"the number {text[:20]} is too large")
    return value


def _whole(text: str) -> int:
    if len(text) > _DIGITS:
        raise ValueError(f"the number {text[:20]}... has over {_DIGITS:,} digits")
    return int(text)


_DECODER = json.JSONDecoder(
    object_pairs_hook=_unique, parse_constant=_refuse, parse_float=_finite, parse_int=_whole
)
