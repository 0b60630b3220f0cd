"""Which tasks an update draws first."""

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from agent_envs.baselines.record import Record
from agent_envs.baselines.shaping import named
from agent_envs.task import Task

Curriculum = Callable[[Sequence[Task], Mapping[str, list[int]], random.Random], Sequence[Task]]
"""Puts tasks in order, given [passed, played] of those met so far and dice of the update."""


def uniform(
    tasks: Sequence[Task], met: Mapping[str, list[int]], rng: random.Random
) -> Sequence[Task]:
    """Any order."""
    return rng.sample(tasks, len(tasks))


def uncertain(
    tasks: Sequence[Task], met: Mapping[str, list[int]], rng: random.Random
) -> Sequence[Task]:
    """Those first that succeed about half of the time, by chance with weights p (1 - p): a group is
    mixed most often there. Without replacement (Efraimidis and Spirakis, 2006, algorithm A); p
    counts one success and one failure more than were seen."""

    def key(task: Task) -> float:
        passed, played = met.get(task.id, (0, 0))
        p = (passed + 1) / (played + 2)
        return float(rng.random() ** (1 / (p * (1 - p))))

    return sorted(tasks, key=key, reverse=True)


CURRICULA: dict[str, Curriculum] = {"uniform": uniform, "uncertain": uncertain}


class Course:
    """A curriculum with what it goes by: how every task went so far."""

    def __init__(self, name: str) -> None:
        """`name`: of `CURRICULA`, or `module:function`. Raises ValueError where there is none."""
        self.order: Curriculum = CURRICULA.get(name) or named(name)
        self.met: dict[str, list[int]] = {}

    def add(self, records: Sequence[Record]) -> None:
        """Count episodes; invalid ones and branches say nothing about their task."""
        for record in records:
            if record.valid and record.parent is None:
                seen = self.met.setdefault(record.task.id, [0, 0])
                seen[0] += record.passed
                seen[1] += 1

    def state_dict(self) -> dict[str, Any]:
        """For a checkpoint."""
        return {"met": self.met}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The inverse."""
        self.met = {task: list(seen) for task, seen in state["met"].items()}
