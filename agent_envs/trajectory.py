"""Episodes as records: in memory, and as JSON Lines on disk."""

import json
import os
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from io import FileIO
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, TypeAlias, get_args

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

_END_REASONS = frozenset({None, *get_args(EndReason)})
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
        """The conversation, up to a number of turns: what a policy was shown, and what it said.

        A fresh copy: hosts rewrite messages on their way into a chat template.
        """
        out = [dict(message) for message in self.prompt]
        for turn in self.turns[:turns]:
            out.append(assistant_message(turn.action))
            out += [dict(message) for message in turn.info["messages"]]
        return out

    def to_dict(self) -> dict[str, Any]:
        """The JSON form. The task goes without its private data."""
        return {
            "episode_id": self.episode_id,
            "group_id": self.group_id,
            "parent": to_plain(self.parent),
            "task": self.task.to_dict(private=False),
            "seed": self.seed,
            "prompt": to_plain(self.prompt),
            "turns": to_plain(self.turns),
            "verdict": to_plain(self.verdict),
            "reward": self.reward,
            "end_reason": self.end_reason,
            "error": self.error,
            "provenance": to_plain(self.provenance),
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "Trajectory":
        """The inverse of `to_dict`, but for the task's private data. ValueError if it is none."""
        try:
            if data["end_reason"] not in _END_REASONS:
                raise ValueError(f"no end_reason {data['end_reason']!r}")
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
                "function": {"name": call.name, "arguments": _as_text(call.arguments)},
            }
            for call in action.calls
        ]
    return message


def _as_text(arguments: Any) -> str:
    """Arguments as a model writes them: letters that are not ASCII stay what they are."""
    return json.dumps(to_plain(arguments), ensure_ascii=False).encode(errors="replace").decode()


class TrajectoryWriter:
    """Appends trajectories to a JSON Lines file; threads and processes may write to the same one.

    A process that is killed leaves at most one broken last line; the next write cuts it off, with
    a warning.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Makes the file, and its folder, where there is none. Raises OSError as `open` does."""
        self.path = Path(path)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._file = FileIO(self.path, "a+")
        self._lock = threading.Lock()

    def write(self, trajectory: Trajectory) -> None:
        """Append one; it is in the file when this returns. Raises TypeError for an info or native
        arguments without a JSON form, OSError where the disk is full."""
        line = json.dumps(trajectory.to_dict(), ensure_ascii=True, allow_nan=False)
        data = memoryview(line.encode() + b"\n")
        with self._lock, _alone(self._file):
            mended = _mend(self._file)
            while data:
                data = data[self._file.write(data) :]
        if mended:
            warnings.warn(f"{self.path}: cut off a broken line before this one", stacklevel=2)

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
    with open(path, "rb") as file:
        for number, line in enumerate(file, 1):
            if not _is_whole(line):
                warnings.warn(
                    f"{path}: line {number} is broken off (its writer was killed, or is at it); "
                    "left out",
                    stacklevel=2,
                )
                return
            try:
                yield Trajectory.from_dict(json.loads(line))
            except (ValueError, RecursionError) as error:
                raise ValueError(f"{os.fspath(path)}:{number}: {error}") from None


def _turn_from_dict(data: dict[str, Any]) -> Turn:
    action, info = data["action"], data["info"]
    calls = action["calls"]
    native = None if calls is None else [ToolCall(**call) for call in calls]
    info["calls"] = [
        (call and ToolCall(**call), ToolResult(**result)) for call, result in info["calls"]
    ]
    info["verdict"] = info["verdict"] and Verdict.from_dict(info["verdict"])
    made = Action(action["text"], _sample_from_dict(action["sample"]), action["cut"], native)
    return Turn(made, data["observation"], data["reward"], info)


def _sample_from_dict(data: dict[str, Any] | None) -> Sample | None:
    if data is None:
        return None
    return Sample(data["tokens"], [float(x) for x in data["logprobs"]], data["version"])


@contextmanager
def _alone(file: FileIO) -> Iterator[None]:
    """Keep other processes from writing, where the file system can."""
    if sys.platform == "win32":
        yield
        return
    import fcntl

    with suppress(OSError):
        fcntl.flock(file, fcntl.LOCK_EX)
    try:
        yield
    finally:
        with suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_UN)


def _mend(file: FileIO) -> bool:
    """See to it that the file ends with a whole line; whether something was cut off."""
    end = file.seek(0, os.SEEK_END)
    start = _start_of_last_line(file, end)
    file.seek(start)
    broken = start < end and not _is_whole(file.read(end - start))
    if broken:
        file.truncate(start)
    elif start < end:
        file.write(b"\n")
    return broken


def _is_whole(line: bytes) -> bool:
    """Whether a line was written to its end. An editor may have left out the line break."""
    if line.endswith(b"\n"):
        return True
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True


def _start_of_last_line(file: FileIO, end: int) -> int:
    """Where what follows the last line break starts, looked for backwards."""
    size = 1
    while end > 0:
        start = max(0, end - size)
        file.seek(start)
        found = file.read(end - start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        end, size = start, 1 << 20
    return 0
