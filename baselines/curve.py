"""The curve of a run as a picture, beside the published one."""

import re
from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure

from agent_envs.baselines.settings import Args

PUBLISHED = {"start": 0.77, "end": 0.83}
"""Held-out success of the published workshop before and after 40 updates; with 30% faults in
training it ends at the same."""


def draw(path: Path, history: Sequence[dict[str, float]], args: Args) -> None:
    """Write a PNG: sampled reward of every update, held-out success of every evaluation."""
    updates = [row for row in history if row["update"] > 0]
    exams = [row for row in history if "heldout/success" in row]
    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.add_subplot()
    if args.env == Args.env:
        axes.plot([0, 40], list(PUBLISHED.values()), ":", color="gray", label="published, held-out")
    axes.plot(*_points(updates, "reward"), color="tab:orange", alpha=0.6, label="sampled reward")
    axes.plot(*_points(exams, "heldout/success"), "o-", color="tab:blue", label="held-out")
    rate = args.evaluation_fault_rate
    label = f"held-out, {rate:.0%} faults"
    axes.plot(*_points(exams, "heldout_faults/success"), "s--", color="tab:red", label=label)
    if args.fault_rate:
        ceiling = 1 - args.fault_rate
        axes.axhline(ceiling, color="black", lw=0.5, label="ceiling of a single call in training")
    axes.set(xlabel="update", ylabel="share", ylim=(0, 1.02))
    axes.set_title(f"{args.env}, {args.fault_rate:.0%} faults in training, seed {args.seed}")
    axes.legend(fontsize="small")
    figure.savefig(path, dpi=120)


def draw_robustness(path: Path, row: dict[str, float]) -> None:
    """Write a PNG: held-out success over the rate of faults, from an examination's numbers."""
    named = {n: re.fullmatch("exam_faults_([0-9]+)%/(success|recovered)", n) for n in row}
    figure = Figure(figsize=(5, 3.5), layout="constrained")
    axes = figure.add_subplot()
    for kind, label in (("success", "all episodes"), ("recovered", "episodes that met a fault")):
        found = {int(m[1]): row[n] for n, m in named.items() if m and m[2] == kind}
        axes.plot(list(found), list(found.values()), "o-", label=label)
    axes.set(xlabel="faults, %", ylabel="held-out success", ylim=(0, 1.02))
    axes.legend(fontsize="small")
    figure.savefig(path, dpi=120)


def _points(rows: Sequence[dict[str, float]], name: str) -> tuple[list[float], list[float]]:
    return [row["update"] for row in rows], [row[name] for row in rows]
