"""Generation: token in, token out, each token read once, nobody disturbed by the others."""

import math
from collections.abc import Hashable

import gymnasium
import pytest
import torch

from agent_envs.baselines import chars
from agent_envs.baselines.chars import Chars
from agent_envs.baselines.model import logprobs
from agent_envs.baselines.policy import TokenPolicy
from agent_envs.baselines.record import Record
from agent_envs.baselines.transformer import Shape, Transformer
from agent_envs.env import ToolEnv
from agent_envs.policy import Messages
from agent_envs.rollout import rollout
from agent_envs.task import Task
from agent_envs.trajectory import Trajectory
from agent_envs.turns import Action

ENV = "agent/CalculatorChars-v0"


@pytest.fixture
def tasks() -> list[Task]:
    env = gymnasium.make(ENV)
    assert isinstance(env, ToolEnv)
    return list(env.tasks.split("train", 0)[:4])


def play(
    policy: TokenPolicy, tasks: list[Task], workers: int = 16, branch: int | None = None
) -> tuple[list[Trajectory], list[Record]]:
    played = rollout(ENV, policy, tasks, group=3, workers=workers, branch=branch, seed=5)
    return played, [policy.record(trajectory) for trajectory in played]


def answer(policy: TokenPolicy, key: Hashable, messages: Messages) -> Action:
    """Ask one conversation and wait."""
    policy.submit(key, messages)
    for _ in range(100):
        for got, action in policy.collect(0.0):
            assert got == key and isinstance(action, Action)
            return action
    raise AssertionError("no answer")


@pytest.mark.parametrize("temperature", [1.0, 0.6])
def test_fresh_weights_give_a_ratio_of_one(
    model: Transformer, tasks: list[Task], temperature: float
) -> None:
    policy = TokenPolicy(model, Chars())
    policy.begin(1, temperature=temperature)
    _, records = play(policy, tasks, branch=1)
    assert max(len(r.rewards) for r in records) > 1
    for record in records:
        with torch.no_grad():
            new = logprobs(model, torch.tensor([record.row.tokens]), temperature)[0]
        for place, own in enumerate(record.row.own):
            if own:
                assert math.exp(new[place] - record.row.logprobs[place]) == pytest.approx(
                    1, abs=1e-5
                )


def test_text_and_tokens_are_the_same_thing(model: Transformer, tasks: list[Task]) -> None:
    policy = TokenPolicy(model, Chars())
    policy.begin(2)
    played, records = play(policy, tasks)
    for trajectory, record in zip(played, records, strict=True):
        conversation = "".join(m["content"] for m in trajectory.messages())
        said = chars.decode(record.row.tokens)
        assert conversation.startswith(said)
        for turn, (start, end) in zip(trajectory.turns, record.row.spans, strict=True):
            assert turn.action.text == chars.decode(record.row.tokens[start:end])


def test_who_else_waits_makes_no_difference(model: Transformer, tasks: list[Task]) -> None:
    rows = []
    for workers in (1, 5, 16):
        policy = TokenPolicy(model, Chars())
        policy.begin(3)
        rows.append([(r.row.tokens, r.row.own) for r in play(policy, tasks, workers)[1]])
    assert rows[0] == rows[1] == rows[2]


def test_episodes_of_a_group_differ_and_a_seed_repeats_them(
    model: Transformer, tasks: list[Task]
) -> None:
    policy = TokenPolicy(model, Chars())
    drawn = []
    for seed in (4, 4, 5):
        policy.begin(seed)
        drawn.append([r.row.tokens for r in play(policy, tasks)[1]])
    assert drawn[0] == drawn[1] != drawn[2]
    assert drawn[0][0] != drawn[0][1]


