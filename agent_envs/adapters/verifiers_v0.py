"""verifiers 0.3 (`verifiers.legacy`, which 0.4 has no more): a `vf.Environment` for any id.

    from agent_envs.adapters.verifiers_v0 import load_environment
    env = load_environment("agent/Calculator-v0", n=64, fault_rate=0.2)

The model calls tools natively; all calls of a message are one turn. Results that are errors are
tool messages, as everywhere in verifiers; an environment that fails is a `vf.InfraError`, whose
rollout does not count. Needs verifiers 0.3.1.
"""

import json
from typing import Any

import verifiers.legacy as vf  # noqa: TID251
from datasets import Dataset

from agent_envs import aio
from agent_envs.adapters.hosted import Hosted, rows
from agent_envs.errors import BackendUnavailable
from agent_envs.turns import ToolCall


def load_environment(
    env_id: str, *, split: str = "train", n: int | None = None, seed: int = 0, **kwargs: Any
) -> Any:
    """An environment whose dataset has a row a task; `kwargs` are those of `gymnasium.make`."""
    data = [
        {"prompt": row["prompt"], "info": {"task_id": row["task"], "seed": row["seed"]}}
        for row in rows(env_id, split=split, n=n, seed=seed, **kwargs)
    ]
    return HostedEnv(env_id, kwargs, dataset=Dataset.from_list(data))


def reward(state: Any) -> float:
    """The episode's reward."""
    return float(state.get("episode_reward", 0.0))


def passed(state: Any) -> float:
    """Whether the task was solved."""
    return float(state.get("episode_passed", False))


class HostedEnv(vf.MultiTurnEnv):
    """One of our envs a rollout, kept in `state["hosted"]`."""

    def __init__(self, env_id: str, kwargs: dict[str, Any], **more: Any) -> None:
        """`more` goes to `vf.MultiTurnEnv`."""
        self._env_id, self._kwargs = env_id, kwargs
        rubric = vf.Rubric(funcs=[reward, passed], weights=[1.0, 0.0])
        probe = Hosted(env_id, **kwargs).env
        tools = [schema["function"] for schema in probe.tool_schemas]
        probe.close()
        tool_defs = [
            vf.Tool(name=t["name"], description=t["description"], parameters=t["parameters"])
            for t in tools
        ]
        super().__init__(tool_defs=tool_defs, rubric=rubric, **more)

    async def setup_state(self, state: Any) -> Any:
        """Start the episode that the row names."""
        info = state["info"]
        try:
            state["hosted"] = hosted = await aio.run(Hosted, self._env_id, **self._kwargs)
            await aio.run(hosted.start, seed=info["seed"], task=info["task_id"])
        except BackendUnavailable as error:
            raise vf.InfraError(str(error)) from error
        return state

    async def env_response(self, messages: Any, state: Any, **kwargs: Any) -> Any:
        """Play the last message: its calls, or the answer."""
        hosted, said = state["hosted"], messages[-1]
        if said.tool_calls:
            calls = [ToolCall(c.name, _arguments(c.arguments), c.id) for c in said.tool_calls]
            results = await aio.run(hosted.calls, calls)
            answers = [
                vf.ToolMessage(role="tool", content=result.content, tool_call_id=call.id)
                for call, result in zip(calls, results, strict=True)
            ]
        else:
            cut = bool(state["trajectory"][-1]["is_truncated"])
            told = await aio.run(hosted.say, said.content or "", cut=cut)
            answers = [vf.UserMessage(role="user", content=m["content"]) for m in told]
        if hosted.failed:
            raise vf.InfraError(hosted.failed)
        if hosted.env.ended:
            state["final_env_response"] = answers
        return answers

    @vf.cleanup
    async def end_episode(self, state: Any) -> None:
        """Grade what is not graded yet, and close the env."""
        hosted = state.pop("hosted", None)
        if hosted is None:
            return
        try:
            state["episode_reward"] = await aio.run(hosted.finish)
            state["episode_passed"] = bool(hosted.verdict and hosted.verdict["passed"])
        except BackendUnavailable as error:
            state["error"] = state.get("error") or vf.InfraError(str(error))
        finally:
            await aio.run(hosted.env.close)


def _arguments(text: str) -> Any:
    """What the model wrote as arguments; what is no JSON goes on as text, for the env to refuse."""
    try:
        return json.loads(text)
    except ValueError:
        return text
