"""`@tool`: a method with type hints and a docstring is a tool, with a JSON schema of its own."""

import inspect
import json
import re
import textwrap
import types
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any, get_type_hints, overload

from agent_envs.schema import Schema, brief, check_of, complaint, in_words, schema_of, shorten

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_ARGS_ENTRY = re.compile(r"(\w+)(?: *\([^)]*\))?:(.*)")
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
        self._checks = {name: check_of(schema) for name, schema in self.params.items()}

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
            return f"the arguments must be a JSON object, not {brief(arguments)}"
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
            f"missing argument `{name}` ({in_words(self.params[name])})"
            for name in self.required
            if name not in arguments
        ]
        unknown = [brief(n) for n in islice((n for n in arguments if n not in self.params), 3)]
        if unknown:
            known = ", ".join(self.params) or "none"
            parts.append(f"unknown argument {', '.join(unknown)} (there are: {known})")
        for name, check in self._checks.items():
            misfit = check(arguments[name]) if name in arguments else None
            if misfit:
                parts.append(f"argument {complaint(name, misfit)}")
        return shorten("; ".join(parts), _LONGEST)


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
        schema = schema_of(_resolve(fn, p))
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
    misfit = check_of(schema)(p.default)
    if misfit:
        raise TypeError(f"the default of {complaint(p.name, misfit)}")


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


def tools_of(cls: type, reserved: set[str]) -> dict[str, Tool]:
    """The tools of a class by name: inherited and mixed in ones first, overridden ones once.

    Raises TypeError for an attribute among the `reserved` names, and for two tools of one name.
    """
    members: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        members.update(vars(base))
    tools: dict[str, Tool] = {}
    for attribute, member in members.items():
        if not isinstance(member, Tool):
            continue
        if attribute in reserved or attribute.startswith("_"):
            raise TypeError(
                f"{cls.__name__}: the tool {attribute!r} hides ToolEnv.{attribute}; name the "
                f"method otherwise and decorate it with @tool(name={attribute!r})"
            )
        if member.name in tools:
            raise TypeError(f"{cls.__name__}: two tools have the one name {member.name!r}")
        tools[member.name] = member
    return tools
