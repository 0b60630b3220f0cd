"""Checkpoints: written whole or not at all, and refused by a run that is another one."""

import dataclasses
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import torch

NAME = "checkpoint.pt"


class Part(Protocol):
    """What has a state: what is learned, a curriculum."""

    def state_dict(self) -> Any:
        """The state, as tensors and plain values."""

    def load_state_dict(self, state: Any, /) -> Any:
        """Take on a state."""


@dataclasses.dataclass
class Same:
    """What has to be the same when a run goes on."""

    what: str
    digest: str

    def state_dict(self) -> Any:
        """The digest."""
        return self.digest

    def load_state_dict(self, state: Any) -> None:
        """Raises ValueError for another one."""
        if state != self.digest:
            raise ValueError(f"{self.what} is another one ({self.digest}) than it was ({state})")


def save(
    out: Path,
    args: Any,
    parts: Mapping[str, Part],
    history: list[dict[str, float]],
    write: bool = True,
) -> None:
    """Write a run's parts, arguments and history over the last checkpoint in `out`.

    A process that is killed meanwhile leaves the last one as it was. Of several processes, all of
    which take part, one writes.
    """
    state = {name: part.state_dict() for name, part in parts.items()}
    if not write:
        return
    made = out / f"{NAME}.new"
    with made.open("wb") as file:
        torch.save({"args": dataclasses.asdict(args), "history": history, "parts": state}, file)
        file.flush()
        os.fsync(file.fileno())
    made.replace(out / NAME)


def load(out: Path, args: Any, parts: Mapping[str, Part]) -> list[dict[str, float]]:
    """Bring the parts of a run to the last checkpoint in `out`; returns its history.

    Where there is no checkpoint yet, nothing happens and the history is empty. Raises ValueError
    for a run with other arguments; `updates` may differ.
    """
    path = out / NAME
    if not path.exists():
        return []
    saved = torch.load(path, map_location=args.device, weights_only=True)
    then, now = saved["args"], dataclasses.asdict(args)
    differ = [k for k in {**then, **now} if k != "updates" and then.get(k) != now.get(k)]
    if differ:
        told = ", ".join(f"{k} was {then.get(k)!r} and is {now.get(k)!r}" for k in sorted(differ))
        raise ValueError(f"{path} is of another run: {told}; give the same, or another --out")
    for name, part in parts.items():
        part.load_state_dict(saved["parts"][name])
    history: list[dict[str, float]] = saved["history"]
    return history
