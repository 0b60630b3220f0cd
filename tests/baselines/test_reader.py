"""How conversations are read together: the same as each alone, whatever they have in common."""

import random

import pytest
import torch

from agent_envs.baselines import reader as reading
from agent_envs.baselines.attention import Cache, Step
from agent_envs.baselines.reader import Reader
from agent_envs.baselines.transformer import Shape, Transformer

CONTEXT = 48
SLOTS = 12


@pytest.fixture
def model() -> Transformer:
    return Transformer(Shape(17, context=CONTEXT, positions="rope"), seed=1).eval()


def read_alone(model: Transformer, tokens: list[int]) -> torch.Tensor:
    with torch.inference_mode():
        logits: torch.Tensor = model(torch.tensor([tokens]))
    return logits[0, -1]


def test_random_conversations_are_read_as_each_alone(
    model: Transformer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Copies, copies of copies, places given away, conversations that begin anew; idle rows."""
    monkeypatch.setattr(reading, "ALIKE", 1)
    views = []
    made = Reader._view

    def noted(self: Reader, *arguments: object) -> object:
        views.append(made(self, *arguments))  # type: ignore[arg-type]
        return views[-1]

    monkeypatch.setattr(Reader, "_view", noted)
    rng = random.Random(0)
    reader = Reader(model, fill=True)
    reader.cache.grow(SLOTS)
    said: dict[int, list[int]] = {}
    for _ in range(300):
        if len(said) < 2 or rng.random() < 0.1:
            slot = rng.randrange(SLOTS)
            said[slot] = [rng.randrange(17) for _ in range(rng.randrange(2, 12))]
            reader.read([said[slot]], [0], [slot])
        if rng.random() < 0.5:
            source, target = rng.choice(list(said)), rng.randrange(SLOTS)
            length = rng.randrange(1, len(said[source]) + 1)
            if source != target:
                reader.cache.copy(source, target, length)
                said[target] = said[source][:length]
        slots = sorted(slot for slot in said if len(said[slot]) < CONTEXT and rng.random() < 0.8)
        news = [[rng.randrange(17)] for _ in slots]
        starts = [len(said[slot]) for slot in slots]
        if not slots:
            continue
        logits = reader.read(news, starts, slots)
        for row, slot in enumerate(slots):
            said[slot] = said[slot] + news[row]
            wanted = read_alone(model, said[slot])
            torch.testing.assert_close(logits[row], wanted, atol=1e-4, rtol=1e-4)
    together = sum(isinstance(view, Step) for view in views)
    assert 50 < together < len(views) - 50


def test_families_are_rows_that_begin_alike(model: Transformer) -> None:
    cache = Cache(model.sizes, 6, model.weight)
    cache.copy(0, 1, 10)
    cache.copy(0, 2, 8)
    cache.copy(1, 3, 9)  # of what slot 0 began
    families = cache.families([0, 1, 2, 3, 4, 5], [12, 11, 11, 11, 7, CONTEXT])
    found = {(f.length, *f.rows) for f in families}
    assert found == {(8, 0, 1, 2, 3), (7, 4, 5)}  # a row at the context's end is in any
    cache.written(0, 9)  # behind what slot 2 took of it
    assert {f.length for f in cache.families([0, 1, 2, 3], [9, 11, 11, 11])} == {8}
    cache.written(0, 0)
    assert [f.rows for f in cache.families([0, 1, 2, 3], [1, 11, 11, 11])] == [[0], [1], [2], [3]]
