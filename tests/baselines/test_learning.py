"""The gradient: of the model's own tokens, of all of them alike, and of nothing else."""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from agent_envs.baselines.batch import Batch, collate
from agent_envs.baselines.learning import accumulate
from agent_envs.baselines.losses import k3, surrogate
from agent_envs.baselines.model import Likelihood, logprobs
from agent_envs.baselines.record import Record
from agent_envs.baselines.settings import Args
from agent_envs.baselines.transformer import Transformer

Episode = Callable[..., Record]


@pytest.fixture
def records(episode: Episode) -> list[Record]:
    """Eight episodes of different lengths; each ends with an observation."""
    lengths = [1, 4, 2, 3, 1, 5, 2, 2]
    return [
        episode([([3] * n, [8, 9], 0.0), ([5, 6], [7, 4], float(i % 2))], name=f"0.{i}")
        for i, n in enumerate(lengths)
    ]


ADVANTAGES = [[(i - 3) / 4, (2 - i) / 3] for i in range(8)]


def gradient(model: Transformer, batch: Batch, **changes: object) -> list[Tensor]:
    model.zero_grad()
    accumulate(Likelihood(model), batch, Args(**changes))  # type: ignore[arg-type]
    return [p.grad.clone() for p in model.parameters() if p.grad is not None]


def same(one: Sequence[Tensor], two: Sequence[Tensor]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(one, two, strict=True))


def test_what_observations_hold_leaves_the_gradient_unchanged(
    model: Transformer, records: list[Record]
) -> None:
    """Their log-probs and advantages, and the very tokens where nothing of ours follows them."""
    batch = collate(records, ADVANTAGES)
    before = gradient(model, batch)
    batch.old[~batch.own] = -3.0
    batch.advantages[~batch.own] = 100.0
    for i, record in enumerate(records):
        batch.tokens[i, record.row.spans[-1][1] :] = 11
    assert same(before, gradient(model, batch))
    place = records[0].row.spans[0][0]
    batch.tokens[0, place] = 11
    assert not same(before, gradient(model, batch))


def test_no_observation_is_a_target(model: Transformer, records: list[Record]) -> None:
    """The loss does not depend on the logits from which an observation would be predicted."""
    batch = collate(records, ADVANTAGES)
    seen: list[Tensor] = []

    def watch(module: object, inputs: object, outputs: Any) -> None:
        seen.append(outputs[0])

    hook = model.head.register_full_backward_hook(watch)
    gradient(model, batch)
    hook.remove()
    touched = seen[0].abs().sum(-1) > 0
    assert touched.any()
    assert not (touched & ~batch.own[:, 1:]).any()


def test_padding_carries_no_loss(model: Transformer, records: list[Record]) -> None:
    batch = collate(records, ADVANTAGES)
    before = gradient(model, batch)
    longer = [
        torch.nn.functional.pad(x, (0, 5)) if x.dim() == 2 else x for x in vars(batch).values()
    ]
    after = gradient(model, Batch(*longer))
    for a, b in zip(before, after, strict=True):
        torch.testing.assert_close(a, b, atol=1e-6, rtol=1e-4)


@pytest.mark.parametrize("rows", [4, 2, 1, 3])
def test_accumulation_gives_the_gradient_of_the_whole(
    model: Transformer, records: list[Record], rows: int
) -> None:
    batch = collate(records, ADVANTAGES)
    whole, cut = gradient(model, batch, rows=8), gradient(model, batch, rows=rows)
    for a, b in zip(whole, cut, strict=True):
        assert (a - b).abs().max() <= 1e-6


def test_fresh_weights_give_a_ratio_of_one(model: Transformer, records: list[Record]) -> None:
    batch = collate(records, ADVANTAGES)
    with torch.no_grad():
        batch.old = logprobs(model, batch.tokens)
    values = accumulate(Likelihood(model), batch, Args())
    assert values["ratio_off"] <= 1e-5 and values["clipped"] == 0


