"""Play a policy over the tasks of a split, grade it, and keep every episode.

The policies are those that environments ship: oracle, null, random, and cheats (each in turn);
openai:MODEL, a model behind any server with OpenAI's chat API; and python:MODULE:FUNCTION, a
function of yours that is given an environment and returns a Policy.

Every task is played once, or --group times; with --episodes, the first so many, and over again
where there are fewer. With --out DIR, DIR/trajectories.jsonl holds each episode from the moment
when it ends, and DIR/summary.json what --json prints. Ctrl-C keeps what was done.
"""

import argparse
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent_envs.cli.common import (
    Usage,
    add_env_options,
    at_least,
    env_options,
    make,
    note,
    print_json,
)
from agent_envs.cli.folder import EPISODES, Folder
from agent_envs.cli.parquet import PARQUET, load_pyarrow, write_parquet
from agent_envs.cli.plan import Done, Plan, make_plan, play
from agent_envs.cli.players import (
    add_model_options,
    is_native,
    model_settings,
    players_for,
    policy_name,
)
from agent_envs.cli.report import report
from agent_envs.cli.tally import Tally, row
from agent_envs.env import ToolEnv
from agent_envs.errors import BackendUnavailable
from agent_envs.models import OpenAIPolicy
from agent_envs.progress import Progress
from agent_envs.provenance import provenance
from agent_envs.trajectory import Trajectory


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """See the module's docstring."""
    parser.add_argument("id", help="of the environment: agent-envs list")
    parser.add_argument("--policy", type=policy_name, default="oracle", help="who plays")
    add_env_options(parser, split="heldout")
    parser.add_argument(
        "--episodes", type=at_least(1), help="how many (default: all tasks, --group times)"
    )
    parser.add_argument(
        "--group", type=at_least(1), default=1, help="episodes of each task; more give pass@k"
    )
    parser.add_argument("--seed", type=at_least(0), default=0, help="of the tools' noise")
    parser.add_argument("--workers", type=at_least(1), default=16, help="environments at once")
    parser.add_argument("--out", type=Path, metavar="DIR", help="where to keep the episodes")
    parser.add_argument("--resume", action="store_true", help="go on with what is in DIR")
    parser.add_argument(
        "--redo-invalid", action="store_true", help="with --resume, play again what did not count"
    )
    parser.add_argument(
        "--parquet", action="store_true", help=f"write DIR/{PARQUET} too (needs pyarrow)"
    )
    add_model_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Evaluate. 1 where no episode was valid, or a backend broke down; 130 after Ctrl-C."""
    _check(arguments)
    split, *more = splits = [part.strip() for part in arguments.split.split(",")]
    options = {**env_options(arguments), "split": split}
    if is_native(arguments):
        options.setdefault("tool_docs", False)
    with make(arguments.id, **options) as env, ExitStack() as stack:
        players = players_for(arguments, env)
        for player in players:
            stack.callback(player.close)
        plan = make_plan(
            env,
            options,
            env_id=arguments.id,
            policy=arguments.policy,
            players=players,
            splits=splits if more else (),
            episodes=arguments.episodes,
            group=arguments.group,
            seed=arguments.seed,
            model=model_settings(arguments),
        )
        prices = Prices(arguments.price_in, arguments.price_out)
        keep = Keep(arguments.out, arguments.resume, arguments.redo_invalid)
        told, stopped = evaluate(plan, env, keep, prices, arguments.workers)
    if arguments.parquet:
        write_parquet(arguments.out / EPISODES, arguments.out / PARQUET)
    if arguments.json:
        print_json(told)
    else:
        print(report(plan, told))
    return exit_code(plan, told, arguments.out, stopped)


def _check(arguments: argparse.Namespace) -> None:
    if arguments.resume and arguments.out is None:
        raise Usage("--resume needs the --out DIR of the evaluation to go on with")
    if arguments.redo_invalid and not arguments.resume:
        raise Usage("--redo-invalid goes with --resume")
    if arguments.parquet:
        if arguments.out is None:
            raise Usage("--parquet needs an --out DIR")
        load_pyarrow()


@dataclass(frozen=True)
class Prices:
    """Of a million tokens read and written, in any currency; None where they are not known."""

    read: float | None = None
    written: float | None = None

    def cost(self, usage: dict[str, int] | None) -> float | None:
        """What tokens cost; None where a price or a server's count is missing."""
        if self.read is None or self.written is None or not usage or usage["untold"]:
            return None
        tokens = usage["prompt_tokens"] * self.read + usage["completion_tokens"] * self.written
        return tokens / 1e6


