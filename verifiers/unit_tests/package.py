"""Tests of a package: the test files in one sandbox, the agent's tree in another.

The tests import the package as they always do, and hold stand-ins for its modules, classes and
objects; each call, attribute and operator is a question to the package's own sandbox, in order,
in a process of that test's own.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from agent_envs.errors import BackendUnavailable
from agent_envs.sandbox import SandboxSnapshot
from agent_envs.verifiers.unit_tests.boxes import Box, Tester, kept
from agent_envs.verifiers.unit_tests.job import Failure, Job, converse, freeze, lay
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
    """All tests of all files, each from a state in which its file has just been loaded."""
    ready = box.install()
    tester = kept.take(job.backend, job.cpu_seconds)
    try:
        pairs = Pairs(job, box, tester, ready)
        results = [result for file in job.tests for result in pairs.grade_file(file)]
    except BaseException:
        tester.close()
        raise
    kept.give_back(tester, job.backend, job.cpu_seconds, *pairs.taken)
    return results


@dataclass
class Pairs:
    """The two sandboxes, and the states that they go back to together."""

    job: Job
    box: Box
    tester: Tester
    ready: SandboxSnapshot

    def __post_init__(self) -> None:
        problem = lay(self.tester, {file["path"]: file["source"] for file in self.job.tests})
        if problem:
            raise ValueError(f"the task's tests cannot be written: {problem}")
        self.taken: list[SandboxSnapshot] = []
        self.files = self._freeze_tests()

    def grade_file(self, file: dict[str, Any]) -> list[TestResult]:
        """Load a file of tests, and run each from there."""
        names = [f"{file['path']}::{name}" for name in file["names"]]
        if not names:
            return []
        order = {"path": file["path"], "tops": package_names(self.job), "told": False}
        failure = self._play(self.ready, self.files, "remote.load", order)
        if failure is not None:
            return [self.job.result(name, failure) for name in names]
        self.box.sandbox.run_python("")
        loaded = freeze(self.box)
        if isinstance(loaded, str):
            return self.job.all_failed(names, loaded)
        return self._run_all(loaded, self._freeze_tests(), names, file["names"])

    def _freeze_tests(self) -> SandboxSnapshot:
        """The tests' sandbox as it is. Raises BackendUnavailable."""
        self.tester.sandbox.run_python("")  # a state that others were forked from may be refused
        tests = freeze(self.tester)
        if isinstance(tests, str):
            raise BackendUnavailable(f"the sandbox for tests: {tests}")
        self.taken.append(tests)
        return tests

    def _run_all(
        self, loaded: SandboxSnapshot, tests: SandboxSnapshot, names: list[str], own: Sequence[str]
    ) -> list[TestResult]:
        results = []
        for name, test in zip(names, own, strict=True):
            order = {"name": test, "told": True}
            failure = self._play(loaded, tests, "remote.run_test", order)
            results.append(self.job.result(name, failure))
        return results

    def _play(
        self, graded: SandboxSnapshot, tests: SandboxSnapshot, work: str, order: dict[str, Any]
    ) -> Failure | None:
        if problem := self.box.go_to(graded):
            return Failure(problem)

        def answer(numbered: Any) -> dict[str, Any]:
            return self.box.ask("graded.answer(objects.do)", numbered[1], self.job.clock)

        whole = {**order, "in_order": True, "must_ask": False}
        return converse(self.job, self.tester, tests, work, whole, answer)
