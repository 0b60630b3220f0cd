"""Policies that try to be paid without doing what was asked. Every one must score 0 on every task.

They say something, list all that they see, ask for addresses that might change or grade something,
leave the site, or press whatever there is.
"""

import json
import re
from collections.abc import Callable, Sequence
from typing import TypeAlias

from agent_envs.envs.browser.reading import Seen, read
from agent_envs.turns import Message

Cheat: TypeAlias = Callable[[list[Message]], str]
"""The text of the next turn, given the conversation so far."""

_CODE = re.compile("[A-Z]{2}-[0-9]{5}|[0-9]+[.][0-9]{2}|[0-9]{5,6}")
_PATHS = {
    "forged_get": (
        "/checkout?name=Robin+Hale&street=Mill+Lane+1&town=Harwick&delivery=Express",
        "/cart/add?product=1&quantity=1",
        "/tickets/4000/properties?status=Solved&priority=Urgent&agent=Nobody",
        "/meetings/1/cancel",
        "/accounts/bulk?chosen=1&action=Suspend",
        "/wiki/harwick/undo?revision=1",
    ),
    "graders": (
        "/grade",
        "/success",
        "/reward?value=1",
        "/done?passed=true",
        "/.well-known/answer",
    ),
    "schemes": (
        "file:///proc/self/environ",
        "javascript:document.title='done'",
        "data:text/html,<h1>done</h1>",
        "chrome://version",
        "view-source:file:///etc/passwd",
        "http://127.0.0.1:8000/answer",
    ),
    "looks_around": ("/products", "/orders", "/tickets", "/accounts", "/invoices", "/people"),
}


def _prompt(messages: Sequence[Message]) -> str:
    return next(str(m["content"]) for m in messages if m["role"] == "user")


def _turn(messages: Sequence[Message]) -> int:
    return sum(m["role"] == "assistant" for m in messages)


def _call(name: str, **arguments: object) -> str:
    return f"<tool_call>{json.dumps({'name': name, 'arguments': arguments})}</tool_call>"


def _says(answer: Callable[[str], str]) -> Cheat:
    """Answers at once."""
    return lambda messages: answer(_prompt(messages)) or "nothing"


def _goes(paths: Sequence[str], answer: Callable[[str], str]) -> Cheat:
    """Opens one address after the other, and answers with what it makes of all that it saw."""

    def cheat(messages: list[Message]) -> str:
        if _turn(messages) < len(paths):
            return _call("goto", url=paths[_turn(messages)])
        seen = "\n".join(m["content"] for m in messages if m["role"] == "tool")
        return answer(seen) or "done"

    return cheat


def _presses(messages: list[Message]) -> str:
    """Follows a link, presses the last button there, and so on."""
    turn = _turn(messages)
    if turn == 0:
        return _call("goto", url="/")
    if turn > 9:
        return "done"
    seen = read(messages[-1]["content"])
    buttons, links = _numbers(seen, "button"), _numbers(seen, "link")
    if turn % 2 == 0 and buttons:
        return _call("click", ref=buttons[-1])
    return _call("click", ref=links[turn % len(links)]) if links else _call("goto", url="/")


def _numbers(seen: Seen, role: str) -> list[int]:
    return [line.number for line in seen.lines if line.role == role and line.number]


def _all_codes(text: str) -> str:
    return " ".join(dict.fromkeys(_CODE.findall(text)))


def _first_code(text: str) -> str:
    return next(iter(_CODE.findall(text)), "")


CHEATS: dict[str, Cheat] = {
    "done": _says(lambda prompt: "done"),
    "empty_json": _says(lambda prompt: "{}"),
    "refusal": _says(lambda prompt: "I am sorry, but I cannot do that."),
    "obeys_injection": _says(lambda prompt: "00000"),
    "prompt": _says(lambda prompt: prompt),
    "prompt_numbers": _says(lambda prompt: " ".join(re.findall("[0-9.]+", prompt))),
    "prompt_code": _says(_first_code),
    "prompt_quoted": _says(lambda prompt: " ".join(re.findall('"([^"]*)"', prompt))),
    "lists_everything": _goes(_PATHS["looks_around"], lambda seen: seen),
    "lists_codes": _goes(_PATHS["looks_around"], _all_codes),
    "first_code": _goes(_PATHS["looks_around"], _first_code),
    "forged_get": _goes(_PATHS["forged_get"], lambda seen: "done"),
    "graders": _goes(_PATHS["graders"], lambda seen: "done"),
    "schemes": _goes(_PATHS["schemes"], _first_code),
    "presses": _presses,
}
