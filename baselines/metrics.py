"""What a run leaves behind: a line an update, TensorBoard, a curve, where it all came from."""

import dataclasses
import hashlib
import json
import platform
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import torch
from torch.utils.tensorboard import SummaryWriter

from agent_envs.baselines import chars
from agent_envs.baselines.curve import draw
from agent_envs.baselines.record import Record
from agent_envs.env import ToolEnv
from agent_envs.provenance import provenance

LAST = 5
"""Over how many updates at the end the sampled reward is averaged."""


class Metrics:
    """Keeps what is measured, update by update, and shows how the run is getting on.

    In the folder `out`: `metrics.jsonl`, `provenance.json`, `tensorboard/`, at the end `curve.png`
    and `summary.json`. A run that goes on hands its `history` in; lines after it are written anew.
    """

    def __init__(
        self, out: Path, args: Any, env: ToolEnv, history: list[dict[str, float]], quiet: bool
    ) -> None:
        self.out, self.args, self.history = out, args, list(history)
        out.mkdir(parents=True, exist_ok=True)
        made_by = {"args": dataclasses.asdict(args), **provenance(env), "trainer": _trainer()}
        _write(out / "provenance.json", json.dumps(made_by, indent=1) + "\n")
        _write(out / "metrics.jsonl", "".join(json.dumps(row) + "\n" for row in self.history))
        self._file = (out / "metrics.jsonl").open("a", buffering=1)
        self._board = SummaryWriter(str(out / "tensorboard"), purge_step=self.last + 1)
        self._progress = None if quiet else _Progress(args.updates)

    @property
    def last(self) -> int:
        """The last update that was written; -1 before the first."""
        return int(self.history[-1]["update"]) if self.history else -1

    def write(self, update: int, values: dict[str, float]) -> None:
        """Keep the numbers of an update; 0 is the start."""
        row = {"update": update, **values}
        self.history.append(row)
        self._file.write(json.dumps(row) + "\n")
        for name, value in values.items():
            self._board.add_scalar(name if "/" in name else f"train/{name}", value, update)
        if self._progress:
            self._progress.show(row)

    def finish(self) -> dict[str, Any]:
        """Write the curve and the summary, and return the summary."""
        summary = summarise(self.history) | {"seed": self.args.seed, "out": str(self.out)}
        draw(self.out / "curve.png", self.history, self.args)
        _write(self.out / "summary.json", json.dumps(summary, indent=1) + "\n")
        return summary

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()
        self._board.close()
        if self._progress:
            self._progress.close()


def account(played: Sequence[Record]) -> dict[str, float]:
    """Numbers about what was sampled. Invalid episodes are counted and otherwise left out."""
    main = [r for r in played if r.parent is None]
    valid = [r for r in main if r.valid]
    count = max(len(valid), 1)
    out: dict[str, float] = {
        "episodes": len(main),
        "continuations": len(played) - len(main),
        "invalid": len([r for r in played if not r.valid]),
        "own_tokens": sum(sum(r.row.own) for r in played),
        "reward": sum(r.reward for r in valid) / count,
        "passed": sum(r.passed for r in valid) / count,
        "turns": sum(len(r.rewards) for r in valid) / count,
    }
    for name in sorted({name for r in valid for parts in r.components for name in parts}):
        paid = sum(parts.get(name, 0.0) for r in valid for parts in r.components)
        out[f"components/{name}"] = paid / count
    for reason in sorted({str(r.end_reason) for r in main}):
        out[f"ended/{reason}"] = sum(str(r.end_reason) == reason for r in main) / len(main)
    return out


def summarise(history: Sequence[dict[str, float]]) -> dict[str, Any]:
    """The run in a few numbers. Shares are between 0 and 1, times in seconds.

    `seconds_per_update` is playing and learning, without evaluation, by the wall clock, and
    `cpu_seconds_per_update` the same of CPU time, all threads; `episodes` counts everything
    that was sampled for training, of which `continuations` served turn values.
    """
    exams = [row for row in history if "heldout/success" in row]
    updates = [row for row in history if row["update"] > 0]
    spent = [row["seconds_playing"] + row["seconds_learning"] for row in updates]
    playing = sum(row["seconds_playing"] for row in updates)
    total = {name: int(sum(row[name] for row in updates)) for name in _TOTALS}
    return {
        "heldout_start": exams[0]["heldout/success"],
        "heldout_end": exams[-1]["heldout/success"],
        "heldout_faults_start": exams[0]["heldout_faults/success"],
        "heldout_faults_end": exams[-1]["heldout_faults/success"],
        "sampled_reward": _mean([row["reward"] for row in updates[-LAST:]]),
        "seconds_per_update": _mean(spent),
        "cpu_seconds_per_update": _mean([row["seconds_cpu"] for row in updates]),
        "updates": len(updates),
        "episodes": total["episodes"] + total["continuations"],
        "continuations": total["continuations"],
        "invalid": total["invalid"],
        "own_tokens_per_second": total["own_tokens"] / playing if playing else 0.0,
    }


_TOTALS = ("episodes", "continuations", "invalid", "own_tokens")


def _mean(values: Sequence[float]) -> float:
    return statistics.fmean(values) if values else 0.0


def _trainer() -> dict[str, Any]:
    sources = sorted(Path(__file__).parent.glob("*.py"))
    return {
        "hashes": {s.name: hashlib.sha256(s.read_bytes()).hexdigest()[:16] for s in sources},
        "alphabet": chars.digest(),
        "torch": torch.__version__,
        "machine": platform.machine(),
        "threads": torch.get_num_threads(),
    }


def _write(path: Path, text: str) -> None:
    """Write a file whole or not at all."""
    made = path.with_name(f"{path.name}.new")
    made.write_text(text)
    made.replace(path)


class _Progress:
    """A line on standard error: redrawn on a terminal, one for each evaluation elsewhere."""

    def __init__(self, updates: int) -> None:
        self._updates, self._began = updates, time.monotonic()
        self._first: float | None = None
        self._live = sys.stderr.isatty()
        self._heldout = ""

    def show(self, row: dict[str, float]) -> None:
        """Draw the line of an update."""
        exam = "heldout/success" in row
        if exam:
            self._heldout = f", held-out {row['heldout/success']:.0%}"
            self._heldout += f" ({row['heldout_faults/success']:.0%} with faults)"
        line = f"update {row['update']:.0f}/{self._updates}{self._heldout}"
        if row["update"]:
            spent = row["seconds_playing"] + row["seconds_learning"]
            line += f", reward {row['reward']:.2f}, {spent:.2f} s an update"
            line += f", {row['own_tokens'] / row['seconds_playing']:,.0f} tokens/s"
            line += f", {self._left(row['update']):,.0f} s left"
        if self._live:
            sys.stderr.write(f"\r\x1b[K{line}")
        elif exam:
            sys.stderr.write(f"{line}\n")
        sys.stderr.flush()

    def close(self) -> None:
        """End the line."""
        if self._live:
            sys.stderr.write("\n")

    def _left(self, update: float) -> float:
        if self._first is None:
            self._first = update - 1
        spent = time.monotonic() - self._began
        return spent / (update - self._first) * (self._updates - update)