def test_the_loss_by_hand(model: Transformer, episode: Episode) -> None:
    """Two episodes with 2 and 1 own tokens; ratios 1.5, 0.5 and 1.1; advantages 1 and -1."""
    pair = [episode([([3, 4], [8], 1.0)], name="0.0"), episode([([5], [8], 0.0)], name="0.1")]
    batch = collate(pair, [[1.0], [-1.0]])
    with torch.no_grad():
        now = logprobs(model, batch.tokens)
    batch.old = now - torch.log(torch.tensor([[1, 1, 1.5, 0.5, 1], [1, 1, 1.1, 1, 1]]))
    values = accumulate(Likelihood(model), batch, Args(clip_low=0.2, clip_high=0.28))
    # -min(1.5, 1.28) - min(0.5, 0.8) + 1.1, over 3 tokens
    assert values["loss"] == pytest.approx((-1.28 - 0.5 + 1.1) / 3, abs=1e-5)
    assert values["clipped"] == pytest.approx(2 / 3)
    assert values["ratio_off"] == pytest.approx(0.5, abs=1e-5)


def test_every_own_token_counts_the_same(model: Transformer, episode: Episode) -> None:
    """A mean over tokens, not over episodes: one of 3 own tokens weighs three times one of 1."""
    pair = [episode([([3, 4, 5], [], 1.0)], name="0.0"), episode([([5], [], 0.0)], name="0.1")]
    batch = collate(pair, [[1.0], [0.0]])
    with torch.no_grad():
        batch.old = logprobs(model, batch.tokens)
    assert accumulate(Likelihood(model), batch, Args())["loss"] == pytest.approx(-3 / 4, abs=1e-5)


@pytest.mark.parametrize(
    ("ratio", "advantage", "loss"),
    [(1.0, 2.0, -2.0), (1.5, 1.0, -1.3), (0.5, 1.0, -0.5), (1.5, -1.0, 1.5), (0.5, -1.0, 0.8)],
)
def test_surrogate(ratio: float, advantage: float, loss: float) -> None:
    got = surrogate(torch.tensor(ratio), torch.tensor(advantage), 0.2, 0.3)
    assert got.item() == pytest.approx(loss)


def test_k3() -> None:
    got = k3(torch.tensor([-1.0, -1.0]), torch.tensor([-1.0, -0.5])).tolist()
    assert got == pytest.approx([0.0, math.exp(0.5) - 0.5 - 1])


def test_kl_pulls_towards_the_reference(model: Transformer, records: list[Record]) -> None:
    reference = Transformer(model.shape, seed=9)
    batch = collate(records, [[0.0, 0.0]] * 8)
    args = Args(kl=0.5)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)

    def step() -> float:
        optimizer.zero_grad()
        loss = accumulate(Likelihood(model), batch, args, Likelihood(reference))["loss"]
        optimizer.step()
        return loss

    with torch.no_grad():
        gap = k3(logprobs(model, batch.tokens), logprobs(reference, batch.tokens))[batch.own]
    losses = [step() for _ in range(20)]
    assert losses[0] == pytest.approx(0.5 * gap.mean().item(), abs=1e-5)
    assert losses[-1] < losses[0] / 2


def test_parts_are_the_batch(records: list[Record]) -> None:
    batch = collate(records, ADVANTAGES)
    parts: Iterator[Batch] = batch.parts(3)
    tokens = [part.tokens for part in parts]
    assert [len(t) for t in tokens] == [3, 3, 2] and torch.equal(torch.cat(tokens), batch.tokens)


def test_each_turn_has_its_own_advantage(episode: Episode) -> None:
    batch = collate([episode([([3, 4], [8], 0.0), ([5], [], 1.0)])], [[0.5, -2.0]])
    assert batch.advantages.tolist() == [[0, 0, 0.5, 0.5, 0, -2.0]]
    assert batch.old.tolist() == [[0, 0, -0.5, -0.5, 0, -0.5]]
