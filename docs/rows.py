"""The rows of docs/benchmark.md: our trainer and TRL's, from the same weights, on one CPU thread.

    pip install -e '.[hf]' trl==1.16.0 datasets==5.2.0
    python docs/rows.py runs/rows             # all of it; goes on where it was stopped

A model is made on the spot and shown the gold solutions of one half of the training tasks
(`before`). From there each trainer plays 2,000 episodes of the other half, three times with another
seed. `agent-envs bench --suite` scores all seven; the figures end up in `runs/rows/rows.json`.
"""

import argparse
import importlib.metadata
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

os.environ |= {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false", "OMP_NUM_THREADS": "1"}
os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")

import torch
from rows_trainers import ENV, make, ours, theirs

SEEDS = (0, 1, 2)


def score(out: Path) -> dict[str, Any]:
    """The suite's rows for the model in a folder, in short."""
    player = f"python:agent_envs.baselines.export:play={out / 'model'}"
    command = [sys.executable, "-m", "agent_envs", "bench", "--suite", ENV, "--policy", player]
    command += ["--workers", "80", "--out", str(out / "suite"), "--json"]
    told = json.loads(subprocess.check_output(command, text=True))
    kept = ("episodes", "invalid", "success_rate", "interval", "pass_at", "turns", "calls")
    return {
        "suite": {name: told["suite"][name] for name in ("version", "full")},
        "rows": {
            row["name"]: {name: row[name] for name in kept}
            | {"tasks": row["tasks"]["hash"]}
            | {"by_level": {n: part["success_rate"] for n, part in row["by_level"].items()}}
            for row in told["rows"]
        },
    }


def step(root: Path, name: str) -> None:
    """One of the seven: train it, and write what came of it to `run.json`."""
    torch.set_num_threads(1)
    kind, _, seed = name.partition("-")
    out, start = root / name, root / "before" / "model"
    out.mkdir(parents=True, exist_ok=True)
    wall, cpu = time.monotonic(), time.process_time()
    made = {"ours": ours, "trl": theirs}[kind](start, int(seed), out) if seed else make(out)
    made |= {"seconds": time.monotonic() - wall, "cpu_seconds": time.process_time() - cpu}
    (out / "run.json").write_text(json.dumps(made, indent=1) + "\n")


def table(told: dict[str, Any]) -> str:
    """A line a run."""
    lines = [
        "| run | clean, 95% | noisy, 95% | clean by level | episodes | calls | tokens | CPU s |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name, run in told.items():
        clean, noisy = run["rows"].values()
        levels = " ".join(f"{100 * rate:.0f}" for rate in clean["by_level"].values())
        spent = [f"{run[x]:,.0f}" if x in run else "" for x in ("episodes", "calls", "tokens")]
        cells = [name, _rate(clean), _rate(noisy), levels, *spent, f"{run['cpu_seconds']:,.0f}"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _rate(row: dict[str, Any]) -> str:
    low, high = (100 * end for end in row["interval"])
    return f"{row['success_rate']:.1%}, {low:.1f} to {high:.1f}"


def main() -> None:
    """Everything that is missing, a process each; then `rows.json`."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--step", help="one alone: before, ours-SEED, trl-SEED")
    options = parser.parse_args()
    if options.step:
        return step(options.out, options.step)
    told = {}
    for name in ("before", *(f"{kind}-{seed}" for kind in ("ours", "trl") for seed in SEEDS)):
        run, scored = options.out / name / "run.json", options.out / name / "score.json"
        if not run.exists():
            subprocess.run([sys.executable, *sys.argv, "--step", name], check=True)
        if not scored.exists():
            scored.write_text(json.dumps(score(options.out / name)) + "\n")
        told[name] = json.loads(run.read_text()) | json.loads(scored.read_text())
    wanted = ("torch", "transformers", "trl", "gymnasium", "numpy")
    versions = {name: importlib.metadata.version(name) for name in wanted}
    text = json.dumps({"versions": versions, "runs": told}, indent=1)
    (options.out / "rows.json").write_text(text + "\n")
    print(table(told))


if __name__ == "__main__":
    main()
