"""The environments that there are: tools, tasks, protocol, and what is not available and why.

Without an ID all that the package has; `MODULE:ID` is one of a module of yours, in the current
folder or installed, and `MODULE:` all that it registers.
"""

import argparse
import inspect
import re
import sys
import textwrap
import warnings
from typing import Any

import gymnasium

import agent_envs
from agent_envs.cli.common import Usage, check_id, load, one_line, print_json
from agent_envs.env import ToolEnv
from agent_envs.registry import discover
from agent_envs.tool import Tool

COLUMNS = 80
"""How wide what is written for people is, into a pipe too."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which ones."""
    parser.add_argument("ids", nargs="*", metavar="ID", help="of environments (default: all)")


def run(arguments: argparse.Namespace) -> int:
    """Write the list."""
    asked = arguments.ids
    ids = dict.fromkeys(env_id for name in asked for env_id in ids_of(name)) or agent_envs.ids()
    found = [describe(env_id) for env_id in ids]
    broken = [{"id": None, "error": why} for why in ([] if asked else broken_folders())]
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


def ids_of(name: str) -> list[str]:
    """The ids that a name stands for: its own, or those that the module in `MODULE:` registers.

    Raises Usage where there are none, and as `load` does.
    """
    if not name.endswith(":"):
        check_id(name)
        return [name]
    module, before = name[:-1], set(gymnasium.registry)
    load(module)
    ids = [
        env_id
        for env_id, spec in gymnasium.registry.items()
        if env_id not in before or f"{_home(spec.entry_point)}.".startswith(f"{module}.")
    ]
    if not ids:
        raise Usage(f"the module {module!r} registers no environment")
    return [f"{module}:{env_id}" for env_id in sorted(ids)]


def _home(entry_point: Any) -> str:
    """The module that an entry point is in."""
    if isinstance(entry_point, str):
        return entry_point.partition(":")[0]
    return str(getattr(entry_point, "__module__", ""))


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
            "about": about(type(env)),
            "tools": [signature(tool) for tool in env.tools.values()],
            "splits": {split: len(env.tasks.split(split)) for split in env.tasks.splits},
            "protocol": env.protocol.name,
        }
    finally:
        env.close()


def about(kind: type[ToolEnv]) -> str:
    """The first paragraph of a class's docstring; or of its package's, or of its module's."""
    module = sys.modules[kind.__module__]
    package = sys.modules.get(module.__package__ or module.__name__)
    docs = (inspect.cleandoc(one.__doc__ or "").strip() for one in (kind, package, module))
    return one_line(re.split(r"\n\s*\n", next(filter(None, docs), "(no description)"))[0])


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
            _wrapped(env["about"], "    "),
            _wrapped(f"tools: {'; '.join(_unbroken(tool) for tool in env['tools'])}", " " * 11),
            _wrapped(f"tasks: {splits}", " " * 11),
        ]
    )


def _unbroken(text: str) -> str:
    return text.replace(" ", "\u00a0")


def _wrapped(text: str, indent: str) -> str:
    """Lines of at most `COLUMNS`, all but the first of them indented so; a tool stays on one."""
    lines = textwrap.wrap(
        text,
        COLUMNS,
        initial_indent="    ",
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return "\n".join(lines).replace("\u00a0", " ")
