"""What the adapters share: one env played through a host's native tool calls, and its dataset."""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import gymnasium

from agent_envs.env import ToolEnv
from agent_envs.errors import BackendUnavailable
from agent_envs.streams import derive
from agent_envs.turns import Malformed, Message, Move, StepResult, ToolCall, ToolResult

SEEDS = 2**31
"""Seeds in a dataset stay below this: every host's integer column holds them."""


def make(env_id: str, **kwargs: Any) -> ToolEnv:
    """The ToolEnv of an id. Raises TypeError where the id is of another kind of environment."""
    env = gymnasium.make(env_id, **kwargs).unwrapped
    if not isinstance(env, ToolEnv):
        env.close()
        raise TypeError(f"{env_id} is no ToolEnv; the adapters take ids as agent_envs.ids() has")
    return env


def rows(
    env_id: str, *, split: str = "train", n: int | None = None, seed: int = 0, **kwargs: Any
) -> Iterator[dict[str, Any]]:
    """A dataset for a host: `prompt` (chat messages), `task` (its id) and `seed`, a row a task.

    The rows of a split are in its order, at most `n` of them. `kwargs` are those of `make`;
    `tool_docs=False`, the default here, suits hosts whose chat template describes the tools. An
    episode that is started from a row's `task` and `seed` is the same each time, so all members
    of a group start alike.
    """
    env = make(env_id, **{"tool_docs": False, "split": split, **kwargs})
    try:
        for task in islice(env.tasks.split(split, env.level), n):
            prompt: list[Message] = [{"role": "user", "content": task.prompt}]
            if env.tool_docs and env.protocol.docs:
                prompt.insert(0, {"role": "system", "content": env.protocol.docs})
            yield {"prompt": prompt, "task": task.id, "seed": derive(seed, task.id) % SEEDS}
    finally:
        env.close()


class Hosted:
    """An env whose host parses tool calls: messages out, calls in, one reward at the end."""

    def __init__(self, env_id: str, **kwargs: Any) -> None:
        """Raises what `gymnasium.make` raises; `tool_docs` is False unless given."""
        self.env = make(env_id, **{"tool_docs": False, **kwargs})
        self.reward = 0.0
        """What the episode has paid so far."""
        self.failed: str | None = None
        """Why the environment broke, where it did: such an episode must not count."""

    def start(self, *, seed: int | None = None, task: str | None = None) -> list[Message]:
        """Begin an episode; returns its opening messages."""
        options = {} if task is None else {"task": task}
        self.reward = 0.0
        _, info = self.env.reset(seed=seed, options=options)
        self.failed = info["infrastructure_error"]
        messages: list[Message] = info["messages"]
        return messages

    def replay(self, history: dict[str, Any]) -> None:
        """Begin in the state that a history describes (`ToolEnv.replay`); the reward is 0 there."""
        self.reward = 0.0
        self.failed = self.env.replay(history)[1]["infrastructure_error"]

    def calls(self, calls: Sequence[ToolCall]) -> list[ToolResult]:
        """One turn of these calls. After the end each of them gets `error="limit"`."""
        if self.env.ended:
            return [ToolResult("error: the episode is over", "limit") for _ in calls]
        info = self._note(self.env.act(list(calls)))
        said = [result for _, result in info["calls"]]
        broken = ToolResult("error: the environment failed", "failed")
        return said or [broken.copy() for _ in calls]

    def call(self, name: str, arguments: Any, id: str = "") -> ToolResult:
        """A turn of one call."""
        return self.calls([ToolCall(name, arguments, id)])[0]

    def say(self, text: str, *, cut: bool = False) -> list[Message]:
        """A turn without a call that the host has parsed: the final answer, as a rule.

        Where the text is none (it is `cut`, or holds a call that the host did not parse) the
        episode goes on: returns what to tell the model. After the end there is nothing to say.
        """
        if self.env.ended:
            return []
        move = self.env.protocol.parse(text, cut=cut)
        if isinstance(move, list):
            move = Malformed("a tool call in the text is not run; call the tool itself")
        messages: list[Message] = self._note(self.env.act(move))["messages"]
        return messages

    def finish(self, text: str = "", *, cut: bool = False) -> float:
        """End with the model's last words, if it has not ended yet; returns the whole reward.

        A text that the protocol does not read as an answer (it is `cut`, or holds a call that
        the host did not run) is not graded as one. Raises BackendUnavailable where the
        environment failed.
        """
        if not self.env.ended:
            move: Move = self.env.protocol.parse(text, cut=cut) if text else ""
            self._note(self.env.act(move if isinstance(move, str) else ""))
        if self.failed:
            raise BackendUnavailable(f"this episode does not count: {self.failed}")
        return self.reward

    @property
    def verdict(self) -> dict[str, Any] | None:
        """The verdict as JSON once the episode is over."""
        verdict = self.env.finish() if self.env.ended else None
        return verdict.to_dict() if verdict else None

    def _note(self, turn: StepResult) -> dict[str, Any]:
        """Add up a step's reward, keep its failure; returns its info."""
        self.reward += turn[1]
        info = turn[4]
        self.failed = info["infrastructure_error"] or self.failed
        return info
