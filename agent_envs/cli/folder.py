"""The folder that an evaluation leaves behind, and goes on in when it was stopped."""

import json
import os
from pathlib import Path
from typing import Any, Self

from agent_envs.cli.common import Failed, Usage
from agent_envs.cli.tally import Row, row
from agent_envs.trajectory import Trajectory, TrajectoryWriter, read_trajectories

EPISODES = "trajectories.jsonl"
SUMMARY = "summary.json"

_HASHED = ("package", "env", "verifier", "tasks", "protocol")
"""The parts of provenance that decide what an episode comes to."""


class Folder:
    """`trajectories.jsonl`, to which each episode is appended as it ends, and `summary.json`.

    Raises Usage where there is something that must not be overwritten, or where it is of another
    evaluation than the one to resume, and Failed where it cannot be read.
    """

    def __init__(self, path: Path, told: dict[str, Any], resume: bool) -> None:
        """`told` is the summary before the first episode: it has `arguments` and `provenance`."""
        self.path = path
        self.seconds = 0.0
        """How long the earlier runs took."""
        if resume and _in_use(path):
            self.seconds = _check_same(path, told)
        elif _in_use(path):
            raise Usage(f"{path} is in use: give another --out, or --resume to go on with it")
        path.mkdir(parents=True, exist_ok=True)
        self.rows = _read(path / EPISODES)
        self.summarise({**told, "seconds": self.seconds})
        self._writer = TrajectoryWriter(path / EPISODES)

    def write(self, episode: Trajectory) -> None:
        """Append an episode: it is in the file when this returns."""
        self._writer.write(episode)

    def summarise(self, told: dict[str, Any]) -> None:
        """Write the summary, whole or not at all."""
        draft = self.path / f"{SUMMARY}.new"
        draft.write_text(json.dumps(told, indent=2, allow_nan=False) + "\n")
        os.replace(draft, self.path / SUMMARY)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._writer.close()


def _in_use(path: Path) -> bool:
    return path.exists() and not (path.is_dir() and not any(path.iterdir()))


def _check_same(path: Path, told: dict[str, Any]) -> float:
    """The seconds spent so far, where the folder is of the same evaluation by the same code."""
    try:
        before = json.loads((path / SUMMARY).read_text())
        arguments, code = before["arguments"], before["provenance"]
        seconds = float(before["seconds"])
    except (OSError, ValueError, KeyError, TypeError):
        raise Usage(f"{path} holds no evaluation to resume: give another --out") from None
    for name in {**arguments, **told["arguments"]}:
        was, now = arguments.get(name), told["arguments"].get(name)
        if was != now:
            raise Usage(f"{path} was begun with {name} {was}, not {now}: give the same arguments")
    changed = [part for part in _HASHED if code.get(part) != told["provenance"][part]]
    if changed:
        raise Usage(f"{path} was begun with another {changed[0]} (its hash differs): start anew")
    return seconds


def _read(path: Path) -> dict[str, Row]:
    if not path.exists():
        return {}
    try:
        return {episode.episode_id: row(episode) for episode in read_trajectories(path)}
    except ValueError as error:
        raise Failed(f"{error}; mend or remove that line") from None
