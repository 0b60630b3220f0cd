"""What many episodes come to: rates, means and counts."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from agent_envs.trajectory import Trajectory


@dataclass(frozen=True, slots=True)
class Row:
    """What a summary needs of one episode."""

    level: int
    valid: bool
    passed: bool
    reward: float
    turns: int
    calls: int
    end_reason: str
    errors: tuple[str, ...]
    faults: tuple[str, ...]
    failure: str | None
    """Why it is not valid."""


def row(episode: Trajectory) -> Row:
    """The row of a finished episode."""
    made = [pair for turn in episode.turns for pair in turn.info["calls"]]
    return Row(
        level=episode.task.level,
        valid=episode.valid,
        passed=bool(episode.verdict and episode.verdict.passed),
        reward=episode.reward,
        turns=len(episode.turns),
        calls=sum(call is not None for call, _ in made),
        end_reason=episode.end_reason or "cancelled",
        errors=tuple(result.error for _, result in made if result.error and not result.fault),
        faults=tuple(result.fault for _, result in made if result.fault),
        failure=None if episode.valid else (episode.error or "cancelled")[:200],
    )


def summary(rows: Sequence[Row]) -> dict[str, Any]:
    """The figures of some episodes.

    `episodes`, `invalid`, `invalid_because` and `end_reasons` are of all, the rest of the valid
    ones. `turns` and `calls` are means; a mean of nothing is None. `errors` (the policy's own) and
    `faults` (injected) count by kind.
    """
    valid = [one for one in rows if one.valid]
    levels = sorted({one.level for one in rows})
    return {
        "episodes": len(rows),
        "invalid": len(rows) - len(valid),
        "invalid_because": _counts(one.failure for one in rows if one.failure),
        **_rates(valid),
        "turns": _mean(one.turns for one in valid),
        "calls": _mean(one.calls for one in valid),
        "by_level": {str(n): _part([one for one in rows if one.level == n]) for n in levels},
        "end_reasons": _counts(one.end_reason for one in rows),
        "errors": _counts(kind for one in valid for kind in one.errors),
        "faults": _counts(kind for one in valid for kind in one.faults),
    }


def _part(rows: Sequence[Row]) -> dict[str, Any]:
    return {"episodes": len(rows), **_rates([one for one in rows if one.valid])}


def _rates(valid: Sequence[Row]) -> dict[str, float | None]:
    return {
        "success_rate": _mean(one.passed for one in valid),
        "mean_reward": _mean(one.reward for one in valid),
    }


def _mean(values: Iterable[float]) -> float | None:
    listed = list(values)
    return fmean(listed) if listed else None


def _counts(kinds: Iterable[str]) -> dict[str, int]:
    return dict(sorted(Counter(kinds).items()))
