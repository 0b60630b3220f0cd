"""SkyRL-Gym's gsm8k_multi_turn, with an env made and initialised for each episode.

The turns hold no answer, which is the fastest way through its step.
"""

from collections.abc import Callable

import skyrl_gym
from omegaconf import DictConfig

PROMPT = [{"role": "user", "content": "What is 6*7?"}]


def steps(turns: int) -> Callable[[int], int]:
    """Episodes of so many turns; a unit is a step."""

    def run(count: int) -> int:
        done = 0
        while done < count:
            extras = {"reward_spec": {"ground_truth": "42"}, "max_turns": turns}
            env = skyrl_gym.make("gsm8k_multi_turn", env_config=DictConfig({}), extras=extras)
            env.init(PROMPT)
            ended = False
            while not ended:
                ended = env.step("let me think")["done"]
                done += 1
        return done

    if run(1) != turns:
        raise RuntimeError(f"an episode has not {turns} steps any more: adapt this file")
    return run


MEASURES = {"steps": steps(5), "steps, two turns": steps(2)}
