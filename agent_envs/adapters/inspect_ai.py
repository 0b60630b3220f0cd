"""Inspect: a task, a solver and a scorer for any id, so that its models and its viewer work.

    inspect eval agent_envs/episodes -T env_id=agent/Calculator-v0 -T n=20 --model openai/...

or, in Python, `inspect_ai.eval(episodes("agent/Calculator-v0", n=20), model=...)`. A sample is one
episode; `--epochs` starts it anew from the same state. The model calls tools natively, each call
is a turn of the env, and a call that did not work out is Inspect's `ToolCallError`. Where the
environment fails the sample has an error and no score. Needs inspect_ai 0.3.285.
"""

from typing import Any

from inspect_ai import Task, task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import ChatMessageSystem, ChatMessageUser, execute_tools
from inspect_ai.scorer import Score, mean, scorer, stderr
from inspect_ai.solver import solver
from inspect_ai.tool import ToolDef, ToolError, ToolParams

from agent_envs import aio
from agent_envs.adapters.hosted import Hosted, rows
from agent_envs.errors import BackendUnavailable
from agent_envs.tool import Tool

_METRICS = {"reward": [mean(), stderr()], "passed": [mean(), stderr()]}


@task
def episodes(
    env_id: str = "agent/Calculator-v0",
    split: str = "heldout",
    n: int | None = None,
    seed: int = 0,
    **make: Any,
) -> Any:
    """An Inspect task with a sample for each of an env's tasks; `make` as in `gymnasium.make`."""
    samples = []
    for row in rows(env_id, split=split, n=n, seed=seed, **make):
        kinds = {"system": ChatMessageSystem, "user": ChatMessageUser}
        said = [kinds[message["role"]](content=message["content"]) for message in row["prompt"]]
        about = {"task": row["task"], "seed": row["seed"]}
        samples.append(Sample(input=said, id=row["task"], metadata=about))
    return Task(
        dataset=MemoryDataset(samples, name=env_id),
        solver=play(env_id, **make),
        scorer=verdict(),
        name=env_id.rpartition("/")[2],
    )


@solver
def play(env_id: str, **make: Any) -> Any:
    """A solver that lets the model play the episode that a sample's metadata names."""

    async def solve(state: Any, generate: Any) -> Any:
        hosted = await aio.run(Hosted, env_id, **make)
        try:
            about = state.metadata
            await aio.run(hosted.start, seed=about["seed"], task=about["task"])
            state.tools = [_tool(hosted, tool) for tool in hosted.env.tools.values()]
            try:
                while not hosted.env.ended and not state.completed:
                    state = await generate(state, tool_calls="none")
                    state.messages.extend(await _answers(hosted, state))
                    if hosted.failed:
                        raise BackendUnavailable(hosted.failed)
            finally:  # Inspect's own limits end an episode too
                if not hosted.failed:
                    state.store.set("reward", await aio.run(hosted.finish))
                    state.store.set("verdict", hosted.verdict)
        finally:
            await aio.run(hosted.env.close)
        return state

    return solve


@scorer(metrics=_METRICS)
def verdict() -> Any:
    """The episode's reward, and whether its task was solved."""

    async def score(state: Any, target: Any) -> Any:
        said = state.store.get("verdict")
        value = {"reward": state.store.get("reward", 0.0), "passed": bool(said and said["passed"])}
        return Score(value=value, answer=state.output.completion, metadata={"verdict": said})

    return score


async def _answers(hosted: Hosted, state: Any) -> list[Any]:
    """What the environment says to the model's last message."""
    if state.output.message.tool_calls:
        messages: list[Any] = (await execute_tools(state.messages, state.tools)).messages
        return messages
    cut = state.output.stop_reason in ("max_tokens", "model_length")
    told = await aio.run(hosted.say, state.output.completion, cut=cut)
    return [ChatMessageUser(content=message["content"]) for message in told]


def _tool(hosted: Hosted, tool: Tool) -> Any:
    """One of the env's tools as Inspect has them."""

    async def call(**arguments: Any) -> str:
        result = await aio.run(hosted.call, tool.name, arguments)
        if result.error == "timeout":
            raise TimeoutError(result.content)
        if result.error:
            raise ToolError(result.content.removeprefix("error: "))
        return result.content

    about = tool.schema["function"]
    named = {
        n: {"description": n, **schema} for n, schema in about["parameters"]["properties"].items()
    }
    parameters = ToolParams(**{**about["parameters"], "properties": named})
    described = ToolDef(
        call, tool.name, about["description"], parameters, parallel=False, max_output=0
    )
    return described.as_tool()
