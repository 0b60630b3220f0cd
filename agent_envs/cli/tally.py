"""What many episodes come to: rates, means and counts, in memory that does not grow with them."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from agent_envs.cli.estimates import mean, pass_at, standard_error, wilson
from agent_envs.models.reply import Usage
from agent_envs.trajectory import Trajectory

_KINDS = 20
"""How many kinds of failure are told apart; the rest is `other`."""
_MOST_SAMPLES = 1024
"""Up to which k there is a pass@k."""


@dataclass(frozen=True, slots=True)
class Row:
    """What a summary needs of one episode."""

    task: str
    split: str
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
    usage: Usage | None
    """What a model's server took for it."""


def row(episode: Trajectory) -> Row:
    """The row of a finished episode."""
    made = [pair for turn in episode.turns for pair in turn.info["calls"]]
    return Row(
        task=episode.task.id,
        split=episode.task.split,
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
        usage=usage_of(episode),
    )


def usage_of(episode: Trajectory) -> Usage | None:
    """What the episode's model took, where its record says so."""
    policy = episode.provenance.get("policy")
    told = policy.get("usage") if isinstance(policy, Mapping) else None
    if not isinstance(told, Mapping):
        return None
    counts = {name: told.get(name) for name in Usage.__slots__}
    return Usage(**{name: x for name, x in counts.items() if type(x) is int and x >= 0})


@dataclass(slots=True)
class _Score:
    """The valid episodes of one task. Rewards are added up exactly, whatever their order."""

    samples: int = 0
    passed: int = 0
    reward: Fraction = Fraction(0)


@dataclass
class Part:
    """The episodes of some tasks."""

    episodes: int = 0
    tasks: dict[str, _Score] = field(default_factory=dict)

    def add(self, row: Row) -> None:
        """Count an episode."""
        self.episodes += 1
        if row.valid:
            score = self.tasks.setdefault(row.task, _Score())
            score.samples += 1
            score.passed += row.passed
            score.reward += Fraction(row.reward)

    def told(self) -> dict[str, Any]:
        """`episodes` of all; the rest is of the valid ones, and None where there are none."""
        scores = list(self.tasks.values())
        valid = sum(score.samples for score in scores)
        rate = sum(score.passed for score in scores) / valid if scores else None
        reward = float(sum(score.reward for score in scores) / valid) if scores else None
        return {
            "episodes": self.episodes,
            "success_rate": rate,
            "interval": None if rate is None else list(wilson(rate, len(scores))),
            "mean_reward": reward,
            "reward_error": standard_error([float(s.reward / s.samples) for s in scores]),
            "pass_at": self._pass_at(scores),
        }

    def _pass_at(self, scores: list[_Score]) -> dict[str, Any]:
        """For k of 1, 2, 4 ... and as many as there are: over the tasks with as many samples."""
        most = min(max((score.samples for score in scores), default=0), _MOST_SAMPLES)
        told = {}
        for k in sorted({*(1 << i for i in range(most.bit_length())), *([most] if most else [])}):
            rates = [pass_at(k, s.samples, s.passed) for s in scores if s.samples >= k]
            rate = mean(rates) or 0.0
            interval = list(wilson(rate, len(rates)))
            told[str(k)] = {"rate": rate, "interval": interval, "tasks": len(rates)}
        return told


class Tally:
    """Counts episodes, in any order, and says what they come to."""

    def __init__(self) -> None:
        self.episodes = self.invalid = 0
        self._all = Part()
        self._levels: dict[int, Part] = {}
        self._splits: dict[str, tuple[Part, dict[int, Part]]] = {}
        self._turns = self._calls = 0
        self._counts: dict[str, Counter[str]] = {
            name: Counter() for name in ("invalid_because", "end_reasons", "errors", "faults")
        }
        self._usage: Usage | None = None

    def add(self, row: Row) -> None:
        """Count an episode."""
        self.episodes += 1
        self.invalid += not row.valid
        whole, levels = self._splits.setdefault(row.split, (Part(), {}))
        level = self._levels.setdefault(row.level, Part())
        for part in (self._all, level, whole, levels.setdefault(row.level, Part())):
            part.add(row)
        if row.usage is not None:
            self._usage = self._usage or Usage()
            self._usage.add(row.usage)
        _count(self._counts["end_reasons"], [row.end_reason])
        _count(self._counts["invalid_because"], [row.failure] if row.failure else [])
        if row.valid:
            self._turns += row.turns
            self._calls += row.calls
            _count(self._counts["errors"], row.errors)
            _count(self._counts["faults"], row.faults)

    def told(self) -> dict[str, Any]:
        """The figures.

        `episodes`, `invalid`, `invalid_because`, `end_reasons` and `usage` are of all episodes, the
        rest of the valid ones. `turns` and `calls` are means; a mean of nothing is None. `errors`
        (the policy's own) and `faults` (injected) count by kind. Intervals are Wilson's, 95%, over
        tasks; `reward_error` is the standard error of `mean_reward` over tasks.
        """
        valid = self.episodes - self.invalid
        return {
            **self._all.told(),
            "invalid": self.invalid,
            "turns": self._turns / valid if valid else None,
            "calls": self._calls / valid if valid else None,
            "by_level": _by_level(self._levels),
            "by_split": {
                split: {**whole.told(), "by_level": _by_level(levels)}
                for split, (whole, levels) in sorted(self._splits.items())
            },
            **{name: dict(sorted(counts.items())) for name, counts in self._counts.items()},
            "usage": None
            if self._usage is None
            else {name: getattr(self._usage, name) for name in Usage.__slots__},
        }


def summary(rows: Iterable[Row]) -> dict[str, Any]:
    """The figures of some episodes: see `Tally.told`."""
    tally = Tally()
    for one in rows:
        tally.add(one)
    return tally.told()


def _by_level(levels: Mapping[int, Part]) -> dict[str, Any]:
    return {str(level): part.told() for level, part in sorted(levels.items())}


def _count(counts: Counter[str], kinds: Iterable[str]) -> None:
    for kind in kinds:
        counts[kind if kind in counts or len(counts) < _KINDS else "other"] += 1
