"""What the commands share: errors, the options of `make`, and how results are written."""

import argparse
import importlib
import json
import os
import re
import sys
from collections.abc import Sequence
from typing import Any

import gymnasium

import agent_envs
from agent_envs.env import ToolEnv
from agent_envs.errors import near
from agent_envs.fault import FaultModel, FaultRate
from agent_envs.plain import parse_json, to_plain
from agent_envs.protocol import PROTOCOLS
from agent_envs.turns import Move, ToolCall


class Usage(Exception):
    """Bad input: the message is one line that says what to do. Exit code 2."""


class Failed(Exception):
    """What was asked for did not work out: the message says why. Exit code 1."""


# -- environments --------------------------------------------------------------------------------


def add_env_options(parser: argparse.ArgumentParser, split: str) -> None:
    """The options that go to `gymnasium.make`, with `split` where none is given."""
    parser.add_argument("--split", default=split, help="which tasks")
    parser.add_argument("--level", type=int, help="tasks of this level only (default: all)")
    parser.add_argument(
        "--fault-rate",
        type=fault_rate,
        default=0.0,
        metavar="RATE",
        help="how often a tool's result goes wrong: 0.3, or wrong=0.2,timeout=0.1",
    )
    own = "(default: the environment's)"
    parser.add_argument(
        "--protocol", choices=sorted(PROTOCOLS), help=f"how calls are written {own}"
    )
    parser.add_argument(
        "--max-turns", type=int, help=f"turns after which an episode is truncated {own}"
    )
    parser.add_argument(
        "--make",
        type=json_object,
        default={},
        metavar="JSON",
        help='other arguments of make, such as \'{"backend": "landlock"}\'; they are kept with '
        "what is played, passwords too",
    )


def env_options(arguments: argparse.Namespace) -> dict[str, Any]:
    """What was given of `add_env_options`, as arguments of `make`. Raises Usage for one that was
    given in the wrong place."""
    names = ("split", "level", "fault_rate", "protocol", "max_turns")
    if twice := [name for name in names if name in arguments.make]:
        raise Usage(f"--make: {twice[0]} has an option of its own, --{twice[0].replace('_', '-')}")
    given = {name: getattr(arguments, name) for name in names}
    return {**arguments.make, **{name: x for name, x in given.items() if x is not None}}


def make(env_id: str, **options: Any) -> ToolEnv:
    """An env of ours. Raises Usage for a wrong id or option, Failed where a package is missing."""
    check_id(env_id)
    try:
        env = gymnasium.make(env_id, **options).unwrapped
    except ModuleNotFoundError as error:
        hint = "which is not installed" if ":" in env_id else "see agent-envs doctor"
        raise Failed(f"{env_id} needs the package {error.name}; {hint}") from None
    except TypeError as error:
        why = str(error).partition(" was raised from")[0]
        raise Usage(f"{env_id} is no ToolEnv, or one that takes other arguments: {why}") from None
    except (gymnasium.error.Error, KeyError, ValueError) as error:
        raise Usage(f"{env_id}: {error.args[0] if error.args else error}") from None
    if not isinstance(env, ToolEnv):
        raise Usage(f"{env_id} is no ToolEnv; agent-envs list shows those that are")
    return env


def check_id(env_id: str) -> None:
    """Raises Usage for an id that is not registered, also after the import of the module in
    `MODULE:ID`; as `load` does where that fails."""
    module, colon, name = env_id.rpartition(":")
    if colon:
        load(module)
    if name not in gymnasium.registry and name not in map(_unversioned, gymnasium.registry):
        known = agent_envs.ids()
        raise Usage(
            f"no environment {env_id!r}{near(name, known)}; there are {', '.join(known)}, and "
            "MODULE:ID of a module"
        )


def _unversioned(env_id: str) -> str:
    return env_id.rpartition("-v")[0] or env_id


def load(module: str) -> None:
    """Import a module that registers environments: as for `python -m`, the current folder counts.

    Raises Usage where there is none, Failed where it breaks.
    """
    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        importlib.import_module(module)
    except (Exception, SystemExit) as error:  # whatever a module does when it is run
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        if missing and f"{module}.".startswith(f"{missing}."):
            raise Usage(f"no module {missing!r}, neither in {here} nor installed") from None
        why = f"{type(error).__name__}: {error}"
        raise Failed(f"the module {module!r} cannot be imported: {why}") from None


