"""Environments with one fault each, which the conformance kit must catch; and `Ledger`, with none.

`gymnasium.make("planted_envs:planted/Hash-v0")` needs this folder on the import path.
"""

import datetime
import os
import random
import socket
import tempfile
import threading
import time
from dataclasses import dataclass, field
from typing import Any

import gymnasium
import numpy as np

from agent_envs import (
    SnapshotUnsupported,
    Task,
    TaskSource,
    ToolCall,
    ToolEnv,
    ToolError,
    Verdict,
    derive,
    tool,
)
from agent_envs.turns import Message, Move, StepResult


class Debts(TaskSource):
    """Thirty a split: how much does somebody owe after a payment?"""

    splits = ("train", "heldout")

    def load(self, split: str) -> list[Task]:
        """All tasks; `data` is the debt before, the payment and the debt after."""
        return [self.make(split, i) for i in range(30)]

    def make(self, split: str, number: int) -> Task:
        """One task."""
        before, paid = 1000 + derive(split, number) % 90_000, 1 + derive(number, split) % 900
        prompt = f"Ada owes {before} and pays {paid}. What does she owe then? ({split} {number})"
        data = {"before": before, "paid": paid, "answer": str(before - paid)}
        return Task(f"{split}/{number}", split, prompt, data)


@dataclass(frozen=True)
class Book:
    """The state: a debt and all entries."""

    debt: int
    entries: tuple[str, ...] = ()


class Ledger(ToolEnv):
    """Nothing is wrong with this one."""

    tasks = Debts()
    weights = {"answer": 1.0, "entries": 0.0}

    def setup(self, task: Task) -> None:
        """Open the book."""
        self.state = Book(task.data["before"])

    @tool
    def repay(self, amount: int) -> str:
        """Pay back an amount."""
        if not 0 < amount <= self.state.debt:
            raise ToolError("the amount must be positive and at most the debt")
        self.state = Book(self.state.debt - amount, (*self.state.entries, f"paid {amount}"))
        return f"{self.state.debt} is left"

    @tool
    def note(self, text: str) -> str:
        """Write an entry; says how many there are, and a receipt's number."""
        self.state = Book(self.state.debt, (*self.state.entries, text[:20]))
        return f"{len(self.state.entries)} entries, receipt {self.rng('receipt').randrange(10**6)}"

    def grade(self, answer: str | None) -> Verdict:
        """Whether the answer and the book are right."""
        gold = self.task.data["answer"]
        right = answer == gold and str(self.state.debt) == gold
        parts = {"answer": float(right), "entries": float(len(self.state.entries))}
        return Verdict(parts, self.weights, right)

    @staticmethod
    def oracle(task: Task, messages: list[Message]) -> Move:
        """Pay, and say what is left."""
        if messages[-1]["role"] == "tool":
            answer: str = task.data["answer"]
            return answer
        return [ToolCall("repay", {"amount": task.data["paid"]})]


# -- state ---------------------------------------------------------------------------------------


class LoadsNothing(Ledger):
    """`load` does nothing."""

    def load(self, saved: Any) -> None:
        """Nothing."""


class SaveForgets(Ledger):
    """A field beside `state` that `save` does not know."""

    def setup(self, task: Task) -> None:
        """Open the book."""
        super().setup(task)
        self.notes = 0

    @tool
    def note(self, text: str) -> str:
        """Write an entry."""
        self.notes += 1
        return f"{self.notes} entries"


class SavesTheLiveState(Ledger):
    """`save` gives the very list that tools go on to change."""

    def setup(self, task: Task) -> None:
        """Open the book."""
        super().setup(task)
        self.listed: list[str] = []

    def save(self) -> Any:
        """No copy."""
        return self.state, self.listed

    def load(self, saved: Any) -> None:
        """No copy either."""
        self.state, self.listed = saved

    @tool
    def note(self, text: str) -> str:
        """Write an entry."""
        self.listed.append(text)
        return f"{len(self.listed)} entries"


@dataclass(frozen=True)
class Loose:
    """Frozen, but for its list."""

    debt: int
    entries: list[str] = field(default_factory=list)


