"""verl: an agent loop that plays any id.

    actor_rollout_ref.rollout.agent.agent_loop_config_path: loops.yaml      # with, in loops.yaml:
    - {name: agent_envs, _target_: agent_envs.adapters.verl.EnvAgentLoop}

and a dataset of `agent_envs.adapters.verl.rows("agent/Calculator-v0")`, written as Parquet. A row's
`extra_info` says which episode it starts, so that a group starts alike. The model's chat template
describes the tools; what it writes is read by the env's protocol, so `hermes` models play as they
are. Tokens are the server's own, never encoded anew, and what the environment says carries no
loss. The reward is the episode's (`reward_score`), so no reward function is needed; `turn_scores`
has it turn by turn. An episode in which the environment fails is started anew, three times in all.

A `BaseTool` of verl's is given calls alone, one at a time and without the answer, so an episode
could not be graded: there is none here. Needs verl 0.9.1.
"""

from typing import Any
from uuid import uuid4

from verl.experimental.agent_loop.agent_loop import (
    AgentLoopBase,
    AgentLoopMetrics,
    AgentLoopOutput,
    register,
)

from agent_envs import aio
from agent_envs.adapters import hosted
from agent_envs.env import ToolEnv
from agent_envs.errors import BackendUnavailable
from agent_envs.turns import Message

_TRIES = 3


def rows(env_id: str, *, make: dict[str, Any] | None = None, **chosen: Any) -> list[dict[str, Any]]:
    """A dataset; `chosen` as in `hosted.rows`, `make` for the environments that play it."""
    settings = {"tool_docs": False, **(make or {})}
    found = []
    for index, row in enumerate(hosted.rows(env_id, **{**settings, **chosen})):
        episode = {"env_id": env_id, "make": settings, "task": row["task"], "seed": row["seed"]}
        found.append(
            {
                "data_source": env_id,
                "agent_name": "agent_envs",
                "prompt": row["prompt"],
                "extra_info": {"index": index, **episode},
            }
        )
    return found


@register("agent_envs")
class EnvAgentLoop(AgentLoopBase):
    """See the module's docstring."""

    async def run(self, sampling_params: dict[str, Any], **kwargs: Any) -> Any:
        """Play the episode of a row; returns verl's `AgentLoopOutput`."""
        episode = kwargs["extra_info"]
        for tries_left in reversed(range(_TRIES)):
            env = await aio.run(hosted.make, episode["env_id"], **(episode.get("make") or {}))
            try:
                return await self._play(env, episode, sampling_params)
            except BackendUnavailable:
                if not tries_left:
                    raise
            finally:
                await aio.run(env.close)

    async def _play(self, env: ToolEnv, episode: dict[str, Any], sampling: dict[str, Any]) -> Any:
        options = {"task": episode["task"]}
        _, info = await aio.run(env.reset, seed=int(episode["seed"]), options=options)
        tools = None if env.tool_docs else env.tool_schemas
        talk = _Talk(self, info["messages"], tools)
        await talk.begin()
        scores = []
        while not env.ended:
            text, cut = await talk.model_turn(sampling)
            _, reward, _, _, info = await aio.run(env.act, env.protocol.parse(text, cut=cut))
            if info["infrastructure_error"]:
                raise BackendUnavailable(info["infrastructure_error"])
            scores.append(reward)
            if env.ended or not await talk.env_turn(info["messages"]):
                break
        verdict = await aio.run(env.finish)
        if verdict and info["verdict"] is None:  # the response was full before the episode's end
            scores.append(verdict.total)
        extra = {"passed": float(bool(verdict and verdict.passed))}
        return talk.output(scores, extra)


class _Talk:
    """A conversation in tokens, by verl's own merging."""

    def __init__(self, loop: Any, messages: list[Message], tools: Any) -> None:
        self._loop, self._messages, self._tools = loop, list(messages), tools
        self._room: int = loop.rollout_config.response_length
        self._request = uuid4().hex
        self._ids: list[int] = []
        self._mask: list[int] = []
        self._logprobs: list[float] | None = None
        self._extra: dict[str, Any] = {}

    async def begin(self) -> None:
        self._ids = await self._loop.ct_build_initial_tokens(self._messages, tools=self._tools)

    async def model_turn(self, sampling: dict[str, Any]) -> tuple[str, bool]:
        """What the model wrote, and whether it was cut off."""
        room = self._room - len(self._mask)
        got = await self._loop.server_manager.generate(
            request_id=self._request, prompt_ids=self._ids, sampling_params=dict(sampling)
        )
        known = self._logprobs or ([] if got.log_probs else None)
        merged, self._mask, logprobs = await self._loop.ct_merge_assistant_token(
            self._ids, got.token_ids, self._mask, known, got.log_probs or None
        )
        self._ids, self._logprobs = merged.token_ids, logprobs
        self._extra = {**got.extra_fields, **self._extra}
        text = self._loop.tokenizer.decode(got.token_ids, skip_special_tokens=True)
        self._messages.append({"role": "assistant", "content": text})
        return text, len(got.token_ids) >= room or got.stop_reason == "aborted"

    async def env_turn(self, said: list[Message]) -> bool:
        """Append what the env said; False where there is no room for another turn."""
        before = list(self._messages)
        self._messages += said
        merged, mask, logprobs = await self._loop.ct_merge_context_msg(
            before, self._messages, self._ids, self._mask, self._logprobs or None, self._tools
        )
        if len(mask) >= self._room:
            return False
        self._ids, self._mask, self._logprobs = merged.token_ids, mask, logprobs
        return True

    def output(self, scores: list[float], extra: dict[str, Any]) -> Any:
        """The whole for verl."""
        at = len(self._ids) - len(self._mask)
        logprobs = self._logprobs
        return AgentLoopOutput(
            prompt_ids=self._ids[:at],
            response_ids=self._ids[at:][: self._room],
            response_mask=self._mask[: self._room],
            response_logprobs=logprobs[: self._room] if logprobs else None,
            reward_score=sum(scores),
            num_turns=len(self._messages),
            metrics=AgentLoopMetrics(),
            extra_fields={
                **self._extra,
                "turn_scores": scores,
                "tool_rewards": [],
                "reward_extra_info": extra,
            },
        )