@dataclass(frozen=True)
class Keep:
    """Where episodes are kept, if anywhere, and what to do with those that are there."""

    out: Path | None = None
    resume: bool = False
    redo: bool = False


def evaluate(
    plan: Plan, env: ToolEnv, keep: Keep, prices: Prices, workers: int
) -> tuple[dict[str, Any], BaseException | None]:
    """Play a plan on `env` and others of its kind, all of which are closed then.

    The figures with `arguments` and `provenance`; and what stopped it before the end, if anything
    did: Ctrl-C, or a backend that broke down.
    """
    tallies = Tallies(plan)
    told: dict[str, Any] = {"arguments": plan.arguments(), "provenance": provenance(env)}
    with (
        Folder(keep.out, plan, told, keep.resume, keep.redo, tallies.add)
        if keep.out
        else nullcontext()
    ) as folder:
        began = time.monotonic()
        stopped = _play(plan, env, tallies, folder.write if folder else None, workers)
        seconds = time.monotonic() - began + (folder.seconds if folder else 0.0)
        figures = tallies.told()
        told = {
            **figures,
            "cost": prices.cost(figures["usage"]),
            "seconds": seconds,
            "complete": stopped is None,
            **told,
            "played_by": _who(plan),
        }
        if folder:
            folder.summarise(told)
    return told, stopped


def _who(plan: Plan) -> dict[str, Any]:
    """Who played, as the episodes' provenance has it."""
    model = plan.players[0].policy
    return model.describe() if isinstance(model, OpenAIPolicy) else {"name": plan.policy}


class Tallies:
    """What was played of a plan, and what it came to: all of it, and each cheat by itself."""

    def __init__(self, plan: Plan) -> None:
        self.done = Done(plan)
        self._all = Tally()
        several = plan.policy == "cheats"
        self._by_cheat = {player.name: Tally() for player in plan.players if several}

    def add(self, episode: Trajectory) -> None:
        """Count an episode. Raises ValueError for one that is not missing."""
        self.done.add(episode.episode_id)
        told = row(episode)
        self._all.add(told)
        cheat = episode.episode_id.rpartition(":")[0]
        if cheat in self._by_cheat:
            self._by_cheat[cheat].add(told)

    @property
    def episodes(self) -> int:
        """How many were counted."""
        return self._all.episodes

    def told(self) -> dict[str, Any]:
        """The summary of all, and under `by_cheat` that of each cheat's."""
        told = self._all.told()
        if self._by_cheat:
            told["by_cheat"] = {name: tally.told() for name, tally in self._by_cheat.items()}
        return told


def _play(
    plan: Plan,
    env: ToolEnv,
    tallies: Tallies,
    write: Callable[[Trajectory], None] | None,
    workers: int,
) -> BaseException | None:
    """Play what is missing; returns what stopped it before the end, if anything did."""
    left = plan.total - tallies.episodes
    progress = Progress(left) if left and sys.stderr.isatty() else None

    def ended(episode: Trajectory) -> None:
        if write:
            write(episode)
        tallies.add(episode)
        if progress:
            progress.add(episode)

    try:
        play(plan, env, ended, tallies.done, workers)
    except (KeyboardInterrupt, BackendUnavailable) as error:
        return error
    finally:
        if progress:
            progress.close()
    return None


def exit_code(
    plan: Plan, told: dict[str, Any], out: Path | None, stopped: BaseException | None
) -> int:
    """The exit code, with a line on standard error where it is not 0."""
    if stopped is not None:
        why = "stopped" if isinstance(stopped, KeyboardInterrupt) else str(stopped)
        kept = f"; they are in {out}, and --resume goes on" if out else ""
        note(f"agent-envs: {why} after {told['episodes']} of {plan.total} episodes{kept}")
        return 130 if isinstance(stopped, KeyboardInterrupt) else 1
    if told["invalid"] == told["episodes"]:
        note(f"agent-envs: no episode was valid: {next(iter(told['invalid_because']))}")
        return 1
    return 0