class FrozenInNameOnly(Ledger):
    """A frozen dataclass whose list changes in place."""

    def setup(self, task: Task) -> None:
        """Open the book."""
        self.state: Any = Loose(task.data["before"])

    @tool
    def note(self, text: str) -> str:
        """Write an entry."""
        self.state.entries.append(text)
        return f"{len(self.state.entries)} entries"

    @tool
    def repay(self, amount: int) -> str:
        """Pay back an amount."""
        self.state = Loose(self.state.debt - amount, self.state.entries)
        return f"{self.state.debt} is left"


class LoadUsesUp(Ledger):
    """A state can be loaded once."""

    def save(self) -> Any:
        """In a list of one."""
        return [self.state]

    def load(self, saved: Any) -> None:
        """Take it out."""
        if not saved:
            raise SnapshotUnsupported("used up")
        self.state = saved.pop()


class RollbackCounts(Ledger):
    """A rollback shifts the call index."""

    def rollback(self, *args: Any, **kwargs: Any) -> Any:
        """One call more."""
        words = super().rollback(*args, **kwargs)
        self._need().calls += 1
        return words


class NeverCaptured(Ledger):
    """Refuses every snapshot."""

    def save(self) -> Any:
        """Refuse."""
        raise SnapshotUnsupported("a live thread")


class SurvivesReset(Ledger):
    """What one episode wrote, the next one reads."""

    written: int = 0

    @tool
    def note(self, text: str) -> str:
        """Write an entry."""
        self.written += 1
        return f"{self.written} entries"

    def save(self) -> Any:
        """All of it."""
        return self.state, self.written

    def load(self, saved: Any) -> None:
        """All of it."""
        self.state, self.written = saved


class ChangesTheTask(Ledger):
    """A tool changes the task's own data, which all episodes share."""

    tasks = Debts()

    @tool
    def note(self, text: str) -> str:
        """Write an entry."""
        self.task.data["entries"] = self.task.data.get("entries", 0) + 1
        return "written"


class GraderChangesState(Ledger):
    """Grading leaves a mark that outlives the episode."""

    graded = 0

    def grade(self, answer: str | None) -> Verdict:
        """One more."""
        self.graded += 1
        verdict = super().grade(answer)
        verdict.components["entries"] = float(self.graded)
        return verdict


# -- randomness ----------------------------------------------------------------------------------


class SharedStream(Ledger):
    """All envs of the class draw from one generator."""

    stream = random.Random(1)

    @tool
    def note(self, text: str) -> str:
        """Write an entry."""
        return f"receipt {self.stream.randrange(10**6)}"


class SharedFaults(Ledger):
    """All envs of the class draw their faults from one generator."""

    stream = random.Random(1)

    def corrupt(self, kind: Any, call: ToolCall, content: str, u: float) -> str:
        """Any number."""
        return str(self.stream.randrange(10**6))


class SharedState(Ledger):
    """A counter on the class."""

    counter = 0

    @tool
    def note(self, text: str) -> str:
        """Write an entry."""
        type(self).counter += 1
        return f"{type(self).counter} entries"

    def setup(self, task: Task) -> None:
        """Start the counter anew."""
        super().setup(task)
        type(self).counter = 0


class GlobalRandom(Ledger):
    """A tool draws from the global generator, seeded so that nobody sees it."""

    @tool
    def note(self, text: str) -> str:
        """Write an entry."""
        random.seed(len(text))
        return f"receipt {random.randrange(10**6)}"


class GlobalNumpy(Ledger):
    """A tool draws from numpy's global generator."""

    @tool
    def note(self, text: str) -> str:
        """Write an entry."""
        np.random.seed(7)
        return f"receipt {np.random.randint(10**6)}"


class SetupDraws(Ledger):
    """The state of a task depends on the seed."""

    def setup(self, task: Task) -> None:
        """Draw."""
        self.state = Book(task.data["before"], (str(self.np_random.random()),))

    @tool
    def note(self, text: str) -> str:
        """Read the entries."""
        return str(self.state.entries)


class WallClock(Ledger):
    """Shows the time."""

    @tool
    def note(self, text: str) -> str:
        """Write an entry."""
        return f"written at {time.time_ns()}"


class Hash(Ledger):
    """Shows a hash that another process does not have."""

    @tool
    def note(self, text: str) -> str:
        """Write an entry."""
        return f"receipt {hash('receipt')}"


class Pid(Ledger):
    """Shows the process id."""

    @tool
    def note(self, text: str) -> str:
        """Write an entry."""
        return f"receipt {os.getpid()}"


class Unseeded(Ledger):
    """A tool draws from the global generator."""

    @tool
    def note(self, text: str) -> str:
        """Write an entry."""
        return f"receipt {random.randrange(10**6)}"


