"""Running the suite: a policy on every environment under every condition, into one JSON."""

import argparse
import copy
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import agent_envs
from agent_envs.cli import suite
from agent_envs.cli.common import Failed, Usage, check_id, make, note, one_line, print_json, table
from agent_envs.cli.evaluate import Keep, Prices, evaluate
from agent_envs.cli.folder import write_json
from agent_envs.cli.machine import machine
from agent_envs.cli.plan import make_plan
from agent_envs.cli.players import is_native, model_settings, players_for
from agent_envs.cli.report import number, percent, span
from agent_envs.errors import BackendUnavailable

BENCH = "bench.json"

_FIGURES = (
    "episodes",
    "invalid",
    "invalid_because",
    "success_rate",
    "interval",
    "pass_at",
    "mean_reward",
    "reward_error",
    "turns",
    "calls",
    "end_reasons",
    "errors",
    "faults",
    "usage",
    "cost",
    "seconds",
    "by_level",
    "arguments",
    "played_by",
    "provenance",
)


def run(arguments: argparse.Namespace) -> int:
    """Score a policy. 1 where a line could not be measured, 130 after Ctrl-C."""
    arguments = _with_budget(arguments)
    ids = arguments.ids or [one for one in agent_envs.ids() if one not in suite.LEFT_OUT]
    for env_id in ids:
        check_id(env_id)
    if arguments.resume and arguments.out is None:
        raise Usage("--resume needs the --out DIR of the run to go on with")
    told: dict[str, Any] = {"suite": _suite(arguments), "machine": machine(), "rows": []}
    code = 0
    for entry in suite.entries(ids):
        row, stopped = _row(entry, arguments)
        told["rows"].append(row)
        if row["error"]:
            note(f"agent-envs: {entry.name}: {row['error']}")
        code = max(code, int(bool(row["error"])))
        if isinstance(stopped, KeyboardInterrupt):
            code = 130
            break
    told["mean_success"] = _mean_success(told["rows"])
    told["complete"] = code == 0
    if arguments.out is not None:
        write_json(arguments.out / BENCH, told)
    if arguments.json:
        print_json(told)
    else:
        print(_text(arguments.policy, told))
    return code


def _with_budget(arguments: argparse.Namespace) -> argparse.Namespace:
    """The command line, with what the suite fixes where nothing else was asked for."""
    arguments = copy.copy(arguments)
    arguments.seed = suite.SEED
    if arguments.max_tokens is None:
        arguments.max_tokens = suite.MAX_TOKENS
    return arguments


def _suite(arguments: argparse.Namespace) -> dict[str, Any]:
    """What was run, and whether it was the suite as it is: only then are figures compared."""
    full = (
        arguments.tasks == suite.TASKS
        and arguments.samples == suite.SAMPLES
        and arguments.max_tokens == suite.MAX_TOKENS
    )
    return {
        "version": suite.VERSION,
        "full": full,
        "split": suite.SPLIT,
        "seed": suite.SEED,
        "tasks": arguments.tasks,
        "samples": arguments.samples,
        "budget": {**suite.BUDGET, "max_tokens": arguments.max_tokens},
        "conditions": suite.CONDITIONS,
    }


def _row(
    entry: suite.Entry, arguments: argparse.Namespace
) -> tuple[dict[str, Any], BaseException | None]:
    row: dict[str, Any] = {
        "name": entry.name,
        "id": entry.env_id,
        "condition": entry.condition,
        "policy": arguments.policy,
        "error": None,
    }
    try:
        told, stopped = _played(entry, arguments)
    except (Failed, BackendUnavailable) as error:
        return {**row, "error": one_line(str(error))}, None
    if stopped is not None:
        row["error"] = one_line(str(stopped) or "stopped")
    elif told["invalid"] == told["episodes"]:
        row["error"] = f"no episode was valid: {next(iter(told['invalid_because']))}"
    return {**row, "tasks": told["tasks"], **{name: told[name] for name in _FIGURES}}, stopped


def _played(
    entry: suite.Entry, arguments: argparse.Namespace
) -> tuple[dict[str, Any], BaseException | None]:
    options = entry.options() | ({"tool_docs": False} if is_native(arguments) else {})
    given = argparse.Namespace(**{**vars(arguments), "id": entry.env_id})
    note(f"{entry.name}: {arguments.policy}")
    with make(entry.env_id, **options) as env, ExitStack() as stack:
        tasks = suite.chosen(env.tasks.split(suite.SPLIT), arguments.tasks)
        players = players_for(given, env)
        for player in players:
            stack.callback(player.close)
        plan = make_plan(
            env,
            options,
            env_id=entry.env_id,
            policy=arguments.policy,
            players=players,
            tasks=tasks,
            group=arguments.samples,
            seed=suite.SEED,
            model=model_settings(given),
        )
        out: Path | None = arguments.out / entry.name if arguments.out else None
        prices = Prices(arguments.price_in, arguments.price_out)
        told, stopped = evaluate(plan, env, Keep(out, arguments.resume), prices, arguments.workers)
    return {**told, "tasks": {"count": len(tasks), "hash": suite.digest(tasks)}}, stopped


def _mean_success(rows: list[dict[str, Any]]) -> float | None:
    """Over all lines, each counting the same; None while one is missing."""
    rates = [row.get("success_rate") for row in rows]
    known = [rate for rate in rates if rate is not None]
    return sum(known) / len(known) if known and len(known) == len(rates) else None


def _text(policy: str, told: dict[str, Any]) -> str:
    k = str(told["suite"]["samples"])
    head = ["", "episodes", "invalid", "success", "95%", f"pass@{k}", "reward", "turns"]
    cells = [_cells(row, k) for row in told["rows"]]
    full = "" if told["suite"]["full"] else ", in part: not to be compared with others"
    return "\n".join(
        [
            f"suite {told['suite']['version']}, {policy}{full}",
            "",
            table(head, cells, "  "),
            "",
            f"  mean success {percent(told['mean_success'])}",
        ]
    )


def _cells(row: dict[str, Any], k: str) -> list[str]:
    if "episodes" not in row:
        return [row["name"], *["-"] * 7]
    return [
        row["name"],
        f"{row['episodes']}",
        f"{row['invalid']}",
        percent(row["success_rate"]),
        span(row["interval"]),
        percent(row["pass_at"].get(k, {}).get("rate")),
        number(row["mean_reward"], 3),
        number(row["turns"]),
    ]
