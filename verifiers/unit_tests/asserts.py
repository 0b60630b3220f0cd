"""Assert tests in HumanEval's form, `check(candidate)`, in a sandbox without the solution."""

from typing import Any

from agent_envs.sandbox import SandboxSnapshot
from agent_envs.verifiers.unit_tests.boxes import Box
from agent_envs.verifiers.unit_tests.job import Job, borrowed_tester, converse, load_solution
from agent_envs.verifiers.unit_tests.report import TestResult


def names_of(job: Job) -> list[str]:
    """A name for each test."""
    return [f"check {number}" for number, _ in enumerate(job.tests, 1)]


def grade(job: Job, box: Box) -> list[TestResult]:
    """Each test source is one test; each call in it is a new fork of the loaded solution."""
    names = names_of(job)
    loaded = load_solution(job, box)
    if isinstance(loaded, str):
        return job.all_failed(names, loaded)
    pairs = zip(names, job.tests, strict=True)
    with borrowed_tester(job) as tester:
        return [_check(job, box, loaded, tester, name, source) for name, source in pairs]


def _check(
    job: Job, box: Box, loaded: SandboxSnapshot, tester: Box, name: str, source: str
) -> TestResult:
    def answer(call: Any) -> dict[str, Any]:
        if problem := box.go_to(loaded):
            return {"broken": problem}
        order = {"entry": job.task["entry_point"], "call": call, "exact": False}
        return box.ask("graded.call", order, job.clock)

    order = {
        "prompt": job.task.get("prompt_code", ""),
        "test": source,
        "entry": job.task["entry_point"],
        "in_order": False,
        "must_ask": True,
    }
    return job.result(name, converse(job, tester, tester.start, "asking.check", order, answer))
