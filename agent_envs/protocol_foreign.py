"""Tool calls as other models write them: recognised, so that none is graded as an answer."""

import re
from collections.abc import Iterable
from typing import Any

from agent_envs.plain import parse_json

_MARKERS = re.compile(
    r"\[TOOL_CALLS\]|<\|python_tag\|>|<function=|<\|?function_?calls?\b|<\|?tool_calls?(?:_start)?\b"
    r"|<\uff5ctool\u2581|<invoke name=|:invoke name=|<\|action_start\|>|\bto=functions\."
    r"|\u273fFUNCTION\u273f"
)
"""What Mistral, Llama, Gemma, Phi, DeepSeek, GPT-OSS and others write before a call."""
_FENCE = re.compile(r"```[a-z]*\n(.*)\n?```", re.DOTALL)
_KEYS = ({"name", "arguments"}, {"name", "parameters"}, {"type", "function"})


class Foreign:
    """Tells a call that is not written in `<tool_call>` tags from an answer."""

    def __init__(self, tools: Iterable[str]) -> None:
        """`tools`: the names that a call may have where nothing but the name marks it."""
        names = "|".join(map(re.escape, tools)) or "(?!)"
        self._named = re.compile(
            rf"\[?(?:function|functions\.|call:)?(?:{names})\s*(?:\[ARGS\]|```[a-z]*)?\s*[({{]"
        )

    def is_call(self, text: str) -> bool:
        """Whether a turn's text, white space around it taken off, is such a call.

        It is where it holds another model's marker; where all of it is JSON that has a call's
        keys, in a code fence or not; and where it starts with a tool's name and an opening
        parenthesis or brace, and ends with a closing one.
        """
        if _MARKERS.search(text):
            return True
        if text[-1:] not in (")", "}", "]", "`"):
            return False
        fenced = _FENCE.fullmatch(text)
        body = fenced[1].strip() if fenced else text
        return bool(self._named.match(body)) or _is_call_json(body)


def _is_call_json(text: str) -> bool:
    if text[:1] not in ("{", "["):
        return False
    try:
        value: Any = parse_json(text)
    except ValueError:
        return False
    calls = value if isinstance(value, list) else [value]
    return bool(calls) and all(isinstance(x, dict) and x.keys() - {"id"} in _KEYS for x in calls)
