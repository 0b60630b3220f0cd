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
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, Self

import gymnasium
import torch

from agent_envs.baselines import checkpoint, credit, imitation, players, practice
from agent_envs.baselines.batch import collate, nothing
from agent_envs.baselines.checkpoint import Same
from agent_envs.baselines.conversations import Conversations
from agent_envs.baselines.curriculum import Course
from agent_envs.baselines.evaluate import Examiner, evaluate
from agent_envs.baselines.export import export
from agent_envs.baselines.learning import accumulate, adamw, corrected, set_rate
from agent_envs.baselines.metrics import Metrics, account
from agent_envs.baselines.model import Likelihood
from agent_envs.baselines.processes import Learner, Processes, learnable, whole
from agent_envs.baselines.progress import announcer
from agent_envs.baselines.record import Record
from agent_envs.baselines.settings import Args
from agent_envs.env import ToolEnv
from agent_envs.rollout import rollout
from agent_envs.streams import derive
from agent_envs.task import Task
from agent_envs.trajectory import Trajectory

WORD = 40
"""A worksheet of copying has a word for every so many tokens that fit into the context."""
TEACHERS = 16
"""How many environments a teacher plays in at once, at most."""
REPEATS = {"heldout": 1, "heldout_faults": 4, "heldout_sampled": 4}
"""How often each held-out task is played in an evaluation."""


def train(args: Args, out: Path, *, resume: bool = False, quiet: bool = False) -> dict[str, Any]:
    """Run it all: worksheets, demonstrations, reinforcement. Returns the summary of the run.

    Everything drawn is a function of (seed, what for, number of the update), so that a run that was
    killed and goes on (`resume`) gives what it would have given, on a CPU bit for bit.
    """
    torch.set_num_threads(args.threads)
    with Run(args, out, quiet) as run:
        history = checkpoint.load(out, args, run.parts) if resume else []
        if not history:
            run.imitate()
        run.publish()
        first = run.processes.rank == 0
        with Metrics(out, args, run.envs[0], run.codec.digest(), history, quiet, first) as metrics:
            if not history:
                run.announce("held-out tasks are played")
                metrics.write(0, run.evaluate(0))
            for update in range(metrics.last + 1, args.updates + 1):
                metrics.write(update, run.update(update) | run.evaluate(update))
                if update in (args.updates, *range(0, args.updates, args.checkpoint_every)):
                    checkpoint.save(out, args, run.parts, metrics.history, first)
            if args.export and first:
                export((run.copy or run.likelihood).model, run.codec, out / "model")
            return metrics.finish()


