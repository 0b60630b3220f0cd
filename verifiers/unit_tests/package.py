"""Tests of a package: the test files in one sandbox, the agent's tree in another.

The tests import the package as they always do, and hold stand-ins for its modules, classes and
objects; each call, attribute and operator is a question to the package's own sandbox, in order,
in a process of that test's own.
"""

from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from agent_envs.errors import BackendUnavailable
from agent_envs.sandbox import SandboxSnapshot
from agent_envs.verifiers.unit_tests.boxes import Box
from agent_envs.verifiers.unit_tests.job import Failure, Job, borrowed_tester, converse, freeze
from agent_envs.verifiers.unit_tests.report import TestResult


def names_of(job: Job) -> list[str]:
    """`path::name` of every test."""
    return [f"{file['path']}::{name}" for file in job.tests for name in file["names"]]


def package_names(job: Job) -> list[str]:
    """The top-level names that tests must ask for: the task's own, never the agent's choice."""
    paths = [*job.task.get("files", {}), *job.task.get("solution", {})]
    tops = {top(path) for path in paths if path.endswith(".py")}
    return sorted(tops - {top(file["path"]) for file in job.tests})


def top(path: str) -> str:
    """The first name of a file's module."""
    return PurePosixPath(path).parts[0].removesuffix(".py")


def grade(job: Job, box: Box) -> list[TestResult]:
    """All tests, each from the state in which the files of tests have just been loaded."""
    with borrowed_tester(job) as tester:
        problem = tester.lay({file["path"]: file["source"] for file in job.tests})
        if problem:
            raise ValueError(f"the task's tests cannot be written: {problem}")
        begin = freeze_tests(tester)
        loaded = load(Pair(job, box, tester, box.keep(), begin))
        if isinstance(loaded, Pair):
            results = loaded.run_all()
            tester.sandbox.release(loaded.tests)
        else:
            results = [job.result(name, loaded) for name in names_of(job)]
        tester.sandbox.release(begin)
    return results


def load(pair: "Pair") -> "Pair | Failure":
    """Load all files of tests, and with them what they import of the package."""
    job = pair.job
    paths = [file["path"] for file in job.tests if file["names"]]
    order = {"paths": paths, "tops": package_names(job), "told": False}
    if failure := pair.play("running.load", order):
        return failure
    graded = freeze(pair.box)
    if isinstance(graded, str):
        return Failure(graded)
    return Pair(job, pair.box, pair.tester, graded, freeze_tests(pair.tester))


def freeze_tests(tester: Box) -> SandboxSnapshot:
    """The tests' sandbox as it is. Raises BackendUnavailable."""
    tests = freeze(tester)
    if isinstance(tests, str):
        raise BackendUnavailable(f"the sandbox for tests: {tests}")
    return tests


@dataclass
class Pair:
    """The two sandboxes, and the states that they go back to together."""

    job: Job
    box: Box
    tester: Box
    graded: SandboxSnapshot
    tests: SandboxSnapshot

    def run_all(self) -> list[TestResult]:
        """Each test of each file."""
        return [
            self.job.result(f"{file['path']}::{name}", self._run(file["path"], name))
            for file in self.job.tests
            for name in file["names"]
        ]

    def _run(self, path: str, name: str) -> Failure | None:
        return self.play("running.run_test", {"path": path, "name": name, "told": True})

    def play(self, work: str, order: dict[str, Any]) -> Failure | None:
        """Do something in the tests' sandbox, from its state, as often as it asks something new of
        the package's."""
        if problem := self.box.go_to(self.graded):
            return Failure(problem)

        def answer(numbered: Any) -> dict[str, Any]:
            return self.box.ask("objects.do", numbered[1], self.job.clock)

        whole = {**order, "in_order": True, "must_ask": False}
        return converse(self.job, self.tester, self.tests, work, whole, answer)
