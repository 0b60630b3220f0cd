"""`@tool`: a method with type hints and a docstring is a tool, with a JSON schema of its own."""

import inspect
import json
import re
import sys
import textwrap
import types
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import (
    Annotated,
    Any,
    Literal,
    TypeAlias,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    overload,
)

Schema: TypeAlias = dict[str, Any]

Misfit: TypeAlias = tuple[tuple[int | str, ...], str, Any]
"""Where in an argument, what would fit there, what is there. It becomes text only when needed."""

Check: TypeAlias = Callable[[Any], Misfit | None]

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
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_ARGS_ENTRY = re.compile(r"(\w+)(?: *\([^)]*\))?:(.*)")
_LARGEST = sys.float_info.max
_LONGEST = 400


class Tool:
    """A tool of an environment: on the class it is this object, on an instance the bound method.

    `params` maps each parameter to its JSON schema, `required` names those without a default, and
    `schema` is the whole in OpenAI's function-tool format. Raises TypeError, with what to fix, for
    a method that cannot be described so.
    """

    def __init__(self, fn: Callable[..., Any], name: str | None = None) -> None:
        try:
            _check_method(fn)
            self.fn = fn
            self.name: str = fn.__name__ if name is None else name
            _check_name(self.name, "name")
            description, about = _read_docstring(fn.__doc__ or "")
            parameters = _parameters(fn, about)
            self.params = {p.name: _parameter_schema(fn, p, about) for p in parameters}
            self.required = tuple(p.name for p in parameters if p.default is p.empty)
            self.schema = self._describe(description)
            _check_json(self.schema)
        except TypeError as error:
            raise TypeError(f"@tool {getattr(fn, '__qualname__', fn)}: {error}") from None
        self.__doc__ = fn.__doc__
        self._checks = {name: _check_of(schema) for name, schema in self.params.items()}

    def _describe(self, description: str) -> Schema:
        parameters = {
            "type": "object",
            "properties": self.params,
            "required": list(self.required),
            "additionalProperties": False,
        }
        function = {"name": self.name, "description": description, "parameters": parameters}
        return {"type": "function", "function": function}

    @overload
    def __get__(self, instance: None, owner: type | None = None) -> "Tool": ...

    @overload
    def __get__(self, instance: object, owner: type | None = None) -> Callable[..., Any]: ...

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        return self if instance is None else types.MethodType(self.fn, instance)

    def __repr__(self) -> str:
        return f"<Tool {self.name}({', '.join(self.params)})>"

    def problem(self, arguments: Any) -> str | None:
        """None where `arguments` fit; else a sentence, of at most 400 characters, for the model.

        Types are judged exactly, as JSON has them: true is no integer, 2.0 is none either. The one
        concession is an integer where a float is asked for. Numbers are finite.
        """
        if type(arguments) is not dict:
            return f"the arguments must be a JSON object, not {_brief(arguments)}"
        checks = self._checks
        for name, value in arguments.items():
            check = checks.get(name)
            if check is None or check(value) is not None:
                return self._explain(arguments)
        for name in self.required:
            if name not in arguments:
                return self._explain(arguments)
        return None

    def _explain(self, arguments: dict[str, Any]) -> str:
        parts = [
            f"missing argument `{name}` ({_wants(self.params[name])})"
            for name in self.required
            if name not in arguments
        ]
        unknown = [_brief(n) for n in islice((n for n in arguments if n not in self.params), 3)]
        if unknown:
            known = ", ".join(self.params) or "none"
            parts.append(f"unknown argument {', '.join(unknown)} (there are: {known})")
        for name, check in self._checks.items():
            misfit = check(arguments[name]) if name in arguments else None
            if misfit:
                parts.append(f"argument {_say(name, misfit)}")
        return _cut("; ".join(parts), _LONGEST)


@overload
def tool(fn: Callable[..., Any], /) -> Tool: ...


@overload
def tool(*, name: str | None = None) -> Callable[[Callable[..., Any]], Tool]: ...


def tool(fn: Callable[..., Any] | None = None, /, *, name: str | None = None) -> Any:
    """Make a tool of a method: `@tool`, or `@tool(name="...")` to call it by another name.

    Hints may be str, int, float, bool, None, Literal, unions, list[T], dict[str, T], and
    Annotated[T, "description"]. The docstring describes the tool to the model; its "Args:" section,
    in Google's style, describes the parameters. Raises TypeError as `Tool` does.
    """
    return (lambda fn: Tool(fn, name)) if fn is None else Tool(fn, name)


def _check_method(fn: Any) -> None:
    if not inspect.isfunction(fn):
        raise TypeError("goes on a plain method, as @tool or @tool(name='...')")
    if inspect.iscoroutinefunction(fn) or inspect.isasyncgenfunction(fn):
        raise TypeError("is async; a tool is a plain def that returns its result")
    if inspect.isgeneratorfunction(fn):
        raise TypeError("is a generator; a tool returns its result, it does not yield")


def _check_name(name: Any, what: str) -> None:
    if type(name) is not str or not _NAME.fullmatch(name):
        raise TypeError(f"{what} {name!r}: use 1 to 64 of the characters a-z A-Z 0-9 _ -")


def _check_json(schema: Schema) -> None:
    try:
        json.dumps(schema, ensure_ascii=False).encode()
    except ValueError as error:
        raise TypeError(f"its schema cannot be written as JSON: {error}") from None


