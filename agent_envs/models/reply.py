"""Reading a server's answer: one turn of the model, and what it cost."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

from agent_envs.models.trouble import Malformed, ModelError, refusal
from agent_envs.plain import parse_json
from agent_envs.turns import Action, ToolCall

_ID = re.compile(r"[A-Za-z0-9_.:-]{1,128}")


@dataclass(slots=True)
class Usage:
    """What turns cost: requests that were answered, tries that were not, tokens as told by the
    server. `untold` counts the answers that came without token counts."""

    requests: int = 0
    retries: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    """Those of the prompt tokens that the server had seen before."""
    completion_tokens: int = 0
    untold: int = 0

    def add(self, other: "Usage") -> None:
        """Count another's in."""
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


@dataclass(slots=True)
class Reply:
    """A turn, what it cost, and what the server says that it is."""

    action: Action
    usage: Usage
    served: dict[str, str] = field(default_factory=dict)
    """`model` and `system_fingerprint`, where the server tells them."""


def read_reply(body: bytes) -> Reply:
    """The turn in the body of an answer with status 200.

    Native calls become `Action.calls`, arguments that are no JSON staying the text that they are:
    the env refuses that call, and the model learns of it. Without native calls, the text is left
    to the env's protocol. Raises Malformed for what is no completion, ModelError for one that a
    content filter stopped and for an error that was sent with status 200.
    """
    told = _told(body)
    choice = _choice(told)
    message = choice.get("message")
    if not isinstance(message, dict):
        _refuse("the choice has no message")
    reason = choice.get("finish_reason")
    if reason == "content_filter":
        raise ModelError("the server's content filter stopped the turn")
    text = _text(message.get("content")) or _text(message.get("refusal"))
    calls = _calls(message.get("tool_calls"))
    if reason == "length":
        cut = "".join(f"{call.name}({call.arguments})" for call in calls)
        action = Action(text + cut, cut=True)
    else:
        action = Action(text, calls=calls or None)
    served = {
        name: value[:200]
        for name in ("model", "system_fingerprint")
        if isinstance(value := told.get(name), str)
    }
    return Reply(action, _usage(told.get("usage")), served)


def _told(body: bytes) -> dict[str, Any]:
    try:
        told = json.loads(body)
    except (ValueError, RecursionError):
        _refuse("it is no JSON")
    if not isinstance(told, dict):
        _refuse("it is no JSON object")
    return told


def _choice(told: Mapping[str, Any]) -> dict[str, Any]:
    choices = told.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    for holder in (told, first):
        if isinstance(holder, dict) and holder.get("error"):
            raise _sent_as_success(holder["error"])
    if not isinstance(first, dict):
        _refuse("it has no choices")
    return first


def _sent_as_success(error: Any) -> ModelError:
    """An error that came with status 200: the code in it counts."""
    code = error.get("code") if isinstance(error, dict) else None
    status = code if isinstance(code, int) and 400 <= code < 600 else 500
    return refusal(status, {}, json.dumps({"error": error}).encode())


def _text(content: Any) -> str:
    """The text of a message: a string, a list of parts, or nothing."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        parts = [part.get("text", "") if isinstance(part, dict) else part for part in content]
        if all(isinstance(part, str) for part in parts):
            return "".join(parts)
    _refuse("the message's content is no text")


def _calls(listed: Any) -> list[ToolCall]:
    if listed is None:
        return []
    if not isinstance(listed, list):
        _refuse("tool_calls is no list")
    calls: list[ToolCall] = []
    for number, call in enumerate(listed):
        function = call.get("function") if isinstance(call, dict) else None
        if not isinstance(function, dict):
            _refuse("a tool call has no function")
        known = {one.id for one in calls}
        given = call.get("id")
        sound = isinstance(given, str) and _ID.fullmatch(given) and given not in known
        call_id = given if sound else _own_id(number, known)
        name: Any = function.get("name")  # the env refuses what is no string
        calls.append(ToolCall(name, _arguments(function), call_id))
    return calls


def _own_id(number: int, known: set[str]) -> str:
    name = f"call_{number}"
    return name if name not in known else _own_id(number + 1000, known)


def _arguments(function: Mapping[str, Any]) -> Any:
    """An object as it is meant, whether written as text or not; else what was written."""
    given = function.get("arguments")
    if given is None or given == "":
        return {}
    if not isinstance(given, str):
        return given
    try:
        return parse_json(given)
    except ValueError:
        return given


def _usage(told: Any) -> Usage:
    if not isinstance(told, dict):
        return Usage(requests=1, untold=1)
    details = told.get("prompt_tokens_details")
    prompt, completion = _count(told, "prompt_tokens"), _count(told, "completion_tokens")
    return Usage(
        requests=1,
        prompt_tokens=prompt or 0,
        cached_tokens=(_count(details, "cached_tokens") or 0) if isinstance(details, dict) else 0,
        completion_tokens=completion or 0,
        untold=int(prompt is None or completion is None),
    )


def _count(told: Mapping[str, Any], name: str) -> int | None:
    value = told.get(name)
    sound = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 53
    return value if sound else None


def _refuse(why: str) -> NoReturn:
    raise Malformed(f"the server's answer is no chat completion: {why}")
