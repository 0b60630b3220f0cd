"""SkyRL-Gym: a `BaseTextEnv` for any id.

    from agent_envs.adapters import skyrl_gym
    skyrl_gym.register_env("calculator", "agent/Calculator-v0", max_turns=8)

in the process that makes the environments, `environment.env_class=calculator` in the trainer, and a
dataset of `skyrl_gym.rows("agent/Calculator-v0")`: a row's `task` and `seed` say which episode it
starts, so that a group starts alike. A turn is the model's whole text, an observation a user
message. SkyRL has no way to say that an episode does not count: an environment that fails raises
BackendUnavailable. For branching, `text_env.env` is the ToolEnv. Needs skyrl-gym 0.4.
"""

from typing import Any

import skyrl_gym
from skyrl_gym.envs.base_text_env import (
    BaseTextEnv,
    BaseTextEnvStepOutput,
)

from agent_envs.adapters import hosted
from agent_envs.errors import BackendUnavailable
from agent_envs.turns import Message

_ENTRY = "agent_envs.adapters.skyrl_gym:TextEnv"


def register_env(name: str, env_id: str, **make: Any) -> None:
    """Register an id under a name of SkyRL's; `make` are the arguments of `gymnasium.make`."""
    skyrl_gym.register(id=name, entry_point=_ENTRY, kwargs={"env_id": env_id, "make": make})


def rows(env_id: str, *, name: str | None = None, **chosen: Any) -> list[dict[str, Any]]:
    """A dataset; `chosen` as in `hosted.rows`. With a `name`, the column `env_class` has it."""
    made = hosted.rows(env_id, **{"tool_docs": True, **chosen})
    return [{**row, "env_class": name} if name else row for row in made]


class TextEnv(BaseTextEnv):
    """One episode, as SkyRL has it: made, initialised, stepped and closed."""

    def __init__(
        self, env_config: Any, extras: dict[str, Any], env_id: str, make: dict[str, Any]
    ) -> None:
        """`extras` is a row of the dataset. Raises ValueError where it has no `task` or `seed`."""
        super().__init__()
        if not {"task", "seed"} <= extras.keys():
            raise ValueError(f"a row needs task and seed, as {__name__}.rows has them")
        self._seed, self._task = int(extras["seed"]), str(extras["task"])
        self.env = hosted.make(env_id, **make)
        self.max_turns = self.env.max_turns
        self._last: dict[str, Any] = {}

    def init(self, prompt: list[Message]) -> tuple[list[Message], dict[str, Any]]:
        """The episode's own opening; `prompt` is the same where `rows` made it."""
        _, info = self.env.reset(seed=self._seed, options={"task": self._task})
        return info["messages"], {"task": info["task_id"]}

    def step(self, action: str) -> Any:
        """Play a turn."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        if info["infrastructure_error"]:
            raise BackendUnavailable(info["infrastructure_error"])
        self.turns, self._last = info["turn"], info
        done = terminated or truncated
        return BaseTextEnvStepOutput(
            observations=[] if done else [{"role": "user", "content": observation}],
            reward=reward,
            done=done,
            metadata={"end_reason": info["end_reason"], "components": info["reward_components"]},
        )

    def get_metrics(self) -> dict[str, Any]:
        """Turns, and at the end the verdict's components and whether it passed."""
        verdict = self._last.get("verdict")
        known = {**verdict.components, "passed": float(verdict.passed)} if verdict else {}
        return {"turns": self.turns, **known}

    def close(self) -> None:
        """Free everything."""
        self.env.close()
