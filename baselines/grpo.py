"""Group-relative policy optimisation over whole episodes, from top to bottom.

Play a few episodes of each of a few tasks; compare every episode with the others of its task; make
the turns of the better ones likelier, the model's own tokens only. After Shao et al., 2024
(arXiv:2402.03300, section 4.1), over episodes of several turns with an environment's answers in
between. Deviations, all of them options: advantages may be leave-one-out or per turn; the loss is a
mean over the own tokens of all episodes (Yu et al., 2025, DAPO, arXiv:2503.14476, section 3.3), and
so is dynamic sampling (section 3.2); no KL term unless `kl` says so.
"""

import copy
import random
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, Self

import gymnasium
import torch

from agent_envs.baselines import chars, checkpoint, credit
from agent_envs.baselines.batch import Batch, collate
from agent_envs.baselines.evaluate import evaluate
from agent_envs.baselines.imitation import Lesson, demonstrations, finetune, pretrain
from agent_envs.baselines.losses import k3, surrogate
from agent_envs.baselines.metrics import Metrics, account
from agent_envs.baselines.policy import CharPolicy
from agent_envs.baselines.record import Record
from agent_envs.baselines.transformer import Shape, Transformer, logprobs
from agent_envs.env import ToolEnv
from agent_envs.rollout import rollout
from agent_envs.streams import derive
from agent_envs.task import Task

REPEATS = {"heldout": 1, "heldout_faults": 4}
"""How often each held-out task is played in an evaluation."""


@dataclass
class Args:
    """Everything that decides a run. The defaults are the published workshop."""

    env: str = "agent/CalculatorChars-v0"
    """The id of the environment; the model reads and writes its `chars` protocol."""
    level: int = 0
    """Which level of tasks."""
    max_turns: int = 4
    """The longest episode, in turns."""
    fault_rate: float = 0.0
    """How often the tool lies during training, from 0 to 1."""
    seed: int = 0
    """Moves the first weights, worksheets, demonstrations and everything sampled; not the tasks."""
    device: str = "cpu"
    """`cpu`, or `cuda`; a model this small is no faster there."""
    threads: int = 1
    """How many CPU threads torch may use."""

    positions: str = "learned"
    """`learned`: absolute positions, as published. `rope`: rotary ones."""
    layers: int = 2
    """How many transformer blocks."""
    width: int = 128
    """The width of the model."""
    heads: int = 4
    """How many attention heads."""
    context: int = 64
    """The longest conversation, in tokens."""

    worksheets: Lesson = field(default_factory=lambda: Lesson(300, 32, 1e-3))
    """Pre-training on single-digit sums."""
    shown: int = 30
    """How many training tasks are demonstrated."""
    teacher: str = "oracle"
    """Who demonstrates: `oracle`, or `vote`, which asks until two results agree."""
    teacher_fault_rate: float = 0.0
    """How often the tool lies to the teacher."""
    demonstrations: Lesson = field(default_factory=lambda: Lesson(200, 8, 1.5e-3))
    """Fine-tuning on what was demonstrated."""

    updates: int = 40
    """How many updates of reinforcement learning."""
    tasks: int = 8
    """How many groups an update asks for."""
    group: int = 8
    """How many episodes of one task are compared with each other."""
    draws: int = 1
    """Dynamic sampling: groups in which all succeed or all fail are dropped, and others drawn for
    them, up to so many draws. 1 draws once and keeps what is mixed."""
    temperature: float = 1.0
    """Of sampling; the learner divides by it too."""
    turn_limit: int = 12
    """The longest turn, in tokens."""
    credit: str = "leave_one_out"
    """`leave_one_out` or `group_normalised`: one advantage for the whole episode. `turn_values`:
    one for each turn, from continuations played at the turn's ends."""
    continuations: int = 1
    """With `turn_values`: how many are played from the start of each turn but the first, K."""
    learning_rate: float = 3e-4
    """Of AdamW, without weight decay."""
    epochs: int = 1
    """How many times an update goes through its episodes."""
    rows: int = 512
    """How many episodes are in memory at once in the learner; the gradient is that of all."""
    clip_low: float = 0.2
    """The ratio of new to old probability counts down to 1 minus this."""
    clip_high: float = 0.2
    """The ratio counts up to 1 plus this."""
    max_grad_norm: float = 1.0
    """Longer gradients are shortened to this."""
    kl: float = 0.0
    """The weight of the k3 estimate of KL(policy || fine-tuned model)."""

    evaluate_every: int = 10
    """After how many updates the held-out tasks are played, greedily."""
    evaluation_fault_rate: float = 0.3
    """How often the tool lies in the second of the two evaluations."""
    checkpoint_every: int = 10
    """After how many updates a checkpoint is written."""


