"""Grades code by tests. Grader and graded never share a process or a file that can be written.

The graded code runs in a fresh sandbox, never the agent's own. What is expected never enters it:
cases are compared on the host, and tests run in a second sandbox, where the graded code is only
asked, through the host, and answers with copies of plain values. So there is no test, runner,
frame, exit code, marker, result file or patched module within its reach. It can say what its own
functions return, and nothing else. What a verification comes to, by `kind`:

- `cases`: each call in a new fork of the loaded solution; exact in type and value.
- `stdin`: each case from the same clean state; the output must be the expected text, but for line
  ends at its end. An uncaught exception, or a process that ends itself otherwise, is a failure.
- `asserts`: HumanEval's `check(candidate)`, with the prompt's own code pristine. Only the entry
  point asks, each time a new fork of the solution; equality is the test's own. A mutated argument
  is not copied back. An exception crosses as the nearest built-in class; none that is not an
  `Exception` crosses: it fails the test, as a crash does, whatever the test catches.
- `package`: pristine test files; what they import of the package are stand-ins. Tests are plain
  functions, methods of plain classes, or unittest's; they may use functions, classes, attributes,
  methods, operators, iteration, `with` and exceptions of the package, and isinstance. They cannot
  give it functions or objects of their own, derive from its classes, patch it with such, share
  files with it, or star-import it; containers cross as copies. Skipped or missing is failed.

Not protected: where a package's tests compare objects of the package's own classes with each
other, or ask such an object for its truth, its length or what it contains, the package answers as
it likes. A test that wants a number, a text or a list should compare with one: no object of the
package's is ever equal to a plain value.

Tests have to ask the same each time that they run from the same state: `random` does.
"""

from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias

from agent_envs.verifiers.unit_tests import asserts, cases, package
from agent_envs.verifiers.unit_tests.boxes import Box, Clock, Stop
from agent_envs.verifiers.unit_tests.job import Job
from agent_envs.verifiers.unit_tests.report import Report, TestResult
from agent_envs.verifiers.unit_tests.stock import fresh, testers

__all__ = [
    "NEEDED",
    "VERSION",
    "Clock",
    "Report",
    "Stop",
    "TestResult",
    "close_kept",
    "verify",
    "verify_all",
]

VERSION = "1"
CPU_SECONDS = 2
"""Of one call or program."""
TOTAL_SECONDS = 8
"""Of CPU, of one verification."""
NEEDED = frozenset({"kind", "module", "entry_point", "files", "solution", "visible", "hidden"})
"""What the data of every task have."""
Which: TypeAlias = Literal["visible", "hidden"]
Grade: TypeAlias = Callable[[Job, Box], list[TestResult]]
KINDS: dict[str, tuple[Grade, Callable[[Job], list[str]]]] = {
    "cases": (cases.grade_calls, cases.names_of),
    "stdin": (cases.grade_programs, cases.names_of),
    "asserts": (asserts.grade, asserts.names_of),
    "package": (package.grade, package.names_of),
}


def verify(
    task_data: Mapping[str, Any],
    files: Mapping[str, str],
    *,
    tests: Which = "hidden",
    backend: str = "auto",
    stop: Stop | None = None,
    clock: Clock | None = None,
) -> Report:
    """Run a task's tests on the files of a solution.

    `task_data` has a `kind`; `module` and `entry_point`, the file and the function that are asked
    for (empty for a package); `files` and `solution`, by path, at the start and of the gold one;
    and lists of `visible` and `hidden` tests. A test is, by kind, `{"args": "(1,)", "returns":
    "2"}` or `{"args": ..., "raises": "ValueError"}`, with literals as texts; `{"stdin": ...,
    "stdout": ...}`; the source of a `check(candidate)`, beside which `prompt_code` is run; or a
    file of tests: `{"path": ..., "source": ..., "names": ["test_a"], "must": "fail_to_pass"}`.

    `task_data["cpu_seconds"]` (a whole number, by default 2) limits each call; after two that
    run out of time the tests that are left fail. Whatever the graded code does is a failed test.
    `stop` lets another thread end this; `clock` is a limit that others share. Raises
    BackendUnavailable for a fault of ours, ValueError for a task that is none, SandboxClosed if it
    was stopped.
    """
    return _verify(task_data, files, [tests], backend, stop, clock)[0]


def verify_all(
    task_data: Mapping[str, Any],
    files: Mapping[str, str],
    *,
    backend: str = "auto",
    stop: Stop | None = None,
) -> tuple[Report, Report]:
    """As `verify`: the hidden tests and, after them and in the same sandbox, the visible ones."""
    hidden, visible = _verify(task_data, files, ["hidden", "visible"], backend, stop, None)
    return hidden, visible


def _verify(
    task_data: Mapping[str, Any],
    files: Mapping[str, str],
    asked: list[Which],
    backend: str,
    stop: Stop | None,
    clock: Clock | None,
) -> list[Report]:
    if task_data.get("kind") not in KINDS or not {*asked} <= {"visible", "hidden"}:
        raise ValueError(f"no tests {asked} of kind {task_data.get('kind')!r}: {list(KINDS)}")
    cpu_seconds = int(task_data.get("cpu_seconds", CPU_SECONDS))
    clock, stop = clock or Clock(TOTAL_SECONDS), stop or Stop()
    jobs = [Job(task_data, files, t == "hidden", backend, cpu_seconds, clock, stop) for t in asked]
    box = fresh.take(backend, cpu_seconds)
    try:
        with fresh.refilled(backend, cpu_seconds), stop.watching(box):
            return [_grade(job, box) for job in jobs]
    finally:
        fresh.end(box)


def _grade(job: Job, box: Box) -> Report:
    """From the start of a box, which holds nothing but our modules."""
    grade, names_of = KINDS[job.task["kind"]]
    problem = box.go_to(box.start) or box.lay(job.files)
    return Report(job.all_failed(names_of(job), problem) if problem else grade(job, box))


def close_kept() -> None:
    """End the sandboxes that wait for the next verification."""
    fresh.close()
    testers.close()
