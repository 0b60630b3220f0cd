"""Input/output cases: by call, and by standard input. What is expected never leaves the host."""

import builtins
import re
from typing import Any

from agent_envs.sandbox import SandboxSnapshot
from agent_envs.verifiers.unit_tests.boxes import Box
from agent_envs.verifiers.unit_tests.codec import pack, same, unpack
from agent_envs.verifiers.unit_tests.job import Failure, Job, load_solution, shown
from agent_envs.verifiers.unit_tests.literal import literal
from agent_envs.verifiers.unit_tests.report import TestResult


def names_of(job: Job) -> list[str]:
    """A name for each case, without its contents."""
    return [f"case {number}" for number, _ in enumerate(job.tests, 1)]


def grade_calls(job: Job, box: Box) -> list[TestResult]:
    """Each case in a fork of its own of the loaded solution."""
    names = names_of(job)
    loaded = load_solution(job, box)
    if isinstance(loaded, str):
        return job.all_failed(names, loaded)
    pairs = zip(names, job.tests, strict=True)
    return [job.result(name, _call(job, box, loaded, case)) for name, case in pairs]


def _call(job: Job, box: Box, loaded: SandboxSnapshot, case: dict[str, Any]) -> Failure | None:
    arguments = literal(case["args"]), literal(case.get("kwargs", "{}"))
    if problem := box.go_to(loaded):
        return Failure(problem)
    order = {"entry": job.task["entry_point"], "call": pack(arguments), "exact": True}
    answer = box.ask("graded.call", order, job.clock)
    if "broken" in answer:
        return Failure(shown(answer["broken"]))
    short, full = judge_raise(answer, case) if "raises" in case else judge_value(answer, case)
    given = re.sub(r",\)$", ")", case["args"])
    call = f"{job.task['entry_point']}{shown(given)}"
    return Failure(short, f"{call}: {full}") if short else None


def judge_value(answer: dict[str, Any], case: dict[str, Any]) -> tuple[str, str]:
    """Why a returned value is not the expected one, in short and in full; ("", "") if it is."""
    if "value" not in answer:
        raised = shown(answer.get("raised"))
        return f"raised {raised}", f"raised {raised}: {shown(answer.get('text'))}"
    try:
        value = unpack(answer["value"])
        good = same(value, literal(case["returns"]))
    except (ValueError, TypeError) as error:
        return "no plain value", shown(str(error))
    if good:
        return "", ""
    found = f"the text {shown(repr(value))}" if isinstance(value, str) else shown(value)
    return "wrong value", f"returned {found}, expected {shown(case['returns'])}"


def judge_raise(answer: dict[str, Any], case: dict[str, Any]) -> tuple[str, str]:
    """The same for an exception that is expected: one of a subclass is one of its class."""
    wanted = getattr(builtins, case["raises"])
    raised = getattr(builtins, str(answer.get("raised")), None)
    if isinstance(raised, type) and issubclass(raised, wanted):
        return "", ""
    how = "raised another exception" if "raised" in answer else "raised nothing"
    return how, f"{how}, expected {case['raises']}"


def grade_programs(job: Job, box: Box) -> list[TestResult]:
    """The solution as a program: text in, text out. Each case from the same clean state."""
    names, start = names_of(job), box.keep()
    pairs = zip(names, job.tests, strict=True)
    return [job.result(name, _run(job, box, start, case)) for name, case in pairs]


def _run(job: Job, box: Box, start: SandboxSnapshot, case: dict[str, str]) -> Failure | None:
    if problem := box.go_to(start):
        return Failure(problem)
    cell = f"graded.run_program({job.task['module']!r})"
    result = box.run(cell, case["stdin"], job.clock)
    if isinstance(result, str):
        return Failure(result)
    if not result.ok:
        lines = (result.error or "").strip().splitlines() or [""]
        return Failure("it raised an exception", shown(lines[-1]))
    if result.stdout.rstrip("\n") == case["stdout"].rstrip("\n"):
        return None
    wrote = f"wrote {shown(repr(result.stdout))}, expected {shown(repr(case['stdout']))}"
    return Failure("wrong output", wrote)