class Counter(Ledger):
    """A counter on the class, which goes on."""

    written = 0

    @tool
    def note(self, text: str) -> str:
        """Write an entry."""
        type(self).written += 1
        return f"{self.written} entries"


class DrawsFromNpRandom(Ledger):
    """A tool draws from the generator that is the caller's as well."""

    @tool
    def note(self, text: str) -> str:
        """Write an entry."""
        return f"receipt {self.np_random.integers(10**6)}"


class Today(Ledger):
    """Shows the date."""

    @tool
    def note(self, text: str) -> str:
        """Write an entry."""
        return f"written on {datetime.date.today()}"


class ThisYear(Ledger):
    """Shows the year."""

    @tool
    def note(self, text: str) -> str:
        """Write an entry."""
        return f"written in {datetime.datetime.now().year}"


class User(Ledger):
    """Shows the number of the user."""

    @tool
    def note(self, text: str) -> str:
        """Write an entry."""
        return f"written by {os.getuid()}"


class HostVariable(Ledger):
    """Shows the host's name, as the environment has it."""

    @tool
    def note(self, text: str) -> str:
        """Write an entry."""
        return f"written on {os.environ.get('HOSTNAME')}"


class Host(Ledger):
    """Shows the host's name, as the system has it."""

    @tool
    def note(self, text: str) -> str:
        """Write an entry."""
        return f"written on {socket.gethostname()}"


class Folder(Ledger):
    """Shows the working directory."""

    @tool
    def note(self, text: str) -> str:
        """Write an entry."""
        return f"written in {os.getcwd()}"


# -- what is said --------------------------------------------------------------------------------


class SharedInfo(Ledger):
    """Every step hands out the same objects."""

    def setup(self, task: Task) -> None:
        """Open the book."""
        super().setup(task)
        self.shared: dict[int, Any] = {}

    def act(self, move: Move) -> StepResult:
        """The same info for the same turn."""
        *said, info = super().act(move)
        return *said, self.shared.setdefault(info["turn"], info)

    def rollback(self, *args: Any, **kwargs: Any) -> Any:
        """The same info for the same turn."""
        observation, info = super().rollback(*args, **kwargs)
        return observation, self.shared.setdefault(info["turn"], info)


class Changed(Ledger):
    """For subclasses that change what `act` returns."""

    def act(self, move: Move) -> StepResult:
        """What `change` makes of it."""
        return self.change(*super().act(move))

    def change(self, text: str, reward: Any, ended: bool, cut: bool, info: Any) -> StepResult:
        """For subclasses."""
        return text, reward, ended, cut, info


class OutsideTheSpace(Changed):
    """A NUL in an observation."""

    def change(self, text: str, reward: Any, ended: bool, cut: bool, info: Any) -> StepResult:
        """Add a NUL."""
        return "\0" + text, reward, ended, cut, info


class NumpyReward(Changed):
    """A reward that is no float."""

    def change(self, text: str, reward: Any, ended: bool, cut: bool, info: Any) -> StepResult:
        """As numpy has it."""
        return text, np.float32(reward), ended, cut, info  # type: ignore[return-value]


class BothFlags(Changed):
    """Terminated and truncated at once."""

    def change(self, text: str, reward: Any, ended: bool, cut: bool, info: Any) -> StepResult:
        """Both."""
        return text, reward, ended or cut, ended or cut, info


class ExtraKey(Changed):
    """A key more at the end."""

    def change(self, text: str, reward: Any, ended: bool, cut: bool, info: Any) -> StepResult:
        """Add it."""
        return text, reward, ended, cut, info | ({"success": 1} if ended else {})


class NoJson(Changed):
    """Something in info that JSON has not."""

    def change(self, text: str, reward: Any, ended: bool, cut: bool, info: Any) -> StepResult:
        """A lock."""
        return text, reward, ended, cut, info | {"calls": [threading.Lock()]}


class SaysOtherwise(Changed):
    """The observation is not what the messages say."""

    def change(self, text: str, reward: Any, ended: bool, cut: bool, info: Any) -> StepResult:
        """Loud."""
        return text.upper(), reward, ended, cut, info


class UnexplainedReward(Changed):
    """A reward beside the components."""

    def change(self, text: str, reward: Any, ended: bool, cut: bool, info: Any) -> StepResult:
        """More."""
        return text, reward + 0.5, ended, cut, info


