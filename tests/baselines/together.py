"""What `test_processes.py` runs in several processes: python -m tests.baselines.together OUT"""

import sys
from pathlib import Path
from typing import Any

import torch

from agent_envs.baselines.batch import collate
from agent_envs.baselines.grpo import Run, train
from agent_envs.baselines.learning import accumulate
from agent_envs.baselines.model import Likelihood
from agent_envs.baselines.processes import Learner, Processes, whole
from agent_envs.baselines.record import Record, Row
from agent_envs.baselines.settings import Args, Lesson
from agent_envs.baselines.shaping import Shaping
from agent_envs.baselines.transformer import Shape, Transformer
from agent_envs.task import Task

SMALL: dict[str, Any] = {
    "width": 32,
    "worksheets": Lesson(2, 4, 1e-3),
    "demonstrations": Lesson(20, 4, 5e-3),
    "tasks": 2,
    "group": 3,
    "checkpoint_every": 1,
    "kl": 0.01,
    "tis": 2.0,
    "relative": True,
    "share": 2,
    "shaping": Shaping(overlong=-1.0, limit=16, soft=14),  # so that there is something to learn
}


def records() -> list[Record]:
    """Eight episodes of different lengths."""
    out = []
    for i, length in enumerate([1, 4, 2, 3, 1, 5, 2, 2]):
        row = Row()
        row.hear([1, 2, 5])
        row.begin_turn()
        for token in range(length):
            row.say(3 + token, -2.0, 0)
        task = Task("t", "train", "1+1=")
        name = str(i // 4)
        out.append(
            Record(f"{name}.{i}", name, None, task, 0, "answer", None, True, row, [1.0], [{}])
        )
    return out


def gradient(processes: Processes, rows: int) -> dict[str, torch.Tensor]:
    """That of all episodes, of which each process has its share."""
    likelihood = Likelihood(Transformer(Shape(width=32), seed=1), whole=False)
    processes.spread(likelihood)
    share = slice(0, 5) if processes.rank == 0 else slice(5, 8)  # of different sizes
    mine = records() if processes.count == 1 else records()[share]
    batch = collate(mine, [[(len(r.row.tokens) - 5) / 4] for r in mine], share=2)
    accumulate(likelihood, batch, Args(rows=rows), processes=processes)
    named = likelihood.named_parameters()
    return {name: whole(w.grad) for name, w in named if w.grad is not None}


def main(out: Path) -> None:
    """Gradients at two ways of cutting; a run, and the same run again after a stop in between."""
    torch.set_num_threads(1)
    processes = Processes()
    found = [gradient(processes, rows) for rows in (8, 2)]
    if processes.count > 1:
        train(Args(updates=3, **SMALL), out / "whole", quiet=True)
        train(Args(updates=2, **SMALL), out / "stopped", quiet=True)
        train(Args(updates=3, **SMALL), out / "stopped", quiet=True, resume=True)
        with Run(Args(updates=3, **SMALL)) as run:
            learner = Learner(run.likelihood, run.optimizer)
            seen = processes.gather({k: float(v.sum()) for k, v in _weights(learner).items()})
            assert seen[0] == seen[1]
    if processes.rank == 0:
        torch.save(found, out / f"gradients-{processes.count}.pt")
    processes.meet()
    processes.close()


def _weights(learner: Learner) -> dict[str, torch.Tensor]:
    weights: dict[str, torch.Tensor] = learner.state_dict()["weights"]
    return weights


if __name__ == "__main__":
    main(Path(sys.argv[1]))
