"""Rewards of our own, turn by turn, beside those of the environment."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

from agent_envs.baselines.record import Record
from agent_envs.trajectory import Trajectory

ProcessReward = Callable[[Trajectory], Sequence[float]]
"""Judges an episode turn by turn: a number for each of its turns."""

COMPONENT = "shaping"
"""The reward component under which they are recorded."""


@dataclass
class Shaping:
    """What is added to the rewards. The outcome that dynamic sampling looks at stays the same."""

    malformed: float = 0.0
    """To a turn that could not be read."""
    call: float = 0.0
    """To a turn for each of its tool calls."""
    overlong: float = 0.0
    """To an episode that has `limit` own tokens or more; with fewer, see `soft`."""
    limit: int = 0
    """How many own tokens are too many."""
    soft: int = 0
    """Over how many tokens before the limit `overlong` grows from nothing to all of it."""
    mask: bool = False
    """Whether an episode with a turn that was cut counts in its group, but is not learned from."""
    process: str = ""
    """`module:function`, a `ProcessReward`."""

    def add(self, record: Record, trajectory: Trajectory) -> Record:
        """The record with these in it. Raises ValueError where a process reward has not a number
        for every turn."""
        extra = self._turns(trajectory)
        if extra:
            extra[-1] += self.overlong * excess(sum(record.row.own), self.limit, self.soft)
        if not any(extra):
            return record
        rewards = [r + x for r, x in zip(record.rewards, extra, strict=True)]
        parts = zip(record.components, extra, strict=True)
        return replace(record, rewards=rewards, components=[c | {COMPONENT: x} for c, x in parts])

    def _turns(self, trajectory: Trajectory) -> list[float]:
        calls = [[call is not None for call, _ in t.info["calls"]] for t in trajectory.turns]
        extra = [self.call * sum(made) + self.malformed * made.count(False) for made in calls]
        if not self.process:
            return extra
        judged = list(named(self.process)(trajectory))
        if len(judged) != len(extra):
            raise ValueError(f"{self.process}: {len(judged)} rewards for {len(extra)} turns")
        return [x + float(j) for x, j in zip(extra, judged, strict=True)]


def excess(tokens: int, limit: int, soft: int) -> float:
    """How far an episode is into the last `soft` tokens before `limit`, from 0 to 1 (DAPO,
    arXiv:2503.14476, equation 13)."""
    if not limit:
        return 0.0
    return min(1.0, max(0.0, (tokens - (limit - soft)) / max(soft, 1)))


def named(path: str) -> Any:
    """The function that `module:function` names. Raises ValueError where there is none."""
    module, colon, name = path.partition(":")
    try:
        found = getattr(import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ValueError(f"{path!r}: no such module:function ({error})") from None
    return found