class StepsAfterTheEnd(Ledger):
    """Goes on after the end."""

    def step(self, action: str) -> StepResult:
        """The last outcome again."""
        return self._need().outcome.result() if self.ended else super().step(action)


class RaisesAfterTheEnd(Ledger):
    """Raises something of its own after the end."""

    def step(self, action: str) -> StepResult:
        """Raise."""
        if self.ended:
            raise ValueError("it is over")
        return super().step(action)


class Raises(Ledger):
    """A step that raises."""

    def act(self, move: Move) -> StepResult:
        """Raise now and then."""
        if isinstance(move, list) and move[0].name == "note":
            raise LookupError("no pen")
        return super().act(move)


class HugeError(Ledger):
    """A step that raises an error of megabytes."""

    def act(self, move: Move) -> StepResult:
        """Raise."""
        raise KeyError("x" * 2_600_000)


class Exits(Ledger):
    """A tool that ends the process."""

    @tool
    def note(self, text: str) -> str:
        """Write an entry."""
        raise SystemExit(3)


class GraderExits(Ledger):
    """A grader that ends the process."""

    def grade(self, answer: str | None) -> Verdict:
        """Exit."""
        raise SystemExit(3)


class NoState(Ledger):
    """Never sets its state."""

    def setup(self, task: Task) -> None:
        """Forget about it."""


class NoVerdict(Ledger):
    """Forgets to return a verdict."""

    def grade(self, answer: str | None) -> Verdict:
        """Nothing."""
        return None  # type: ignore[return-value]


# -- faults --------------------------------------------------------------------------------------


class FaultTells(Ledger):
    """A wrong result that holds the right one."""

    def corrupt(self, kind: Any, call: ToolCall, content: str, u: float) -> str:
        """With a remark."""
        return f"{content} (corrupted)"


class FaultGivesAway(Ledger):
    """A wrong result that holds the right one, in the same kinds of characters."""

    def corrupt(self, kind: Any, call: ToolCall, content: str, u: float) -> str:
        """Twice."""
        return f"{content} {content}" if kind == "wrong" else content


class FaultDraws(Ledger):
    """A wrong result from the global generator."""

    def corrupt(self, kind: Any, call: ToolCall, content: str, u: float) -> str:
        """Any number."""
        return str(random.randrange(10**9))


class FaultIsNoText(Ledger):
    """A wrong result that is no text."""

    def corrupt(self, kind: Any, call: ToolCall, content: str, u: float) -> str:
        """Nothing."""
        return None  # type: ignore[return-value]


class FaultPads(Ledger):
    """A wrong result that says the same number."""

    def corrupt(self, kind: Any, call: ToolCall, content: str, u: float) -> str:
        """With a zero before it."""
        return f"0{content}" if kind == "wrong" else content


class FaultGrows(Ledger):
    """A wrong result with the right one in the middle of a number."""

    def corrupt(self, kind: Any, call: ToolCall, content: str, u: float) -> str:
        """With a digit before it."""
        return f"7{content}" if kind == "wrong" else content


class FaultDropsCommas(Ledger):
    """A wrong result without the commas that sound ones have."""

    @tool
    def repay(self, amount: int) -> str:
        """Pay back an amount."""
        self.state = Book(self.state.debt - amount)
        return f"{10**6 + self.state.debt % 10**6:,} is left"

    def corrupt(self, kind: Any, call: ToolCall, content: str, u: float) -> str:
        """Another number."""
        return f"{int(1_000_000 + u * 999_999)} is left" if kind == "wrong" else content


class FaultEmpties(Ledger):
    """A truncated result of which nothing is left."""

    def corrupt(self, kind: Any, call: ToolCall, content: str, u: float) -> str:
        """Nothing."""
        return "" if kind == "truncated" else content


# -- tasks and rewards ---------------------------------------------------------------------------


def changed(task: Task, **fields: Any) -> Task:
    """The task with other fields."""
    return Task.from_dict(task.to_dict() | fields)


class AllSeven(Debts):
    """One answer fits all."""

    def make(self, split: str, number: int) -> Task:
        """Its answer is 7."""
        task = super().make(split, number)
        return changed(task, data={"before": task.data["paid"] + 7, "paid": task.data["paid"]})


