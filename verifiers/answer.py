"""Grades a final answer by its value: exact in type and value, read as the task says."""

from typing import Any

from agent_envs.task import Task

VERSION = "1"


def is_correct(task: Task, answer: str | None, gold: str) -> bool:
    """Whether an answer, read by `task.read`, is the gold one, read the same way.

    False for no answer and for one that cannot be read; no answer raises. `1`, `1.0` and `true`
    are three JSON values; `1` and `1.0` are one number. A gold answer that cannot be read is a
    ValueError: the task is broken.
    """
    wanted = task.read(gold)
    if not isinstance(answer, str):
        return False
    try:
        return _same(task.read(answer), wanted)
    except ValueError:
        return False


def _same(found: Any, wanted: Any) -> bool:
    """Equality that keeps types apart, at every depth."""
    if type(found) is not type(wanted):
        return False
    if isinstance(wanted, list):
        return len(found) == len(wanted) and all(map(_same, found, wanted))
    if isinstance(wanted, dict):
        return found.keys() == wanted.keys() and all(_same(found[k], wanted[k]) for k in wanted)
    return bool(found == wanted)
