"""Hints to JSON schemas, and the judging of values by a schema."""

import json
import sys
import types
from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any, Literal, TypeAlias, Union, get_args, get_origin

Schema: TypeAlias = dict[str, Any]
"""A JSON schema, of the few kinds that hints become."""

Misfit: TypeAlias = tuple[tuple[int | str, ...], str, Any]
"""Where in an argument, what would fit there, what is there. It becomes text only when needed."""

Check: TypeAlias = Callable[[Any], Misfit | None]
"""Judges a value: None where it fits."""

_KINDS: dict[Any, str] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    None: "null",
    types.NoneType: "null",
}
_WANTS = {
    "string": "a string",
    "integer": "an integer",
    "number": "a finite number",
    "boolean": "true or false",
    "null": "null",
}
_EXACT: dict[str, type] = {"string": str, "integer": int, "boolean": bool, "null": types.NoneType}
_SUPPORTED = (
    "str, int, float, bool, None, Literal, X | Y, list[T], dict[str, T], Annotated[T, '...']"
)
_LARGEST = sys.float_info.max


def schema_of(hint: Any) -> Schema:
    """The schema of a type hint. Raises TypeError, with what there is, for one that has none."""
    origin, args = get_origin(hint), get_args(hint)
    if origin is Annotated:
        texts = [x for x in args[1:] if isinstance(x, str) and x]
        return schema_of(args[0]) | ({"description": texts[-1]} if texts else {})
    if origin is Literal and args:
        return _any_of(_literals(args))
    if origin in (Union, types.UnionType):
        return _any_of(schema_of(x) for x in args)
    if origin is list and len(args) == 1:
        return {"type": "array", "items": schema_of(args[0])}
    if origin is dict and len(args) == 2 and args[0] is str:
        return {"type": "object", "additionalProperties": schema_of(args[1])}
    if hint is None or (isinstance(hint, type) and hint in _KINDS):
        return {"type": _KINDS[hint]}
    raise TypeError(f"has a hint that is not supported, {hint!r}; use {_SUPPORTED}")


def _literals(options: Sequence[Any]) -> Iterable[Schema]:
    """One enum a type: a schema without a type is refused by some hosts."""
    groups: dict[str, list[Any]] = {}
    for option in options:
        kind = _KINDS.get(type(option))
        if kind is None or kind == "number":
            raise TypeError(f"has Literal[{option!r}]; use strings, integers, booleans or None")
        groups.setdefault(kind, []).append(option)
    for kind, group in groups.items():
        yield {"type": kind} if kind == "null" else {"type": kind, "enum": group}


def _any_of(schemas: Iterable[Schema]) -> Schema:
    flat: list[Schema] = []
    for schema in schemas:
        inner = schema["anyOf"] if schema.keys() == {"anyOf"} else [schema]
        flat += [x for x in inner if x not in flat]
    return flat[0] if len(flat) == 1 else {"anyOf": flat}


def check_of(schema: Schema) -> Check:
    """A function that judges a value. It goes no deeper than the schema, whatever the value."""
    wants = in_words(schema)
    if "anyOf" in schema:
        return _check_any([check_of(x) for x in schema["anyOf"]], wants)
    if "enum" in schema:
        return _check_enum(schema["enum"], wants)
    match schema["type"]:
        case "array":
            return _check_array(check_of(schema["items"]), wants)
        case "object":
            return _check_object(check_of(schema["additionalProperties"]), wants)
        case "number":
            return _check_number
        case kind:
            return _check_type(_EXACT[kind], wants)


def _check_type(kind: type, wants: str) -> Check:
    return lambda value: None if type(value) is kind else ((), wants, value)


def _check_number(value: Any) -> Misfit | None:
    # An integer too large for a float would be an OverflowError in the tool.
    if (type(value) is float or type(value) is int) and -_LARGEST <= value <= _LARGEST:
        return None
    return (), _WANTS["number"], value


def _check_enum(options: Sequence[Any], wants: str) -> Check:
    kind, allowed = type(options[0]), frozenset(options)
    return lambda value: None if type(value) is kind and value in allowed else ((), wants, value)


def _check_any(checks: Sequence[Check], wants: str) -> Check:
    def check(value: Any) -> Misfit | None:
        inside: Misfit | None = None
        for one in checks:
            misfit = one(value)
            if misfit is None:
                return None
            if misfit[0]:  # this alternative has the right shape: what is wrong inside says more
                inside = misfit
        return inside or ((), wants, value)

    return check


def _check_array(item: Check, wants: str) -> Check:
    def check(value: Any) -> Misfit | None:
        if type(value) is not list:
            return (), wants, value
        for index, element in enumerate(value):
            misfit = item(element)
            if misfit is not None:
                return (index, *misfit[0]), misfit[1], misfit[2]
        return None

    return check


def _check_object(item: Check, wants: str) -> Check:
    def check(value: Any) -> Misfit | None:
        if type(value) is not dict:
            return (), wants, value
        for key, element in value.items():
            if type(key) is not str:
                return (), "an object with strings as its keys", value
            misfit = item(element)
            if misfit is not None:
                return (key, *misfit[0]), misfit[1], misfit[2]
        return None

    return check


def in_words(schema: Schema) -> str:
    """What fits a schema, in words."""
    if "anyOf" in schema:
        text = " or ".join(in_words(x) for x in schema["anyOf"])
    elif "enum" in schema:
        options = [brief(x) for x in schema["enum"]]
        more = f" and {len(options) - 8} more" if len(options) > 8 else ""
        text = ("one of " if len(options) > 1 else "") + ", ".join(options[:8]) + more
    elif schema["type"] == "array":
        text = f"an array (each item {in_words(schema['items'])})"
    elif schema["type"] == "object":
        text = f"an object (each value {in_words(schema['additionalProperties'])})"
    else:
        text = _WANTS[schema["type"]]
    return shorten(text, 200)


def complaint(name: str, misfit: Misfit) -> str:
    """What is wrong with the argument called `name`, in a sentence for the model."""
    path, wants, value = misfit
    where = "".join(f"[{brief(step)}]" for step in path)
    string = "the string " if type(value) is str else ""
    return f"`{name}{where}` must be {wants}, not {string}{brief(value)}"


def brief(value: Any) -> str:
    """A value in a few words, as JSON says it. Never long, slow or an error, whatever the value."""
    kind = type(value)
    if value is None or kind is bool:
        return json.dumps(value)
    if kind is str:
        return repr(value[:30]) + ("..." if len(value) > 30 else "")
    if kind is int:
        return str(value) if -(10**15) < value < 10**15 else "a very large integer"
    if kind is float:
        return repr(value)
    return "an array" if kind is list else "an object" if kind is dict else f"a {kind.__name__:.30}"


def shorten(text: str, size: int) -> str:
    """A text of at most `size` characters."""
    return text if len(text) <= size else text[: size - 3] + "..."
