"""A conversation as OpenAI's chat API takes it, which is stricter than the environments are.

There every native call is answered by a `tool` message with its id before anybody else speaks, no
other `tool` message exists, names match `[A-Za-z0-9_-]{1,64}`, and arguments are a JSON object.
"""

import json
import re
from typing import Any

from agent_envs.turns import Message

_NAME = re.compile(r"[^A-Za-z0-9_-]")


def encode(messages: list[Message], protocol: str = "hermes") -> list[Message]:
    """The messages to send. A tool's result that answers no native call becomes a user's message,
    written as `protocol` writes it; those that follow each other become one."""
    out: list[Message] = []
    waiting: list[str] = []
    told = False  # whether the last message sent holds results that answer no native call
    for message in messages:
        is_result = message["role"] == "tool"
        if message["role"] == "assistant":
            out.append(_assistant(message))
            waiting = [call["id"] for call in out[-1].get("tool_calls", ())]
        elif is_result and message.get("tool_call_id") in waiting:
            waiting.remove(message["tool_call_id"])
            out.append(_result(message["tool_call_id"], message["content"]))
        elif waiting:  # a turn that the env refused whole: its reason answers each call of it
            out += [_result(call_id, message["content"]) for call_id in waiting]
            waiting = []
        elif is_result and told:
            out[-1]["content"] += _as_text(message, protocol, "\n")
        else:
            role = "user" if is_result else message["role"]
            out.append({"role": role, "content": _as_text(message, protocol)})
            told = is_result
            continue
        told = told and is_result and not waiting and out[-1]["role"] == "user"
    return out


def _assistant(message: Message) -> Message:
    sent: Message = {"role": "assistant", "content": _sound(message["content"])}
    if message.get("tool_calls"):
        sent["tool_calls"] = [_call(call) for call in message["tool_calls"]]
    return sent


def _call(call: dict[str, Any]) -> dict[str, Any]:
    function = call["function"]
    name = _NAME.sub("_", function["name"])[:64] or "unnamed"
    arguments = {"name": name, "arguments": _object(function["arguments"])}
    return {"id": call["id"], "type": "function", "function": arguments}


def _object(text: str) -> str:
    """Arguments that are an object; anything else is shown to the model inside of one, since chat
    templates break on it."""
    value = json.loads(text)
    return _sound(text if isinstance(value, dict) else json.dumps({"malformed": value}))


def _result(call_id: str, content: str) -> Message:
    return {"role": "tool", "tool_call_id": call_id, "content": _sound(content)}


def _as_text(message: Message, protocol: str, between: str = "") -> str:
    """What a user says: a result as the protocol writes it, everything else as it is."""
    content = _sound(message["content"])
    if message["role"] != "tool" or protocol == "chars":
        return content
    return f"{between}<tool_response>\n{content}\n</tool_response>"


def _sound(text: str) -> str:
    """Text without lone surrogates, which no server takes."""
    return text if text.isascii() else text.encode(errors="replace").decode()
