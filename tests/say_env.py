"""A ToolEnv that says what it is told, which workers of any start method can import."""

from dataclasses import dataclass

import gymnasium

from agent_envs import SnapshotUnsupported, Task, TaskSource, ToolEnv, Verdict, tool


class Words(TaskSource):
    """Twenty a split; the prompts hold letters of several scripts and a line break."""

    splits = ("train", "heldout")

    def load(self, split: str) -> list[Task]:
        """Twenty tasks, whose answers are their numbers."""
        return [
            Task(f"{split}/{i}", split, f"Sag's: {split}\nn° {i} 中", str(i)) for i in range(20)
        ]


@dataclass(frozen=True)
class Said:
    """What was said so far."""

    texts: tuple[str, ...] = ()


class Say(ToolEnv):
    """Says any text, the empty one included, and cannot be captured after it said "shy"."""

    tasks = Words()
    weights = {"answer": 1.0, "length": 0.01}

    def setup(self, task: Task) -> None:
        """Nothing was said yet."""
        self.state = Said()

    @tool
    def say(self, text: str) -> str:
        """Say a text."""
        self.state = Said((*self.state.texts, text))
        self.pay("length", len(text))
        return text

    @tool
    def all(self) -> str:
        """Say all texts again."""
        return "\n".join(self.state.texts)

    def grade(self, answer: str | None) -> Verdict:
        """Whether the answer is the task's number."""
        right = answer == self.task.data
        return Verdict({"answer": float(right)}, self.weights, right)

    def save(self) -> Said:
        """The state, unless the last text was "shy"."""
        if self.state.texts[-1:] == ("shy",):
            raise SnapshotUnsupported("a shy state")
        return super().save()  # type: ignore[no-any-return]


gymnasium.register("test/Say-v0", "say_env:Say", order_enforce=False, disable_env_checker=True)
