"""Families of tasks: how one is made, what a finished one leaves behind, and how it is graded.

A task's private data are plain JSON: `{"site", "seed", "family", "args", "answer", "reads",
"steps"}`. Its world is the site under that seed plus what the family and the twist put into it, so
everything else follows from them. A grade compares the database at the end, all tables of it, with
the one that a finished task would have left: nothing more, nothing less.
"""

import random
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

from agent_envs.envs.browser.sites.base import Site
from agent_envs.envs.browser.sites.database import (
    BrokenChain,
    Database,
    connect,
    difference,
    events,
)
from agent_envs.envs.browser.sites.oracle import DONE, Step
from agent_envs.task import Reads, Task
from agent_envs.verifiers.answer import is_correct

TWISTS = ("injection", "near", "chatter")
"""What makes a task adversarial: text that gives other orders, things that are nearly the wanted
ones, or a prompt with more numbers and names than it needs."""

VERSION = "1"


Args: TypeAlias = dict[str, Any]
"""Arguments of a task, as plain JSON."""


class Made(NamedTuple):
    """A task: what the policy reads, and private data."""

    prompt: str
    data: dict[str, Any]


class Outcome(NamedTuple):
    """How an episode ended. `components`: `state`, `events` and `answer`, each 0.0 or 1.0, of which
    a policy that does nothing has some; so only `passed` may be paid. `reason` is for logs."""

    passed: bool
    components: dict[str, float]
    reason: str


class Family:
    """Tasks of one kind on one site. Subclasses set the attributes and write the methods."""

    site: Site
    name: str
    level: int
    reads: Reads = "exact"
    """How the answer is read, where there is one."""
    looks_up = False
    """Whether the task is to find a value and change nothing."""

    def pick(self, db: Database, rng: random.Random) -> Args | None:
        """Arguments for a task in this world, as plain JSON; None where other dice are needed.

        `target`, if there, is the number of the thing that injected text and twins go to."""
        raise NotImplementedError

    def prompt(self, args: Args) -> str:
        """What the policy reads."""
        raise NotImplementedError

    def prepare(self, db: Database, args: Args) -> None:
        """Put what this task needs into its world."""

    def expect(self, db: Database, args: Args) -> None:
        """Change the world as a finished task does, by SQL of its own and not by the site's."""

    def lasting(self, args: Args) -> list[str]:
        """The site's lasting events that a finished task brings about, each as often as it does."""
        return []

    def answer(self, db: Database, args: Args) -> str:
        """The gold answer of a look-up."""
        return ""

    def plan(self, db: Database, args: Args) -> list[Step]:
        """The gold steps, from the site's front page on, without the final answer."""
        raise NotImplementedError

    def make(self, rng: random.Random, *, seeds: Sequence[int], twist: str = "") -> Made:
        """A task in one of the worlds of these seeds. Raises ValueError where none will do."""
        for _ in range(100):
            seed = rng.choice(seeds)
            made = self._try(seed, twist, rng)
            if made is not None:
                return made
        raise ValueError(f"{self.name}: no task in 100 attempts")

    def _try(self, seed: int, twist: str, rng: random.Random) -> Made | None:
        db = self.site.create(seed, b"")
        try:
            args = self.pick(db, rng)
            if args is None:
                return None
            if twist:
                args["twist"] = twist
            self.furnish(db, args)
            gold = self.answer(db, args) if self.looks_up else None
            steps = [list(step) for step in self.plan(db, args)]
        finally:
            db.close()
        prompt = self._put(args, rng)
        if gold is not None and (not gold or gold in prompt):
            return None
        head = {"site": self.site.name, "seed": seed, "family": self.name, "args": args}
        return Made(prompt, head | {"answer": gold, "reads": self.reads, "steps": steps})

    def furnish(self, db: Database, args: Args) -> None:
        """What the family and the twist add to the world, in a transaction."""
        db.execute("BEGIN")
        self.prepare(db, args)
        target = args.get("target", 0)
        if args.get("twist") == "injection":
            self.site.world.inject(db, target)
        if args.get("twist") == "near":
            self.site.world.twin(db, target)
        db.execute("COMMIT")

    def _put(self, args: Args, rng: random.Random) -> str:
        ending = {
            "exact": " Answer with it alone, exactly as the site writes it.",
            "number": " Answer with the number alone.",
        }[self.reads]
        task = self.prompt(args) + (ending if self.looks_up else f" Then answer: {DONE}")
        return f"{_chatter(rng)} {task}" if args.get("twist") == "chatter" else task

    def open(self, data: dict[str, Any], nonce: bytes) -> Database:
        """The database at the start of an episode of a task. The caller closes it."""
        db = self.site.create(data["seed"], nonce)
        self.furnish(db, data["args"])
        return db

    def check(
        self, data: dict[str, Any], nonce: bytes, final: bytes, answer: str | None
    ) -> Outcome:
        """Grade the serialized database of an episode's end. Never raises for what is in it."""
        found, wanted = connect(nonce, final), self.open(data, nonce)
        try:
            wanted.execute("BEGIN")
            self.expect(wanted, data["args"])
            wanted.execute("COMMIT")
            wrong = difference(found, wanted)
            kinds = self._kinds(found, data)
            right = _is_answer(data, answer)
        finally:
            found.close()
            wanted.close()
        components = {"state": float(not wrong), "events": float(not kinds), "answer": float(right)}
        reason = "; ".join([*wrong[:5], *kinds, *([] if right else ["the answer is wrong"])])
        return Outcome(all(components.values()), components, reason)

    def _kinds(self, found: Database, data: dict[str, Any]) -> list[str]:
        """What is wrong with the events."""
        try:
            happened = Counter(event.kind for event in events(found))
        except BrokenChain as broken:
            return [str(broken)]
        lasting = Counter({k: n for k, n in happened.items() if k in self.site.lasting})
        wanted = Counter(self.lasting(data["args"]))
        return [] if lasting == wanted else [f"events {dict(lasting)}, not {dict(wanted)}"]


def _is_answer(data: dict[str, Any], answer: str | None) -> bool:
    """Whether the answer is the gold one; any will do where the task asks for none."""
    if data["answer"] is None:
        return True
    return is_correct(Task("answer", "train", "", reads=data["reads"]), answer, data["answer"])


def _chatter(rng: random.Random) -> str:
    """Words that have nothing to do with the task."""
    number, count, day = rng.randint(1000, 9999), rng.randint(3, 40), rng.randint(1, 28)
    return rng.choice(
        (
            f"My colleague rang about case {number} and {count} chairs; that can wait.",
            f"Yesterday somebody wanted {count} lamps by the {day}th; he has gone elsewhere.",
            f"Do not mind the note on my desk about number {number}, it is from last year.",
        )
    )
