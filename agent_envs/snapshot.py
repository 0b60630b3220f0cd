"""Snapshots: the handle that travels, and the shelf where an environment keeps the states."""

import json
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from agent_envs.episode import Episode
from agent_envs.errors import whole
from agent_envs.plain import parse_json


@dataclass(slots=True, frozen=True)
class Snapshot:
    """A handle to an immutable state of one episode. The state stays with the env that took it.

    Small plain data: it pickles, and `to_json` is its wire form. `refused` names what could not be
    captured where `snapshot(on_refusal="mark")` was asked; rolling back to it raises.
    """

    id: int
    owner: str
    env_id: str
    task_id: str
    turn: int
    parent: int | None = None
    nbytes: int = 0
    """What the kept state weighs, where the env can tell; 0 where it is plain Python data."""
    refused: str | None = None

    def to_json(self) -> str:
        """The handle as JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "Snapshot":
        """The inverse of `to_json`. Raises ValueError where the text is no handle."""
        match parse_json(text):
            case {
                "id": int(),
                "owner": str(),
                "env_id": str(),
                "task_id": str(),
                "turn": int(),
                "parent": int() | None,
                "nbytes": int(),
                "refused": str() | None,
                **others,
            } as told if not others:
                return cls(**told)
        raise ValueError(f"not a snapshot: {text[:100]}")


class Shelf:
    """The states behind an env's snapshots: at most `capacity` of them, the oldest unused go first.

    What has gone is still known by its episode's log, from which it can be replayed.
    """

    def __init__(self, capacity: int, drop: Callable[[Any], None]) -> None:
        self.capacity = whole("max_snapshots", capacity, 1)
        self.dropped = 0
        self._drop = drop
        self._episodes: dict[int, Episode] = {}
        self._states: OrderedDict[int, Any] = OrderedDict()
        self._last_id = 0

    def __len__(self) -> int:
        return len(self._states)

    def new_id(self) -> int:
        """Ids count up from 1 and are never used again."""
        self._last_id += 1
        return self._last_id

    def put(self, snapshot_id: int, episode: Episode, state: Any) -> None:
        """Keep a state; over the capacity the least recently used one is dropped."""
        self._episodes[snapshot_id] = episode
        self._states[snapshot_id] = state
        while len(self._states) > self.capacity:
            _, old = self._states.popitem(last=False)
            self.dropped += 1
            self._drop(old)

    def episode(self, snapshot_id: int) -> Episode | None:
        """The episode as it was, or None if the snapshot is not (or no longer) here."""
        return self._episodes.get(snapshot_id)

    def has_state(self, snapshot_id: int) -> bool:
        """Whether the state itself is still kept."""
        return snapshot_id in self._states

    def state(self, snapshot_id: int) -> Any:
        """A kept state, which thereby counts as used."""
        self._states.move_to_end(snapshot_id)
        return self._states[snapshot_id]

    def release(self, snapshot_id: int) -> None:
        """Forget a snapshot altogether; unknown ones are none the worse."""
        self._episodes.pop(snapshot_id, None)
        if snapshot_id in self._states:
            self._drop(self._states.pop(snapshot_id))

    def clear(self) -> None:
        """Forget all of them."""
        for snapshot_id in list(self._episodes):
            self.release(snapshot_id)
