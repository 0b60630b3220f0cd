"""The benchmark suite: which tasks, under which conditions, within which budget. Fixed by version.

A change to anything here is a new `VERSION`: figures are compared within one. docs/benchmark.md
says how external trainers are measured with it.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from agent_envs.fault import FaultRate
from agent_envs.streams import derive
from agent_envs.task import Task

VERSION = "1"
SPLIT = "heldout"
SEED = 1
"""Of the tools' noise."""
TASKS = 100
"""Of each environment, spread evenly over its levels; all, where it has fewer."""
SAMPLES = 4
"""Episodes of each task."""
BUDGET = {"max_turns": 16, "max_calls": 32}
"""Of an episode."""
MAX_TOKENS = 1024
"""Of a turn, where a model's server plays."""
LEFT_OUT = frozenset({"agent/CalculatorChars-v0"})
"""Not played unless asked for: an alphabet that only models trained on it can write."""
CONDITIONS: dict[str, FaultRate] = {
    "clean": 0.0,
    "noisy": {"wrong": 0.1, "error": 0.05, "timeout": 0.05},
}
"""How often tools go wrong."""


@dataclass(frozen=True)
class Entry:
    """One line of the suite: an environment under a condition."""

    env_id: str
    condition: str

    @property
    def name(self) -> str:
        """Also the name of its folder: `Calculator-v0-noisy`."""
        return f"{self.env_id.rpartition('/')[2].rpartition(':')[2]}-{self.condition}"

    def options(self) -> dict[str, Any]:
        """The arguments of `make`."""
        return {"split": SPLIT, "fault_rate": CONDITIONS[self.condition], **BUDGET}


def entries(ids: Sequence[str]) -> list[Entry]:
    """The lines for some environments."""
    return [Entry(env_id, condition) for env_id in ids for condition in CONDITIONS]


def chosen(tasks: Sequence[Task], count: int = TASKS) -> list[Task]:
    """`count` tasks, as many of each level as can be, always the same ones of the same tasks."""
    levels: dict[int, list[Task]] = {}
    for task in sorted(tasks, key=lambda task: derive("suite", VERSION, task.id)):
        levels.setdefault(task.level, []).append(task)
    ranked = [
        (rank, level, task)
        for level, some in sorted(levels.items())
        for rank, task in enumerate(some)
    ]
    ranked.sort(key=lambda place: place[:2])
    return [task for _, _, task in ranked[:count]]


def digest(tasks: Sequence[Task]) -> str:
    """A hash of which tasks were played."""
    ids = "\n".join(sorted(task.id for task in tasks))
    return hashlib.sha256(ids.encode()).hexdigest()[:16]
