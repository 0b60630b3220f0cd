"""Play a policy over the tasks of a split, grade it, and keep every episode.

The policies are those that environments ship: oracle, null, random, and cheats (each in turn).
Every task is played once, or --group times; with --episodes, the first so many, and over again
where the split has fewer. With --out DIR, DIR/trajectories.jsonl holds each episode from the moment
when it ends, and DIR/summary.json what --json prints. Ctrl-C keeps what was done.
"""

import argparse
import sys
import time
from contextlib import nullcontext
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
    table,
)
from agent_envs.cli.folder import Folder
from agent_envs.cli.plan import POLICIES, Plan, make_plan, play
from agent_envs.cli.tally import Row, row, summary
from agent_envs.env import ToolEnv
from agent_envs.errors import BackendUnavailable
from agent_envs.progress import Progress
from agent_envs.provenance import provenance
from agent_envs.trajectory import Trajectory


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """See the module's docstring."""
    parser.add_argument("id", help="of the environment: agent-envs list")
    parser.add_argument("--policy", choices=POLICIES, default="oracle", help="who plays")
    add_env_options(parser, split="heldout")
    parser.add_argument(
        "--episodes", type=at_least(1), help="how many (default: all tasks, --group times)"
    )
    parser.add_argument("--group", type=at_least(1), default=1, help="episodes of each task")
    parser.add_argument("--seed", type=at_least(0), default=0, help="of the tools' noise")
    parser.add_argument("--workers", type=at_least(1), default=16, help="environments at once")
    parser.add_argument("--out", type=Path, metavar="DIR", help="where to keep the episodes")
    parser.add_argument("--resume", action="store_true", help="go on with what is in DIR")


def run(arguments: argparse.Namespace) -> int:
    """Evaluate. 1 where no episode was valid, or a backend broke down; 130 after Ctrl-C."""
    if arguments.resume and arguments.out is None:
        raise Usage("--resume needs the --out DIR of the evaluation to go on with")
    options = env_options(arguments)
    with make(arguments.id, **options) as env:
        plan = make_plan(env, options, arguments)
        told = {"arguments": plan.arguments(), "provenance": provenance(env)}
        out: Path | None = arguments.out
        with Folder(out, plan, told, arguments.resume) if out else nullcontext() as folder:
            result, stopped = _evaluate(plan, env, folder, arguments.workers)
            told = {**result, **told}
            if folder:
                folder.summarise(told)
    if arguments.json:
        print_json(told)
    else:
        print(_text(plan, told))
    return _exit_code(plan, told, out, stopped)


def _evaluate(
    plan: Plan, env: ToolEnv, folder: Folder | None, workers: int
) -> tuple[dict[str, Any], BaseException | None]:
    """The figures, and what stopped it before the end, if anything did."""
    rows: dict[str, Row] = folder.rows if folder else {}
    progress = Progress(plan.total - len(rows)) if sys.stderr.isatty() else None
    done, began, stopped = frozenset(rows), time.monotonic(), None

    def ended(episode: Trajectory) -> None:
        if folder:
            folder.write(episode)
        rows[episode.episode_id] = row(episode)
        if progress:
            progress.add(episode)

    try:
        play(plan, env, ended, done, workers)
    except (KeyboardInterrupt, BackendUnavailable) as error:
        stopped = error
    finally:
        if progress:
            progress.close()
    seconds = time.monotonic() - began + (folder.seconds if folder else 0.0)
    return {**figures(plan, rows), "seconds": seconds, "complete": stopped is None}, stopped


def figures(plan: Plan, rows: dict[str, Row]) -> dict[str, Any]:
    """The summary of all rows, and under `by_cheat` that of each cheat's."""
    told = summary(list(rows.values()))
    if plan.policy == "cheats":
        told["by_cheat"] = {
            player: summary([r for name, r in rows.items() if name.startswith(f"{player}:")])
            for player, _ in plan.players
        }
    return told


def _exit_code(
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


# -- for people ----------------------------------------------------------------------------------


def _text(plan: Plan, told: dict[str, Any]) -> str:
    split = plan.options["split"]
    parts = told.get("by_cheat") or {f"level {n}": part for n, part in told["by_level"].items()}
    rows = [_cells(name, part) for name, part in [*parts.items(), ("all", told)]]
    lines = [
        f"{plan.env_id}, {plan.policy} on {split}: {told['episodes']} episodes"
        f" in {told['seconds']:.1f} s",
        "",
        table(["", "episodes", "success", "reward"], rows, "  "),
        "",
        f"  a mean of {number(told['turns'])} turns and {number(told['calls'])} calls an episode",
        f"  ended by  {counted(told['end_reasons'])}",
        f"  faults    {counted(told['faults'])}",
        f"  errors    {counted(told['errors'])}",
    ]
    if told["invalid"]:
        lines.append(f"  invalid   {counted(told['invalid_because'])}")
    return "\n".join(lines)


def _cells(name: str, part: dict[str, Any]) -> list[str]:
    rate = part["success_rate"]
    success = "-" if rate is None else f"{rate:.1%}"
    return [name, f"{part['episodes']}", success, number(part["mean_reward"], 3)]


def number(value: float | None, digits: int = 1) -> str:
    """A mean for people; a dash where there is none."""
    return "-" if value is None else f"{value:.{digits}f}"


def counted(counts: dict[str, int]) -> str:
    """Counts for people: `wrong 3, timeout 1`."""
    return ", ".join(f"{kind} {count}" for kind, count in counts.items()) or "none"