class Guessable(Ledger):
    """The answer can be guessed, and the book is not looked at."""

    tasks = AllSeven()

    def grade(self, answer: str | None) -> Verdict:
        """Only the answer."""
        right = answer == "7"
        return Verdict({"answer": float(right), "entries": 0.0}, self.weights, right)

    @staticmethod
    def oracle(task: Task, messages: list[Message]) -> Move:
        """Seven."""
        return "7"


class WrongOracle(Ledger):
    """The gold solution is wrong where the number is 4."""

    @staticmethod
    def oracle(task: Task, messages: list[Message]) -> Move:
        """Wrong now and then."""
        return "0" if task.id.endswith("/4") else Ledger.oracle(task, messages)


class RaisingOracle(Ledger):
    """The gold solution has a bug."""

    @staticmethod
    def oracle(task: Task, messages: list[Message]) -> Move:
        """Raise."""
        raise LookupError("no gold")


class UnpaidOracle(Ledger):
    """Passing is worth nothing."""

    weights = {"answer": 0.0, "entries": 0.0}


class PaidCheat(Ledger):
    """Writing "paid" passes."""

    cheats = {"say paid": lambda messages: "paid"}

    def grade(self, answer: str | None) -> Verdict:
        """Too kind."""
        right = answer == "paid" or super().grade(answer).passed
        return Verdict({"answer": float(right)}, self.weights, right)


class RaisingCheat(Ledger):
    """A cheat with a bug shows nothing."""

    cheats = {"broken": lambda messages: messages[99]["content"]}


class PaysForNothing(Ledger):
    """Something for any answer."""

    def grade(self, answer: str | None) -> Verdict:
        """At least a tenth."""
        right = super().grade(answer).passed
        return Verdict({"answer": max(0.1, float(right))}, self.weights, right)


class Substring(Ledger):
    """The gold answer anywhere in the answer will do."""

    def grade(self, answer: str | None) -> Verdict:
        """Too kind."""
        gold = self.task.data["answer"]
        right = answer is not None and gold in answer and str(self.state.debt) == gold
        return Verdict({"answer": float(right)}, self.weights, right)


class AnswersAlone(Ledger):
    """For subclasses: the answer is all that counts."""

    def grade(self, answer: str | None) -> Verdict:
        """Only the answer."""
        right = answer == self.task.data["answer"]
        return Verdict({"answer": float(right), "entries": 0.0}, self.weights, right)


class SilencePasses(Ledger):
    """No answer is taken for the right one."""

    def grade(self, answer: str | None) -> Verdict:
        """Too kind."""
        right = answer is None or super().grade(answer).passed
        return Verdict({"answer": float(right), "entries": 0.0}, self.weights, right)


class BlankPasses(Ledger):
    """An answer of blanks is taken for the right one."""

    def grade(self, answer: str | None) -> Verdict:
        """Too kind."""
        right = bool(answer and not answer.strip()) or super().grade(answer).passed
        return Verdict({"answer": float(right), "entries": 0.0}, self.weights, right)


class PatiencePays(Ledger):
    """Who holds out to the last turn is paid."""

    def grade(self, answer: str | None) -> Verdict:
        """A half for sixteen turns."""
        verdict = super().grade(answer)
        verdict.components["answer"] += 0.5 * (self.turn == self.max_turns)
        return verdict


class PayFarm(Ledger):
    """Every entry is paid, to the same policy again and again."""

    weights = {"answer": 1.0, "entries": 0.1}

    @tool
    def note(self, text: str) -> str:
        """Write an entry."""
        self.pay("entries", 1.0)
        return "written"

    def grade(self, answer: str | None) -> Verdict:
        """The entries are paid already."""
        verdict = super().grade(answer)
        verdict.components["entries"] = 0.0
        return verdict


class SmallFarm(PayFarm):
    """Little is paid for an entry, but on top of what the answer is worth."""

    weights = {"answer": 1.0, "entries": 0.001}


class PaysAccidents(PayFarm):
    """One entry is paid more than the answer."""

    weights = {"answer": 1.0, "entries": 2.0}


class PaidHedge(AnswersAlone):
    """What holds the gold answer does not pass, but is paid as if it did."""

    def grade(self, answer: str | None) -> Verdict:
        """Too kind."""
        verdict = super().grade(answer)
        verdict.components["answer"] = float(self.task.data["answer"] in (answer or ""))
        return verdict


class DearOracle(Ledger):
    """Passing is worth two."""

    weights = {"answer": 2.0, "entries": 0.0}


