"""The environments that there are: tools, tasks, protocol, and what is not available and why."""

import argparse
import warnings
from typing import Any

import gymnasium

import agent_envs
from agent_envs.cli.common import one_line, print_json
from agent_envs.env import ToolEnv
from agent_envs.registry import discover
from agent_envs.tool import Tool


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """None of its own."""


def run(arguments: argparse.Namespace) -> int:
    """Write the list."""
    found = [describe(env_id) for env_id in agent_envs.ids()]
    broken = [{"id": None, "error": why} for why in broken_folders()]
    if arguments.json:
        print_json(
            {
                "environments": [env for env in found if "error" not in env],
                "unavailable": [env for env in found if "error" in env] + broken,
            }
        )
    else:
        print("\n\n".join(_text(env) for env in found + broken))
    return 0


def describe(env_id: str) -> dict[str, Any]:
    """An env as a dict; of one that cannot be made, the `id` and an `error`."""
    try:
        env = gymnasium.make(env_id).unwrapped
        if not isinstance(env, ToolEnv):
            return {"id": env_id, "error": "it is no ToolEnv"}
    except Exception as error:  # a list that ends at the first broken env would be none
        return {"id": env_id, "error": one_line(f"{type(error).__name__}: {error}")}
    try:
        return {
            "id": env_id,
            "about": (type(env).__doc__ or "").partition("\n")[0],
            "tools": [signature(tool) for tool in env.tools.values()],
            "splits": {split: len(env.tasks.split(split)) for split in env.tasks.splits},
            "protocol": env.protocol.name,
        }
    finally:
        env.close()


def broken_folders() -> list[str]:
    """Why a folder of environments could not be imported, for each that could not."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        discover("agent_envs.envs")
    return [one_line(str(warning.message)) for warning in caught]


def signature(tool: Tool) -> str:
    """A tool as a person reads it: `calculate(expression: string)`."""
    words = {name: schema.get("type", "any") for name, schema in tool.params.items()}
    listed = (f"{name}: {kind}" for name, kind in words.items())
    return f"{tool.name}({', '.join(listed)})"


def _text(env: dict[str, Any]) -> str:
    if "error" in env:
        return f"{env['id'] or 'a folder'} is not available: {env['error']}"
    splits = ", ".join(f"{name} {count:,}" for name, count in env["splits"].items())
    return "\n".join(
        [
            f"{env['id']}  ({env['protocol']} protocol)",
            f"    {env['about']}",
            f"    tools: {'; '.join(env['tools'])}",
            f"    tasks: {splits}",
        ]
    )
