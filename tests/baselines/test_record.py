"""The one record of what was sampled: four lists equally long, and spans that fit them."""

import json
from collections.abc import Callable

import gymnasium
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_envs.baselines.chars import Chars
from agent_envs.baselines.policy import TokenPolicy
from agent_envs.baselines.record import NOT_OURS, Record, Row
from agent_envs.baselines.transformer import Shape, Transformer
from agent_envs.env import ToolEnv
from agent_envs.policy import Answer
from agent_envs.rollout import rollout
from agent_envs.task import Task
from agent_envs.trajectory import Trajectory
from agent_envs.turns import Sample

ENV = "agent/CalculatorChars-v0"
Episode = Callable[..., Record]

_tokens = st.lists(st.integers(0, 16), max_size=5)


@given(prompt=_tokens, turns=st.lists(st.tuples(_tokens, _tokens), max_size=5))
def test_lists_stay_equally_long_and_spans_cover_what_is_own(
    prompt: list[int], turns: list[tuple[list[int], list[int]]]
) -> None:
    row = Row()
    row.hear(prompt)
    for own, heard in turns:
        row.begin_turn()
        for place, token in enumerate(own):
            row.say(token, -0.1 * place, 3)
        row.hear(heard)
        assert len(row.tokens) == len(row.own) == len(row.logprobs) == len(row.versions)
        assert row.last_sample(3) == Sample(own, [-0.1 * place for place in range(len(own))], 3)
    assert row.tokens == prompt + [token for own, heard in turns for token in own + heard]
    assert [row.tokens[a:b] for a, b in row.spans] == [own for own, _ in turns]
    covered = {place for a, b in row.spans for place in range(a, b)}
    assert covered == {place for place, own in enumerate(row.own) if own}
    assert all((v == 3) == own for v, own in zip(row.versions, row.own, strict=True))
    for count in range(len(turns) + 1):
        shorter = row.first_turns(count)
        assert shorter.spans == row.spans[:count]
        assert shorter.tokens == row.tokens[: row.spans[count - 1][1] if count else 0]
        assert len(shorter.own) == len(shorter.logprobs) == len(shorter.versions)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda row: row.tokens.append(1),
        lambda row: row.own.pop(),
        lambda row: row.logprobs.append(0.0),
        lambda row: row.versions.pop(),
        lambda row: row.spans.pop(),
        lambda row: row.own.__setitem__(0, True),
        lambda row: row.logprobs.__setitem__(0, -1.0),
        lambda row: row.versions.__setitem__(2, NOT_OURS),
    ],
)
def test_a_row_that_does_not_fit_is_refused(
    spoil: Callable[[Row], object], episode: Episode
) -> None:
    good = episode([([3, 4], [5], 0.0), ([6], [], 1.0)])
    spoil(good.row)
    with pytest.raises(AssertionError):
        episode([([3], [], 1.0)], row=good.row, rewards=good.rewards, components=good.components)


def test_record_says_all_of_an_episode(model: Transformer) -> None:
    policy = TokenPolicy(model, Chars())
    policy.begin(1, version=7)
    env = gymnasium.make(ENV)
    assert isinstance(env, ToolEnv)
    for trajectory in rollout(env, policy, env.tasks.split("train", 0)[:3], group=2, seed=4):
        made = policy.record(trajectory)
        said = json.loads(json.dumps(made.to_dict()))
        assert said["task"]["id"] == trajectory.task.id and "data" not in said["task"]
        assert said["seed"] == trajectory.seed
        assert said["end_reason"] == trajectory.end_reason
        assert said["verdict"]["passed"] == made.passed
        assert sum(said["rewards"]) == made.reward == trajectory.reward
        assert len(said["row"]["spans"]) == len(said["components"]) == len(trajectory.turns)
        for reward, components in zip(said["rewards"], said["components"], strict=True):
            assert set(components) == {"answer", "calls"} and sum(components.values()) == reward
        own = said["row"]["own"]
        assert [v for v, o in zip(said["row"]["versions"], own, strict=True) if o] == [7] * sum(own)


def test_tokens_that_were_not_sampled_are_refused(model: Transformer) -> None:
    policy = TokenPolicy(model, Chars())
    trajectory = _episode(policy)
    sample = trajectory.turns[0].action.sample
    assert sample is not None
    sample.tokens[0] = (sample.tokens[0] + 1) % 17
    with pytest.raises(AssertionError, match="tokens"):
        policy.record(trajectory)


class Slow(TokenPolicy):
    """Never answers after its first turn, so that rollout ends the episode."""

    answers = 0

    def collect(self, timeout: float) -> list[Answer]:
        """One token at a time, and none after the first turn."""
        found = super().collect(timeout) if self.answers == 0 else []
        self.answers += len(found)
        return found


def test_a_turn_played_for_want_of_time_carries_no_tokens(model: Transformer) -> None:
    policy = Slow(model, Chars())
    policy.begin(3)
    trajectory = _episode(policy, episode_deadline=2.0)
    assert trajectory.end_reason == "deadline" and trajectory.valid
    made = policy.record(trajectory)
    assert len(made.rewards) == len(trajectory.turns) == 2
    start, end = made.row.spans[-1]
    assert start == end == len(made.row.tokens)


class Failing(TokenPolicy):
    """Breaks in its second turn."""

    turns = 0

    def collect(self, timeout: float) -> list[Answer]:
        """As always, but for the second answer."""
        found = super().collect(timeout)
        self.turns += len(found)
        return [(key, RuntimeError("broken")) for key, _ in found] if self.turns == 2 else found


def test_what_was_sampled_and_never_played_is_left_out(model: Transformer) -> None:
    policy = Failing(model, Chars())
    policy.begin(3)
    trajectory = _episode(policy)
    assert trajectory.end_reason == "policy_error"
    made = policy.record(trajectory)
    assert not made.valid
    assert len(made.rewards) == len(made.row.spans) == len(trajectory.turns) == 1
    assert made.row.spans[-1][1] == len(made.row.tokens)


def test_an_episode_that_never_began_is_an_empty_record() -> None:
    task = Task("t", "train", "1+1=")
    trajectory = Trajectory("0.0", "0", task, 1, [], end_reason="infrastructure")
    made = TokenPolicy(Transformer(Shape(width=32)), Chars()).record(trajectory)
    assert not made.valid and made.rewards == [] and made.row.tokens == []


def _episode(policy: TokenPolicy, **limits: float) -> Trajectory:
    env = gymnasium.make(ENV)
    assert isinstance(env, ToolEnv)
    found = rollout(env, policy, [env.tasks.split("train", 0)[0]], seed=4, **limits)[0]  # type: ignore[arg-type]
    assert found.turns[0].action.text != ""
    return found