def _parameters(fn: Callable[..., Any], about: dict[str, str]) -> list[inspect.Parameter]:
    """What the model passes: every parameter but self."""
    everything = list(inspect.signature(fn).parameters.values())
    by_position = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    if not everything or everything[0].name != "self" or everything[0].kind not in by_position:
        raise TypeError("its first parameter must be self, and no other may be called so")
    for p in everything[1:]:
        if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD):
            raise TypeError(f"takes {p}; name every parameter, the model has to know them")
        if p.kind is p.POSITIONAL_ONLY:
            raise TypeError(
                f"parameter `{p.name}` is positional-only; drop the /, calls go by name"
            )
        _check_name(p.name, "parameter")
    strangers = about.keys() - {p.name for p in everything[1:]}
    if strangers:
        raise TypeError(f"Args describes {sorted(strangers)}, which are no parameters")
    return everything[1:]


def _parameter_schema(
    fn: Callable[..., Any], p: inspect.Parameter, about: dict[str, str]
) -> Schema:
    try:
        schema = _schema_of(_resolve(fn, p))
    except TypeError as error:
        raise TypeError(f"parameter `{p.name}` {error}") from None
    if p.name in about:
        if "description" in schema:
            raise TypeError(f"parameter `{p.name}` is described in its hint and in Args; keep one")
        schema["description"] = about[p.name]
    if p.default is not p.empty:
        _check_default(p, schema)
        schema["default"] = p.default
    return schema


def _resolve(fn: Callable[..., Any], p: inspect.Parameter) -> Any:
    """The hint of one parameter, written as text or not."""
    if p.annotation is p.empty:
        raise TypeError(f"has no type hint; write {p.name}: str, or whatever it takes")
    holder = types.SimpleNamespace(__annotations__={p.name: p.annotation})
    scope = inspect.unwrap(fn).__globals__
    try:
        return get_type_hints(holder, scope, include_extras=True)[p.name]
    except Exception as error:  # an annotation is any expression at all
        raise TypeError(
            f"has a hint that cannot be resolved, {p.annotation!r} ({error}); "
            "use names that the module defines above the class"
        ) from None


def _check_default(p: inspect.Parameter, schema: Schema) -> None:
    if type(p.default) in (list, dict):
        raise TypeError(f"the default of `{p.name}` would be shared by all calls; use None for it")
    misfit = _check_of(schema)(p.default)
    if misfit:
        raise TypeError(f"the default of {_say(p.name, misfit)}")


def _read_docstring(doc: str) -> tuple[str, dict[str, str]]:
    """The description without its Args section, and what that says of each parameter."""
    lines = [line.rstrip() for line in inspect.cleandoc(doc).split("\n")]
    start = lines.index("Args:") if "Args:" in lines else len(lines)
    after = (i for i in range(start + 1, len(lines)) if lines[i] and not lines[i][0].isspace())
    end = next(after, len(lines))
    description = "\n".join(lines[:start] + lines[end:]).strip()
    if not description or start == 0:
        raise TypeError("needs a docstring that says what it does (python -OO takes them away)")
    return description, _read_args(lines[start + 1 : end])


def _read_args(lines: Sequence[str]) -> dict[str, str]:
    about: dict[str, str] = {}
    name = ""
    for line in textwrap.dedent("\n".join(lines)).split("\n"):
        entry = _ARGS_ENTRY.fullmatch(line)
        if entry:
            name, line = entry.groups()
            about[name] = ""
        elif line and (not name or not line[0].isspace()):
            raise TypeError(f"cannot read {line!r} under Args; write name: description")
        if line.strip():
            about[name] = f"{about[name]} {line.strip()}".strip()
    return {name: text for name, text in about.items() if text}


def _schema_of(hint: Any) -> Schema:
    origin, args = get_origin(hint), get_args(hint)
    if origin is Annotated:
        texts = [x for x in args[1:] if isinstance(x, str) and x]
        return _schema_of(args[0]) | ({"description": texts[-1]} if texts else {})
    if origin is Literal and args:
        return _any_of(_literals(args))
    if origin in (Union, types.UnionType):
        return _any_of(_schema_of(x) for x in args)
    if origin is list and len(args) == 1:
        return {"type": "array", "items": _schema_of(args[0])}
    if origin is dict and len(args) == 2 and args[0] is str:
        return {"type": "object", "additionalProperties": _schema_of(args[1])}
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


def _check_of(schema: Schema) -> Check:
    """A function that judges a value. It goes no deeper than the schema, whatever the value."""
    wants = _wants(schema)
    if "anyOf" in schema:
        return _check_any([_check_of(x) for x in schema["anyOf"]], wants)
    if "enum" in schema:
        return _check_enum(schema["enum"], wants)
    match schema["type"]:
        case "array":
            return _check_array(_check_of(schema["items"]), wants)
        case "object":
            return _check_object(_check_of(schema["additionalProperties"]), wants)
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


def _wants(schema: Schema) -> str:
    """What fits a schema, in words."""
    if "anyOf" in schema:
        text = " or ".join(_wants(x) for x in schema["anyOf"])
    elif "enum" in schema:
        options = [_brief(x) for x in schema["enum"]]
        more = f" and {len(options) - 8} more" if len(options) > 8 else ""
        text = ("one of " if len(options) > 1 else "") + ", ".join(options[:8]) + more
    elif schema["type"] == "array":
        text = f"an array (each item {_wants(schema['items'])})"
    elif schema["type"] == "object":
        text = f"an object (each value {_wants(schema['additionalProperties'])})"
    else:
        text = _WANTS[schema["type"]]
    return _cut(text, 200)


def _say(name: str, misfit: Misfit) -> str:
    path, wants, value = misfit
    where = "".join(f"[{_brief(step)}]" for step in path)
    string = "the string " if type(value) is str else ""
    return f"`{name}{where}` must be {wants}, not {string}{_brief(value)}"


def _brief(value: Any) -> str:
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


def _cut(text: str, size: int) -> str:
    return text if len(text) <= size else text[: size - 3] + "..."
