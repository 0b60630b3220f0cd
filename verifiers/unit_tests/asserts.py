"""Assert tests in HumanEval's form, `check(candidate)`, in a sandbox without the solution."""

from typing import Any

from agent_envs.sandbox import SandboxSnapshot
from agent_envs.verifiers.unit_tests.boxes import Box, Tester, kept
from agent_envs.verifiers.unit_tests.job import Job, converse, load_solution
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
    tester = kept.take(job.backend, job.cpu_seconds)
    try:
        pairs = zip(names, job.tests, strict=True)
        results = [_check(job, box, loaded, tester, name, source) for name, source in pairs]
    except BaseException:
        tester.close()
        raise
    kept.give_back(tester, job.backend, job.cpu_seconds)
    return results


def _check(
    job: Job, box: Box, loaded: SandboxSnapshot, tester: Tester, name: str, source: str
) -> TestResult:
    def answer(call: Any) -> dict[str, Any]:
        if problem := box.go_to(loaded):
            return {"broken": problem}
        order = {"entry": job.task["entry_point"], "call": call, "exact": False}
        return box.ask("graded.answer(graded.call)", order, job.clock)

    order = {
        "prompt": job.task.get("prompt_code", ""),
        "test": source,
        "entry": job.task["entry_point"],
        "in_order": False,
        "must_ask": True,
    }
    return job.result(name, converse(job, tester, tester.start, "asking.check", order, answer))
