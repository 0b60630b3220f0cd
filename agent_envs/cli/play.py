"""Play an environment yourself, in the terminal or from a pipe: one line, one turn.

A call is `calculate 23+45`, `calculate(expression="23+45")`, `calculate {"expression": "23+45"}`,
or whatever the protocol has; any other line is the final answer. Where a call needs several
arguments, they may stand one after the other: `mv a.txt work`. `:help` tells the rest.
"""

import argparse
import importlib
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from agent_envs.cli.common import (
    Failed,
    Usage,
    add_env_options,
    as_text,
    at_least,
    call_text,
    env_options,
    make,
    note,
    one_line,
    print_json,
    printable,
    whole,
)
from agent_envs.cli.listing import signature
from agent_envs.cli.typed import shorthand
from agent_envs.env import ToolEnv
from agent_envs.errors import SnapshotUnsupported
from agent_envs.snapshot import Snapshot
from agent_envs.turns import Malformed, StepResult, ToolCall, ToolResult

_HELP = """\
  calculate 23+45        call a tool; also calculate(expression="23+45"), or with a JSON object
  mv a.txt "my folder"   the same for a tool that needs several arguments, in their order
  68                     any other line is the final answer, or a turn as the protocol writes it
  :say TEXT              TEXT as the whole turn, just as a model would write it
  :tools                 the tools and their arguments
  :snapshot              keep this state
  :rollback N [SEED]     go back to a kept state; with a seed, the tools' noise is another
  :history               the episode so far
  :reset [SEED]          a new episode
  :quit                  or Ctrl-D"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """See the module's docstring."""
    parser.add_argument("id", help="of the environment: agent-envs list")
    parser.add_argument(
        "--seed", type=at_least(0), help="chooses the task and the noise (default: by chance)"
    )
    parser.add_argument("--task", help="the id of a task (default: what the seed chooses)")
    add_env_options(parser, split="train")


def run(arguments: argparse.Namespace) -> int:
    """Play until the end of input or `:quit`."""
    env = make(arguments.id, **{"tool_docs": False, **env_options(arguments)})
    say = note if arguments.json else print
    with suppress(ImportError):
        importlib.import_module("readline")  # gives input() line editing
    try:
        player = Player(env, arguments.task, say)
        opening = player.reset(arguments.seed)
        say("A line is a turn: a call or the final answer. :tools lists the tools, :help the rest.")
        say(opening)
        while (line := _read(say)) is not None and player.take(line):
            pass
    finally:
        env.close()
    if arguments.json:
        print_json({"id": arguments.id, "episodes": player.episodes})
    return 0


def _read(say: Callable[[str], None]) -> str | None:
    """The next line; None at the end. What comes from a pipe is shown, as a terminal would."""
    try:
        if sys.stdin.isatty() and say is print:
            return input("> ")
        line = sys.stdin.readline()
    except EOFError:
        return None
    except UnicodeDecodeError:
        raise Failed("standard input is no UTF-8 text") from None
    if not line:
        return None
    if not sys.stdin.isatty():
        say(f"> {printable(line.rstrip())}")
    return line.rstrip("\r\n")


@dataclass(frozen=True)
class _SoFar:
    """What the player's screen knows of the episode; kept and brought back with its state."""

    reward: float = 0.0
    faults: tuple[str, ...] = ()


