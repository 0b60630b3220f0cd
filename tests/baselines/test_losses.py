"""Every loss against numbers worked out by hand, and what is added to rewards."""

import math
from collections.abc import Callable, Sequence

import pytest
import torch
from torch import Tensor

from agent_envs.baselines.batch import collate
from agent_envs.baselines.learning import accumulate, corrected
from agent_envs.baselines.losses import (
    LOSSES,
    Clip,
    k3,
    truncated,
    unbiased_kl,
)
from agent_envs.baselines.model import Likelihood, logprobs
from agent_envs.baselines.processes import Processes
from agent_envs.baselines.record import Record
from agent_envs.baselines.settings import Args
from agent_envs.baselines.shaping import COMPONENT, Shaping, excess, named
from agent_envs.baselines.transformer import Transformer
from agent_envs.task import Task
from agent_envs.trajectory import Trajectory
from agent_envs.turns import Action, ToolCall, ToolResult, Turn

Episode = Callable[..., Record]
BOUNDS = Clip(0.2, 0.3, 3.0)


def loss(name: str, ratio: Sequence[float], advantage: float) -> tuple[list[float], list[float]]:
    """The terms of one row of own tokens, and the derivative of their sum by each new log-prob."""
    new = torch.tensor([ratio]).log().requires_grad_()
    old, own = torch.zeros_like(new), torch.ones_like(new, dtype=torch.bool)
    terms = LOSSES[name](new, old, torch.full_like(new, advantage), own, BOUNDS)
    (slope,) = torch.autograd.grad(terms.sum(), new)
    return terms[0].tolist(), slope[0].tolist()


@pytest.mark.parametrize(
    ("ratio", "advantage", "term", "slope"),
    [(1.5, 1.0, -1.3, 0.0), (0.5, 1.0, -0.5, -0.5), (1.5, -1.0, 1.5, 1.5), (0.5, -1.0, 0.8, 0.0)],
)
def test_clip(ratio: float, advantage: float, term: float, slope: float) -> None:
    terms, slopes = loss("clip", [ratio], advantage)
    assert terms == pytest.approx([term]) and slopes == pytest.approx([slope])


@pytest.mark.parametrize(
    ("ratio", "advantage", "term", "slope"),
    [(5.0, -1.0, 3.0, 0.0), (2.0, -1.0, 2.0, 2.0), (5.0, 1.0, -1.3, 0.0), (0.5, -1.0, 0.8, 0.0)],
)
def test_dual_clip(ratio: float, advantage: float, term: float, slope: float) -> None:
    terms, slopes = loss("dual_clip", [ratio], advantage)
    assert terms == pytest.approx([term]) and slopes == pytest.approx([slope])


@pytest.mark.parametrize("ratio", [0.1, 1.0, 5.0])
def test_cispo_keeps_every_gradient(ratio: float) -> None:
    """-min(rho, 1.3) A log pi: the slope is the weight, clipped above and not below."""
    terms, slopes = loss("cispo", [ratio], 2.0)
    assert slopes == pytest.approx([-min(ratio, 1.3) * 2])
    assert terms == pytest.approx([-min(ratio, 1.3) * 2 * math.log(ratio)])


def test_gspo_has_one_ratio_a_row() -> None:
    """sqrt(1.1 x 1.21) = 1.1537 is within bounds, and sqrt(1.1 x 3) = 1.8166 is not."""
    terms, slopes = loss("gspo", [1.1, 1.21], 1.0)
    assert terms == pytest.approx([-1.15369] * 2, abs=1e-4)
    assert slopes == pytest.approx([-1.15369] * 2, abs=1e-4)
    terms, slopes = loss("gspo", [1.1, 3.0], 1.0)
    assert terms == pytest.approx([-1.3] * 2) and slopes == [0, 0]


def test_gspo_does_not_see_what_is_not_own() -> None:
    new, old = torch.tensor([[0.1, 9.0]]), torch.zeros(1, 2)
    own, ones = torch.tensor([[True, False]]), torch.ones(1, 2)
    assert LOSSES["gspo"](new, old, ones, own, BOUNDS)[0, 0].item() == pytest.approx(-math.exp(0.1))


def test_truncated_importance() -> None:
    old, sampled = torch.tensor([0.0, -1.0, -1.0]), torch.tensor([-1.0, -1.0, 0.0])
    assert truncated(old, sampled, 2.0).tolist() == pytest.approx([2.0, 1.0, math.exp(-1)])


def test_the_unbiased_gradient_is_that_of_the_divergence() -> None:
    """In the mean over tokens drawn from `old`, exactly: all outcomes, with their chances."""
    generator = torch.Generator().manual_seed(0)
    logits, reference, old = torch.randn(3, 5, generator=generator).log_softmax(-1)
    logits.requires_grad_()
    new = logits.log_softmax(-1)
    (wanted,) = torch.autograd.grad((new.exp() * (new - reference)).sum(), logits)
    for kind, right in ((unbiased_kl(logits.log_softmax(-1), reference, old), True),):
        (got,) = torch.autograd.grad((old.exp() * kind).sum(), logits)
        assert torch.allclose(got, wanted, atol=1e-6) == right
    (other,) = torch.autograd.grad(
        (old.exp() * k3(logits.log_softmax(-1), reference)).sum(), logits
    )
    assert not torch.allclose(other, wanted, atol=1e-2)
    value = unbiased_kl(new, reference, old)
    torch.testing.assert_close(value, k3(new, reference))


# -- what surrounds them ---------------------------------------------------------------------------


@pytest.fixture
def pair(episode: Episode) -> list[Record]:
    return [
        episode([([3, 4, 5], [8], 1.0)], name="0.0"),
        episode([([5], [8], 0.0)], name="0.1"),
    ]