def test_a_turn_costs_its_new_tokens_only(model: Transformer) -> None:
    policy = TokenPolicy(model, Chars())
    policy.begin(0, temperature=0.0)
    talk: Messages = [{"role": "user", "content": "23+45="}]
    for _ in range(3):
        before, known = policy.fed, len(chars.encode("".join(m["content"] for m in talk)))
        action = answer(policy, "k", talk)
        assert action.sample is not None
        read = policy.fed
        talk += [
            {"role": "assistant", "content": action.text},
            {"role": "tool", "content": "68|"},
        ]
        # The prompt or the last token and the result, then all but the last token of the turn.
        new = known if before == 0 else len("68|") + 1
        assert read - before == new + len(action.sample.tokens) - 1


def test_a_branch_goes_on_from_its_parents_tokens(model: Transformer, tasks: list[Task]) -> None:
    policy = TokenPolicy(model, Chars())
    policy.begin(6)
    _, records = play(policy, tasks, branch=2)
    by_id = {record.episode_id: record for record in records}
    branches = [r for r in records if r.parent is not None]
    assert len(branches) == 2 * sum(len(r.rewards) for r in records if r.parent is None)
    for branch in branches:
        assert branch.parent is not None
        parent, turn = by_id[branch.parent[0]].row, branch.parent[1]
        start = branch.row.spans[0][0]
        assert branch.row.tokens[:start] == parent.tokens[: parent.spans[turn][0]]
        assert not any(branch.row.own[:start])


def test_a_branch_reads_nothing_of_its_parents_past_again(
    model: Transformer, tasks: list[Task]
) -> None:
    policy = TokenPolicy(model, Chars())
    read = []
    for branch in (None, 1):
        policy.begin(6)
        records = play(policy, tasks, branch=branch)[1]
        read.append(policy.fed)
    branches = [r.row for r in records if r.parent is not None]
    # From the last token of the past, which is read again, to the last but one of its own.
    assert read[1] - read[0] == sum(row.spans[-1][1] - row.spans[0][0] for row in branches)


def test_a_place_in_the_cache_that_was_given_away_costs_only_time(
    model: Transformer, tasks: list[Task]
) -> None:
    drawn, read = [], []
    for slots in (256, 1):
        policy = TokenPolicy(model, Chars(), slots=slots)
        policy.begin(6)
        drawn.append([r.row.tokens for r in play(policy, tasks, workers=2, branch=1)[1]])
        read.append(policy.fed)
    assert drawn[0] == drawn[1] and read[0] < read[1]


def test_a_prompt_that_was_read_is_not_read_again(model: Transformer) -> None:
    policy = TokenPolicy(model, Chars())
    policy.begin(0)
    prompt = [{"role": "user", "content": "23+45="}]
    first = answer(policy, "a", prompt)
    before = policy.fed
    second = answer(policy, "b", prompt)
    assert first.sample is not None and second.sample is not None
    assert before == 6 + len(first.sample.tokens) - 1
    assert policy.fed - before == len(second.sample.tokens)


def test_greedy_takes_the_likeliest(model: Transformer) -> None:
    policy = TokenPolicy(model, Chars())
    policy.begin(0, temperature=0.0)
    action = answer(policy, "k", [{"role": "user", "content": "23+45="}])
    assert action.sample is not None
    tokens = chars.encode("23+45=") + action.sample.tokens
    with torch.no_grad():
        best = model(torch.tensor([tokens]))[0].argmax(-1).tolist()
    assert best[5:-1] == action.sample.tokens


def test_sampling_follows_the_probabilities() -> None:
    model = Transformer(Shape(width=32), seed=0)
    policy = TokenPolicy(model, Chars(), turn_limit=1)
    policy.begin(0)
    count, prompt = 4000, [{"role": "user", "content": "1+1="}]
    for key in range(count):
        policy.submit(key, prompt)
    drawn = [action.sample.tokens[0] for _, action in policy.collect(0.0)]  # type: ignore[union-attr]
    with torch.no_grad():
        wanted = model(torch.tensor([chars.encode("1+1=")]))[0, -1].softmax(-1)
    assert len(drawn) == count
    for token, share in enumerate(wanted.tolist()):
        error = 4.5 * math.sqrt(share * (1 - share) / count)
        assert abs(drawn.count(token) / count - share) <= error