class Run:
    """A model, what learns it, and the environments that it plays in."""

    def __init__(self, args: Args, out: Path = Path("runs"), quiet: bool = True) -> None:
        """`out`: where a tokenizer is kept that is made for the run. `quiet`: say nothing."""
        self.processes = Processes(args.device, args.wait)
        self.args, self.device = args, self.processes.device(args.device)
        self.announce = announcer(quiet or self.processes.rank > 0)
        self.practice = practice.more(args.env, args.level, args.practice, args.arguments)
        self.envs = self._make(args.fault_rate, args.tasks * args.group)
        source = self.envs[0].tasks
        splits = ("train", "heldout", "adversarial") if args.examination else ("train", "heldout")
        self.tasks = {split: list(source.split(split, args.level)) for split in splits}
        self.train_tasks = self.tasks["train"]
        if args.shown > len(self.train_tasks):
            raise ValueError(f"shown={args.shown}: there are {len(self.train_tasks)} tasks")
        deadlines = (args.step_deadline, args.episode_deadline)
        self.examiner = Examiner(self._make, self.tasks, deadlines)
        count = len(self.tasks["heldout"])
        sound, lying = (self._make(rate, count) for rate in (0.0, args.evaluation_fault_rate))
        self.exams = {"heldout": sound, "heldout_faults": lying, "heldout_sampled": sound}
        self._build(out)

    def _build(self, out: Path) -> None:
        args, schemas = self.args, self.envs[0].tool_schemas
        model, self.codec = players.make(args, out, self.texts, schemas)
        for task in chain(self.train_tasks, self.tasks["heldout"]):
            self.codec.open([{"role": "user", "content": task.prompt}])
        self.model = model.to(self.device)
        self.likelihood = Likelihood(self.model, args.temperature, whole=not args.share)
        self.reference = copy.deepcopy(self.likelihood) if args.kl else None
        self.copy: Likelihood | None = None
        if self.processes.count > 1 or args.precision != "float32":
            self.copy = copy.deepcopy(self.likelihood).to(getattr(torch, args.precision))
        self.processes.spread(self.likelihood)
        self.optimizer = adamw(self.likelihood, args)
        self.learner = Learner(self.likelihood, self.optimizer)
        self.course = Course(args.curriculum)
        self.parts: dict[str, checkpoint.Part] = {"learner": self.learner, "course": self.course}
        self.parts["tokenizer"] = Same("the tokenizer", self.codec.digest())
        if self.reference is not None:
            self.parts["reference"] = self.reference
        player, slots = (self.copy or self.likelihood).model, args.slots or len(self.envs)
        self.policy = players.policy(args, player, self.codec, slots)

    def _make(self, fault_rate: float, count: int) -> list[ToolEnv]:
        args = self.args
        kwargs = args.arguments | {"fault_rate": fault_rate, "max_turns": args.max_turns}
        kwargs["tool_docs"] = args.tool_docs and not args.policy.native_tools
        kwargs.setdefault("tasks", self.practice)
        made = [gymnasium.make(args.env, **kwargs) for _ in range(min(count, args.workers))]
        return [env for env in made if isinstance(env, ToolEnv)]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        for env in chain(self.envs, *self.exams.values()):
            env.close()
        self.processes.close()

    # -- before reinforcement ----------------------------------------------------------------------

    @cached_property
    def shown(self) -> list[Trajectory]:
        """Demonstrations of some of the training tasks."""
        args = self.args
        tasks = random.Random(derive(args.seed, "shown")).sample(self.train_tasks, args.shown)
        self.announce(f"demonstrations are played, {args.shown} of them")
        envs = self._make(args.teacher_fault_rate, min(args.shown, TEACHERS))
        try:
            return imitation.demonstrations(envs, tasks, args.teacher, args.seed)
        finally:
            for env in envs:
                env.close()

    def texts(self) -> list[str]:
        """All that is said in the demonstrations, and the prompts of all training tasks."""
        return imitation.texts(self.shown) + [task.prompt for task in self.train_tasks]

    def imitate(self) -> None:
        """Worksheets first, then demonstrations."""
        args, learner = self.args, self.likelihood
        if args.worksheets.steps:
            self.announce(f"worksheets, {args.worksheets.steps} steps")
        if args.policy.kind == "chars":
            imitation.pretrain(learner, args.worksheets, args.seed)
        elif args.worksheets.steps:
            words = args.context // WORD
            imitation.copying(learner, args.worksheets, self.codec, self.texts(), words, args.seed)
        if args.demonstrations.steps:
            shown, lesson, how_often = self.shown, args.demonstrations, args.renamed
            self.announce(f"demonstrations are learned, {lesson.steps} steps")
            imitation.finetune(learner, lesson, shown, self.codec, args.seed, how_often)
        self.publish()
        if self.reference is not None:
            self.learner.publish(self.reference)

    def publish(self) -> None:
        """Give the weights that were learned to the model that plays, if it is another."""
        if self.copy is not None:
            self.learner.publish(self.copy)

    # -- one update --------------------------------------------------------------------------------

    def update(self, number: int) -> dict[str, float]:
        """Play, judge, learn. Returns what happened, in numbers."""
        cpu, began, policy = time.process_time(), time.perf_counter(), self.policy.seconds
        kept, values = self.play(number)
        played = time.perf_counter()
        set_rate(self.optimizer, self.args, number)
        values |= self.learn(kept)
        values["seconds_cpu"] = time.process_time() - cpu
        values["seconds_playing"] = played - began - values["seconds_waiting"]
        values["seconds_policy"] = self.policy.seconds - policy
        values["seconds_learning"] = time.perf_counter() - played
        return values

    def play(self, update: int) -> tuple[list[tuple[Record, list[float]]], dict[str, float]]:
        """Episodes to learn from, each with the advantage of every turn, and what was played."""
        args, processes = self.args, self.processes
        count = args.tasks // processes.count
        dice = random.Random(derive(args.seed, "tasks", update))
        order = list(self.course.order(self.train_tasks, self.course.met, dice))
        tasks = order[processes.rank :: processes.count] * args.draws
        kept: list[tuple[Record, list[float]]] = []
        played: list[Record] = []
        groups = draw = 0
        while groups < count and draw < args.draws:
            chosen, draw = tasks[draw * count : (draw + 1) * count], draw + 1
            records, turn_values = self.episodes(chosen, update, draw)
            played += records
            for group in credit.groups(records):
                if args.draws == 1 or credit.is_mixed([r.passed for r in group]):
                    kept += zip(group, credit.judge(group, turn_values, args), strict=True)
                    groups += 1
        if args.shaping.mask:
            kept = [pair for pair in kept if not pair[0].cut]
        waiting = time.perf_counter()
        processes.meet()
        waited = time.perf_counter() - waiting
        everything = list(chain(*processes.gather(played)))
        self.course.add(everything)
        values = account(everything) | {"draws": draw, "groups": processes.total(groups)}
        return kept, values | {"seconds_waiting": waited}

    def episodes(
        self, tasks: Sequence[Task], update: int, draw: int
    ) -> tuple[list[Record], credit.TurnValues]:
        """A group of each task, and with `turn_values` the continuations of its turns."""
        args, policy, values = self.args, self.policy, credit.TurnValues(self.args.continuations)
        place = (update, draw, *([self.processes.rank] if self.processes.rank else []))
        sampling = derive(args.seed, "sampling", *place)
        policy.begin(sampling, version=update - 1, temperature=args.temperature)
        trajectories = rollout(
            self.envs,
            policy,
            tasks,
            group=args.group,
            branch=values.plan if args.credit == "turn_values" else None,
            seed=derive(args.seed, "playing", *place),
            step_deadline=args.step_deadline,
            episode_deadline=args.episode_deadline,
            progress=False,
        )
        records = [args.shaping.add(policy.record(t), t) for t in trajectories]
        for record in records:
            if record.valid:
                values.add(record)
        return records, values

    def learn(self, kept: list[tuple[Record, list[float]]]) -> dict[str, float]:
        """`epochs` steps of the optimiser on what all processes have kept; nothing, where that is
        nothing."""
        args, processes, values = self.args, self.processes, dict[str, float]()
        batch = nothing(self.device)
        if kept:
            records, advantages = [r for r, _ in kept], [a for _, a in kept]
            batch = collate(records, advantages, self.device, args.share)
        own = float(batch.own.sum()) if kept else 0.0
        size = processes.total(args.constant * len(kept) if args.constant else own)
        if not size:
            return values
        if args.tis:
            batch = corrected(self.likelihood, batch, args, processes)
        for _ in range(args.epochs):
            self.optimizer.zero_grad()
            values = accumulate(self.likelihood, batch, args, self.reference, size, processes)
            norm = torch.nn.utils.clip_grad_norm_(learnable(self.likelihood), args.max_grad_norm)
            self.optimizer.step()
            values["grad_norm"] = float(whole(norm))
        self.publish()
        return values

    # -- how good it is ----------------------------------------------------------------------------

    def evaluate(self, update: int) -> dict[str, float]:
        """Where it is time for it: held-out tasks, greedily with a reliable tool and with one that
        lies, and sampled; at times all of `Examiner.examine`."""
        args, tasks, values = self.args, self.tasks["heldout"], dict[str, float]()
        last = update == args.updates
        often = args.examine_every and update % args.examine_every == 0
        due = last or often or update % args.evaluate_every == 0
        if self.processes.rank == 0 and due:
            for name, envs in self.exams.items():
                policy = self.ready(args.temperature if name == "heldout_sampled" else 0.0)
                found = evaluate(policy, envs, tasks, REPEATS[name], *self.examiner.deadlines)
                values |= {f"{name}/{key}": value for key, value in found.items()}
            if args.examination and (last or often):
                values |= self.examiner.examine(self.ready, args.examination)
        first: dict[str, float] = self.processes.gather(values)[0]
        return first

    def ready(self, temperature: float) -> Conversations:
        """The policy, for an evaluation."""
        self.policy.begin(0, temperature=temperature)
        return self.policy