def test_the_constant_divides_by_episodes_alone(model: Transformer, pair: list[Record]) -> None:
    batch = collate(pair, [[1.0], [-1.0]])
    with torch.no_grad():
        batch.old = logprobs(model, batch.tokens)
    values = accumulate(Likelihood(model), batch, Args(constant=10), size=2 * 10)
    assert values["loss"] == pytest.approx((-3 + 1) / 20, abs=1e-5)


def test_tis_weighs_by_how_sampler_and_learner_differ(
    model: Transformer, pair: list[Record]
) -> None:
    batch = collate(pair, [[1.0], [-1.0]])
    with torch.no_grad():
        now = logprobs(model, batch.tokens)
    batch.old = now - torch.log(torch.tensor([[1, 1, 1.5, 0.5, 9, 1]] * 2))
    args = Args(tis=2.0, rows=1)
    fixed = corrected(Likelihood(model), batch, args, Processes(count=1))
    torch.testing.assert_close(fixed.old[batch.own], now[batch.own])
    assert fixed.weights[0, 2:5].tolist() == pytest.approx([1.5, 0.5, 2.0], abs=1e-4)
    values = accumulate(Likelihood(model), fixed, args)
    assert values["loss"] == pytest.approx((-1.5 - 0.5 - 2.0 + 1.5) / 4, abs=1e-4)
    assert values["ratio_off"] <= 1e-5


def test_only_own_tokens_have_logits(model: Transformer, pair: list[Record]) -> None:
    """However long prompts and observations are."""
    seen: list[Tensor] = []
    hook = model.head.register_forward_hook(lambda m, inputs, out: seen.append(out))
    learner = Likelihood(model, whole=False)
    learner(collate(pair, [[1.0], [1.0]], share=2))
    longer = collate(pair, [[1.0], [1.0]])
    learner(longer)
    hook.remove()
    assert [len(out) for out in seen] == [4, 4]


def test_a_prompt_of_a_group_is_read_once(model: Transformer, episode: Episode) -> None:
    prompt = tuple(range(1, 12))
    records = [episode([([3], [], 1.0)], name=f"{i // 4}.{i % 4}", prompt=prompt) for i in range(8)]
    read: list[int] = []
    hook = model.embed.register_forward_hook(lambda m, inputs, out: read.append(inputs[0].numel()))
    batch = collate(records, [[1.0]] * 8, share=8)
    assert batch.shared.tolist() == [10] * 8 and batch.group.tolist() == [0] * 4 + [4] * 4
    Likelihood(model, whole=False)(batch)
    hook.remove()
    assert read == [2 * 10, 8 * 1]


def test_an_episode_that_is_masked_is_as_if_it_were_not_there(
    model: Transformer, pair: list[Record]
) -> None:
    model.zero_grad()
    accumulate(Likelihood(model), collate(pair[:1], [[0.5]]), Args())
    alone = [w.grad.clone() for w in model.parameters() if w.grad is not None]
    kept = [r for r in (*pair, pair[1]) if r is not pair[1]]
    model.zero_grad()
    accumulate(Likelihood(model), collate(kept, [[0.5]]), Args())
    again = [w.grad for w in model.parameters() if w.grad is not None]
    assert all(torch.equal(a, b) for a, b in zip(alone, again, strict=True))


# -- shaping ---------------------------------------------------------------------------------------


def trajectory(*turns: list[tuple[ToolCall | None, ToolResult]]) -> Trajectory:
    made = [Turn(Action("x"), "", 0.0, {"calls": calls}) for calls in turns]
    return Trajectory("0.0", "0", Task("t", "train", "1+1="), 0, [], turns=made)


CALL = (ToolCall("f", {}), ToolResult("1"))
BROKEN = (None, ToolResult("?", error="parse"))


def second_turn(judged: Trajectory) -> list[float]:
    """A process reward."""
    return [0.0, 0.5, *[0.0] * (len(judged.turns) - 2)]


def test_shaping_is_paid_turn_by_turn(episode: Episode) -> None:
    record = episode([([3], [8], 0.0), ([4, 5], [8], 0.0), ([6], [], 1.0)])
    played = trajectory([CALL, CALL], [BROKEN], [])
    shaped = Shaping(malformed=-0.5, call=-0.01, overlong=-1.0, limit=6, soft=4)
    got = shaped.add(record, played)
    # 4 own tokens are 2 into the last 4 before 6
    assert got.rewards == pytest.approx([-0.02, -0.5, 1.0 - 0.5])
    assert [c[COMPONENT] for c in got.components] == pytest.approx([-0.02, -0.5, -0.5])
    assert got.passed == record.passed and record.rewards == [0.0, 0.0, 1.0]
    assert Shaping().add(record, played) is record


def test_a_process_reward_changes_its_turn_alone(episode: Episode) -> None:
    record = episode([([3], [8], 0.0), ([4], [8], 0.0), ([6], [], 1.0)])
    got = Shaping(process=f"{__name__}:second_turn").add(record, trajectory([], [], []))
    assert got.rewards == [0.0, 0.5, 1.0]
    with pytest.raises(ValueError, match="2 rewards for 1 turns"):
        Shaping(process=f"{__name__}:second_turn").add(record, trajectory([]))
    for wrong in ("nowhere:f", f"{__name__}:nothing", "no colon"):
        with pytest.raises(ValueError, match="no such module:function"):
            named(wrong)


@pytest.mark.parametrize(("tokens", "share"), [(0, 0), (12, 0), (14, 0.5), (16, 1), (99, 1)])
def test_excess(tokens: int, share: float) -> None:
    assert excess(tokens, 16, 4) == share
    assert excess(tokens, 0, 4) == 0