def test_a_turn_that_never_ends_is_cut(model: Transformer) -> None:
    with torch.no_grad():
        model.head.weight[chars.END] = -5 * model.head.weight.sum(0)
    policy = TokenPolicy(model, Chars(), turn_limit=7)
    policy.begin(0)
    for key in range(20):
        action = answer(policy, key, [{"role": "user", "content": "23+45="}])
        assert action.sample is not None
        ends = action.sample.tokens.index(chars.END) if chars.END in action.sample.tokens else 6
        assert len(action.sample.tokens) == ends + 1
        assert action.cut == (chars.END not in action.sample.tokens)


def test_a_full_context_ends_the_episode() -> None:
    model = Transformer(Shape(width=32, context=12), seed=0)
    policy = TokenPolicy(model, Chars())
    policy.begin(0)
    action = answer(policy, "k", [{"role": "user", "content": "1+1=" * 3}])
    assert action.cut and action.text == "" and action.sample is not None
    assert action.sample.tokens == []
    trajectory = rollout(ENV, policy, [Task("t", "train", "1" * 12, {"answer": "2"})])[0]
    assert trajectory.end_reason == "token_limit"
    assert policy.record(trajectory).row.spans == [(12, 12)]


def test_a_slot_is_free_again_when_its_episode_has_ended(model: Transformer) -> None:
    policy = TokenPolicy(model, Chars())
    policy.begin(0)
    first = answer(policy, "a", [{"role": "user", "content": "23+45="}])
    policy.cancel("a")
    for key in range(40):
        answer(policy, key, [{"role": "user", "content": "99+99="}])
        policy.cancel(key)
    policy.begin(0)
    assert answer(policy, "a", [{"role": "user", "content": "23+45="}]) == first


def test_a_cancelled_turn_is_not_answered(model: Transformer) -> None:
    policy = TokenPolicy(model, Chars())
    policy.begin(0)
    policy.submit("a", [{"role": "user", "content": "23+45="}])
    policy.cancel("a")
    policy.cancel("never heard of")
    assert policy.collect(0.0) == []


def test_text_outside_the_alphabet_costs_its_own_episode(model: Transformer) -> None:
    tasks = [
        Task(str(i), "train", text, {"answer": "2"}) for i, text in enumerate(["1+1=", "1*1="])
    ]
    policy = TokenPolicy(model, Chars())
    fine, strange = rollout(ENV, policy, tasks)
    assert fine.valid and strange.end_reason == "policy_error"
    assert strange.error is not None and "no characters ['*']" in strange.error
    assert not policy.record(strange).valid


def test_a_conversation_that_was_changed_is_refused(model: Transformer) -> None:
    policy = TokenPolicy(model, Chars())
    talk: Messages = [{"role": "user", "content": "23+45="}]
    action = answer(policy, "k", talk)
    talk += [{"role": "assistant", "content": f"{action.text}7"}, {"role": "tool", "content": "6|"}]
    with pytest.raises(ValueError, match="another turn than was sampled"):
        policy.submit("k", talk)


def test_what_others_said_is_read_as_text(model: Transformer) -> None:
    """A conversation from elsewhere, with turns that this policy has not sampled."""
    policy = TokenPolicy(model, Chars())
    policy.begin(0, temperature=0.0)
    talk = [("user", "23+45="), ("assistant", "B23+45|"), ("tool", "68|")]
    action = answer(policy, "k", [{"role": role, "content": text} for role, text in talk])
    assert action.sample is not None
    with torch.no_grad():
        first = model(torch.tensor([chars.encode("23+45=B23+45|68|")]))[0, -1].argmax().item()
    assert action.sample.tokens[0] == first
