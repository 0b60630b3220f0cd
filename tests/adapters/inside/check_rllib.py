"""RLlib's PPO on the tokenised calculator: real steps, and episodes as by hand."""

import runpy
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch

EXAMPLE = Path(__file__).parents[3] / "docs" / "adapters" / "train_rllib.py"


@pytest.fixture(scope="module")
def example() -> dict[str, Any]:
    """The example's names."""
    return runpy.run_path(str(EXAMPLE))


@pytest.fixture(scope="module")
def algorithm(example: dict[str, Any]) -> Any:
    """A PPO that has not learned yet; no faults, so that a task says all of an episode."""
    make = example["make_algorithm"]
    made = make().config.copy(copy_frozen=False).environment(env_config={"fault_rate": 0.0})
    algorithm = made.build_algo()
    yield algorithm
    algorithm.stop()


def weights(algorithm: Any) -> list[torch.Tensor]:
    """A copy of the network's."""
    return [p.detach().clone() for p in algorithm.get_module().parameters()]


def test_episodes_are_the_same_as_by_hand(algorithm: Any, example: dict[str, Any]) -> None:
    episodes = algorithm.env_runner.sample(num_episodes=6, random_actions=True)
    assert len(episodes) == 6 and all(episode.is_done for episode in episodes)
    for episode in episodes:
        env = example["make"]({})
        info = episode.get_infos(0)
        observation, _ = env.reset(options={"task": info["task_id"]})
        assert np.array_equal(observation, episode.get_observations(0))
        for at, action in enumerate(episode.get_actions()):
            observation, reward, terminated, truncated, _ = env.step(action)
            assert np.array_equal(observation, episode.get_observations(at + 1))
            assert reward == episode.get_rewards(at)
        assert (terminated, truncated) == (episode.is_terminated, episode.is_truncated)


def test_ppo_takes_real_steps(algorithm: Any) -> None:
    before = weights(algorithm)
    found = algorithm.train()
    assert found["env_runners"]["num_episodes"] > 0
    assert np.isfinite(found["learners"]["default_policy"]["total_loss"])
    after = weights(algorithm)
    assert any(not torch.equal(a, b) for a, b in zip(before, after, strict=True))


def test_gymnasium_is_as_new_as_ours_needs() -> None:
    assert tuple(map(int, gymnasium.__version__.split(".")[:2])) >= (1, 4)
