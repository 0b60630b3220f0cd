"""The model: what the cache gives is what reading everything at once gives."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from agent_envs.baselines.attention import Cache, Onward
from agent_envs.baselines.model import logprobs
from agent_envs.baselines.transformer import Shape, Transformer


@torch.no_grad()
def extend(
    model: Transformer, tokens: Tensor, start: list[int], slots: list[int], cache: Cache
) -> Tensor:
    """Logits after each of some new tokens."""
    view = Onward(cache, start, slots, tokens.shape[1])
    logits: Tensor = model.head(model.hidden(tokens, view.positions, view))
    return logits


@st.composite
def readings(draw: st.DrawFn) -> list[list[list[int]]]:
    """Rounds of new tokens for a few conversations; some have none in a round."""
    token = st.integers(0, 16)
    rows = draw(st.integers(1, 5))
    some = st.lists(token, max_size=6)
    first = st.lists(st.lists(token, min_size=1, max_size=6), min_size=rows, max_size=rows)
    rest = st.lists(st.lists(some, min_size=rows, max_size=rows), max_size=4)
    return [draw(first), *draw(rest)]


@pytest.mark.parametrize("positions", ["learned", "rope"])
@settings(max_examples=25)
@given(rounds=readings(), data=st.data())
def test_cache_equals_full_forward(
    positions: str, rounds: list[list[list[int]]], data: st.DataObject
) -> None:
    model = Transformer(Shape(width=32, positions=positions), seed=1)
    count = len(rounds[0])
    slots = data.draw(st.permutations(range(count + 2)))[:count]
    cache = Cache(model.sizes, count + 2, model.weight)
    told: list[list[int]] = [[] for _ in range(count)]
    for news in rounds:
        rows = [i for i, new in enumerate(news) if new]
        if not rows:
            continue
        width = max(len(news[i]) for i in rows)
        padded = torch.tensor([news[i] + [16] * (width - len(news[i])) for i in rows])
        start, at = [len(told[i]) for i in rows], [slots[i] for i in rows]
        got = extend(model, padded, start, at, cache)
        for place, i in enumerate(rows):
            told[i] += news[i]
            with torch.no_grad():
                whole = model(torch.tensor([told[i]]))[0, -len(news[i]) :]
            torch.testing.assert_close(got[place, : len(news[i])], whole, atol=2e-5, rtol=1e-5)


def test_a_grown_cache_keeps_its_conversations(model: Transformer) -> None:
    tokens = torch.randint(17, (2, 9), generator=torch.Generator().manual_seed(0))
    cache = Cache(model.sizes, 2, model.weight)
    with torch.no_grad():
        extend(model, tokens[:, :5], [0, 0], [1, 0], cache)
        cache.grow(7)
        rest = extend(model, tokens[:, 5:], [5, 5], [1, 0], cache)
        torch.testing.assert_close(rest, model(tokens)[:, 5:], atol=2e-5, rtol=1e-5)
    assert cache.slots == 7


def test_a_conversation_may_fill_the_context_while_another_is_padded(model: Transformer) -> None:
    context = model.shape.context
    generator = torch.Generator().manual_seed(0)
    long = torch.randint(17, (1, context), generator=generator)
    cache = Cache(model.sizes, 2, model.weight)
    with torch.no_grad():
        extend(model, long[:, :-1], [0], [0], cache)
        last = int(long[0, -1])
        both = torch.tensor([[last] + [(last + 1) % 17] * 3, [1] * 4])
        got = extend(model, both, [context - 1, 0], [0, 1], cache)
        torch.testing.assert_close(got[0, 0], model(long)[0, -1], atol=2e-5, rtol=1e-5)


def test_the_past_does_not_see_the_future(model: Transformer) -> None:
    tokens = torch.arange(12)[None] % 17
    other = tokens.clone()
    other[0, 7:] = 3
    with torch.no_grad():
        torch.testing.assert_close(model(tokens)[0, :7], model(other)[0, :7])


def test_rope_sees_distances_only() -> None:
    model = Transformer(Shape(layers=1, width=32, positions="rope"), seed=0)
    block = next(iter(model.blocks))
    x = torch.randn(1, 6, 32, generator=torch.Generator().manual_seed(1))
    scores = []
    for shift in (0, 20):
        q, k, _ = block.project(x, torch.arange(6) + shift)
        scores.append(q @ k.transpose(-1, -2))
    torch.testing.assert_close(scores[0], scores[1], atol=1e-5, rtol=1e-5)


def test_a_head_begins_by_looking_at_the_token_before() -> None:
    model = Transformer(Shape(50, context=64, positions="rope", base=1000.0))
    x = torch.randn(1, 40, 128, generator=torch.Generator().manual_seed(1))
    looks = []
    for block in model.blocks:
        q, k, _ = block.project(x, torch.arange(40))
        scores = (q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5)[0]
        scores = scores.masked_fill(~torch.ones(40, 40).tril().bool(), -torch.inf)
        looks.append(scores.softmax(-1).diagonal(-1, 1, 2).mean(-1))
    assert looks[0][0] > 0.5
    assert max(*looks[0][1:], *looks[1]) < 0.2


def test_weights_are_a_function_of_the_seed() -> None:
    torch.manual_seed(1)
    one = Transformer(Shape(), seed=5).state_dict()
    torch.manual_seed(2)
    two, three = Transformer(Shape(), seed=5).state_dict(), Transformer(Shape(), 6).state_dict()
    assert all(torch.equal(one[name], two[name]) for name in one)
    assert not torch.equal(one["head.weight"], three["head.weight"])


def test_the_published_model_has_its_size() -> None:
    model = Transformer(Shape())
    assert model.shape.vocabulary == 17
    block = 12 * 128 * 128 + 5 * 128 + 4 * 128  # matrices, biases of the middle layer, two norms
    expected = 2 * block + 2 * 17 * 128 + 64 * 128 + 2 * 128
    assert sum(p.numel() for p in model.parameters()) == expected


def test_logprobs_are_of_the_next_token(model: Transformer) -> None:
    tokens = torch.tensor([[1, 2, 3, 4]])
    with torch.no_grad():
        got = logprobs(model, tokens, temperature=0.5)
        table = (model(tokens) / 0.5).log_softmax(-1)
    assert got[0, 0] == 0
    for place in range(1, 4):
        wanted = table[0, place - 1, tokens[0, place]].item()
        assert got[0, place].item() == pytest.approx(wanted, abs=1e-5)


@pytest.mark.parametrize("wrong", [{"positions": "alibi"}, {"width": 100, "heads": 3}])
def test_a_shape_that_cannot_be_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="positions|width"):
        Shape(**wrong)  # type: ignore[arg-type]
