"""Who plays an evaluation: the policies that envs ship, models behind a server, and anybody's own.

`oracle`, `null`, `random`, `cheats`; `openai:MODEL`, on a server with OpenAI's chat API;
`python:MODULE:FUNCTION`, a function that is given an environment and returns a `Policy`
(`python:MODULE:FUNCTION=TEXT` gives it the text too: a checkpoint's folder, say).
"""

import argparse
import importlib
import math
import os
from collections.abc import Callable
from typing import Any

from agent_envs.cli.common import Failed, Usage, at_least, json_object, load
from agent_envs.cli.plan import POLICIES, Player, make_players
from agent_envs.env import ToolEnv
from agent_envs.models import OpenAIPolicy
from agent_envs.policy import Policy, check_policy

OTHERS = "openai:MODEL, python:MODULE:FUNCTION[=TEXT]"


def policy_name(text: str) -> str:
    """An argparse type: a name that `players_for` knows."""
    kind, colon, rest = text.partition(":")
    if text in POLICIES or (kind == "openai" and rest):
        return text
    if kind == "python" and all(rest.partition("=")[0].rpartition(":")[::2]):
        return text
    raise argparse.ArgumentTypeError(f"{text!r:.80}: one of {', '.join(POLICIES)}, {OTHERS}")


def add_model_options(parser: argparse.ArgumentParser) -> None:
    """How a model is reached, how it is asked, and what it costs."""
    group = parser.add_argument_group("for --policy openai:MODEL")
    group.add_argument("--base-url", metavar="URL", help="of the server: http://127.0.0.1:8000/v1")
    group.add_argument(
        "--api-key-env", metavar="NAME", help="environment variable that holds the key, if any"
    )
    group.add_argument(
        "--tools",
        choices=("native", "text"),
        default="native",
        help="calls in the API's own form, or as text in the --protocol",
    )
    group.add_argument("--temperature", type=amount, help="of sampling (default: the server's)")
    group.add_argument("--max-tokens", type=at_least(1), help="of a turn (default: the server's)")
    group.add_argument(
        "--body", type=json_object, default={}, metavar="JSON", help="more fields of each request"
    )
    group.add_argument(
        "--request-seeds", action="store_true", help="give each request a seed of its own"
    )
    group.add_argument(
        "--request-timeout",
        type=amount,
        default=300.0,
        metavar="S",
        help="seconds for each request",
    )
    group.add_argument(
        "--retries", type=at_least(0), default=8, help="of a request, where the failure may pass"
    )
    price = "of a million tokens"
    group.add_argument("--price-in", type=amount, metavar="X", help=f"{price} read")
    group.add_argument("--price-out", type=amount, metavar="X", help=f"{price} written")


def amount(text: str) -> float:
    """An argparse type: a finite number from 0 up."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r:.80} is no number from 0 up")
    return value


def is_native(arguments: argparse.Namespace) -> bool:
    """Whether calls go in the API's own form, so that the env needs no tool docs."""
    return bool(arguments.policy.startswith("openai:") and arguments.tools == "native")


def model_body(arguments: argparse.Namespace) -> dict[str, Any]:
    """The fields of each request besides the conversation."""
    named = {"temperature": arguments.temperature, "max_tokens": arguments.max_tokens}
    return {**{name: x for name, x in named.items() if x is not None}, **arguments.body}


def model_settings(arguments: argparse.Namespace) -> dict[str, Any]:
    """What of these options decides what a model says; empty for another policy.

    The server's address is no part of it: an evaluation may go on at another one.
    """
    if not arguments.policy.startswith("openai:"):
        return {}
    settings = {"tools": arguments.tools, "body": model_body(arguments)}
    return {**settings, "request_seeds": arguments.request_seeds}


def players_for(arguments: argparse.Namespace, env: ToolEnv) -> tuple[Player, ...]:
    """The players of a command line. Raises Usage for options that do not fit, Failed for a
    function of somebody's own that breaks."""
    policy: str = arguments.policy
    if policy.startswith("openai:"):
        return (Player("", _model(arguments, env)),)
    if arguments.base_url is not None:
        raise Usage("--base-url is for --policy openai:MODEL")
    if policy.startswith("python:"):
        return (Player("", _own(policy, env)),)
    players = tuple(Player(name, one) for name, one in make_players(env, policy).items())
    if not players:
        raise Usage(f"{arguments.id} ships no cheats; choose another --policy")
    return players


def _model(arguments: argparse.Namespace, env: ToolEnv) -> OpenAIPolicy:
    if arguments.base_url is None:
        raise Usage("--policy openai:MODEL needs the --base-url of a server")
    native = is_native(arguments)
    if native and env.protocol.name == "chars":
        raise Usage("the chars protocol is text: give --tools text")
    try:
        return OpenAIPolicy(
            arguments.policy.partition(":")[2],
            arguments.base_url,
            api_key=_key(arguments.api_key_env),
            tools=env.tool_schemas if native else None,
            protocol=env.protocol.name,
            body=model_body(arguments),
            timeout=arguments.request_timeout,
            retries=arguments.retries,
            concurrency=arguments.workers,
            seed=arguments.seed if arguments.request_seeds else None,
        )
    except ValueError as error:
        raise Usage(str(error)) from None


def _key(name: str | None) -> str | None:
    """The key in an environment variable: never on the command line, where others can read it."""
    if name is None:
        return None
    if not os.environ.get(name):
        raise Usage("--api-key-env takes the name of an environment variable that holds the key")
    return os.environ[name]


def _own(policy: str, env: ToolEnv) -> Policy:
    """What somebody's own function makes of an environment."""
    path, equals, text = policy.partition(":")[2].partition("=")
    module, _, name = path.rpartition(":")
    load(module)
    function: Callable[..., Any] | None = getattr(importlib.import_module(module), name, None)
    if not callable(function):
        raise Usage(f"{module} has no function {name!r}")
    try:
        made = function(env, text) if equals else function(env)
        check_policy(made)
    except Exception as error:
        raise Failed(f"{path} made no policy: {type(error).__name__}: {error}") from None
    assert isinstance(made, Policy)
    return made
