"""What was sampled: the one record that rollout writes and the learner reads."""

from dataclasses import asdict, dataclass, field
from typing import Any

from agent_envs.task import Task
from agent_envs.trajectory import EndReason, Trajectory
from agent_envs.turns import Sample
from agent_envs.verdict import Verdict

NOT_OURS = -1
"""The policy version of a token that the environment wrote."""


@dataclass
class Row:
    """A conversation as the model saw and wrote it, token by token. Four lists, equally long."""

    tokens: list[int] = field(default_factory=list)
    own: list[bool] = field(default_factory=list)
    """Whether the policy sampled the token, in this episode."""
    logprobs: list[float] = field(default_factory=list)
    """Under the sampler, at its temperature; 0 where the token is not own."""
    versions: list[int] = field(default_factory=list)
    """Of the weights that sampled it; `NOT_OURS` where the token is not own."""
    spans: list[tuple[int, int]] = field(default_factory=list)
    """Where each of the policy's turns begins and ends."""
    restarts: list[int] = field(default_factory=list)
    """Where the model was shown the whole conversation anew: it saw nothing of what stands before.
    That is so with chat templates that rewrite the past."""

    def restart(self) -> None:
        """What follows does not go on from what is here."""
        self.restarts.append(len(self.tokens))

    def before(self, turn: int) -> list[int]:
        """What the model had before it when it began a turn."""
        start = self.spans[turn][0]
        begin = max([0, *(place for place in self.restarts if place <= start)])
        return self.tokens[begin:start]

    def hear(self, tokens: list[int]) -> None:
        """Append what the policy was told."""
        self.tokens += tokens
        self.own += [False] * len(tokens)
        self.logprobs += [0.0] * len(tokens)
        self.versions += [NOT_OURS] * len(tokens)

    def begin_turn(self) -> None:
        """From here on the policy writes."""
        self.spans.append((len(self.tokens), len(self.tokens)))

    def say(self, token: int, logprob: float, version: int) -> None:
        """Append a sampled token to the turn that was begun."""
        self.tokens.append(token)
        self.own.append(True)
        self.logprobs.append(logprob)
        self.versions.append(version)
        self.spans[-1] = (self.spans[-1][0], len(self.tokens))

    def last_sample(self, version: int) -> Sample:
        """The last turn, as it goes into the trajectory."""
        start, end = self.spans[-1]
        return Sample(self.tokens[start:end], self.logprobs[start:end], version)

    def first_turns(self, count: int) -> "Row":
        """The row up to the end of a turn, which is where learning ends."""
        end = self.spans[count - 1][1] if count else 0
        return Row(
            self.tokens[:end],
            self.own[:end],
            self.logprobs[:end],
            self.versions[:end],
            self.spans[:count],
            [place for place in self.restarts if place < end],
        )


@dataclass
class Record:
    """One episode, ready to be learned from: what was sampled, and what came of it."""

    episode_id: str
    group_id: str
    parent: tuple[str, int] | None
    task: Task
    seed: int
    end_reason: EndReason | None
    verdict: Verdict | None
    valid: bool
    row: Row
    rewards: list[float]
    """Of each turn; their sum is the episode's."""
    components: list[dict[str, float]]
    """The same, by reward component."""
    cut: bool = False
    """Whether the token limit ended one of its turns."""

    def __post_init__(self) -> None:
        row, turns = self.row, len(self.rewards)
        lengths = {len(x) for x in (row.tokens, row.own, row.logprobs, row.versions)}
        assert len(lengths) == 1, f"{self.episode_id}: token lists of lengths {lengths}"
        assert turns == len(self.components) == len(row.spans), f"{self.episode_id}: turns"
        covered = [False] * len(row.own)
        for start, end in row.spans:
            covered[start:end] = [True] * (end - start)
        assert row.own == covered, f"{self.episode_id}: spans"
        sampled = [version != NOT_OURS for version in row.versions]
        assert row.own == sampled, f"{self.episode_id}: versions"
        others = [x for x, own in zip(row.logprobs, row.own, strict=True) if not own]
        assert not any(others), f"{self.episode_id}: log-probs"

    @property
    def reward(self) -> float:
        """The episode's."""
        return sum(self.rewards)

    @property
    def passed(self) -> bool:
        """The outcome, apart from any shaping."""
        return self.verdict is not None and self.verdict.passed

    def to_dict(self) -> dict[str, Any]:
        """The JSON form; the task goes without its private data."""
        out = asdict(self)
        out["task"] = self.task.to_dict(private=False)
        out["verdict"] = self.verdict.to_dict() if self.verdict else None
        return out


def record(trajectory: Trajectory, row: Row) -> Record:
    """Join what the environment says of an episode with what its policy sampled.

    What was sampled but never played (the environment hung, time was up) is left out. Raises
    AssertionError where the two disagree about what was said.
    """
    samples = [turn.action.sample for turn in trajectory.turns]
    row = row.first_turns(sum(sample is not None for sample in samples))
    if samples and samples[-1] is None:  # the turn that rollout plays when time is up
        row.begin_turn()
    for sample, (start, end) in zip(samples, row.spans, strict=True):
        if sample is not None:
            assert sample.tokens == row.tokens[start:end], f"{trajectory.episode_id}: tokens"
            assert sample.logprobs == row.logprobs[start:end], f"{trajectory.episode_id}: log-probs"
    return Record(
        trajectory.episode_id,
        trajectory.group_id,
        trajectory.parent,
        trajectory.task,
        trajectory.seed,
        trajectory.end_reason,
        trajectory.verdict,
        trajectory.valid,
        row,
        [turn.reward for turn in trajectory.turns],
        [turn.info["reward_components"] for turn in trajectory.turns],
        any(turn.action.cut for turn in trajectory.turns),
    )
