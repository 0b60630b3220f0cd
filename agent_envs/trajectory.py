"""Episodes as records: in memory, and as JSON Lines on disk."""

import json
import os
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Literal, Self, TypeAlias

from agent_envs.plain import to_plain
from agent_envs.task import Task
from agent_envs.turns import Action, Message, Sample, ToolCall, ToolResult, Turn
from agent_envs.verdict import Verdict

EndReason: TypeAlias = Literal[
    "answer",
    "done",
    "max_turns",
    "infrastructure",
    "deadline",
    "cancelled",
    "policy_error",
    "token_limit",
]
"""How an episode ended. The env says the first four, `rollout` the rest."""

_NOT_VALID = frozenset({None, "infrastructure", "cancelled", "policy_error"})


@dataclass
class Trajectory:
    """One episode, or a branch of one: a branch holds only its own turns.

    `prompt` is the conversation before the first turn here. `parent` is (episode id, turn) of
    the state that a branch started from, so that branches form a tree.
    """

    episode_id: str
    group_id: str
    task: Task
    seed: int
    prompt: list[Message]
    parent: tuple[str, int] | None = None
    turns: list[Turn] = field(default_factory=list)
    verdict: Verdict | None = None
    end_reason: EndReason | None = None
    error: str | None = None
    provenance: dict[str, Any] = field(default_factory=dict, repr=False)

    @property
    def valid(self) -> bool:
        """Whether it may be scored and learned from: nothing of ours broke."""
        return self.end_reason not in _NOT_VALID

    @property
    def reward(self) -> float:
        """The sum of its own turns' rewards."""
        return sum(turn.reward for turn in self.turns)

    def messages(self, turns: int | None = None) -> list[Message]:
        """The conversation, up to a number of turns: what a policy was shown, and what it said."""
        out = list(self.prompt)
        for turn in self.turns[:turns]:
            out.append(assistant_message(turn.action))
            out.extend(turn.info["messages"])
        return out

    def to_dict(self) -> dict[str, Any]:
        """The JSON form. The task goes without its private data."""
        return {
            "episode_id": self.episode_id,
            "group_id": self.group_id,
            "parent": self.parent,
            "task": self.task.to_dict(private=False),
            "seed": self.seed,
            "prompt": self.prompt,
            "turns": to_plain(self.turns),
            "verdict": to_plain(self.verdict),
            "reward": self.reward,
            "end_reason": self.end_reason,
            "error": self.error,
            "provenance": self.provenance,
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "Trajectory":
        """The inverse of `to_dict`, but for the task's private data. ValueError if it is none."""
        try:
            return cls(
                episode_id=data["episode_id"],
                group_id=data["group_id"],
                task=Task.from_dict(data["task"]),
                seed=data["seed"],
                prompt=data["prompt"],
                parent=tuple(data["parent"]) if data["parent"] else None,
                turns=[_turn_from_dict(turn) for turn in data["turns"]],
                verdict=Verdict.from_dict(data["verdict"]) if data["verdict"] else None,
                end_reason=data["end_reason"],
                error=data["error"],
                provenance=data["provenance"],
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"not a trajectory: {error!r}") from None


def assistant_message(action: Action) -> Message:
    """What a policy said, as a chat message; native calls in OpenAI's form."""
    message: Message = {"role": "assistant", "content": action.text}
    if action.calls:
        message["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": json.dumps(call.arguments)},
            }
            for call in action.calls
        ]
    return message


class TrajectoryWriter:
    """Appends trajectories to a JSON Lines file, one write a line.

    A process that is killed leaves at most one broken last line; the next writer cuts it off.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        _cut_broken_line(self.path)
        self._file = self.path.open("ab", buffering=0)

    def write(self, trajectory: Trajectory) -> None:
        """Append one; it is in the file when this returns. ValueError for NaN or infinity."""
        line = json.dumps(trajectory.to_dict(), ensure_ascii=True, allow_nan=False)
        self._file.write(line.encode() + b"\n")

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def read_trajectories(path: str | os.PathLike[str]) -> Iterator[Trajectory]:
    """The trajectories of a file, one by one.

    A last line that is broken off is left out with a warning; any other line that is no
    trajectory is a ValueError that names it.
    """
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            try:
                yield Trajectory.from_dict(json.loads(line))
            except ValueError as error:
                if line.endswith("\n"):
                    raise ValueError(f"{path}:{number}: {error}") from None
                warnings.warn(
                    f"{path}: line {number} is broken off (its writer was killed); left out",
                    stacklevel=2,
                )


def _turn_from_dict(data: dict[str, Any]) -> Turn:
    action, info = data["action"], data["info"]
    sample = Sample(**action["sample"]) if action["sample"] else None
    calls = action["calls"]
    native = None if calls is None else [ToolCall(**call) for call in calls]
    info["calls"] = [
        (call and ToolCall(**call), ToolResult(**result)) for call, result in info["calls"]
    ]
    info["verdict"] = info["verdict"] and Verdict.from_dict(info["verdict"])
    made = Action(action["text"], sample, action["cut"], native)
    return Turn(made, data["observation"], data["reward"], info)


def _cut_broken_line(path: Path) -> None:
    if not path.exists():
        return
    with path.open("r+b") as file:
        end = file.seek(0, os.SEEK_END)
        whole = _end_of_last_line(file, end)
        if whole < end:
            file.truncate(whole)
            warnings.warn(f"{path}: cut off a broken last line", stacklevel=3)


def _end_of_last_line(file: BinaryIO, end: int) -> int:
    """Where the last newline ends, looked for backwards; 0 where there is none."""
    while end > 0:
        start = max(0, end - (1 << 20))
        file.seek(start)
        found = file.read(end - start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        end = start
    return 0
