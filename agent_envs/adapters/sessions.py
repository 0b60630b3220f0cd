"""Episodes by name, for a server that many clients call at once."""

import asyncio
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from agent_envs import aio
from agent_envs.adapters.hosted import Hosted, make
from agent_envs.errors import BackendUnavailable
from agent_envs.turns import ToolResult

ANSWER = "answer"

_ANSWER_TOOL = {
    "name": ANSWER,
    "description": "Give the final answer. It ends the episode.",
    "parameters": {
        "type": "object",
        "properties": {"text": {"type": "string", "description": "The answer alone."}},
        "required": ["text"],
        "additionalProperties": False,
    },
}


class Session:
    """One episode, with `answer` among its tools. `lock` is for its callers: one at a time."""

    def __init__(self, hosted: Hosted) -> None:
        self.hosted = hosted
        self.lock = asyncio.Lock()

    def call(self, name: str, arguments: dict[str, Any]) -> ToolResult:
        """What came of a call."""
        if name != ANSWER:
            return self.hosted.call(name, arguments)
        if self.hosted.env.ended:
            return ToolResult("error: the episode is over", "limit")
        if arguments.keys() != {"text"} or not isinstance(arguments["text"], str):
            return ToolResult('error: call it with {"text": "the answer"}', "bad_arguments")
        try:
            self.hosted.finish(arguments["text"])
        except BackendUnavailable:  # said in `hosted.failed`
            return ToolResult("error: the environment failed", "failed")
        return ToolResult("the episode is over")

    def outcome(self) -> dict[str, Any]:
        """The reward so far and, once the episode is over, the verdict."""
        ended, verdict = self.hosted.env.ended, self.hosted.verdict
        return {"ended": ended, "reward": self.hosted.reward, "verdict": verdict}


class Sessions:
    """Starts an episode where a name is new; over `most` the one that rested longest is closed."""

    def __init__(
        self, env_id: str, most: int, kwargs: Mapping[str, Any], chosen: Mapping[str, Any]
    ) -> None:
        """`chosen`: the `task`, `seed` or `history` where `get` is given none.

        Raises ValueError where the env has a tool called `answer`, and what `make` raises.
        """
        self._env_id, self._most, self._kwargs, self._chosen = env_id, most, kwargs, chosen
        env = make(env_id, **kwargs)
        self.tools = [schema["function"] for schema in env.tool_schemas] + [_ANSWER_TOOL]
        env.close()
        if ANSWER in env.tools:
            raise ValueError(f"{env_id} has a tool called {ANSWER!r}, which ends an episode here")
        self._open: OrderedDict[str, asyncio.Task[Session]] = OrderedDict()
        self._closed: set[str] = set()

    async def get(self, name: str, chosen: Mapping[str, Any]) -> Session:
        """The episode called `name`. Raises ValueError, saying what to do, where there is none."""
        if name in self._closed:
            raise ValueError(f"the episode {name!r} was closed to make room: take another name")
        if name not in self._open:
            chosen = {**self._chosen, **chosen}
            self._open[name] = asyncio.create_task(aio.run(self._start, chosen))
        self._open.move_to_end(name)
        try:
            session = await asyncio.shield(self._open[name])
        except (KeyError, ValueError, RuntimeError) as error:
            self._open.pop(name, None)
            raise ValueError(f"the episode cannot be started: {error}") from error
        await self._make_room()
        return session

    def close(self) -> None:
        """Close every env, once nobody is served any more."""
        for starting in self._open.values():
            if starting.done() and not starting.cancelled() and not starting.exception():
                starting.result().hosted.env.close()

    async def _make_room(self) -> None:
        while len(self._open) > self._most:
            name, starting = self._open.popitem(last=False)
            self._closed.add(name)
            await aio.run((await starting).hosted.env.close)

    def _start(self, chosen: Mapping[str, Any]) -> Session:
        unknown = chosen.keys() - {"task", "seed", "history"}
        if unknown:
            raise ValueError(f"no choice {sorted(unknown)}; there are task and seed")
        hosted = Hosted(self._env_id, **self._kwargs)
        try:
            if chosen.get("history") is not None:
                hosted.replay(chosen["history"])
            else:
                seed = chosen.get("seed")
                hosted.start(seed=None if seed is None else int(seed), task=chosen.get("task"))
        except BaseException:
            hosted.env.close()
            raise
        return Session(hosted)
