"""How `demo` looks: plain text, 100 columns, bold only on a terminal."""

import os
import sys
import textwrap
from collections.abc import Callable

from agent_envs.cli.common import call_text, printable
from agent_envs.task import Task
from agent_envs.turns import ToolCall, ToolResult
from agent_envs.verdict import Verdict

Say = Callable[[str], None]
"""Where text goes."""


def heading(say: Say, text: str) -> None:
    """A heading: bold on a terminal, unless `NO_COLOR` is set."""
    bold = sys.stdout.isatty() and sys.stderr.isatty() and "NO_COLOR" not in os.environ
    say(f"\n\033[1m{text}\033[0m\n" if bold else f"\n{text}\n")


def prose(say: Say, text: str) -> None:
    """A paragraph."""
    say(textwrap.fill(text, 92, initial_indent="  ", subsequent_indent="  ") + "\n")


def task(say: Say, task: Task) -> None:
    """A task as a model is shown it."""
    margin = "  | "
    text = textwrap.fill(
        printable(task.prompt), 92, initial_indent=margin, subsequent_indent=margin
    )
    say(f"  task {task.id}\n{text}")


def rule(say: Say, text: str) -> None:
    """A line across the page, with what happens there."""
    say(f"  -- {text} {'-' * (86 - len(text))}")


def called(say: Say, call: ToolCall, result: ToolResult) -> None:
    """A call with its result, and the fault in it."""
    fault = f"<- injected: {result.fault}, the truth is {result.truth}" if result.fault else ""
    say(f"    {call_text(call):<42} {printable(result.content):<10} {fault}".rstrip())


def remark(say: Say, text: str) -> None:
    """A remark on the line above."""
    say(f"      ^ {text}")


def answered(say: Say, answer: str, verdict: Verdict | None) -> None:
    """A final answer and what it was worth."""
    passed = bool(verdict and verdict.passed)
    reward = verdict.total if verdict else 0.0
    said = f"answer {printable(answer)}"
    say(f"    {said:<42} {'passed' if passed else 'failed'}, reward {reward:g}\n")


def yes(true: bool) -> str:
    """Whether a promise was kept, for all to see."""
    return "yes" if true else "NO"
