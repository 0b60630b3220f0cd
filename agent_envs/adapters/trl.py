"""TRL: `GRPOTrainer(environment_factory=...)` on any id.

    from functools import partial
    from datasets import Dataset
    from agent_envs.adapters import trl

    GRPOTrainer(
        model=...,
        environment_factory=partial(trl.environment, "agent/Calculator-v0", max_turns=8),
        train_dataset=Dataset.from_list(list(trl.rows("agent/Calculator-v0", n=256))),
        reward_funcs=trl.reward(tokenizer),
        args=GRPOConfig(..., max_tool_calling_iterations=8),
    )

TRL's chat template describes the tools, parses the calls and loops; it makes each call of a turn
by itself, so here a turn is one call. It cannot be told that an episode is over: calls after the
end fail. `docs/adapters.md` has the whole script. Needs trl 1.16.
"""

import inspect
import textwrap
from collections.abc import Callable
from types import FunctionType
from typing import Any

from agent_envs.adapters.hosted import Hosted, rows
from agent_envs.env import ToolEnv
from agent_envs.errors import BackendUnavailable
from agent_envs.tool import Tool

__all__ = ["environment", "reward", "rows"]


class CallFailed(Exception):
    """What a tool raises for a call that did not work out: TRL shows it as `{"error": ...}`."""


class _Environment:
    """What TRL sees of an env; it takes every public function of the class for a tool."""

    def __init__(self, hosted: Hosted) -> None:
        self._hosted = hosted

    def reset(self, **row: Any) -> None:
        if not isinstance(row.get("task"), str) or type(row.get("seed")) is not int:
            raise ValueError(
                "a row needs `task` and `seed`, by which a group starts alike: make the dataset "
                "with agent_envs.adapters.trl.rows"
            )
        self._hosted.start(seed=row["seed"], task=row["task"])

    def __del__(self) -> None:
        if "_hosted" in self.__dict__:  # TRL closes nothing
            self._hosted.env.close()


_classes: dict[type[ToolEnv], type[_Environment]] = {}


def environment(env_id: str, **kwargs: Any) -> _Environment:
    """One environment for TRL, with the tools of `env_id` as its methods.

    Give TRL `functools.partial(environment, env_id, **kwargs)`, which pickles. `kwargs` are those
    of `gymnasium.make`. Raises what that raises, and TypeError for a tool called `reset` or
    `get_reward`, or whose name is no Python identifier.
    """
    hosted = Hosted(env_id, **kwargs)
    return _class_for(type(hosted.env))(hosted)


def reward(tokenizer: Any) -> Callable[..., list[float | None]]:
    """A reward function for `GRPOTrainer`: ends each episode with the completion's last words.

    A completion that does not end with the tokenizer's end token was cut off: no answer is read
    from it. An episode in which the environment failed gets None, which TRL leaves out.
    """

    def agent_envs_reward(
        completions: list[list[dict[str, Any]]],
        completion_ids: list[list[int]],
        environments: list[_Environment],
        **columns: Any,
    ) -> list[float | None]:
        ended = [ids[-1:] == [tokenizer.eos_token_id] for ids in completion_ids]
        return list(map(_graded, completions, environments, ended))

    return agent_envs_reward


def _graded(
    completion: list[dict[str, Any]], environment: _Environment, ended: bool
) -> float | None:
    last = completion[-1] if completion else {}
    is_answer = last.get("role") == "assistant" and not last.get("tool_calls")
    try:
        text = last.get("content") or "" if is_answer else ""
        return environment._hosted.finish(text, cut=not ended)
    except BackendUnavailable:
        return None


def _class_for(env_class: type[ToolEnv]) -> type[_Environment]:
    """One class for an env class: TRL compares the types of its environments."""
    if env_class not in _classes:
        _classes[env_class] = _make_class(env_class)
    return _classes[env_class]


def _make_class(env_class: type[ToolEnv]) -> type[_Environment]:
    for name in env_class.tools:
        if name in ("reset", "get_reward") or not name.isidentifier() or name.startswith("_"):
            raise TypeError(f"TRL cannot offer a tool called {name!r}: rename it")
    methods = {name: _method(tool) for name, tool in env_class.tools.items()}
    return type(env_class.__name__, (_Environment,), dict(methods))


def _method(tool: Tool) -> FunctionType:
    """A tool as a method whose hints and docstring say to TRL what the tool's schema says."""

    def call(self: _Environment, **arguments: Any) -> str:
        result = self._hosted.call(tool.name, arguments)
        if result.error:
            raise CallFailed(result.content.removeprefix("error: "))
        return result.content

    own = inspect.signature(tool.fn)
    hints = inspect.get_annotations(tool.fn, eval_str=True)
    parameters = [p.replace(annotation=hints.get(n)) for n, p in own.parameters.items()]
    call.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {**hints, "return": str}
    call.__doc__ = _docstring(tool)
    call.__name__ = call.__qualname__ = tool.name
    assert isinstance(call, FunctionType)
    return call


def _docstring(tool: Tool) -> str:
    about = [tool.schema["function"]["description"]]
    if tool.params:
        about += ["", "Args:"]
    for name, schema in tool.params.items():
        said = " ".join(schema.get("description", name).split())
        about.append(textwrap.indent(f"{name}: {said}", "    "))
    return "\n".join([*about, "", "Returns:", "    str: What the tool says."])