class MissingComponent(Ledger):
    """The verdict leaves a component out."""

    def grade(self, answer: str | None) -> Verdict:
        """Only one of two."""
        verdict = super().grade(answer)
        del verdict.components["entries"]
        return verdict


class Hints(Debts):
    """The answer is among the numbers of the prompt."""

    def make(self, split: str, number: int) -> Task:
        """With a footnote."""
        task = super().make(split, number)
        return changed(task, prompt=f"[{task.data['answer']}] {task.prompt}")


class GoldInPrompt(AnswersAlone):
    """The prompt gives the answer away."""

    tasks = Hints()


class GoldInError(AnswersAlone):
    """The text of an error gives the answer away."""

    @tool
    def repay(self, amount: int) -> str:
        """Pay back an amount."""
        if amount != self.task.data["paid"]:
            raise ToolError(f"wrong amount: {self.task.data['answer']} must be left.")
        return "paid"


class Spaced(Debts):
    """Held-out prompts are those of training, spaced otherwise."""

    def make(self, split: str, number: int) -> Task:
        """With a tab, and a space where nobody sees it."""
        task = super().make("train", number)
        prompt = (
            task.prompt if split == "train" else task.prompt.replace(" ", " \t").replace(".", " .")
        )
        return changed(task, id=f"{split}/{number}", split=split, prompt=prompt)


class SpacedPrompts(Ledger):
    """Two splits with the same tasks, but for white space."""

    tasks = Spaced()


class Reworded(Debts):
    """Held-out tasks are those of training, in other words."""

    def make(self, split: str, number: int) -> Task:
        """With a word before it."""
        task = super().make("train", number)
        return changed(task, id=f"{split}/{number}", split=split, prompt=f"{split}: {task.prompt}")


class SameData(Ledger):
    """Two splits with the same tasks, but for a word."""

    tasks = Reworded()


class Training(Debts):
    """Tasks to train on alone; `splits` does not say so."""

    def load(self, split: str) -> list[Task]:
        """None of another split."""
        return super().load(split) if split == "train" else []


class OnlyTrain(Ledger):
    """A split without tasks."""

    tasks = Training()


class OracleWithSelf(Ledger):
    """The oracle is a plain method."""

    def oracle(self, task: Task, messages: list[Message]) -> Move:  # type: ignore[override]
        """No @staticmethod."""
        return Ledger.oracle(task, messages)


class NoOracle(Ledger):
    """There is no gold solution."""

    oracle = ToolEnv.oracle


class OtherWeights(Ledger):
    """The verdict weighs otherwise than the env."""

    def grade(self, answer: str | None) -> Verdict:
        """Everything counts twice."""
        verdict = super().grade(answer)
        return Verdict(verdict.components, {"answer": 2.0, "entries": 0.0}, verdict.passed)


class NoneBreaksTheGrader(Ledger):
    """The grader expects an answer."""

    def grade(self, answer: str | None) -> Verdict:
        """Strip it."""
        return super().grade(answer.strip())  # type: ignore[union-attr]


class OddAnswerBreaksTheGrader(Ledger):
    """The grader takes what looks like a digit for one."""

    def grade(self, answer: str | None) -> Verdict:
        """Read it."""
        if answer and answer.isdigit():
            int(answer)
        return super().grade(answer)


class SamePrompts(Debts):
    """Held-out prompts are those of training."""

    def make(self, split: str, number: int) -> Task:
        """Both splits have the same prompts."""
        task = super().make("train", number)
        return changed(task, id=f"{split}/{number}", split=split)


class DuplicatePrompts(Ledger):
    """Two tasks with one prompt."""

    tasks = SamePrompts()


class Unsteady(Debts):
    """Other tasks each time they are loaded."""

    loads = 0

    def load(self, split: str) -> list[Task]:
        """Count the loads."""
        self.loads += 1
        return [changed(t, prompt=f"{t.prompt} {self.loads}") for t in super().load(split)]


class UnsteadyTasks(Ledger):
    """The tasks change."""

    tasks = Unsteady()


class PerProcess(Debts):
    """Other tasks in every process."""

    def make(self, split: str, number: int) -> Task:
        """A hash in a tag, which no observation shows."""
        return changed(super().make(split, number), tags=[str(hash(split))])


class TasksPerProcess(Ledger):
    """The tasks depend on the process."""

    tasks = PerProcess()


