"""GEM's MathEnv on fifty rows in memory, graded in its own process, which is its faster way."""

from datasets import Dataset
from gem.envs.math_env import MathEnv

ROWS = {"problem": ["6*7?"] * 50, "answer": ["42"] * 50}
ENV = MathEnv(dataset=Dataset.from_dict(ROWS), use_mp=False)


def resets(count: int) -> int:
    """Resets with a seed; a unit is one."""
    for seed in range(count):
        ENV.reset(seed=seed)
    return count


def episodes(count: int) -> int:
    """A reset and the answer, graded; a unit is both."""
    for seed in range(count):
        ENV.reset(seed=seed)
        ENV.step("\\boxed{42}")
    return count


resets(1)
if ENV.step("\\boxed{42}")[1] != 1.0:
    raise RuntimeError("the right answer is not paid any more: adapt this file")

MEASURES = {"resets": resets, "episodes": episodes}
