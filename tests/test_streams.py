"""Counter-based randomness: fixed values, uniformity, streams that do not know of each other."""

import enum
import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_envs.streams import derive, draw

N = 20_000


def test_values_are_the_same_on_every_machine() -> None:
    assert derive(7, 0) == 3730124918431372671
    assert derive("a", ("b", 1), None, True, 1.5, b"c") == 270532880178781079
    assert draw(7, "fault", 3) == 0.7087472508648146


@given(st.integers(), st.text(st.characters(exclude_categories=["Cs"])), st.integers())
def test_draws_are_in_the_unit_interval(seed: int, stream: str, index: int) -> None:
    u = draw(seed, stream, index)
    assert 0 <= u < 1 and u == draw(seed, stream, index)
    assert u == draw(seed + 2**64, stream, index - 2**64)


parts = st.recursive(
    st.integers() | st.text() | st.none() | st.booleans() | st.floats() | st.binary(),
    lambda inner: st.lists(inner, max_size=3).map(tuple),
    max_leaves=6,
)


@given(st.lists(parts, max_size=4))
def test_derived_seeds_fit(key: list[Any]) -> None:
    seed = derive(*key)
    assert 0 <= seed < 2**63 and seed == derive(*key)


def test_keys_that_look_alike_differ() -> None:
    keys: list[tuple[Any, ...]] = [
        (),
        ("",),
        ("", ""),
        (0,),
        ("0",),
        (False,),
        (0.0,),
        (None,),
        (b"0",),
        ((0,),),
        (0, 0),
        ((0, 0),),
        ("a", "b"),
        ("ab",),
        ("a', 'b",),
        ("a", "b", ()),
    ]
    assert len({derive(*key) for key in keys}) == len(keys)
    assert len({derive(i) for i in range(N)}) == N


class Color(enum.IntEnum):
    RED = 1


@pytest.mark.parametrize(
    "part", [object(), [1], {"a": 1}, {1}, np.int64(1), np.float64(1), Color.RED, (1, (object(),))]
)
def test_what_has_no_stable_repr_is_refused(part: Any) -> None:
    with pytest.raises(TypeError, match="derive"):
        derive("x", part)


def series(seed: int, stream: str) -> list[float]:
    """The first draws of a stream."""
    return [draw(seed, stream, i) for i in range(N)]


def correlation(a: list[float], b: list[float]) -> float:
    return float(np.corrcoef(a, b)[0, 1])


FIVE_SIGMA = 5 / math.sqrt(N)


def test_draws_are_uniform_and_do_not_know_of_each_other() -> None:
    streams = ["fault", "fault content", "task", "tasks"]
    all_series = [series(seed, name) for seed in (0, 1, 2**62) for name in streams]
    for one in all_series:
        counts, _ = np.histogram(one, bins=20, range=(0, 1))
        expected = N / 20
        assert max(abs(counts - expected)) < 5 * math.sqrt(expected)
        assert abs(correlation(one[1:], one[:-1])) < FIVE_SIGMA
    for a, b in itertools.combinations(all_series, 2):
        assert abs(correlation(a, b)) < FIVE_SIGMA


def test_derived_seeds_are_spread() -> None:
    seeds = np.array([derive(7, n) for n in range(N)], dtype=np.float64) / 2.0**63
    counts, _ = np.histogram(seeds, bins=20, range=(0, 1))
    assert max(abs(counts - N / 20)) < 5 * math.sqrt(N / 20)
