"""RLlib's PPO on agent/CalculatorChars-v0, as MultiDiscrete ids: a few real steps on a CPU.

    python docs/adapters/train_rllib.py

RLlib 2.60 asks for an older Gymnasium than this package; install it first and then
`pip install "gymnasium>=1.4"` over it.
"""

from typing import Any

import gymnasium
import numpy as np
from gymnasium.wrappers import DtypeObservation, FlattenObservation
from ray.rllib.algorithms.ppo import PPOConfig
from ray.tune.registry import register_env

ALPHABET = "0123456789+-=|?BC"


def make(config: dict[str, Any]) -> gymnasium.Env[Any, Any]:
    """One environment; RLlib calls this in its workers, so it imports what it needs."""
    import agent_envs  # noqa: F401
    from agent_envs.adapters.tokens import Letters, Tokenized

    env = gymnasium.make("agent/CalculatorChars-v0", level=0, max_turns=3, **config)
    ids = Tokenized(env, Letters(ALPHABET), turn=8, window=48)
    return DtypeObservation(FlattenObservation(ids), np.float32)


def make_algorithm(**config: Any) -> Any:
    """PPO with a small network."""
    register_env("calculator", make)
    settings: dict[str, Any] = {
        "train_batch_size_per_learner": 128,
        "minibatch_size": 64,
        "num_epochs": 2,
        "lr": 3e-4,
    }
    return (
        PPOConfig()
        .environment("calculator", env_config={"fault_rate": 0.1})
        .env_runners(num_env_runners=0, num_envs_per_env_runner=2)
        .training(**(settings | config))
        .build_algo()
    )


if __name__ == "__main__":
    algorithm = make_algorithm()
    for _ in range(3):
        found = algorithm.train()
        print(found["env_runners"]["episode_return_mean"], found["env_runners"]["num_episodes"])
    algorithm.stop()
