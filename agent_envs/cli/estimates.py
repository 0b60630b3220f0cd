"""What a sample says about all: pass@k and confidence intervals.

A task is the unit, since several episodes of one are no independent draws.
"""

import math
from collections.abc import Iterable, Sequence
from statistics import NormalDist, fmean, stdev

_Z = NormalDist().inv_cdf(0.975)


def pass_at(k: int, samples: int, passed: int) -> float:
    """The chance that one of `k` samples of a task passes, of which `passed` of `samples` did.

    The unbiased estimator of Chen et al., "Evaluating Large Language Models Trained on Code"
    (arXiv 2107.03374), section 2.1: 1 - C(n - c, k) / C(n, k), in exact integers. Raises ValueError
    for fewer samples than `k`.
    """
    if not 1 <= k <= samples or not 0 <= passed <= samples:
        raise ValueError(f"pass@{k} of {passed} in {samples}: it takes 1 <= k <= samples")
    return 1 - math.comb(samples - passed, k) / math.comb(samples, k)


def wilson(rate: float, tasks: int) -> tuple[float, float]:
    """The 95% score interval of a rate over independent tasks: Wilson (1927), JASA 22, 209-212.

    Where a task counts with a fraction (several samples of it, pass@k) its variance is at most
    that of a yes or no, so the interval is wider than it need be, never narrower. Raises ValueError
    where there are no tasks.
    """
    if tasks < 1:
        raise ValueError("an interval takes at least one task")
    square = _Z * _Z / tasks
    middle = (rate + square / 2) / (1 + square)
    half = _Z * math.sqrt(rate * (1 - rate) / tasks + square / tasks / 4) / (1 + square)
    low = 0.0 if rate <= 0 else max(middle - half, 0.0)
    return low, 1.0 if rate >= 1 else min(middle + half, 1.0)


def standard_error(means: Sequence[float]) -> float | None:
    """Of the mean of what the tasks came to; None of fewer than two."""
    return stdev(means) / math.sqrt(len(means)) if len(means) > 1 else None


def mean(values: Iterable[float]) -> float | None:
    """The mean; None of nothing."""
    listed = list(values)
    return fmean(listed) if listed else None
