"""OpenEnv: a server for any id, which every OpenEnv client drives.

    python -m agent_envs.adapters.openenv agent/Calculator-v0 --port 8000

A connection is an env of its own. An action is `{"text": ...}`, a whole turn of the model; an
observation has `text`, `truncated` and `end_reason`. `reset` takes `seed`, and `task`, or `split`
and `index` (OpenEnv's task API lists them), or `split` and `level`. Nothing but text goes in by
`step`, so that the model can do nothing else.

A host that branches says `reset(snapshots=True)`: then `metadata["snapshot"]` names the state of
each observation, and `reset(rollback=NAME)`, with a `seed` or without, goes back to it. `state()`
has the episode's `history`. `agent_envs.adapters.openenv_client` does it all. Where the
environment fails, the server says so in an error. Needs openenv 0.10.
"""

import argparse
import json
from functools import partial
from typing import Annotated, Any

from openenv.core.env_server.http_server import create_app
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import (
    Action,
    Observation,
    State,
)
from pydantic import BeforeValidator, Field

from agent_envs.adapters.hosted import make
from agent_envs.errors import BackendUnavailable, SnapshotUnsupported
from agent_envs.plain import parse_json, to_plain
from agent_envs.snapshot import Snapshot


def _as_text(value: Any) -> Any:
    """Some hosts read the model's text as JSON where it is some: 42 is meant as "42"."""
    return value if isinstance(value, str) else json.dumps(value)


class Turn(Action):
    """A turn of the model."""

    text: Annotated[str, BeforeValidator(_as_text)] = Field(description="The whole turn.")


class Answer(Observation):
    """What the environment answers. `metadata` has `task`, `turn`, the reward's components, and
    at the end the verdict."""

    text: str = ""
    truncated: bool = False
    end_reason: str | None = None


class EnvState(State):
    """For the host: the task, and the history that `ToolEnv.replay` takes."""

    task: str | None = None
    history: dict[str, Any] | None = None


class EnvServer(Environment):
    """One session. A subclass may fix `env_id` and `make`, for hosts that name a class."""

    SUPPORTS_CONCURRENT_SESSIONS = True
    env_id = ""
    make: dict[str, Any] = {}

    def __init__(self, env_id: str = "", **kwargs: Any) -> None:
        """`kwargs` are those of `gymnasium.make`."""
        super().__init__()
        self._env = make(env_id or self.env_id, **{**self.make, **kwargs})
        self._snapshots: dict[int, Snapshot] | None = None
        self._episode_id: str | None = None
        self._started = False

    def reset(
        self,
        seed: int | None = None,
        episode_id: str | None = None,
        task: str | None = None,
        split: str | None = None,
        index: int | None = None,
        level: int | None = None,
        snapshots: bool = False,
        rollback: int | None = None,
    ) -> Answer:
        """Start an episode, or go back to a state; see the module's docstring."""
        if rollback is not None:
            kept = self._snapshots or {}
            if rollback not in kept:
                raise ValueError(f"no snapshot {rollback}; there are {list(kept)[-9:]}")
            text, info = self._env.rollback(kept[rollback], seed=seed)
            return self._answer(text, info, snapshot=rollback)
        if index is not None:
            task = self.get_task(split or self._env.split, index)["id"]
        chosen = {"task": task} if task is not None else {"split": split, "level": level}
        options = {name: value for name, value in chosen.items() if value is not None}
        text, info = self._env.reset(seed=seed, options=options)
        self._started, self._episode_id = True, episode_id
        self._env.release(*(self._snapshots or {}).values())
        self._snapshots = {} if snapshots else None
        return self._answer(text, info)

    def step(self, action: Turn, timeout_s: float | None = None) -> Answer:
        """Play a turn. Every tool has a deadline of its own: `timeout_s` changes nothing."""
        text, reward, _, _, info = self._env.step(action.text)
        return self._answer(text, info, reward)

    @property
    def state(self) -> EnvState:
        """See `EnvState`."""
        if not self._started:
            return EnvState()
        try:
            history = to_plain(self._env.history())
        except SnapshotUnsupported:
            history = None
        task, turn = self._env.task.id, self._env.turn
        return EnvState(episode_id=self._episode_id, step_count=turn, task=task, history=history)

    def close(self) -> None:
        """Free everything."""
        self._env.close()

    def list_splits(self) -> list[str]:
        """The splits there are."""
        return list(self._env.tasks.splits)

    def num_tasks(self, split: str) -> int:
        """How many tasks a split has."""
        return len(self._env.tasks.split(split))

    def get_task(self, split: str, index: int) -> dict[str, Any]:
        """A task without what is private. IndexError where there is none."""
        if index < 0:
            raise IndexError(f"index {index}: from 0 up")
        task = self._env.tasks.split(split)[index]
        return {**task.to_dict(private=False), "index": index}

    def list_tasks(self, split: str) -> list[dict[str, Any]]:
        """All of a split."""
        return self.get_task_range(split)

    def get_task_range(
        self, split: str, start: int | None = None, stop: int | None = None
    ) -> list[dict[str, Any]]:
        """Some of a split, as a slice takes them."""
        found = range(self.num_tasks(split))[start:stop]
        return [self.get_task(split, index) for index in found]

    def _answer(
        self, text: str, info: dict[str, Any], reward: float = 0.0, snapshot: int | None = None
    ) -> Answer:
        if info["infrastructure_error"]:
            raise BackendUnavailable(info["infrastructure_error"])
        about = {"task": info["task_id"], "turn": info["turn"]}
        about |= {"components": info["reward_components"], "verdict": info["verdict"]}
        if self._snapshots is not None and snapshot is None:
            taken = self._env.snapshot(on_refusal="mark")
            if taken.refused is None:
                snapshot = taken.id
                self._snapshots[snapshot] = taken
        if snapshot is not None:
            about["snapshot"] = snapshot
        ended = self._env.ended
        why = info["end_reason"]
        return Answer(
            text=text,
            done=ended,
            reward=reward,
            truncated=why == "max_turns",
            end_reason=why,
            metadata=to_plain(about),
        )


def server(env_id: str, *, most: int = 64, **kwargs: Any) -> Any:
    """A FastAPI app with at most `most` sessions at once. Raises what `gymnasium.make` raises."""
    make(env_id, **kwargs).close()
    factory = partial(EnvServer, env_id, **kwargs)
    return create_app(
        factory, Turn, Answer, env_name="agent-envs", max_concurrent_envs=most, state_cls=EnvState
    )


def main() -> None:
    """Serve an id; see the module's docstring."""
    import uvicorn

    parser = argparse.ArgumentParser(prog="python -m agent_envs.adapters.openenv")
    parser.add_argument("id", help="as `agent-envs list` shows them")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--most", type=int, default=64, help="sessions at once")
    parser.add_argument("--make", type=parse_json, default={}, help="arguments of make, as JSON")
    args = parser.parse_args()
    app = server(args.id, most=args.most, **args.make)
    uvicorn.run(app, host=args.host, port=args.port, log_level="warning")


if __name__ == "__main__":
    main()
