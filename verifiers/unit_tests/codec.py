"""Plain values as JSON that keeps their types. It runs on the host and inside the sandboxes.

None, bool, int, float, str and list are written as JSON has them; everything else as an object
with one key, its type: `{"tuple": [1, 2]}`, `{"int": "0x..."}` beyond 53 bits, `{"float": "nan"}`.
"""

import json
import math
import os
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

DEPTH = 64
"""Containers within containers."""
ITEMS = 200_000
"""Values in one value, itself included."""
BYTES = 1_000_000
"""Of its JSON text."""
MOST_ALIKE = 100
"""Keys with the same hash in one set or dict."""
EXACT_IN_JSON = 1 << 53
Other = Callable[[Any], Any]
SEQUENCES: dict[str, type] = {"tuple": tuple, "set": set, "frozenset": frozenset}
PLAIN = (bool, int, float, complex, str, bytes, list, tuple, set, frozenset, dict, type(None))


class NotPlain(TypeError):
    """A value that cannot cross: its type, depth, length or size."""


def refuse(value: Any) -> Any:
    """What `pack` does with other types. Raises NotPlain."""
    raise NotPlain(f"{type(value).__name__} is no plain value")


def pack(value: Any, other: Other = refuse, *, exact: bool = True) -> Any:
    """The JSON tree of a value. `other` makes one of a value whose type is not plain.

    Without `exact` a value of a subclass goes as its plain base. Raises NotPlain.
    """
    tree = Packer(other, exact=exact).tree(value, 0)
    size = len(json.dumps(tree))
    if size > BYTES:
        raise NotPlain(f"a value of {size} bytes (limit {BYTES})")
    return tree


class Packer:
    """One value on its way; counts what it is made of."""

    def __init__(self, other: Other, *, exact: bool) -> None:
        self.other = other
        self.exact = exact
        self.left = ITEMS

    def tree(self, value: Any, depth: int) -> Any:
        """As `pack`, without its limit on bytes."""
        self.left -= 1
        if self.left < 0 or depth > DEPTH:
            raise NotPlain(f"a value of more than {ITEMS} items, or nested deeper than {DEPTH}")
        kind = type(value) if self.exact else plain_base(value)
        if value is None or kind is bool or kind is str:
            return value
        if kind is int or kind is float or kind is complex or kind is bytes:
            return _scalar(value, kind)
        if kind is list:
            return self._trees(value, depth)
        if kind is tuple or kind is set or kind is frozenset:
            return {kind.__name__: self._trees(value, depth)}
        if kind is dict:
            return {"dict": [self._trees(pair, depth) for pair in value.items()]}
        return self.other(value)

    def _trees(self, values: Iterable[Any], depth: int) -> list[Any]:
        return [self.tree(value, depth + 1) for value in values]


def plain_base(value: Any) -> type:
    """The nearest plain type that a value's type is or derives from; its own if there is none."""
    return next((base for base in type(value).__mro__ if base in PLAIN), type(value))


def _scalar(value: Any, kind: type) -> Any:
    if kind is int:
        if value.bit_length() > 4 * BYTES:
            raise NotPlain(f"an integer of {value.bit_length()} bits")
        return value if abs(value) < EXACT_IN_JSON else {"int": hex(value)}
    if kind is float:
        return value if math.isfinite(value) else {"float": repr(value)}
    if kind is bytes:
        return {"bytes": value.hex()}
    return {"complex": [_scalar(part, float) for part in (value.real, value.imag)]}


def no_objects(tree: dict[str, Any]) -> Any:
    """What `unpack` does with keys that it does not know. Raises ValueError."""
    raise ValueError(f"no plain value: {str(tree)[:80]}")


def unpack(tree: Any, other: Other = no_objects) -> Any:
    """The value of a JSON tree; whatever the tree is, anything but a value is a ValueError.

    `other` makes one of an object whose key is not known here.
    """
    try:
        return _value(tree, other, 0)
    except (TypeError, KeyError, AttributeError, RecursionError, OverflowError) as error:
        raise ValueError(f"no plain value: {error}") from None


def _value(tree: Any, other: Other, depth: int) -> Any:
    if depth > DEPTH:
        raise ValueError(f"nested deeper than {DEPTH}")
    if isinstance(tree, list):
        return [_value(item, other, depth + 1) for item in tree]
    if not isinstance(tree, dict):
        return tree
    if len(tree) != 1:
        return other(tree)
    ((name, inside),) = tree.items()
    if name in SEQUENCES:
        items = [_value(item, other, depth + 1) for item in inside]
        return SEQUENCES[name](items if name == "tuple" else _spread(items))
    if name == "dict":
        pairs = [(_value(k, other, depth + 1), _value(v, other, depth + 1)) for k, v in inside]
        _spread([key for key, _ in pairs])
        return dict(pairs)
    if name == "int":
        return int(inside, 16)
    if name == "float":
        return float(inside)
    if name == "bytes":
        return bytes.fromhex(inside)
    if name == "complex":
        real, imaginary = (_value(part, no_objects, depth + 1) for part in inside)
        return complex(real, imaginary)
    return other(tree)


def _spread(keys: list[Any]) -> list[Any]:
    """Keys, of which few have the same hash: else a set of them takes a time like its square."""
    if len(keys) > MOST_ALIKE and max(Counter(map(hash, keys)).values()) > MOST_ALIKE:
        raise ValueError(f"more than {MOST_ALIKE} keys with the same hash")
    return keys


def write(descriptor: int, tree: Any) -> None:
    """Write a JSON tree to a descriptor, and close it. (A file object takes thrice as long.)"""
    text = memoryview(json.dumps(tree).encode())
    while text:
        text = text[os.write(descriptor, text) :]
    os.close(descriptor)


def same(found: Any, wanted: Any) -> bool:
    """Whether two plain values are of equal type and value at every depth; nan is equal to nan."""
    return _canonical(pack(found)) == _canonical(pack(wanted))


def _canonical(tree: Any) -> str:
    """One text for equal values: sets and dicts sorted, and one zero."""
    return json.dumps(_sorted(tree))


def _sorted(tree: Any) -> Any:
    if isinstance(tree, list):
        return [_sorted(item) for item in tree]
    if not isinstance(tree, dict):
        return 0.0 if isinstance(tree, float) and tree == 0 else tree
    ((name, inside),) = tree.items()
    inside = _sorted(inside)
    return {
        name: sorted(inside, key=json.dumps) if name in ("set", "frozenset", "dict") else inside
    }
