"""The environment of `bench_trainer.py`: one tool, as TRL has it, and sums as prompts."""

import random
from collections.abc import Iterator

from agent_envs import register
from agent_envs.env import ToolEnv
from agent_envs.task import Task, TaskSource
from agent_envs.tool import tool
from agent_envs.turns import Message, Move, ToolCall
from agent_envs.verdict import Verdict


class Sums(TaskSource):
    """Two-digit sums."""

    def load(self, split: str) -> Iterator[Task]:
        """See `TaskSource`."""
        pairs = [(a, b) for a in range(10, 100) for b in range(10, 100)]
        random.Random(1).shuffle(pairs)
        start, end = _SPLITS[split]
        for a, b in pairs[start:end]:
            yield Task(f"adding/{a}/{b}", split, f"What is {a}+{b}?", {"sum": a + b})


_SPLITS = {"train": (0, 512), "heldout": (512, 544), "adversarial": (544, 576)}


class Adding(ToolEnv):
    """Add with a tool, and say the sum."""

    tasks = Sums()
    weights = {"answer": 1.0}
    inline = True

    def setup(self, task: Task) -> None:
        """Nothing to build."""

    @tool
    def add(self, a: int, b: int) -> str:
        """Add two integers.

        Args:
            a: First integer.
            b: Second integer.
        """
        return str(a + b)

    def grade(self, answer: str | None) -> Verdict:
        """Whether the answer ends with the sum, as TRL's reward has it."""
        right = answer is not None and answer.endswith(str(self.task.data["sum"]))
        return Verdict({"answer": float(right)}, self.weights, right)

    @staticmethod
    def oracle(task: Task, messages: list[Message]) -> Move:
        """The call, then its result."""
        if messages[-1]["role"] == "tool":
            return str(task.data["sum"])
        a, b = task.prompt.removeprefix("What is ").removesuffix("?").split("+")
        return [ToolCall("add", {"a": int(a), "b": int(b)})]


register("agent/Adding-v0", f"{__name__}:Adding")
