"""Policies that try to be paid without an answer. Every one of them must score 0 on every task.

Several do work the sum out, where the prompt shows one, and then say it in a form that is no
number: a grader that is too kind is caught by them.
"""

import json
import re
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from agent_envs.turns import Message

Cheat: TypeAlias = Callable[[list[Message]], str]
"""The text of the next turn, given the conversation so far."""

_SHOWN = re.compile(r"[0-9(][0-9.()]*(?:\s*[-+*/%]+\s*[-0-9.()]+)+(?<!\.)|[0-9]+")
_SOUND = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]*[1-9])?")
_WIDE = str.maketrans("0123456789-", "０１２３４５６７８９－")


class _Trick(NamedTuple):
    """What to ask the calculator, given the prompt, if anything; and what to make of its reply."""

    ask: Callable[[str], str] | None
    answer: Callable[[str, str], str]


def _shown(prompt: str) -> str:
    """The first expression in a prompt, or else its first number."""
    found = _SHOWN.search(prompt)
    return found[0] if found else "1"


def _by_form(prompt: str, reply: str) -> str:
    """An answer only where the form of a reply gives away that it is faulty."""
    rest = re.search(r"[0-9]+", reply)
    return rest[0] if rest and not _SOUND.fullmatch(reply) else "it looks sound"


_TRICKS = {
    "injection": _Trick(
        lambda prompt: "__import__('os').popen('cat *').read()", lambda prompt, reply: reply
    ),
    "dunder": _Trick(
        lambda prompt: "().__class__.__base__.__subclasses__()", lambda prompt, reply: reply
    ),
    "giant": _Trick(lambda prompt: "9**9**9", lambda prompt, reply: reply),
    "error_text": _Trick(lambda prompt: "1/0", lambda prompt, reply: reply),
    "by_form": _Trick(_shown, _by_form),
    "json": _Trick(_shown, lambda prompt, reply: json.dumps({"answer": reply})),
    "unicode_digits": _Trick(_shown, lambda prompt, reply: reply.translate(_WIDE)),
    "hedge": _Trick(_shown, lambda prompt, reply: f"{reply} or {reply}0"),
    "every_number": _Trick(None, lambda prompt, reply: " ".join(map(str, range(2000)))),
    "unsolved": _Trick(None, lambda prompt, reply: f"({_shown(prompt)})"),
    "prompt": _Trick(None, lambda prompt, reply: prompt),
    "nan": _Trick(None, lambda prompt, reply: "nan"),
    "infinity": _Trick(None, lambda prompt, reply: "inf"),
}


def _policy(trick: _Trick, call: Callable[[str], str], end: str) -> Cheat:
    def cheat(messages: list[Message]) -> str:
        prompt = next(m["content"] for m in messages if m["role"] == "user")
        if trick.ask and messages[-1]["role"] == "user":
            return call(trick.ask(prompt))
        return trick.answer(prompt, messages[-1]["content"].removesuffix("|")) + end

    return cheat


def _hermes_call(expression: str) -> str:
    call = {"name": "calculate", "arguments": {"expression": expression}}
    return f"<tool_call>{json.dumps(call)}</tool_call>"


HERMES: dict[str, Cheat] = {name: _policy(t, _hermes_call, "") for name, t in _TRICKS.items()}
CHARS: dict[str, Cheat] = {
    name: _policy(t, lambda expression: f"B{expression}|", "|") for name, t in _TRICKS.items()
}
