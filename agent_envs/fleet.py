"""The environments that a rollout plays on: made and closed by it, or the caller's."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any, Self, TypeAlias

import gymnasium
from gymnasium.envs.registration import EnvSpec

from agent_envs.env import ToolEnv
from agent_envs.worker import Worker

EnvsLike: TypeAlias = str | EnvSpec | Callable[[], ToolEnv] | ToolEnv | Sequence[ToolEnv]
"""An id, a spec or a factory; or envs that are the caller's and stay so."""


class Fleet:
    """Some envs, and what to do about one that hangs. As a context it closes what it made.

    Raises ValueError for an empty list and for an env that is in it twice, TypeError for what is
    no ToolEnv, and whatever making one raises.
    """

    def __init__(self, envs: EnvsLike, count: int) -> None:
        """`count`: how many are made, where they are not the caller's."""
        self.made: list[ToolEnv] = []
        """What is closed at the end."""
        self._given: list[Any] | None = None
        self._make: Callable[[], Any] | None = None
        if isinstance(envs, str | EnvSpec):
            self._make = lambda: gymnasium.make(envs)
        elif callable(envs):
            self._make = envs
        else:
            self._take((envs,) if isinstance(envs, gymnasium.Env) else envs)
            return
        with ExitStack() as on_failure:
            on_failure.callback(self.close)
            self.envs = [self._new(self._make) for _ in range(count)]
            on_failure.pop_all()

    def _take(self, envs: Sequence[ToolEnv]) -> None:
        self._given = envs if isinstance(envs, list) else None
        self.envs = [_tool_env(env) for env in envs]
        if not self.envs:
            raise ValueError("an empty list of envs")
        if len({id(env) for env in self.envs}) < len(self.envs):
            raise ValueError("an env is in the list twice; each plays one episode at a time")

    def replace(self, old: ToolEnv, index: int) -> ToolEnv:
        """Give up env number `index`: a new one, also in the caller's list. The old one is closed
        meanwhile, which may take its time."""
        closer = Worker()
        closer.submit(old.close, lambda result, error: None)
        closer.close()
        if old in self.made:
            self.made.remove(old)
        if self._given is None:
            return self._new(self._make or (lambda: _twin(old)))
        self._given[index] = twin = _twin(old)
        return twin

    def close(self) -> None:
        """Close what was made here, all of it, whatever one of them raises."""
        with ExitStack() as stack:
            for env in self.made:
                stack.callback(env.close)

    def _new(self, make: Callable[[], Any]) -> ToolEnv:
        env = _tool_env(make())
        self.made.append(env)
        return env

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _tool_env(env: Any) -> ToolEnv:
    inner = env.unwrapped if isinstance(env, gymnasium.Env) else env
    if not isinstance(inner, ToolEnv):
        raise TypeError(f"{inner!r} is no ToolEnv")
    return inner


def _twin(env: ToolEnv) -> ToolEnv:
    args, kwargs = env._made_with
    twin = type(env)(*args, **kwargs)
    twin._spec = env.spec
    return twin