def train(args: Args, out: Path, *, resume: bool = False, quiet: bool = False) -> dict[str, Any]:
    """Run it all: worksheets, demonstrations, reinforcement. Returns the summary of the run.

    Everything drawn is a function of (seed, what for, number of the update), so that a run that was
    killed and goes on (`resume`) gives what it would have given, on a CPU bit for bit.
    """
    torch.set_num_threads(args.threads)
    with Run(args) as run:
        history = checkpoint.load(out, args, run.parts) if resume else []
        if not history:
            run.imitate()
        with Metrics(out, args, run.envs[0], history, quiet) as metrics:
            if not history:
                metrics.write(0, run.evaluate())
            for update in range(metrics.last + 1, args.updates + 1):
                values = run.update(update)
                last = update == args.updates
                if last or update % args.evaluate_every == 0:
                    values |= run.evaluate()
                metrics.write(update, values)
                if last or update % args.checkpoint_every == 0:
                    checkpoint.save(out, args, run.parts, metrics.history)
            return metrics.finish()


class Run:
    """A model, its optimiser, and the environments that it plays in."""

    def __init__(self, args: Args) -> None:
        self.args = args
        size = (len(chars.ALPHABET), args.layers, args.width, args.heads, args.context)
        shape = Shape(*size, args.positions)
        self.model = Transformer(shape, derive(args.seed, "weights")).to(args.device)
        self.policy = CharPolicy(self.model, args.turn_limit)
        weights = self.model.parameters()
        self.optimizer = torch.optim.AdamW(weights, args.learning_rate, weight_decay=0.0)
        self.parts: dict[str, checkpoint.Part] = {"model": self.model, "optimizer": self.optimizer}
        self.reference = None
        if args.kl:
            self.parts["reference"] = self.reference = copy.deepcopy(self.model)
        self.envs = self._make(args.fault_rate, args.tasks * args.group)
        self.train_tasks = self.envs[0].tasks.split("train", args.level)
        self.heldout = self.envs[0].tasks.split("heldout", args.level)
        for task in chain(self.train_tasks, self.heldout):
            chars.encode(task.prompt)
        rates = {"heldout": 0.0, "heldout_faults": args.evaluation_fault_rate}
        self.exams = {name: self._make(rate, len(self.heldout)) for name, rate in rates.items()}

    def _make(self, fault_rate: float, count: int) -> list[ToolEnv]:
        kwargs: dict[str, Any] = {"fault_rate": fault_rate, "max_turns": self.args.max_turns}
        made = [gymnasium.make(self.args.env, **kwargs) for _ in range(count)]
        return [env for env in made if isinstance(env, ToolEnv)]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        for env in chain(self.envs, *self.exams.values()):
            env.close()

    # -- before reinforcement ----------------------------------------------------------------------

    def imitate(self) -> None:
        """Worksheets first, then demonstrations of some of the training tasks."""
        args = self.args
        pretrain(self.model, args.worksheets, args.seed)
        if args.shown > len(self.train_tasks):
            raise ValueError(f"shown={args.shown}: there are {len(self.train_tasks)} tasks")
        tasks = random.Random(derive(args.seed, "shown")).sample(self.train_tasks, args.shown)
        with closing(self._make(args.teacher_fault_rate, 1)[0]) as env:
            shown = demonstrations(env, tasks, args.teacher, args.seed)
        finetune(self.model, args.demonstrations, shown, args.seed)
        if self.reference is not None:
            self.reference.load_state_dict(self.model.state_dict())

    # -- one update --------------------------------------------------------------------------------

    def update(self, number: int) -> dict[str, float]:
        """Play, judge, learn. Returns what happened, in numbers."""
        cpu, began = time.process_time(), time.perf_counter()
        kept, values = self.play(number)
        played = time.perf_counter()
        if kept:
            batch = collate([r for r, _ in kept], [a for _, a in kept], self.args.device)
            values |= self.learn(batch)
        values["seconds_cpu"] = time.process_time() - cpu
        learned = time.perf_counter()
        return values | {"seconds_playing": played - began, "seconds_learning": learned - played}

    def play(self, update: int) -> tuple[list[tuple[Record, list[float]]], dict[str, float]]:
        """Episodes to learn from, each with the advantage of every turn, and what was played."""
        args, count = self.args, self.args.tasks
        order = random.Random(derive(args.seed, "tasks", update))
        tasks = order.sample(self.train_tasks, len(self.train_tasks)) * args.draws
        kept: list[tuple[Record, list[float]]] = []
        played: list[Record] = []
        groups = draw = 0
        while groups < count and draw < args.draws:
            chosen, draw = tasks[draw * count : (draw + 1) * count], draw + 1
            records, values = self.episodes(chosen, update, draw)
            played += records
            for group in credit.groups(records):
                if args.draws == 1 or credit.is_mixed([r.passed for r in group]):
                    kept += zip(group, self.judge(group, values), strict=True)
                    groups += 1
        return kept, account(played) | {"draws": draw, "groups": groups}

    def episodes(
        self, tasks: Sequence[Task], update: int, draw: int
    ) -> tuple[list[Record], credit.TurnValues]:
        """A group of each task, and with `turn_values` the continuations of its turns."""
        args, policy, values = self.args, self.policy, credit.TurnValues(self.args.continuations)
        sampling = derive(args.seed, "sampling", update, draw)
        policy.begin(sampling, version=update - 1, temperature=args.temperature)
        branch = values.plan if args.credit == "turn_values" else None
        seed = derive(args.seed, "playing", update, draw)
        trajectories = rollout(
            self.envs, policy, tasks, group=args.group, branch=branch, seed=seed, progress=False
        )
        records = [policy.record(trajectory) for trajectory in trajectories]
        for record in records:
            if record.valid:
                values.add(record)
        return records, values

    def judge(self, group: list[Record], values: credit.TurnValues) -> list[list[float]]:
        """The advantage of every turn of every episode of a group."""
        if self.args.credit == "turn_values":
            return [values.advantages(record) for record in group]
        advantages = credit.COMPARISONS[self.args.credit]([record.reward for record in group])
        return [[a] * len(r.rewards) for a, r in zip(advantages, group, strict=True)]

    def learn(self, batch: Batch) -> dict[str, float]:
        """`epochs` steps of the optimiser on one batch."""
        values: dict[str, float] = {}
        for _ in range(self.args.epochs):
            self.optimizer.zero_grad()
            values = accumulate(self.model, batch, self.args, self.reference)
            norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.args.max_grad_norm)
            self.optimizer.step()
            values["grad_norm"] = float(norm)
        return values

    def evaluate(self) -> dict[str, float]:
        """Held-out tasks, greedily, with a reliable tool and with one that lies."""
        values: dict[str, float] = {}
        for name, envs in self.exams.items():
            self.policy.begin(0, temperature=0.0)
            found = evaluate(self.policy, envs, self.heldout, REPEATS[name])
            values |= {f"{name}/{key}": value for key, value in found.items()}
        return values


def accumulate(
    model: Transformer, batch: Batch, args: Args, reference: Transformer | None = None
) -> dict[str, float]:
    """Add the gradient of the loss, the mean over all own tokens of the batch, however it is cut
    into parts of `args.rows` rows."""
    total, loss, clipped, furthest = batch.own.sum(), 0.0, 0.0, 0.0
    for part in batch.parts(args.rows):
        new = logprobs(model, part.tokens, args.temperature)
        ratio = (new - part.old).clamp(-20, 20).exp()
        terms = surrogate(ratio, part.advantages, args.clip_low, args.clip_high)
        if reference is not None:
            with torch.no_grad():
                known = logprobs(reference, part.tokens, args.temperature)
            terms = terms + args.kl * k3(new, known)
        mean = terms[part.own].sum() / total
        mean.backward()  # type: ignore[no-untyped-call]
        off = (ratio.detach() - 1)[part.own]
        outside = (off < -args.clip_low) | (off > args.clip_high)
        loss, clipped = loss + mean.item(), clipped + outside.sum().item() / total.item()
        furthest = max([furthest, *off.abs().tolist()])
    return {"loss": loss, "clipped": clipped, "ratio_off": furthest}
