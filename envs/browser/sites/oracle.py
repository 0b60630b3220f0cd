"""Gold steps, and the gold move that a step is in the light of the last observation.

This is the one place that knows how the environment's tools are called and how it shows a page.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from agent_envs.envs.browser.reading import Seen, read
from agent_envs.turns import Message, Move, ToolCall

DONE = "done"
"""The final answer of a task that asks for no value."""


class Step(NamedTuple):
    """One gold action: a tool, the role and accessible name of what it acts on, and a value."""

    tool: str
    role: str = ""
    name: str = ""
    value: str = ""


START = Step("goto", value="/")
BACK = Step("back")
_ON_THE_PAGE = frozenset({"fill", "select", "check"})


def click(name: str, role: str = "link") -> Step:
    """Follow a link, or press what has another role."""
    return Step("click", role, name)


def press(name: str) -> Step:
    """Press a button."""
    return Step("click", "button", name)


def fill(name: str, value: object) -> Step:
    """Write into a box for text."""
    return Step("fill", "textbox", name, str(value))


def select(name: str, value: str) -> Step:
    """Choose from a list by the text of the option."""
    return Step("select", "combobox", name, value)


def tick(name: str) -> Step:
    """Tick a box."""
    return Step("check", "checkbox", name)


def turns(steps: Sequence[Sequence[str]]) -> list[list[Step]]:
    """The steps by turn: what is filled in on one page goes together with the click after it."""
    out: list[list[Step]] = []
    joins = False
    for step in (Step(*parts) for parts in steps):
        out[-1:] = [[*out[-1], step]] if joins else [*out[-1:], [step]]
        joins = step.tool in _ON_THE_PAGE
    return out


def move(data: dict[str, Any], messages: Sequence[Message]) -> Move:
    """The next gold move of the task with these private data: calls, or at last the answer.

    Raises LookupError where the last observation does not show what a step acts on."""
    done, plan = sum(m["role"] == "assistant" for m in messages), turns(data["steps"])
    if done >= len(plan):
        return DONE if data["answer"] is None else str(data["answer"])
    seen = read(messages[-1]["content"])
    return [_call(step, seen) for step in plan[done]]


def _call(step: Step, seen: Seen) -> ToolCall:
    """The tool call of a step on a page."""
    if step.tool == "goto":
        return ToolCall("goto", {"url": step.value})
    if step.tool == "back":
        return ToolCall("back", {})
    arguments: dict[str, Any] = {"ref": seen.number(step.role, step.name)}
    if step.tool == "fill":
        arguments["text"] = step.value
    if step.tool == "select":
        arguments["option"] = step.value
    return ToolCall(step.tool, arguments)