class Player:
    """What a person's lines do to an env. `episodes` has a dict for each that came to its end."""

    def __init__(self, env: ToolEnv, task: str | None, say: Callable[[str], None]) -> None:
        self.env, self.say = env, say
        self.episodes: list[dict[str, Any]] = []
        self._options = {"task": task} if task else None
        self._kept: list[tuple[Snapshot, _SoFar]] = []
        self._so_far = _SoFar()

    def take(self, line: str) -> bool:
        """Do what a line says; False where it says to stop."""
        word, _, rest = line.strip().partition(" ")
        try:
            if word == ":quit":
                return False
            if word == ":say":
                self._turn(lambda: self.env.step(rest))
            elif word.startswith(":"):
                self._command(word, rest.split())
            elif word:
                self._typed(line)
        except (Usage, SnapshotUnsupported) as error:
            self.say(one_line(str(error)))
        return True

    def reset(self, seed: int | None = None) -> str:
        """Begin an episode; returns what is to be shown. Raises Usage for an unknown task."""
        try:
            observation, info = self.env.reset(seed=seed, options=self._options)
        except (KeyError, ValueError) as error:
            raise Usage(f"{error.args[0]}") from None
        self._so_far = _SoFar()
        return f"[{info['task_id']}]\n{printable(observation)}"

    def _command(self, word: str, rest: list[str]) -> None:
        match word, rest:
            case ":help", []:
                self.say(_HELP)
            case ":tools", []:
                for tool in self.env.tools.values():
                    about = tool.schema["function"]["description"]
                    self.say(f"  {signature(tool)}\n      {printable(about)}")
            case ":history", []:
                self.say(printable(self.env.render()))
            case ":snapshot", []:
                self._kept.append((self.env.snapshot(), self._so_far))
                self.say(f"[kept: :rollback {len(self._kept)} comes back here]")
            case ":rollback", [number, *seed] if len(seed) < 2:
                self._rollback(whole(number), *map(whole, seed))
            case ":reset", [*seed] if len(seed) < 2:
                self.say(self.reset(*map(whole, seed)))
            case _:
                raise Usage(f"no command {' '.join([word, *rest])!r}; :help lists them")

    def _rollback(self, number: int, seed: int | None = None) -> None:
        if not 1 <= number <= len(self._kept):
            raise Usage(f"no snapshot {number}, there are {len(self._kept)}; :snapshot keeps one")
        snapshot, self._so_far = self._kept[number - 1]
        observation, _ = self.env.rollback(snapshot, seed=seed)
        self.say(f"[back after turn {self.env.turn}]\n{printable(observation)}")

    def _typed(self, line: str) -> None:
        call = shorthand(line, self.env.tools)
        if call:
            self._turn(lambda: self.env.act([call]))
            return
        text: str | None = line
        if isinstance(self.env.protocol.parse(line), Malformed):
            text = as_text(self.env, line.strip())  # an answer that lacks what the protocol adds
        self._turn(lambda: self.env.step(text or line))

    def _turn(self, play: Callable[[], StepResult]) -> None:
        if self.env.ended:
            raise Usage("the episode is over: :reset, :rollback N or :quit")
        observation, reward, terminated, truncated, info = play()
        told = [_told(call, result) for call, result in info["calls"] if result.fault]
        so_far = self._so_far
        self._so_far = _SoFar(so_far.reward + reward, (*so_far.faults, *told))
        if observation:
            self.say(printable(observation))
        if terminated or truncated:
            self._end(info)
        elif reward:
            self.say(f"[reward {reward:g}]")

    def _end(self, info: dict[str, Any]) -> None:
        verdict = info["verdict"]
        passed = bool(verdict and verdict.passed)
        said = "passed" if passed else "not passed" if verdict else info["infrastructure_error"]
        self.say(f"[{said}, reward {self._so_far.reward:g}; ended by: {info['end_reason']}]")
        for fault in self._so_far.faults:
            self.say(f"[injected: {fault}]")
        self.episodes.append(
            {
                "task_id": info["task_id"],
                "turns": info["turn"],
                "reward": self._so_far.reward,
                "passed": passed,
                "end_reason": info["end_reason"],
                "infrastructure_error": info["infrastructure_error"],
            }
        )


def _told(call: ToolCall | None, result: ToolResult) -> str:
    """A fault, for the end of an episode: before that it would be a hint."""
    truth = "" if result.truth is None else f"; the truth was {printable(result.truth)}"
    return f"{result.fault} result of {call_text(call)}{truth}"
