"""What is to be verified, and what the four kinds of grading share."""

import contextlib
import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from agent_envs.errors import BackendUnavailable, SnapshotUnsupported
from agent_envs.sandbox import SandboxSnapshot
from agent_envs.verifiers.unit_tests.boxes import TOTAL, Box, Clock, Stop
from agent_envs.verifiers.unit_tests.report import TestResult
from agent_envs.verifiers.unit_tests.stock import testers

MOST_QUESTIONS = 2000
"""What one test may ask the graded code."""
MOST_ANSWERED = 16_000_000
"""Bytes of all answers to one test."""
FEW = 6
"""How many questions are answered at first: most wrong code fails on those."""
NOT_MORE = 2
"""So many others are answered with them: one more run of the tests costs as much."""
LONGEST_REASON = 1000
CHARACTERS_SHOWN = 200


@dataclass(frozen=True)
class Failure:
    """Why a test failed: to be told of any test, and of one whose contents are no secret."""

    short: str
    full: str = ""


@dataclass(frozen=True)
class Job:
    """One verification."""

    task: Mapping[str, Any]
    files: Mapping[str, str]
    hidden: bool
    backend: str
    cpu_seconds: int
    clock: Clock
    stop: Stop

    @property
    def tests(self) -> list[Any]:
        """The tests that are asked for."""
        return list(self.task["hidden" if self.hidden else "visible"])

    def result(self, name: str, failure: Failure | None) -> TestResult:
        """One test's."""
        if failure is None:
            return TestResult(name, True)
        reason = failure.short if self.hidden else failure.full or failure.short
        return TestResult(name, False, reason[:LONGEST_REASON])

    def all_failed(self, names: list[str], why: str) -> list[TestResult]:
        """One reason for all."""
        return [self.result(name, Failure(why)) for name in names]


@contextlib.contextmanager
def borrowed_tester(job: Job) -> Iterator[Box]:
    """A sandbox for tests. It goes back into stock, unless something of ours has gone wrong."""
    tester = testers.take(job.backend, job.cpu_seconds)
    try:
        with job.stop.watching(tester):
            yield tester
    except BaseException:
        tester.close()
        raise
    testers.put(tester, job.backend, job.cpu_seconds)


def freeze(box: Box) -> SandboxSnapshot | str:
    """A snapshot of the graded code's sandbox, or what it has done that prevents one."""
    try:
        return box.keep()
    except SnapshotUnsupported as error:
        return f"the loaded code cannot be forked: {error}"


def load_solution(job: Job, box: Box) -> SandboxSnapshot | str:
    """Run the solution's file in the sandbox that holds it. A text says why that fails."""
    order = {"module": job.task["module"], "entry": job.task["entry_point"]}
    answer = box.ask("graded.load", order, job.clock)
    if "broken" in answer:
        return shown(answer["broken"])
    return freeze(box)


def shown(text: Any) -> str:
    """A text of unknown origin, or the repr of a plain value, short enough for a reason."""
    try:
        shown = text if isinstance(text, str) else repr(text)
    except ValueError:  # an integer of too many digits
        shown = f"a {type(text).__name__}, too long to show"
    return shown if len(shown) <= CHARACTERS_SHOWN else shown[:CHARACTERS_SHOWN] + "..."


def converse(
    job: Job,
    box: Box,
    start: SandboxSnapshot,
    work: str,
    order: Mapping[str, Any],
    answer: Callable[[Any], dict[str, Any]],
) -> Failure | None:
    """Run tests in their sandbox, from a snapshot, as often as they ask something new.

    Raises BackendUnavailable if they come to no end before the graded code has said anything:
    that cannot be its doing.
    """
    known = None if order["in_order"] else json.dumps(order)
    asks = first_questions.get(known) or []
    answers: dict[str, Any] = {}
    size = 0
    while job.clock.seconds(job.cpu_seconds):
        all_at_once = answers or len(asks) <= FEW + NOT_MORE
        for key in asks if all_at_once else asks[:FEW]:
            answers[key] = answer(json.loads(key))
            size += len(json.dumps(answers[key]))
            if size > MOST_ANSWERED:
                return Failure("its answers are too long, all together")
        if problem := box.go_to(start):
            raise BackendUnavailable(f"the sandbox for tests: {problem}")
        said = box.ask(work, {**order, "answers": answers}, job.clock)
        if "asks" not in said:
            return judge(said, first=not answers and not order.get("told"))
        asks = said["asks"]
        if known and not answers:
            first_questions.put(known, asks)
        if len(answers) + len(asks) > MOST_QUESTIONS:
            return Failure(f"the test asks more than {MOST_QUESTIONS} times")
    return Failure(TOTAL)


class Remembered:
    """What tests ask before they know anything: the same for every solution of a task."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._lock = threading.Lock()
        self._lists: OrderedDict[str, list[str]] = OrderedDict()

    def get(self, tests: str | None) -> list[str] | None:
        """The questions of these tests, if they have run before."""
        with self._lock:
            return self._lists.get(tests) if tests else None

    def put(self, tests: str, questions: list[str]) -> None:
        """Remember them; the oldest go."""
        with self._lock:
            self._lists[tests] = questions
            if len(self._lists) > self.most:
                self._lists.popitem(last=False)


first_questions = Remembered(1000)
"""Those of this process."""


def judge(said: Mapping[str, Any], *, first: bool) -> Failure | None:
    """What a run of tests that asks nothing more comes to."""
    if "broken" in said:
        if first and said["broken"] != TOTAL:
            raise BackendUnavailable(f"the tests do not run: {said['broken']}")
        return Failure(f"the test: {said['broken']}")
    if "failed" in said:
        return Failure(shown(said["failed"]), said["detail"])
    return None
