"""The training part of `demo`: an agent learns to call a calculator, beside the published one."""

import importlib
import json
import tempfile
from pathlib import Path
from typing import Any

from agent_envs.cli import page
from agent_envs.cli.common import table
from agent_envs.cli.page import Say
from agent_envs.cli.probes import install

PUBLISHED = {0: 0.77, 40: 0.83}
"""Held-out success before and after 40 updates, as published."""

_BAR = 40


def workshop(say: Say) -> dict[str, Any] | None:
    """Train the preset `workshop` and show its table and curve; None where torch is missing."""
    page.heading(say, "7. A small agent learns to use it")
    try:
        trainer = importlib.import_module("agent_envs.baselines.train")
        grpo = importlib.import_module("agent_envs.baselines.grpo")
    except ModuleNotFoundError as error:
        page.prose(say, f"Left out: it needs {error.name}. To get it: {install('train')}")
        return None
    args = trainer.configure("workshop")
    page.prose(
        say,
        f"A character transformer, shown {args.shown} sums, then {args.updates} updates of GRPO on "
        f"{args.tasks} sums x {args.group} episodes; the reward is 1 for the exact answer. Success "
        "is on 30 held-out sums, greedy. About a minute on a CPU.",
    )
    with tempfile.TemporaryDirectory(prefix="agent-envs-") as folder:
        summary: dict[str, Any] = grpo.train(args, Path(folder))
        rows = [json.loads(line) for line in _lines(Path(folder) / "metrics.jsonl")]
    curve = {row["update"]: row["heldout/success"] for row in rows if "heldout/success" in row}
    _show_curve(say, curve)
    _show_table(say, summary)
    return summary


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines()


def _show_curve(say: Say, curve: dict[int, float]) -> None:
    say("  update  held-out success")
    for update, share in curve.items():
        bar = ("#" * round(_BAR * share)).ljust(_BAR)
        told = f"{PUBLISHED[update]:.0%} published" if update in PUBLISHED else ""
        say(f"  {update:>6}  {bar}  {share:>4.0%}   {told}".rstrip())
    say("")


def _show_table(say: Say, summary: dict[str, Any]) -> None:
    rows = [
        ["held-out, before", f"{summary['heldout_start']:.0%}", "77%"],
        ["held-out, after", f"{summary['heldout_end']:.0%}", "83%"],
        ["sampled reward, last 5", f"{summary['sampled_reward']:.0%}", "81%"],
        ["seconds an update", f"{summary['seconds_per_update']:.2f}", ""],
        ["episodes", str(summary["episodes"]), "2560"],
    ]
    say(table(["", "here, seed 0", "published"], rows, "  "))
