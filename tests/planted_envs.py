"""Environments with one fault each, which the conformance kit must catch; and `Ledger`, with none.

`gymnasium.make("planted_envs:planted/Hash-v0")` needs this folder on the import path.
"""

import os
import random
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
        return Verdict({"answer": float(answer == "7")}, self.weights, answer == "7")

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
    if isinstance(env, type) and issubclass(env, Ledger) and env is not Changed
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