class Misplaced(Debts):
    """A task that says it is of another split."""

    def load(self, split: str) -> list[Task]:
        """The first one is."""
        first, *others = super().load(split)
        return [changed(first, split="train"), *others]


class MisplacedTask(Ledger):
    """A held-out task says that it is for training."""

    tasks = Misplaced()


class Secret:
    """No JSON form."""


class Objects(Debts):
    """Private data without a JSON form."""

    def load(self, split: str) -> list[Task]:
        """An object in each."""
        tasks = super().load(split)
        for task in tasks:
            task.data["secret"] = Secret()
        return tasks


class TaskHasNoJson(Ledger):
    """Its tasks cannot be written down."""

    tasks = Objects()


# -- arguments -----------------------------------------------------------------------------------


class ArgumentHasNoJson(Ledger):
    """Made with an object."""

    def __init__(self, secret: Any = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)


class TakesNoArguments(Ledger):
    """Forgets the arguments of `make`."""

    def __init__(self) -> None:
        super().__init__()


class IgnoresArguments(Ledger):
    """Takes the arguments of `make` and does not pass them on."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__()


class OddArgument(Ledger):
    """A tool that trips over arguments that its schema allows."""

    @tool
    def note(self, text: str) -> str:
        """Write an entry."""
        return f"entry {dict(a=1)[text]}" if text.startswith("(") else "written"


class OddText(Ledger):
    """A tool that trips over a NUL, as functions of the system do."""

    @tool
    def note(self, text: str) -> str:
        """Write an entry."""
        if "\0" in text:
            raise ValueError("embedded null byte")
        return "written"


# -- what is left behind -------------------------------------------------------------------------

LEFT: list[Any] = []


class LeaksDescriptors(Ledger):
    """A file that nobody closes."""

    def setup(self, task: Task) -> None:
        """Open one."""
        super().setup(task)
        LEFT.append(tempfile.TemporaryFile())


class LeaksOnReset(Ledger):
    """A file that only the last episode closes."""

    file: Any = None

    def setup(self, task: Task) -> None:
        """Open one."""
        super().setup(task)
        self.file = tempfile.TemporaryFile()
        LEFT.append(self.file)

    def teardown(self) -> None:
        """Close it, but only on close."""
        if self.closed and self.file:
            self.file.close()


class LeaksStates(Ledger):
    """A file for each snapshot, which `drop` forgets."""

    def save(self) -> Any:
        """Open one."""
        LEFT.append(tempfile.TemporaryFile())
        return self.state, LEFT[-1]

    def load(self, saved: Any) -> None:
        """The state alone."""
        self.state = saved[0]


class LeaksThreads(Ledger):
    """A thread that waits for ever."""

    def setup(self, task: Task) -> None:
        """Start one."""
        super().setup(task)
        LEFT.append(threading.Event())
        threading.Thread(target=LEFT[-1].wait, daemon=True).start()


class LeaksChildren(Ledger):
    """A child process that waits for ever."""

    def setup(self, task: Task) -> None:
        """Start one."""
        super().setup(task)
        child = os.posix_spawnp("sleep", ["sleep", "60"], dict(os.environ))
        LEFT.append(child)


class LeaksMemory(Ledger):
    """What was is never forgotten."""

    past: list[Any] = []

    def setup(self, task: Task) -> None:
        """Keep it."""
        super().setup(task)
        self.past.append([task.prompt] * 1000)


class LeaksFiles(Ledger):
    """A file in the temporary folder that stays there."""

    def setup(self, task: Task) -> None:
        """Make one."""
        super().setup(task)
        handle, path = tempfile.mkstemp(prefix="planted-")
        os.close(handle)
        LEFT.append(path)


class ClosesOnce(Ledger):
    """A second close raises."""

    def close(self) -> None:
        """Raise the second time."""
        if self.closed:
            raise ValueError("closed already")
        super().close()


ENVS = [
    env
    for env in list(globals().values())
    if isinstance(env, type) and issubclass(env, Ledger) and env not in (Changed, AnswersAlone)
]
for env in ENVS:
    # Not by agent_envs.register: other tests try every id that it knows.
    gymnasium.register(
        f"planted/{env.__name__}-v0",
        f"planted_envs:{env.__name__}",
        order_enforce=False,
        disable_env_checker=True,
        kwargs={"secret": Secret()} if env is ArgumentHasNoJson else {},
    )
