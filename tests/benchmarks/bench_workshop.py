"""The workshop over ten seeds: what is published, what we reach, and what it costs.

    python -m tests.benchmarks.bench_workshop [--seeds 10] [--jobs 2] [--only NAME] [--out FOLDER]

Every run is a process of one CPU thread, started with the command that stands in its row. The
table goes to `docs/measured/bench_workshop.md`, all figures to `bench_workshop.json` and the mean
curves to `bench_workshop.png` beside it. No figure fails the run: the log says what was met.
"""

import argparse
import datetime
import importlib.metadata
import json
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.benchmarks.programs import ROOT
from tests.benchmarks.report import command, load, machine, table

FAULTS = ("fault_rate=0.3",)
EQUAL = ("credit=leave_one_out", "group=16")
"""Without turn values, at as many rollouts: the other eight of a sum are episodes of its group."""
SUM = 1 / 30
"""What one of the 30 held-out sums counts."""

Runs = list[dict[str, Any]]


@dataclass(frozen=True)
class Row:
    """A setting that is run with every seed, and what its figures should be."""

    name: str
    preset: str
    changes: tuple[str, ...] = ()
    published: str = ""
    targets: tuple[tuple[str, Callable[[Runs], bool]], ...] = ()

    def command(self, seed: int | str) -> list[str]:
        """What a user would type after `agent-envs train`."""
        changes = [*self.changes, f"seed={seed}"]
        return [self.preset, *(word for change in changes for word in ("--set", change))]


def mean(runs: Runs, key: str) -> float:
    """The mean of a figure over the seeds."""
    return statistics.fmean(run[key] for run in runs)


def gain(runs: Runs) -> float:
    """How much the mean held-out success rose, in points."""
    return 100 * (mean(runs, "heldout_end") - mean(runs, "heldout_start"))


def fast(runs: Runs) -> bool:
    """Whether an update takes at most half a second of CPU time."""
    return mean(runs, "cpu_seconds_per_update") <= 0.5


QUICK = ("at most 0.5 s an update", fast)
ROWS = (
    Row(
        "workshop",
        "workshop",
        published="77 -> 83, sampled 81",
        targets=(("end at least start + 6", lambda runs: gain(runs) >= 6), QUICK),
    ),
    Row(
        "workshop, faults",
        "workshop",
        FAULTS,
        published="77 -> 83, sampled 50",
        targets=(("end at least start + 5", lambda runs: gain(runs) >= 5), QUICK),
    ),
    Row(
        "best",
        "workshop-best",
        targets=(
            ("mean at least 93", lambda runs: mean(runs, "heldout_end") >= 0.93),
            ("median 100", lambda runs: statistics.median(r["heldout_end"] for r in runs) == 1),
            (
                "no seed more than two sums below its start",
                lambda runs: all(r["heldout_end"] >= r["heldout_start"] - 2.01 * SUM for r in runs),
            ),
            QUICK,
        ),
    ),
    Row(
        "best, faults",
        "workshop-best",
        FAULTS,
        targets=(("mean at least 87", lambda runs: mean(runs, "heldout_end") >= 0.87), QUICK),
    ),
    Row("best, no turn values", "workshop-best", EQUAL),
    Row("best, no turn values, faults", "workshop-best", EQUAL + FAULTS),
)


