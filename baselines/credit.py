"""Who deserves what: from the rewards of a group to an advantage for every turn."""

import statistics
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import TypeAlias

from agent_envs.baselines.record import Record
from agent_envs.baselines.settings import Args
from agent_envs.trajectory import Trajectory

State: TypeAlias = tuple[str, tuple[int, ...]]
"""What a policy has before it when its turn begins: the group, and all tokens so far."""


def is_mixed(outcomes: Sequence[float]) -> bool:
    """Whether a group has anything to compare. Exact: equal outcomes have no rounding noise."""
    return max(outcomes) > min(outcomes)


def leave_one_out(rewards: Sequence[float]) -> list[float]:
    """A_i = r_i - mean of the others' (Ahmadian et al., 2024, arXiv:2402.14740, section 2.2).

    No deviation; it needs two rewards.
    """
    total, others = sum(rewards), len(rewards) - 1
    return [reward - (total - reward) / others for reward in rewards]


def group_normalised(rewards: Sequence[float], epsilon: float = 1e-4) -> list[float]:
    """A_i = (r_i - mean) / std (Shao et al., 2024, arXiv:2402.03300, section 4.1.2).

    Deviations: `epsilon` is added to the standard deviation, which is the unbiased one.
    """
    mean, spread = statistics.fmean(rewards), statistics.stdev(rewards) + epsilon
    return [(reward - mean) / spread for reward in rewards]


def blamed(advantages: Sequence[float], blame: float) -> list[float]:
    """The advantages, those below 0 in proportion `blame`: a success says what to do, a failure
    only what not to do, in which one token is wrong and a hundred are right. In small models most
    of a gradient's noise comes of failures.

    The split is that of Zhu et al., 2025 (arXiv:2506.01347, Weighted-REINFORCE). Deviations: it
    goes by the advantage, not by the reward; and they weaken the successes, of large models that
    have a nearly right way to fall back on.
    """
    return [a if a > 0 else blame * a for a in advantages]


COMPARISONS = {"leave_one_out": leave_one_out, "group_normalised": group_normalised}
"""Ways to compare the rewards of a group, by name."""


def states(record: Record) -> list[State]:
    """The state before each turn."""
    row = record.row
    return [(record.group_id, tuple(row.before(turn))) for turn in range(len(row.spans))]


def groups(records: Sequence[Record]) -> Iterator[list[Record]]:
    """The valid episodes of each group, branches left out, where there are two to compare."""
    found: dict[str, list[Record]] = {}
    for record in records:
        if record.valid and record.parent is None:
            found.setdefault(record.group_id, []).append(record)
    return (group for group in found.values() if len(group) > 1)


def judge(group: Sequence[Record], values: "TurnValues", args: Args) -> list[list[float]]:
    """The advantage of every turn of every episode of a group, as `Args.credit` and `Args.blame`
    say."""
    if args.credit == "turn_values":
        found = [values.advantages(record) for record in group]
    else:
        advantages = COMPARISONS[args.credit]([record.reward for record in group])
        found = [[a] * len(r.rewards) for a, r in zip(advantages, group, strict=True)]
    return [blamed(turns, args.blame) for turns in found]


class TurnValues:
    """A_j = r_j + V(s_j+1) - V(s_j) with V from continuations that were really played
    (Kazemnejad et al., 2024, VinePPO, arXiv:2410.01679, section 4).

    V_i(s), for judging episode i, is the mean return from s of everybody who came through s except
    i itself: so the advantages of an episode sum up to its leave-one-out advantage. Deviations from
    the paper: a state is the beginning of a turn, not of a reasoning step; the other episodes of
    the group count as continuations, wherever they pass through the same state, and so the start of
    a group needs none of its own.
    """

    def __init__(self, continuations: int) -> None:
        """`continuations`: how many are played from the start of each turn, K."""
        self.continuations = continuations
        self._returns: dict[State, list[tuple[str, float]]] = defaultdict(list)

    def plan(self, trajectory: Trajectory) -> list[tuple[int, int]]:
        """What `rollout(branch=...)` shall play: (turn, K) for every turn but the first."""
        return [(turn, self.continuations) for turn in range(1, len(trajectory.turns))]

    def add(self, record: Record) -> None:
        """Count an episode, or a branch of one, at every state that it came through."""
        ahead = record.reward
        for state, reward in zip(states(record), record.rewards, strict=True):
            self._returns[state].append((record.episode_id, ahead))
            ahead -= reward

    def value(self, state: State, without: str) -> float | None:
        """V of a state for judging the episode `without`; None where nobody else was there."""
        returns = [r for episode_id, r in self._returns[state] if episode_id != without]
        return statistics.fmean(returns) if returns else None

    def advantages(self, record: Record) -> list[float]:
        """One for each turn. Turns between which no value is known share theirs."""
        out = [0.0] * len(record.rewards)
        end, ahead, gained = len(out), 0.0, 0.0
        for turn, state in reversed(list(enumerate(states(record)))):
            gained += record.rewards[turn]
            here = self.value(state, record.episode_id)
            if here is not None:
                out[turn:end] = [gained + ahead - here] * (end - turn)
                end, ahead, gained = turn, here, 0.0
        return out
