"""Episodes as records: in memory, and as JSON Lines on disk."""

import json
import os
import sys
import threading
import warnings
import weakref
from collections.abc import Iterator
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, field
from io import FileIO
from pathlib import Path
from types import NoneType, TracebackType
from typing import Any, Literal, Self, TypeAlias, get_args

from agent_envs.plain import to_plain
from agent_envs.reading import choice, messages_of, told, turns_of, verdict_of
from agent_envs.task import Task
from agent_envs.turns import Action, Message, Turn
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
        out = [_copied(message) for message in self.prompt]
        for turn in self.turns[:turns]:
            out.append(assistant_message(turn.action))
            out += [_copied(message) for message in turn.info["messages"]]
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
        """The inverse of `to_dict`, but for the task's private data; totals are added up anew.

        Raises ValueError for what is no trajectory, naming the field.
        """
        parent = told(data, "parent", list, NoneType)
        if parent is not None and list(map(type, parent)) != [str, int]:
            raise ValueError("parent is no pair of an episode id and a turn")
        return cls(
            episode_id=told(data, "episode_id", str),
            group_id=told(data, "group_id", str),
            task=Task.from_dict(told(data, "task", dict)),
            seed=told(data, "seed", int),
            prompt=messages_of(data, "prompt"),
            parent=parent and tuple(parent),
            turns=turns_of(data),
            verdict=verdict_of(data),
            end_reason=choice(data, "end_reason", _END_REASONS),
            error=told(data, "error", str, NoneType),
            provenance=told(data, "provenance", dict),
        )


def assistant_message(action: Action) -> Message:
    """What a policy said, as a chat message; native calls in OpenAI's form."""
    message: Message = {"role": "assistant", "content": action.text}
    if action.calls:
        message["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": _name(call.name), "arguments": _as_text(call.arguments)},
            }
            for call in action.calls
        ]
    return message


def _copied(message: Message) -> Message:
    """A message that shares nothing that can be changed; most hold nothing but text."""
    return {key: x if isinstance(x, str) else deepcopy(x) for key, x in message.items()}


def _name(name: Any) -> str:
    """What the model took for the name of a tool."""
    return name if isinstance(name, str) else _as_text(name)


def _as_text(arguments: Any) -> str:
    """Arguments as a model writes them: letters that are not ASCII stay what they are."""
    return json.dumps(to_plain(arguments), ensure_ascii=False).encode(errors="replace").decode()


class TrajectoryWriter:
    """Appends trajectories to a JSON Lines file; threads and processes may write to the same one.

    A forked process may go on with the writer that it inherited. A process that is killed leaves
    at most one broken last line; the next write cuts it off, with a warning.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Makes the file, and its folder, where there is none. Raises OSError as `open` does."""
        self.path = Path(path).absolute()
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._file: FileIO | None = FileIO(self.path, "a+")
        self._closed = False
        self._lock = threading.Lock()
        _writers.add(self)

    def write(self, trajectory: Trajectory) -> None:
        """Append one; it is in the file when this returns. Raises TypeError for an info or native
        arguments without a JSON form, OSError where the disk is full, ValueError after `close`."""
        line = json.dumps(trajectory.to_dict(), ensure_ascii=True, allow_nan=False)
        data = memoryview(line.encode() + b"\n")
        with self._lock:
            file = self._opened()
            _lock(file)
            try:
                mended = _mend(file)
                while data:
                    data = data[file.write(data) :]
            finally:
                _unlock(file)
        if mended:
            warnings.warn(f"{self.path}: cut off a broken line before this one", stacklevel=2)

    def close(self) -> None:
        """Close the file, once a thread that is writing to it has written its line."""
        self._closed = True
        with self._lock:
            if self._file is not None:
                self._file.close()

    def _opened(self) -> FileIO:
        if self._closed:
            raise ValueError(f"the writer of {self.path} is closed; make a new one")
        if self._file is None:
            self._file = FileIO(self.path, "a+")
        return self._file

    def _after_fork(self) -> None:
        """In the child: a file that was opened before the fork has one lock and one position for
        both, and another thread of the parent may have been writing."""
        self._lock = threading.Lock()
        if self._file is not None:
            with suppress(OSError):
                self._file.close()
            self._file = None

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


def _lock(file: FileIO) -> None:
    """Keep other processes from writing, where the file system can."""
    if sys.platform != "win32":
        import fcntl

        with suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_EX)


def _unlock(file: FileIO) -> None:
    if sys.platform != "win32":
        import fcntl

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


_writers: "weakref.WeakSet[TrajectoryWriter]" = weakref.WeakSet()


def _after_fork_in_child() -> None:
    for writer in list(_writers):
        writer._after_fork()


if sys.platform != "win32":
    os.register_at_fork(after_in_child=_after_fork_in_child)
