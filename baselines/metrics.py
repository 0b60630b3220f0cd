"""What a run leaves behind: a line an update, TensorBoard, a curve, where it all came from."""

import contextlib
import dataclasses
import hashlib
import importlib
import json
import platform
import re
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import torch
from torch.utils.tensorboard import SummaryWriter

from agent_envs.baselines.curve import draw, draw_robustness
from agent_envs.baselines.progress import Progress
from agent_envs.baselines.record import Record
from agent_envs.baselines.settings import Args
from agent_envs.env import ToolEnv
from agent_envs.provenance import provenance

Writer = Callable[[dict[str, float]], object]
"""Keeps the numbers of an update somewhere."""

LAST = 5
"""Over how many updates at the end the sampled reward is averaged."""


class Metrics:
    """Keeps what is measured, update by update, and shows how the run is getting on.

    In the folder `out`: `metrics.jsonl`, `provenance.json`, `tensorboard/`; at the end `curve.png`,
    `summary.json`, and `robustness.png` after an examination. A run that goes on hands its
    `history` in; lines after it are written anew.
    """

    def __init__(
        self,
        out: Path,
        args: Args,
        env: ToolEnv,
        tokenizer: str,
        history: list[dict[str, float]],
        quiet: bool,
        write: bool = True,
    ) -> None:
        """`tokenizer`: its hash. `write`: False in all processes but the first, which keep the
        numbers and write nothing."""
        self.out, self.args, self.history = out, args, list(history)
        self._writers: list[Writer] = []
        self._writes = contextlib.ExitStack()
        with self._writes:  # what was opened is closed again where opening the rest fails
            if write:
                self._open(provenance(env), tokenizer, quiet)
            self._writes = self._writes.pop_all()

    def _open(self, made_by: dict[str, Any], tokenizer: str, quiet: bool) -> None:
        self.out.mkdir(parents=True, exist_ok=True)
        made_by = {"args": dataclasses.asdict(self.args), **made_by}
        made_by["trainer"] = _trainer() | {"tokenizer": tokenizer}
        _write(self.out / "provenance.json", json.dumps(made_by, indent=1) + "\n")
        self._writers = [self._lines(), self._board()]
        if self.args.wandb:
            self._writers.append(self._wandb(made_by))
        if not quiet:
            progress = Progress(self.args.updates)
            self._writes.callback(progress.close)
            self._writers.append(progress.show)

    def _lines(self) -> Writer:
        path = self.out / "metrics.jsonl"
        _write(path, "".join(json.dumps(row) + "\n" for row in self.history))
        file = self._writes.enter_context(path.open("a", buffering=1))
        return lambda row: file.write(json.dumps(row) + "\n")

    def _board(self) -> Writer:
        board = SummaryWriter(str(self.out / "tensorboard"), purge_step=self.last + 1)
        self._writes.callback(board.close)

        def write(row: dict[str, float]) -> None:
            for name, value in row.items():
                board.add_scalar(name if "/" in name else f"train/{name}", value, row["update"])

        return write

    def _wandb(self, made_by: dict[str, Any]) -> Writer:
        """Raises ModuleNotFoundError where the package is missing."""
        wandb = importlib.import_module("wandb")
        run = wandb.init(project=self.args.wandb, dir=str(self.out), config=made_by, resume="allow")
        self._writes.callback(run.finish)
        return lambda row: run.log(row, step=int(row["update"]))

    @property
    def last(self) -> int:
        """The last update that was written; -1 before the first."""
        return int(self.history[-1]["update"]) if self.history else -1

    def write(self, update: int, values: dict[str, float]) -> None:
        """Keep the numbers of an update; 0 is the start."""
        row = {"update": update, **values}
        self.history.append(row)
        for writer in self._writers:
            writer(row)

    def finish(self) -> dict[str, Any]:
        """Write the curve and the summary, and return the summary."""
        summary = summarise(self.history) | {"seed": self.args.seed, "out": str(self.out)}
        if self._writers:
            draw(self.out / "curve.png", self.history, self.args)
            if self.args.examination:
                draw_robustness(self.out / "robustness.png", self.history[-1])
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
        self._writes.close()


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
        "heldout_sampled_start": exams[0]["heldout_sampled/success"],
        "heldout_sampled_end": exams[-1]["heldout_sampled/success"],
        "sampled_reward": _mean([row["reward"] for row in updates[-LAST:]]),
        "seconds_per_update": _mean(spent),
        "cpu_seconds_per_update": _mean([row["seconds_cpu"] for row in updates]),
        "updates": len(updates),
        "episodes": total["episodes"] + total["continuations"],
        "continuations": total["continuations"],
        "invalid": total["invalid"],
        "own_tokens_per_second": total["own_tokens"] / playing if playing else 0.0,
        "shares": _shares(updates),
    } | _examined(history)


_TOTALS = ("episodes", "continuations", "invalid", "own_tokens")


def _shares(updates: Sequence[dict[str, float]]) -> dict[str, float]:
    """How the time of the updates was spent: by the policy, by environments and the loop around
    them, by the learner, and waiting for other processes."""
    spent = {k: sum(row[f"seconds_{k}"] for row in updates) for k in _SHARES}
    spent["environments"] = spent.pop("playing") - spent["policy"]
    whole = sum(spent.values()) or 1.0
    return {name: round(seconds / whole, 3) for name, seconds in spent.items()}


_SHARES = ("policy", "playing", "learning", "waiting")


def _examined(history: Sequence[dict[str, float]]) -> dict[str, float]:
    """The examination, if there was one: what succeeded."""
    last = history[-1]
    return {k: v for k, v in last.items() if k.startswith("exam_") and _OUTCOME.search(k)}


_OUTCOME = re.compile("/(success|recovered|pass@.*)$")


def _mean(values: Sequence[float]) -> float:
    return statistics.fmean(values) if values else 0.0


def _trainer() -> dict[str, Any]:
    sources = sorted(Path(__file__).parent.glob("*.py"))
    return {
        "hashes": {s.name: hashlib.sha256(s.read_bytes()).hexdigest()[:16] for s in sources},
        "torch": torch.__version__,
        "machine": platform.machine(),
        "threads": torch.get_num_threads(),
    }


def _write(path: Path, text: str) -> None:
    """Write a file whole or not at all."""
    made = path.with_name(f"{path.name}.new")
    made.write_text(text)
    made.replace(path)
