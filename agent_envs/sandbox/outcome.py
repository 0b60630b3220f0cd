"""From what the kernel, the supervisor and the model's interpreter say to an ExecResult."""

import os
import signal
from typing import Any

from agent_envs.sandbox.channel import Outcome
from agent_envs.sandbox.result import Ended, ExecResult
from agent_envs.sandbox.settings import Limits

LOST_INTERPRETER = "the interpreter was lost: the next call starts with an empty one"
LOST_SESSION = "the sandbox was lost: the next call starts with an empty one"
CUT_SHORT: dict[str, Ended] = {"timeout": "timeout", "output": "output"}


def read_outcome(outcome: Outcome, limits: Limits, *, command: bool, kills: int) -> ExecResult:
    """The result of a call. `kills`: how many processes the kernel ended for memory in it."""
    facts, word = outcome.facts, outcome.word
    code = exit_code(facts) if command else None
    cut: list[str] = [name for name in ("stdout", "stderr") if name in outcome.cut]
    if word.get("cut"):
        cut.append("error" if "error" in word else "value")
    return ExecResult(
        how_it_ended(facts, word, limits, command=command, kills=kills),
        outcome.output["stdout"].decode("utf-8", "replace"),
        outcome.output["stderr"].decode("utf-8", "replace"),
        word.get("value"),
        word.get("error"),
        code,
        tuple(cut),
        tuple(notes(facts, command=command)),
        facts.get("cpu", 0.0),
    )


def how_it_ended(
    facts: dict[str, Any], word: dict[str, Any], limits: Limits, *, command: bool, kills: int
) -> Ended:
    """One of the closed set; only `error` is the model's own word."""
    how = facts["ended"]
    if how == "ok":
        return "memory" if word.get("memory") else "error" if "error" in word else "ok"
    if how in CUT_SHORT:
        return CUT_SHORT[how]
    if kills:
        return "memory"
    if how != "exited":
        return "killed"
    code = exit_code(facts)
    if code == -signal.SIGXCPU or (code and facts.get("own_cpu", 0.0) >= limits.cpu_seconds):
        return "timeout"
    if command and code is not None and code >= 0:
        return "error" if code else "ok"
    return "killed"


def exit_code(facts: dict[str, Any]) -> int | None:
    """As `subprocess` has it: negative for a signal."""
    status = facts.get("status")
    if facts["ended"] != "exited" or status is None:
        return None
    return os.waitstatus_to_exitcode(status)


def notes(facts: dict[str, Any], *, command: bool) -> list[str]:
    """What else a reader should know."""
    said = []
    if facts["ended"] == "lost":
        said.append(LOST_INTERPRETER)
    if facts["ended"] == "no_process":
        said.append("no process could be started to run this in")
    if facts["ended"] == "forged":
        said.append("it wrote to a descriptor that it did not open, and was ended for it")
    if facts["ended"] == "space":
        said.append("the workspace grew over its limit")
    code = exit_code(facts)
    if not command and code is not None:
        said.append(f"its process ended with signal {-code}" if code < 0 else f"exit code {code}")
    if count := facts.get("threads"):
        said.append(f"{count} threads ended with the call")
    if (count := facts.get("killed", 0)) and facts["ended"] in ("ok", "exited"):
        said.append(f"{count} processes that the call left were ended")
    if removed := facts.get("removed"):
        said.append(f"removed, to fit the workspace's limit: {', '.join(removed[:5])}")
    return said
