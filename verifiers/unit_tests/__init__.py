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
from typing import Any, Literal

from agent_envs.verifiers.unit_tests import asserts, cases, package
from agent_envs.verifiers.unit_tests.boxes import Box, Clock, kept
from agent_envs.verifiers.unit_tests.job import Job, lay
from agent_envs.verifiers.unit_tests.report import Report, TestResult

__all__ = ["VERSION", "Report", "TestResult", "close_kept", "verify"]

VERSION = "1"
CPU_SECONDS = 2
"""Of one call or program."""
TOTAL_SECONDS = 20
"""Of CPU, of one verification; the clock may show ten times that, as for a call."""
Grade = Callable[[Job, Box], list[TestResult]]
KINDS: dict[str, tuple[Grade, Callable[[Job], list[str]], tuple[str, ...]]] = {
    "cases": (cases.grade_calls, cases.names_of, ("codec", "graded")),
    "stdin": (cases.grade_programs, cases.names_of, ("codec", "graded")),
    "asserts": (asserts.grade, asserts.names_of, ("codec", "graded")),
    "package": (package.grade, package.names_of, ("codec", "graded", "objects")),
}


def verify(
    task_data: Mapping[str, Any],
    files: Mapping[str, str],
    *,
    tests: Literal["visible", "hidden"] = "hidden",
    backend: str = "auto",
) -> Report:
    """Run a task's tests on the files of a solution.

    `task_data["cpu_seconds"]` (a whole number, by default 2) limits each call; after two that
    run out of time the tests that are left fail. Whatever the graded code does is a failed test.
    Raises BackendUnavailable for a fault of ours, ValueError for a task that is none.
    """
    if task_data.get("kind") not in KINDS or tests not in ("visible", "hidden"):
        raise ValueError(f"no tests {tests!r} of kind {task_data.get('kind')!r}: {list(KINDS)}")
    grade, names_of, modules = KINDS[task_data["kind"]]
    cpu_seconds = int(task_data.get("cpu_seconds", CPU_SECONDS))
    clock = Clock(cpu_seconds, TOTAL_SECONDS)
    job = Job(task_data, files, tests == "hidden", backend, cpu_seconds, clock)
    box = Box(backend, cpu_seconds, modules)
    try:
        problem = lay(box, files)
        return Report(job.all_failed(names_of(job), problem) if problem else grade(job, box))
    finally:
        box.close()


def close_kept() -> None:
    """End the sandboxes that wait for the next tests to run."""
    kept.close()
