"""OpenEnv from the other side: any OpenEnv server as a Gymnasium environment of texts.

    env = OpenEnvClient("http://127.0.0.1:8000")
    observation, info = env.reset(seed=7)
    observation, reward, terminated, truncated, info = env.step("...")

What a turn's text becomes, and what an observation says, follow from the server's schema, or from
`say` and `show`. Snapshots work where the server is ours (`agent_envs.adapters.openenv`). Needs
openenv 0.10.
"""

import json
import urllib.request
from collections.abc import Callable
from typing import Any, TypeAlias

import gymnasium
from gymnasium.error import ResetNeeded
from openenv.core import GenericEnvClient

from agent_envs.env import MAX_BYTES
from agent_envs.errors import SnapshotUnsupported
from agent_envs.plain import parse_json
from agent_envs.space import UnicodeText, clean

Fields: TypeAlias = dict[str, Any]


class OpenEnvClient(gymnasium.Env[str, str]):
    """One session of a server. `info` has the `observation` as it came, and its `metadata`."""

    metadata: dict[str, Any] = {"render_modes": []}

    def __init__(
        self,
        base_url: str,
        *,
        say: Callable[[str], Fields] | None = None,
        show: Callable[[Fields], str] | None = None,
        snapshots: bool = False,
        render_mode: str | None = None,
        **reset: Any,
    ) -> None:
        """`reset` goes to the server with every reset, below `options`.

        Without `say`, a text goes into the action's one required field where there is just one,
        and is a JSON object of the action's fields otherwise; what is neither never reaches the
        server. Without `show`, an observation is its `text`, or JSON where it has none. Raises
        OSError where no server answers.
        """
        self.observation_space = UnicodeText(MAX_BYTES)
        self.action_space = UnicodeText(MAX_BYTES)
        self.render_mode = render_mode
        with urllib.request.urlopen(f"{base_url}/schema", timeout=30) as reply:
            self.action_schema: Fields = json.load(reply)["action"]
        self._say = say or self._as_action
        self._show = show or _as_text
        self._every_reset = {**reset, "snapshots": True} if snapshots else reset
        self._client = GenericEnvClient(base_url=base_url).sync()
        self._snapshot: int | None = None
        self._over = True

    def reset(
        self, *, seed: int | None = None, options: Fields | None = None
    ) -> tuple[str, Fields]:
        """Start an episode; `options` are the server's own arguments of `reset`."""
        super().reset(seed=seed)
        return self._begin(seed, {**self._every_reset, **(options or {})})

    def step(self, action: str) -> tuple[str, float, bool, bool, Fields]:
        """Play a turn. Raises RuntimeError where the server reports an error of its own."""
        if self._over:
            raise ResetNeeded("no episode is running: call reset()")
        try:
            fields = self._say(action)
        except ValueError as error:
            return f"error: {error}", 0.0, False, False, {"observation": {}, "metadata": {}}
        result = self._client.step(fields)
        text, info = self._read(result)
        truncated = bool(info["observation"].get("truncated"))
        terminated = bool(result.done) and not truncated
        return text, float(result.reward or 0.0), terminated, truncated, info

    def snapshot(self) -> int:
        """The name of the state that the last observation shows.

        Raises SnapshotUnsupported where the server keeps none: see `snapshots`.
        """
        if self._snapshot is None:
            raise SnapshotUnsupported("the server keeps no states; make this with snapshots=True")
        return self._snapshot

    def rollback(self, snapshot: int, *, seed: int | None = None) -> tuple[str, Fields]:
        """Go back to a state of this episode, under another seed if one is given.

        Returns its observation and info. Raises RuntimeError for a state of an earlier episode.
        """
        return self._begin(seed, {"rollback": snapshot})

    def close(self) -> None:
        """End the session."""
        self._client.close()

    def _begin(self, seed: int | None, chosen: Fields) -> tuple[str, Fields]:
        return self._read(self._client.reset(**chosen, **({} if seed is None else {"seed": seed})))

    def _read(self, result: Any) -> tuple[str, Fields]:
        observation, about = result.observation, result.metadata or {}
        self._over = bool(result.done)
        self._snapshot = about.get("snapshot")
        return clean(self._show(observation), MAX_BYTES), {
            "observation": observation,
            "metadata": about,
        }

    def _as_action(self, text: str) -> Fields:
        required = self.action_schema.get("required", [])
        if len(required) == 1:
            return {required[0]: text}
        fields = parse_json(text)
        if not isinstance(fields, dict):
            raise ValueError(f"an action is a JSON object with {required or 'fields'}")
        return fields


def _as_text(observation: Fields) -> str:
    text = observation.get("text")
    if isinstance(text, str):
        return text
    said = {name: value for name, value in observation.items() if name != "metadata"}
    return json.dumps(said, ensure_ascii=False)
