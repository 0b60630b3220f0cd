"""verifiers 0.4 (`verifiers.v1`): a taskset and an environment for any id.

verifiers finds a taskset by a module's name. Write one of two lines, `calculator.py`:

    from agent_envs.adapters.verifiers import EnvTasks, Play
    __all__ = ["EnvTasks", "Play"]

    vf-eval calculator --env.taskset.env-id agent/Calculator-v0 --env.taskset.split heldout ...

The env answers as the user, in the text of its protocol: a model needs no native tool calls. A
rollout's reward is the episode's; its components and `passed` are metrics. Where the environment
fails the episode has an error and no reward. Needs verifiers 0.4 and, for its chat program, uv.
"""

from collections.abc import Iterator
from typing import Any

import verifiers.v1 as vf  # noqa: TID251
from pydantic import Field
from verifiers.v1.harnesses.null import (  # noqa: TID251
    NullHarnessConfig,
)

from agent_envs import aio
from agent_envs.adapters.hosted import make, rows
from agent_envs.env import ToolEnv
from agent_envs.errors import BackendUnavailable


class EnvTasksConfig(vf.TasksetConfig):
    """Which tasks of which env; `make` goes to `gymnasium.make`."""

    env_id: str = "agent/Calculator-v0"
    split: str = "train"
    n: int | None = None
    seed: int = 0
    make: dict[str, Any] = Field(default_factory=dict)


class EnvData(vf.TaskData):
    """What starts one episode, the same one every time."""

    env_id: str
    task: str
    seed: int
    make: dict[str, Any]


class EnvTask(vf.Task[EnvData]):
    """One task of an env."""


class EnvTasks(vf.Taskset[EnvTask, EnvTasksConfig]):
    """The tasks of an env's split."""

    def load(self) -> Iterator[EnvTask]:
        """Yield them in the split's order."""
        chosen = self.config
        settings = {"tool_docs": True, **chosen.make}
        for row in rows(
            chosen.env_id, split=chosen.split, n=chosen.n, seed=chosen.seed, **settings
        ):
            data = EnvData(
                name=row["task"],
                system_prompt=row["prompt"][0]["content"] if len(row["prompt"]) > 1 else None,
                prompt=row["prompt"][-1]["content"],
                env_id=chosen.env_id,
                task=row["task"],
                seed=row["seed"],
                make=settings,
            )
            yield EnvTask(data, chosen.task)


class PlayConfig(vf.EnvConfig):
    """One player, by default a plain chat with no tools of its own."""

    player: vf.AgentConfig = vf.AgentConfig(
        harness=NullHarnessConfig(id="null"), runtime=vf.SubprocessConfig()
    )


class Play(vf.Env[PlayConfig]):
    """Plays an episode: every reply of the model is a turn of the env."""

    async def run(self, task: EnvTask, agents: Any) -> None:
        """See `verifiers.v1.Env`."""
        data = task.data
        env = await aio.run(make, data.env_id, **data.make)
        try:
            options = {"task": data.task}
            _, info = await aio.run(env.reset, seed=data.seed, options=options)
            async with agents.player.interaction(task) as interaction:
                total, info = await _play(env, interaction, info)
            trace = interaction.trace
            trace.record_reward("reward", total)
            trace.info["end_reason"] = info["end_reason"]
            if verdict := info["verdict"]:
                trace.record_metrics({**verdict.components, "passed": float(verdict.passed)})
        finally:
            await aio.run(env.close)


async def _play(env: ToolEnv, talk: Any, info: dict[str, Any]) -> tuple[float, dict[str, Any]]:
    """The reward, and the last info. Raises BackendUnavailable where the environment failed."""
    total, message = 0.0, None
    while not env.ended:
        segment = await talk.turn(message)
        if segment.terminated:
            move: Any = ""
        else:
            cut = talk.trace.calls[-1].finish_reason == "length"
            move = env.protocol.parse(segment.last_reply, cut=cut)
        message, reward, _, _, info = await aio.run(env.act, move)
        total += reward
        if info["infrastructure_error"]:
            raise BackendUnavailable(info["infrastructure_error"])
    return total, info
