"""Text <-> calls: what a model writes to call a tool, and how results are written back."""

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

from agent_envs.episode import MAX_CALLS
from agent_envs.plain import JSON, has_lone_surrogate
from agent_envs.tool import Tool
from agent_envs.turns import Malformed, Message, Move, ToolCall, ToolResult


class Protocol(ABC):
    """A way to write calls and results as text, bound to one environment's tools.

    `parse` and `say` are pure. A behaviour change is a new `version`.
    """

    name: str
    version: str
    docs: str
    """What the system message tells the model; empty where it is trained without being told."""

    def __init__(self, tools: Mapping[str, Tool], letters: Mapping[str, str]) -> None:
        """`tools` by name; `letters` maps a single letter to a tool's name (for `chars`)."""

    @abstractmethod
    def parse(self, text: str, *, cut: bool = False) -> Move:
        """Calls, *or* a final answer, *or* malformed. `cut`: the token limit ended the turn."""

    @abstractmethod
    def say(self, calls: Sequence[ToolCall], results: Sequence[ToolResult]) -> str:
        """The observation: all results as the model reads them in plain text."""

    @abstractmethod
    def messages(self, calls: Sequence[ToolCall], results: Sequence[ToolResult]) -> list[Message]:
        """The same results as chat messages of role `tool`."""

    def refuse(self, reason: str) -> str:
        """The observation after a malformed turn."""
        return f"error: {reason}"


class Hermes(Protocol):
    """JSON in `<tool_call>` tags, as the Qwen and Hermes chat templates have it.

    Thinking up to the last `</think>` is dropped first, so a call in there is none. A call inside
    a code fence is not run either; a turn that has calls nowhere else is malformed.
    """

    name = "hermes"
    version = "1"

    def __init__(self, tools: Mapping[str, Tool], letters: Mapping[str, str]) -> None:
        schemas = [json.dumps(t.schema["function"], ensure_ascii=False) for t in tools.values()]
        self.docs = "\n".join(
            [
                "You can call these tools; each line is the JSON schema of one:",
                *schemas,
                "To call a tool, write a JSON object with its name and arguments in tags:",
                '<tool_call>{"name": "...", "arguments": {...}}</tool_call>',
                "Several calls in one turn run in order. A turn without a call is your final answer.",
            ]
        )

    def parse(self, text: str, *, cut: bool = False) -> Move:
        """See `Protocol.parse`. The answer is the stripped text after the last `</think>`."""
        if cut:
            return Malformed("the turn was cut off by the token limit; be shorter")
        text = text.rpartition("</think>")[2]
        if "<tool_call>" in text:
            return _read_calls(text)
        if "</tool_call>" in text:
            return Malformed("</tool_call> without <tool_call>")
        if "<think>" in text:
            return Malformed("<think> is not closed")
        return text.strip() or Malformed("an empty turn; call a tool or give the final answer")

    def say(self, calls: Sequence[ToolCall], results: Sequence[ToolResult]) -> str:
        """One `<tool_response>` block a result."""
        return "\n".join([f"<tool_response>\n{r.content}\n</tool_response>" for r in results])

    def messages(self, calls: Sequence[ToolCall], results: Sequence[ToolResult]) -> list[Message]:
        """Bare contents: a chat template adds the tags."""
        return [_tool_message(c, r.content) for c, r in zip(calls, results, strict=True)]


class Chars(Protocol):
    """One letter for the tool, its first argument, and `|` at the end of a turn: `B23+45|`.

    The environment answers `68|`, or `?|` where something was wrong. A turn that starts with no
    tool's letter is the final answer: `68|`.
    """

    name = "chars"
    version = "1"
    docs = ""

    def __init__(self, tools: Mapping[str, Tool], letters: Mapping[str, str]) -> None:
        if not letters:
            raise ValueError("the chars protocol needs `letters` on the environment's class")
        self._letters = {x: (name, next(iter(tools[name].params))) for x, name in letters.items()}

    def parse(self, text: str, *, cut: bool = False) -> Move:
        """See `Protocol.parse`."""
        if cut or text[-1:] != "|" or "|" in text[:-1] or len(text) < 2:
            return Malformed("a turn ends with its only |")
        target = self._letters.get(text[0])
        if target is None:
            return text[:-1]
        return [ToolCall(target[0], {target[1]: text[1:-1]})]

    def say(self, calls: Sequence[ToolCall], results: Sequence[ToolResult]) -> str:
        """Contents one after the other, each closed by `|`."""
        return "".join([_brief(r) for r in results])

    def messages(self, calls: Sequence[ToolCall], results: Sequence[ToolResult]) -> list[Message]:
        """The same text, a message a result."""
        return [_tool_message(c, _brief(r)) for c, r in zip(calls, results, strict=True)]

    def refuse(self, reason: str) -> str:
        """`?|`, whatever the reason: the alphabet is the workshop's."""
        return "?|"


PROTOCOLS: dict[str, type[Protocol]] = {"hermes": Hermes, "chars": Chars}


def _brief(result: ToolResult) -> str:
    return "?|" if result.error else result.content + "|"


def _tool_message(call: ToolCall, content: str) -> Message:
    message = {"role": "tool", "name": call.name, "content": content}
    if call.id:
        message["tool_call_id"] = call.id
    return message


_BLANK = re.compile(r"[ \t\r\n]*")
_CLOSE = re.compile(r"[ \t\r\n]*</tool_call>")
_FENCE = re.compile(r"```.*?(?:```|\Z)", re.S)


def _read_calls(text: str) -> Move:
    """The calls of a turn that has an opening tag, read left to right past code fences.

    A body is read by the JSON grammar, so tags and fences inside its strings are harmless.
    """
    calls: list[ToolCall] = []
    at, start = 0, text.find("<tool_call>")
    while start >= 0:
        fence = _FENCE.search(text, at, len(text))
        if fence and fence.start() < start:
            at = fence.end()
        else:
            if len(calls) == MAX_CALLS:
                return Malformed(f"more than {MAX_CALLS} calls in one turn")
            call = _read_call(text, start + len("<tool_call>"))
            if isinstance(call, Malformed):
                return call
            calls.append(call[0])
            at = call[1]
        start = text.find("<tool_call>", at)
    if not calls:
        return Malformed("a tool call inside a code fence is not run; write it outside")
    return calls


def _read_call(text: str, at: int) -> tuple[ToolCall, int] | Malformed:
    """The call whose body starts at `at`, and where its closing tag ends."""
    try:
        body, end = JSON.raw_decode(text, _BLANK.match(text, at).end())  # type: ignore[union-attr]
        if "\\u" in text and has_lone_surrogate(body):
            raise ValueError("a lone surrogate")
    except (ValueError, RecursionError) as error:
        return Malformed(f"no JSON object inside <tool_call>: {_reason(error)}")
    close = _CLOSE.match(text, end)
    if close is None:
        return Malformed("<tool_call> is not closed by </tool_call> right after its JSON object")
    if not isinstance(body, dict) or not isinstance(body.get("name"), str):
        return Malformed('a tool call is {"name": "...", "arguments": {...}}')
    extra = body.keys() - {"name", "arguments", "id"}
    if extra:
        return Malformed(f"a tool call has name and arguments, not {sorted(extra)[0][:40]!r}")
    call_id = body.get("id", "")
    return ToolCall(
        body["name"], body.get("arguments", {}), call_id if isinstance(call_id, str) else ""
    ), close.end()


def _reason(error: Exception) -> str:
    return "nested too deeply" if isinstance(error, RecursionError) else str(error)[:100]