def fault_rate(text: str) -> FaultRate:
    """`0.3`, or `wrong=0.2,timeout=0.1`, as `make(fault_rate=...)` takes it."""
    try:
        if "=" not in text:
            return FaultModel(float(text)).to_plain()
        pairs = [part.partition("=") for part in text.split(",")]
        rates: Any = {kind.strip(): float(rate) for kind, _, rate in pairs}
        if len(rates) < len(pairs):
            raise ValueError("a kind stands twice")
        return FaultModel(rates).to_plain()
    except ValueError as error:
        raise argparse.ArgumentTypeError(
            f"{text!r} ({error}); write 0.3, or wrong=0.2,timeout=0.1"
        ) from None


def json_object(text: str) -> dict[str, Any]:
    """An argparse type: a JSON object."""
    try:
        value = parse_json(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r:.80} is no JSON: {error}") from None
    if not isinstance(value, dict):
        raise argparse.ArgumentTypeError(f"{text!r:.80} is no JSON object")
    return value


def at_least(least: int) -> Any:
    """An argparse type: a whole number that is not smaller than `least`."""

    def number(text: str) -> int:
        try:
            return whole(text, least)
        except Usage as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return number


def whole(text: str, least: int = 0) -> int:
    """A whole number of at most 30 digits. Raises Usage for anything else, or one below `least`."""
    if not re.fullmatch("[+-]?[0-9]{1,30}", text) or int(text) < least:
        what = f"{text[:40]!r}{'...' if len(text) > 40 else ''}"
        raise Usage(f"{what} is not a whole number from {least} up (of at most 30 digits)")
    return int(text)


def as_text(env: ToolEnv, move: Move) -> str | None:
    """How a model writes a move in the env's protocol; None where that is not known."""
    candidates: list[str] = []
    if isinstance(move, str):
        candidates = [move, f"{move}|"]
    elif isinstance(move, list):
        body = [{"name": call.name, "arguments": call.arguments} for call in move]
        calls = [f"<tool_call>{json.dumps(one, ensure_ascii=False)}</tool_call>" for one in body]
        candidates = ["".join(calls), "".join(_letters(env, call) for call in move)]
    return next((text for text in candidates if env.protocol.parse(text) == move), None)


def _letters(env: ToolEnv, call: ToolCall) -> str:
    letter = next((x for x, name in env.letters.items() if name == call.name), "")
    return f"{letter}{next(iter(call.arguments.values()), '')}|"


# -- what is written -----------------------------------------------------------------------------


def print_json(value: Any) -> None:
    """One JSON object on standard output, readable for people too."""
    print(json.dumps(to_plain(value), indent=2, allow_nan=False))


def note(text: str) -> None:
    """A line on standard error."""
    print(text, file=sys.stderr, flush=True)


_HARMLESS = "\n\t\u00a0\u200d"
"""What is not printable by itself but belongs into text; the last one joins emoji."""


def printable(text: str) -> str:
    """`text` without what could steer a terminal: control characters are shown escaped."""
    return "".join(
        x if x.isprintable() or x in _HARMLESS else x.encode("unicode_escape").decode()
        for x in text
    )


def one_line(text: str) -> str:
    """`text` on one line."""
    return printable(" ".join(text.split()))


def call_text(call: ToolCall | None) -> str:
    """A call as a person reads it: `name(key='value')`."""
    if call is None:
        return "(a malformed turn)"
    if not isinstance(call.arguments, dict):
        return printable(f"{call.name}({call.arguments!r})")
    listed = ", ".join(f"{name}={value!r}" for name, value in call.arguments.items())
    return printable(f"{call.name}({listed})")


def table(head: Sequence[str], rows: Sequence[Sequence[str]], indent: str = "") -> str:
    """Columns as wide as they need to be; those that hold numbers are set to the right."""
    cells = [head, *rows]
    widths = [max(len(row[i]) for row in cells) for i in range(len(head))]
    right = [all(_is_number(row[i]) for row in rows) for i in range(len(head))]
    return "\n".join(
        indent
        + "  ".join(
            cell.rjust(width) if to_right else cell.ljust(width)
            for cell, width, to_right in zip(row, widths, right, strict=True)
        ).rstrip()
        for row in cells
    )


def _is_number(cell: str) -> bool:
    return cell in ("", "-") or cell.rstrip(" %").replace(",", "").replace(".", "", 1).isdigit()
