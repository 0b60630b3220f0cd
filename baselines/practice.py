"""More training tasks than an environment ships, for a model that is made from scratch."""

from typing import Any

import gymnasium

from agent_envs.env import ToolEnv
from agent_envs.task import TaskSource


def more(env: str, level: int, count: int, arguments: dict[str, Any]) -> TaskSource | None:
    """`TaskSource.more` of the tasks of an environment; None for a count of 0. Raises ValueError
    where none are made."""
    if not count:
        return None
    with gymnasium.make(env, **arguments) as made:
        assert isinstance(made, ToolEnv)
        own = made.tasks
    try:
        return own.more(count, level)
    except ValueError as error:
        raise ValueError(f"practice={count}: {error}; practice=0 does without") from None
