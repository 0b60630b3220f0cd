"""pass@k and intervals, against brute force and published values."""

from itertools import combinations, product
from statistics import fmean

import pytest

from agent_envs.cli.estimates import pass_at, standard_error, wilson


def test_pass_at_k_is_the_share_of_subsets_that_hold_a_pass() -> None:
    for samples in range(1, 8):
        for passed, k in product(range(samples + 1), range(1, samples + 1)):
            outcomes = [True] * passed + [False] * (samples - passed)
            share = fmean(any(some) for some in combinations(outcomes, k))
            assert pass_at(k, samples, passed) == pytest.approx(share)


def test_pass_at_k_of_many_samples() -> None:
    assert pass_at(1, 200, 13) == pytest.approx(13 / 200)
    assert pass_at(100, 10**6, 10**4) == pytest.approx(1 - 0.99**100, abs=1e-4)


@pytest.mark.parametrize(("k", "samples", "passed"), [(0, 3, 1), (4, 3, 1), (1, 3, 4), (1, 3, -1)])
def test_pass_at_k_of_nonsense(k: int, samples: int, passed: int) -> None:
    with pytest.raises(ValueError, match="pass@"):
        pass_at(k, samples, passed)


@pytest.mark.parametrize(
    ("rate", "tasks", "low", "high"),
    [
        (0.0, 10, 0.0, 0.2775),
        (1.0, 10, 0.7225, 1.0),
        (0.5, 10, 0.2366, 0.7634),
        (81 / 263, 263, 0.2553, 0.3662),  # Newcombe (1998), Statistics in Medicine 17, 857-872
        (15 / 148, 148, 0.0624, 0.1605),
        (1 / 29, 29, 0.0061, 0.1718),
    ],
)
def test_wilson(rate: float, tasks: int, low: float, high: float) -> None:
    assert wilson(rate, tasks) == pytest.approx((low, high), abs=5e-5)


def test_wilson_of_nothing() -> None:
    with pytest.raises(ValueError, match="at least one"):
        wilson(0.5, 0)


def test_the_standard_error_takes_two() -> None:
    assert standard_error([0.5]) is None
    assert standard_error([0.0, 1.0]) == pytest.approx(0.5)
