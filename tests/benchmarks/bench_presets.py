"""Code, SQL and browser from scratch on a CPU: what fine-tuning gives, and what GRPO adds.

    python -m tests.benchmarks.bench_presets [--seeds 3] [--jobs 1] [--only NAME] [--out FOLDER]

Every run is a process of its own, started with the command that stands in the log, with as many CPU
threads as its preset says: on two cores `sql` takes both, the others leave room for a second job.
The table goes to `docs/measured/bench_presets.md`, all figures to `bench_presets.json` beside it.
No figure fails the run: the log says what was met.
"""

import time
from pathlib import Path
from typing import Any

from tests.benchmarks.bench_workshop import Row, Runs, asked, gain, keep, log, mean, played, run
from tests.benchmarks.report import table

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
    "sampled start",
    "sampled end",
    "minutes a run",
    "longest",
    "episodes",
]

NOTES = """\
A model made from scratch, fine-tuned on what the oracle shows (start) and trained by GRPO (end).
Held-out success in percent, played greedily with reliable tools, each task once; sampled: at the
temperature of training, each task four times. Minutes are of a whole run by the wall clock:
demonstrations, fine-tuning, updates and evaluations. Episodes are all that was played in the
updates."""


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
        f"{100 * mean(runs, 'heldout_sampled_start'):.1f}",
        f"{100 * mean(runs, 'heldout_sampled_end'):.1f}",
        f"{mean(runs, 'minutes'):.1f}",
        f"{max(minutes):.1f}",
        f"{mean(runs, 'episodes'):,.0f}",
    ]


def report(results: dict[str, Runs], rows: list[Row], jobs: int) -> str:
    """The log."""
    summary = table(HEAD, [line(row, results[row.name]) for row in rows])
    title = "Three environments, from scratch"
    return log(title, "bench_presets", [NOTES, summary], results, rows, jobs)


def main() -> None:
    """Run every preset with every seed, and write the log and the figures."""
    options, rows = asked(__doc__, ROWS, seeds=3, jobs=1)
    results = played(rows, options.seeds, options.jobs, timed)
    keep(options.out, "bench_presets", report(results, rows, options.jobs), results)


if __name__ == "__main__":
    main()
