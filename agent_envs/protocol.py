"""Text <-> calls: what a model writes to call a tool, and how results are written back."""

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

from agent_envs.episode import MAX_CALLS
from agent_envs.plain import has_lone_surrogate, read_json
from agent_envs.protocol_foreign import Foreign
from agent_envs.tool import Tool
from agent_envs.turns import Malformed, Message, Move, ToolCall, ToolResult


class Protocol(ABC):
    """A way to write calls and results as text, bound to one environment's tools.

    A subclass writes `read`, `say` and `messages`, all pure. A behaviour change is a new `version`.
    """

    name: str
    version: str
    docs: str
    """What the system message tells the model; empty where it is trained without being told."""

    def __init__(self, tools: Mapping[str, Tool], letters: Mapping[str, str]) -> None:  # noqa: B027
        """`tools` by name; `letters` maps a single letter to a tool's name (for `chars`)."""

    def parse(self, text: str, *, cut: bool = False) -> Move:
        """Calls, *or* a final answer, *or* malformed. `cut`: the token limit ended the turn."""
        if cut:
            return Malformed("the turn was cut off by the token limit; be shorter")
        if not text.isascii() and has_lone_surrogate(text):
            return Malformed("the turn holds a lone surrogate, which is no character")
        return self.read(text)

    @abstractmethod
    def read(self, text: str) -> Move:
        """What `parse` gives for a whole turn of sound text."""

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
    a code fence is not run either; a turn that has calls nowhere else is malformed. So is one whose
    call is written as other models do it: it is not run, and it is no answer.
    """

    name = "hermes"
    version = "2"

    def __init__(self, tools: Mapping[str, Tool], letters: Mapping[str, str]) -> None:
        schemas = [json.dumps(t.schema["function"], ensure_ascii=False) for t in tools.values()]
        self.docs = _HERMES_DOCS.format(schemas="\n".join(schemas)) if schemas else ""
        self._foreign = Foreign(tools)

    def read(self, text: str) -> Move:
        """See `Protocol`. The answer is the stripped text after the last `</think>`."""
        if text.startswith(_OPEN):  # most turns are one call and nothing else
            call = _read_call(text, len(_OPEN))
            if not isinstance(call, Malformed) and call[1] == len(text):
                return [call[0]]
        text = _after_thinking(text)
        if _OPEN in text:
            return _read_calls(text)
        if _CLOSE in text:
            return Malformed(f"{_CLOSE} without {_OPEN}")
        if _THINK in text:
            return Malformed(_STILL_THINKING)
        text = text.strip()
        if self._foreign.is_call(text):
            return Malformed(_FOREIGN)
        return text or Malformed("an empty turn; call a tool or give the final answer")

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
        """Raises ValueError for letters that cannot call a tool."""
        if not letters:
            raise ValueError("the chars protocol needs `letters` on the environment's class")
        self._targets = {x: _target(x, name, tools) for x, name in letters.items()}

    def read(self, text: str) -> Move:
        """See `Protocol`."""
        if text[-1:] != "|" or "|" in text[:-1] or len(text) < 2:
            return Malformed("a turn ends with its only |")
        target = self._targets.get(text[0])
        if target is None:
            return text[:-1]
        return [ToolCall(target[0], {target[1]: text[1:-1]})]

    def say(self, calls: Sequence[ToolCall], results: Sequence[ToolResult]) -> str:
        """Contents one after the other, each closed by `|`."""
        return "".join(map(_brief, results))

    def messages(self, calls: Sequence[ToolCall], results: Sequence[ToolResult]) -> list[Message]:
        """The same text, a message a result."""
        return list(map(_tool_message, calls, map(_brief, results)))

    def refuse(self, reason: str) -> str:
        """`?|`, whatever the reason: the alphabet is the workshop's."""
        return "?|"


_HERMES_DOCS = """\
You can call these tools; each line is the JSON schema of one:
{schemas}
To call a tool, write a JSON object with its name and arguments in tags:
<tool_call>{{"name": "...", "arguments": {{...}}}}</tool_call>
Several calls in one turn run in order. A turn without a call is your final answer."""

PROTOCOLS: dict[str, type[Protocol]] = {"hermes": Hermes, "chars": Chars}


def _brief(result: ToolResult) -> str:
    return "?|" if result.error else result.content + "|"


