"""Code, SQL and browser from scratch on a CPU: what fine-tuning gives, and what GRPO adds.

    python -m tests.benchmarks.bench_presets [--seeds 3] [--jobs 2] [--only NAME] [--out FOLDER]

Every run is a process of one CPU thread, started with the command that stands in the log. The
table goes to `docs/measured/bench_presets.md`, all figures to `bench_presets.json` beside it. No
figure fails the run: the log says what was met.
"""

import argparse
import datetime
import json
import os
import shlex
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.benchmarks.bench_workshop import Row, Runs, gain, mean, run, seeds_table, verdicts
from tests.benchmarks.programs import ROOT
from tests.benchmarks.report import command, load, machine, table

POINTS, MINUTES = 15, 20


def enough(runs: Runs) -> bool:
    """Whether held-out success rose by `POINTS`, in the mean over the seeds."""
    return gain(runs) >= POINTS


def quick(runs: Runs) -> bool:
    """Whether no run took longer than `MINUTES`."""
    return all(run["minutes"] <= MINUTES for run in runs)


TARGETS = (
    (f"at least {POINTS} points, mean of the seeds", enough),
    (f"at most {MINUTES} minutes a run", quick),
)
ROWS = tuple(Row(name, name, targets=TARGETS) for name in ("code", "sql", "browser"))

HEAD = [
    "preset",
    "start",
    "end",
    "gain, points",
    "least gain",
    "sampled reward",
    "minutes a run",
    "longest",
    "episodes",
]

NOTES = """\
A model made from scratch, fine-tuned on what the oracle shows (start) and trained by GRPO (end).
Held-out success in percent, played greedily with reliable tools; the sampled reward is the mean of
the last five updates. Minutes are of a whole run by the wall clock: demonstrations, fine-tuning,
updates and evaluations. Episodes are all that was played in the updates."""


def timed(row: Row, seed: int, out: Path) -> dict[str, Any]:
    """One run, with the minutes that it took."""
    began = time.perf_counter()
    summary = run(row, seed, out)
    return summary | {"minutes": (time.perf_counter() - began) / 60}


def line(row: Row, runs: Runs) -> list[str]:
    """A row of the table; shares in percent."""
    minutes = [run["minutes"] for run in runs]
    gains = [100 * (run["heldout_end"] - run["heldout_start"]) for run in runs]
    return [
        row.name,
        f"{100 * mean(runs, 'heldout_start'):.1f}",
        f"{100 * mean(runs, 'heldout_end'):.1f}",
        f"{gain(runs):+.1f}",
        f"{min(gains):+.1f}",
        f"{100 * mean(runs, 'sampled_reward'):.1f}",
        f"{mean(runs, 'minutes'):.1f}",
        f"{max(minutes):.1f}",
        f"{mean(runs, 'episodes'):,.0f}",
    ]


def report(results: dict[str, Runs], rows: list[Row], jobs: int) -> str:
    """The log: the table, what was met, the commands, the seeds one by one."""
    torch = f"torch=={__import__('torch').__version__}"
    parts = [
        "# Three environments, from scratch",
        f"Measured on {datetime.date.today()} with `{command('bench_presets')}`: "
        f"{machine([torch])}; {jobs} runs at a time, load {load()}.",
        NOTES,
        table(HEAD, [line(row, results[row.name]) for row in rows]),
        verdicts(results, rows),
        "The commands, SEED from 0 on:",
        "\n".join(f"    agent-envs train {shlex.join(row.command('SEED'))}" for row in rows),
        "Start and end, seed by seed:",
        seeds_table(results, rows),
    ]
    return "\n\n".join(parts) + "\n"


def main() -> None:
    """Run every preset with every seed, and write the log and the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3, help="0 to this, less one")
    parser.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1))
    parser.add_argument("--only", action="append", help="a preset, may be repeated")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "measured")
    options = parser.parse_args()
    rows = [row for row in ROWS if not options.only or row.name in options.only]
    if not rows:
        raise SystemExit(f"no such preset; there are {', '.join(row.name for row in ROWS)}")
    results: dict[str, Runs] = {}
    with (
        tempfile.TemporaryDirectory(prefix="presets-") as scratch,
        ThreadPoolExecutor(options.jobs) as pool,
    ):
        work = [(row, seed, Path(scratch)) for row in rows for seed in range(options.seeds)]
        found = list(pool.map(lambda one: timed(*one), work))
    for row in rows:
        results[row.name] = [r for (one, _, _), r in zip(work, found, strict=True) if one is row]
    text = report(results, rows, options.jobs)
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "bench_presets.md").write_text(text)
    (options.out / "bench_presets.json").write_text(json.dumps(results, indent=1) + "\n")
    print(text)


if __name__ == "__main__":
    main()
