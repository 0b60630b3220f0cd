"""What a person types for a call: `calculate 23+45`, `mv a.txt work`, `mv(name="a.txt")`, JSON."""

import ast
import json
import re
import shlex
from collections.abc import Mapping
from typing import Any

from agent_envs.cli.common import Usage
from agent_envs.plain import parse_json
from agent_envs.tool import Tool
from agent_envs.turns import ToolCall

_NAME = re.compile(r"\s*([A-Za-z0-9_-]+)")
_WORD = r"""(?:[^\s"'\\]+|"[^"\\]*"|'[^']*')"""
_WORDS = re.compile(rf"{_WORD}(?:\s+{_WORD})*")
"""Words as a shell splits them, where quotes and backslashes cannot be meant as part of one."""
_CONSTANTS: dict[str, Any] = {"true": True, "false": False, "null": None}


def shorthand(line: str, tools: Mapping[str, Tool]) -> ToolCall | None:
    """The call that a line stands for; None where it does not begin with a tool's name.

    After the name: arguments in parentheses as Python writes them; or a JSON object; or text for
    the first parameter; or, where several are needed, a word for each in their order. Text for a
    string needs no quotes. Raises Usage for what cannot be read or lacks a word.
    """
    match = _NAME.match(line)
    tool = tools.get(match[1]) if match else None
    if match is None or tool is None:
        return None
    rest = line[match.end() :]
    if rest.startswith("("):
        return ToolCall(tool.name, _in_parentheses(tool, rest.strip()))
    rest = rest.strip()
    if not rest and not tool.required:
        return ToolCall(tool.name, {})
    arguments = _json_object(tool, rest)
    return ToolCall(tool.name, _bare_text(tool, rest) if arguments is None else arguments)


def _bare_text(tool: Tool, text: str) -> dict[str, Any]:
    first = next(iter(tool.params), "")
    if text and first and len(tool.required) < 2:
        return {first: _bare(tool, first, text)}
    words = shlex.split(text) if _WORDS.fullmatch(text) else []
    given = zip(tool.params, words, strict=False)
    arguments = {name: _bare(tool, name, word) for name, word in given}
    if not words or len(words) > len(arguments) or tool.problem(arguments):
        raise _unreadable(tool, f" {text}")
    return arguments


def _unreadable(tool: Tool, text: str) -> Usage:
    example = ", ".join(f"{name}=..." for name in tool.params)
    typed = f"{tool.name}{text[:80]}".rstrip()
    return Usage(f"cannot read {typed}; write {tool.name}({example})")


def _json_object(tool: Tool, text: str) -> dict[str, Any] | None:
    """The arguments, where the text is a JSON object whose keys are parameters."""
    try:
        value = parse_json(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) and value.keys() <= tool.params.keys() else None


def _bare(tool: Tool, name: str, text: str) -> Any:
    if _takes(tool, name, "string"):
        return text
    try:
        return parse_json(text)
    except ValueError:
        return text


def _in_parentheses(tool: Tool, text: str) -> dict[str, Any]:
    unreadable = _unreadable(tool, text)
    try:
        call = ast.parse(f"f{text}", mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise unreadable from None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
        raise unreadable
    if len(call.args) > len(tool.params) or any(k.arg is None for k in call.keywords):
        raise unreadable
    given = dict(zip(tool.params, call.args, strict=False))
    given |= {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}
    return {name: _value(tool, name, node, f"f{text}") for name, node in given.items()}


def _value(tool: Tool, name: str, node: ast.expr, source: str) -> Any:
    """A literal that JSON has too; else the text itself, as where a string is wanted."""
    written = ast.get_source_segment(source, node) or ""
    if isinstance(node, ast.Name) and node.id in _CONSTANTS:
        value = _CONSTANTS[node.id]
    else:
        try:
            value = parse_json(json.dumps(ast.literal_eval(node)))
        except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
            return written
    if isinstance(value, str) or _takes(tool, name, type(value)):
        return value
    return written if _takes(tool, name, "string") else value


_JSON_TYPES: dict[type, tuple[str, ...]] = {
    bool: ("boolean",),
    int: ("integer", "number"),
    float: ("number",),
    type(None): ("null",),
    list: ("array",),
    dict: ("object",),
}


def _takes(tool: Tool, name: str, kind: str | type) -> bool:
    """Whether a parameter may be of a JSON type, or of the one that a Python type stands for."""
    schema = tool.params.get(name, {})
    types = {schema.get("type"), *(one.get("type") for one in schema.get("anyOf", ()))}
    kinds = (kind,) if isinstance(kind, str) else _JSON_TYPES.get(kind, ())
    return not types.isdisjoint(kinds)