def _tool_message(call: ToolCall, content: str) -> Message:
    message = {"role": "tool", "name": call.name, "content": content}
    if call.id:
        message["tool_call_id"] = call.id
    return message


def _target(letter: str, name: str, tools: Mapping[str, Tool]) -> tuple[str, str]:
    """The tool that a letter calls, and the parameter that takes the text."""
    if len(letter) != 1 or letter == "|":
        raise ValueError(f"letters: {letter!r} must be a single character other than |")
    tool = tools.get(name)
    if tool is None:
        raise ValueError(f"letters: {letter!r} is for the tool {name!r}; there are {list(tools)}")
    first = next(iter(tool.params), "")
    schema = tool.params.get(first, {})
    takes = {inner.get("type") for inner in (schema, *schema.get("anyOf", ()))}
    if set(tool.required) - {first} or "string" not in takes:
        raise ValueError(f"letters: the tool {name!r} cannot be called with one text alone")
    return name, first


_OPEN, _CLOSE = "<tool_call>", "</tool_call>"
_THINK, _THOUGHT = "<think>", "</think>"
_STILL_THINKING = "<think> is not closed"
_FOREIGN = (
    "a tool call in a form that is not read here; write "
    '<tool_call>{"name": "...", "arguments": {...}}</tool_call>'
)
_PLAIN_CALL = {"name", "arguments"}
_MARK = re.compile(f"{_OPEN}|{_THINK}|`{{3,}}")
_TICKS = re.compile("`{3,}")


def _after_thinking(text: str) -> str:
    """What follows the last `</think>`. One inside the JSON of a call is none.

    That is found out for the first `MAX_CALLS` tags: each costs the length of the text at most.
    """
    at = end = 0
    for _ in range(MAX_CALLS):
        thought = text.find(_THOUGHT, at)
        if thought < 0:
            return text[end:]
        start = text.find(_OPEN, at, thought)
        if start < 0:
            at = end = thought + len(_THOUGHT)
        else:
            call = _read_call(text, start + len(_OPEN))
            at = start + len(_OPEN) if isinstance(call, Malformed) else call[1]
    last = text.rfind(_THOUGHT, at)
    return text[last + len(_THOUGHT) if last >= 0 else end :]


def _read_calls(text: str) -> Move:
    """The calls of a turn that has an opening tag, read left to right past code fences.

    A body is read by the JSON grammar, so tags and fences inside its strings are harmless.
    """
    calls: list[ToolCall] = []
    at = 0
    while mark := _MARK.search(text, at):
        if mark[0] == _THINK:
            return Malformed(_STILL_THINKING)
        if mark[0] != _OPEN:
            at = _end_of_fence(text, mark)
            continue
        if len(calls) == MAX_CALLS:
            return Malformed(f"more than {MAX_CALLS} calls in one turn")
        call = _read_call(text, mark.end())
        if isinstance(call, Malformed):
            return call
        calls.append(call[0])
        at = call[1]
    return calls or Malformed("a tool call inside a code fence is not run; write it outside")


def _end_of_fence(text: str, fence: re.Match[str]) -> int:
    """Where the code fence ends that a run of backticks opens: after the next run as long."""
    for ticks in _TICKS.finditer(text, fence.end()):
        if len(ticks[0]) >= len(fence[0]):
            return ticks.end()
    return len(text)


def _read_call(text: str, at: int) -> tuple[ToolCall, int] | Malformed:
    """The call whose body starts at `at`, and where its closing tag ends."""
    try:
        body, end = read_json(text, at)
    except ValueError as error:
        return Malformed(f"no JSON object inside {_OPEN}: {error}")
    if not text.startswith(_CLOSE, end):
        return Malformed(f"{_OPEN} is not closed by {_CLOSE} right after its JSON object")
    if not isinstance(body, dict) or not isinstance(body.get("name"), str):
        return Malformed('a tool call is {"name": "...", "arguments": {...}}')
    if body.keys() == _PLAIN_CALL:
        return ToolCall(body["name"], body["arguments"]), end + len(_CLOSE)
    extra = body.keys() - _PLAIN_CALL - {"id"}
    if extra:
        return Malformed(f"a tool call has name and arguments, not {sorted(extra)[0][:40]!r}")
    call_id = body.get("id")
    call = ToolCall(
        body["name"], body.get("arguments", {}), call_id if isinstance(call_id, str) else ""
    )
    return call, end + len(_CLOSE)