def run(row: Row, seed: int, out: Path) -> dict[str, Any]:
    """One run: its summary, and held-out success at each evaluation."""
    folder = out / f"{row.name}-{seed}"
    command = [sys.executable, "-m", "agent_envs.baselines.train", *row.command(seed), "--json"]
    alone = os.environ | {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    done = subprocess.run(
        [*command, "--out", str(folder)], cwd=ROOT, env=alone, capture_output=True, text=True
    )
    if done.returncode:
        raise SystemExit(f"{shlex.join(command)} failed:\n{done.stderr}")
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    exams = [row for row in map(json.loads, lines) if "heldout/success" in row]
    curve = {exam["update"]: exam["heldout/success"] for exam in exams}
    summary: dict[str, Any] = json.loads(done.stdout)
    start, end = (100 * summary[key] for key in ("heldout_start", "heldout_end"))
    print(f"{row.name}, seed {seed}: {start:.0f} -> {end:.0f}", file=sys.stderr)
    return summary | {"curve": curve}


Play = Callable[[Row, int, Path], dict[str, Any]]
"""What makes a run of a row and a seed, in a folder."""


def line(row: Row, runs: Runs) -> list[str]:
    """A row of the table; shares in percent."""
    ends = [100 * r["heldout_end"] for r in runs]
    worst = min(30 * (r["heldout_end"] - r["heldout_start"]) for r in runs)
    figures = [
        f"{100 * mean(runs, 'heldout_start'):.1f}",
        f"{statistics.fmean(ends):.1f}",
        f"{statistics.median(ends):.1f}",
        f"{min(ends):.0f}",
        f"{worst:+.0f}",
        f"{100 * mean(runs, 'sampled_reward'):.1f}",
        f"{100 * mean(runs, 'heldout_faults_end'):.1f}",
        f"{mean(runs, 'episodes'):,.0f}",
        f"{mean(runs, 'cpu_seconds_per_update'):.2f}",
        f"{mean(runs, 'seconds_per_update'):.2f}",
    ]
    return [row.name, row.published, *figures]


HEAD = [
    "setting",
    "published",
    "start",
    "end",
    "median",
    "worst seed",
    "worst change, in sums",
    "sampled reward",
    "end, tool lies",
    "rollouts",
    "CPU s an update",
    "wall s an update",
]


NOTES = """\
Held-out success in percent of 30 sums, greedily with a reliable tool; "end, tool lies" is the same
with 30% faults. The sampled reward is the mean of the last five updates; with faults in training a
single call cannot earn more than 70. Rollouts are all that was played for training, continuations
included. The times of an update are without evaluation."""


def report(results: dict[str, Runs], rows: list[Row], jobs: int) -> str:
    """The log."""
    summary = table(HEAD, [line(row, results[row.name]) for row in rows])
    return log("The workshop", "bench_workshop", [NOTES, summary], results, rows, jobs)


def log(
    title: str,
    name: str,
    summary: list[str],
    results: dict[str, Runs],
    rows: Sequence[Row],
    jobs: int,
) -> str:
    """A benchmark's log: what it comes to, what was met, the commands, the seeds one by one."""
    torch = f"torch=={importlib.metadata.version('torch')}"
    parts = [
        f"# {title}",
        f"Measured on {datetime.date.today()} with `{command(name)}`: "
        f"{machine([torch])}; {jobs} runs at a time, load {load()}.",
        *summary,
        verdicts(results, rows),
        "The commands, SEED from 0 on:",
        "\n".join(f"    agent-envs train {shlex.join(row.command('SEED'))}" for row in rows),
        "Start and end, seed by seed:",
        seeds_table(results, rows),
    ]
    return "\n\n".join(parts) + "\n"


def verdicts(results: dict[str, Runs], rows: Sequence[Row]) -> str:
    """A table of which targets were met."""
    lines = [
        [row.name, target, "met" if holds(results[row.name]) else "NOT MET"]
        for row in rows
        for target, holds in row.targets
    ]
    return table(["setting", "target", ""], lines)


def seeds_table(results: dict[str, Runs], rows: Sequence[Row]) -> str:
    """A table of start and end, seed by seed."""
    seeds = [str(run["seed"]) for run in results[rows[0].name]]
    return table(["setting", *seeds], [[r.name, *map(_change, results[r.name])] for r in rows])


def _change(run: dict[str, Any]) -> str:
    return f"{100 * run['heldout_start']:.0f} -> {100 * run['heldout_end']:.0f}"


def draw(path: Path, results: dict[str, Runs]) -> None:
    """The mean curves, beside the published start and end."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.add_subplot()
    axes.plot([0, 40], [77, 83], ":", color="gray", label="published")
    for name, runs in results.items():
        updates = list(runs[0]["curve"])
        means = [100 * statistics.fmean(run["curve"][u] for run in runs) for u in updates]
        style = "--" if "faults" in name else "-"
        axes.plot(updates, means, style, marker="o", label=name)
    axes.set(xlabel="update", ylabel="held-out success, %", ylim=(50, 101))
    axes.set_title(f"Mean of {len(next(iter(results.values())))} seeds; dashed: 30% faults")
    axes.legend(fontsize="small")
    figure.savefig(path, dpi=120)


def asked(
    doc: str | None, every: Sequence[Row], seeds: int, jobs: int
) -> tuple[argparse.Namespace, list[Row]]:
    """The arguments of a benchmark, and the rows that they choose."""
    parser = argparse.ArgumentParser(description=doc)
    parser.add_argument("--seeds", type=int, default=seeds, help="0 to this, less one")
    parser.add_argument("--jobs", type=int, default=jobs, help="runs at a time")
    parser.add_argument("--only", action="append", help="the name of a row, may be repeated")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "measured")
    options = parser.parse_args()
    rows = [row for row in every if not options.only or row.name in options.only]
    if not rows:
        raise SystemExit(f"no such row; there are {', '.join(row.name for row in every)}")
    return options, rows


def played(rows: Sequence[Row], seeds: int, jobs: int, one: Play = run) -> dict[str, Runs]:
    """Every row with every seed, some at a time."""
    with tempfile.TemporaryDirectory(prefix="runs-") as scratch, ThreadPoolExecutor(jobs) as pool:
        coming = {
            row.name: [pool.submit(one, row, seed, Path(scratch)) for seed in range(seeds)]
            for row in rows
        }
        return {name: [future.result() for future in futures] for name, futures in coming.items()}


def keep(out: Path, name: str, text: str, results: dict[str, Runs]) -> None:
    """Write the log and the figures, and show the log."""
    out.mkdir(parents=True, exist_ok=True)
    (out / f"{name}.md").write_text(text)
    (out / f"{name}.json").write_text(json.dumps(results, indent=1) + "\n")
    print(text)


def main() -> None:
    """Run every row with every seed, and write the log, the figures and the curves."""
    options, rows = asked(__doc__, ROWS, seeds=10, jobs=min(2, os.cpu_count() or 1))
    results = played(rows, options.seeds, options.jobs)
    keep(options.out, "bench_workshop", report(results, rows, options.jobs), results)
    draw(options.out / "bench_workshop.png", results)


if __name__ == "__main__":
    main()
