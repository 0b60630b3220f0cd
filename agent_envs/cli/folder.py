"""The folder that an evaluation leaves behind, and goes on in when it was stopped."""

import json
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

from agent_envs.cli.common import Failed, Usage
from agent_envs.cli.plan import Plan
from agent_envs.plain import parse_json
from agent_envs.trajectory import Trajectory, TrajectoryWriter, read_trajectories

EPISODES = "trajectories.jsonl"
SUMMARY = "summary.json"

_HASHED = ("package", "env", "verifier", "tasks", "protocol")
"""The parts of provenance that decide what an episode comes to."""


class Folder:
    """`trajectories.jsonl`, to which each episode is appended as it ends, and `summary.json`.

    Raises Usage where there is something that must not be overwritten, or where it is of another
    evaluation than the one to resume, and Failed for a line that is no episode of the plan.
    """

    def __init__(
        self,
        path: Path,
        plan: Plan,
        told: dict[str, Any],
        resume: bool,
        redo: bool = False,
        on_episode: Callable[[Trajectory], None] = lambda episode: None,
    ) -> None:
        """`told` is the summary before the first episode: it has `arguments` and `provenance`.

        `redo`: play again what was not valid. `on_episode` is handed what is there already; its
        ValueError says that an episode does not belong.
        """
        self.path = path
        self.seconds = 0.0
        """How long the earlier runs took."""
        if resume and _in_use(path):
            self.seconds = _check_same(path, told)
        elif _in_use(path):
            raise Usage(f"{path} is in use: give another --out, or --resume to go on with it")
        path.mkdir(parents=True, exist_ok=True)
        if redo:
            _drop_invalid(path / EPISODES)
        _read(path / EPISODES, plan, on_episode)
        self.summarise({**told, "seconds": self.seconds})
        self._writer = TrajectoryWriter(path / EPISODES)

    def write(self, episode: Trajectory) -> None:
        """Append an episode: it is in the file when this returns."""
        self._writer.write(episode)

    def summarise(self, told: dict[str, Any]) -> None:
        """Write the summary, whole or not at all."""
        write_json(self.path / SUMMARY, told)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._writer.close()


def write_json(path: Path, told: dict[str, Any]) -> None:
    """Write a JSON file, whole or not at all."""
    draft = path.with_name(f"{path.name}.new")
    draft.write_text(json.dumps(told, indent=2, allow_nan=False) + "\n")
    os.replace(draft, path)


def _in_use(path: Path) -> bool:
    return path.exists() and not (path.is_dir() and not any(path.iterdir()))


def _check_same(path: Path, told: dict[str, Any]) -> float:
    """The seconds spent so far, where the folder is of the same evaluation by the same code."""
    arguments, code, seconds = _begun(path)
    for name in {**arguments, **told["arguments"]}:
        was, now = arguments.get(name), told["arguments"].get(name)
        if was != now:
            differs = f"{name:.40} {str(was):.80}, not {str(now):.80}"
            raise Usage(f"{path} was begun with {differs}: give the same arguments")
    changed = [part for part in _HASHED if code.get(part) != told["provenance"][part]]
    if changed:
        raise Usage(f"{path} was begun with another {changed[0]} (its hash differs): start anew")
    return seconds


def _begun(path: Path) -> tuple[dict[str, Any], dict[str, Any], float]:
    """The arguments, provenance and seconds in a folder's summary."""
    try:
        match parse_json((path / SUMMARY).read_text()):
            case {
                "arguments": dict(arguments),
                "provenance": dict(code),
                "seconds": int() | float() as seconds,
            } if 0 <= seconds < 1e12:
                return arguments, code, float(seconds)
        why = "arguments, provenance and seconds are not there as they were written"
    except (OSError, ValueError) as error:
        why = str(error)
    raise Usage(f"{path} holds no evaluation to resume ({SUMMARY}: {why}): give another --out")


def _read(path: Path, plan: Plan, on_episode: Callable[[Trajectory], None]) -> None:
    """Hand over the episodes in a file."""
    if not path.exists():
        return
    try:
        for number, episode in enumerate(read_trajectories(path), 1):
            try:
                _check(episode, plan)
                on_episode(episode)
            except ValueError as error:
                raise ValueError(f"{path}:{number}: {error}") from None
    except ValueError as error:
        raise Failed(f"{error}; mend or remove that line") from None


def _check(episode: Trajectory, plan: Plan) -> None:
    """Raise ValueError where an episode cannot be of the evaluation that is resumed."""
    place = plan.place(episode.episode_id)
    if place is None or plan.tasks[place[1] // plan.group].id != episode.task.id:
        wrong = f"{episode.episode_id!r:.40} of {episode.task.id!r:.80}"
        raise ValueError(f"no episode {wrong} belongs here")
    if not math.isfinite(episode.reward * plan.total):  # or there were no mean of all
        raise ValueError(f"its rewards add up to {episode.reward}")


def _drop_invalid(path: Path) -> None:
    """Leave the episodes out that do not count, so that they are played again."""
    if not path.exists():
        return
    draft = path.with_name(f"{path.name}.new")
    draft.unlink(missing_ok=True)
    try:
        with TrajectoryWriter(draft) as writer:
            for episode in read_trajectories(path):
                if episode.valid:
                    writer.write(episode)
    except ValueError as error:
        raise Failed(f"{error}; mend or remove that line") from None
    os.replace(draft, path)
