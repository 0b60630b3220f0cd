"""The code environment: an interpreter, a workspace, and hidden tests that decide."""

from os import PathLike
from typing import Any, NamedTuple

from agent_envs.env import ToolEnv
from agent_envs.envs.code.cheats import CHEATS
from agent_envs.envs.code.humaneval import read_tasks
from agent_envs.envs.code.said import altered, flipped, reported, shortened
from agent_envs.envs.code.tasks import CodeTasks
from agent_envs.envs.code.workspace import TURN_SECONDS, Workspace
from agent_envs.episode import Outcome, Text
from agent_envs.errors import ToolError, near
from agent_envs.sandbox import BACKENDS, ExecResult, SandboxFileError, SandboxSnapshot
from agent_envs.task import Task, TasksLike
from agent_envs.tool import tool
from agent_envs.turns import Error, FaultKind, Message, Move, ToolCall, ToolResult
from agent_envs.verdict import Verdict
from agent_envs.verifiers.unit_tests import (
    NEEDED,
    VERSION,
    Clock,
    Stop,
    TestResult,
    verify,
    verify_all,
)

_MOST_READ = 60_000
"""Bytes of a file that is shown."""
_NO_TESTS = "this task has no visible tests"
_ERRORS: dict[str, Error | None] = {"ok": None, "timeout": "timeout"}


class Saved(NamedTuple):
    """A kept state: where it is, and which one."""

    workspace: Workspace
    snapshot: SandboxSnapshot


class Code(ToolEnv):
    """Programming tasks. What the workspace holds in the end is graded, not what is said.

    The verifier runs hidden tests on the solution file (of a package, on all text files) in a
    sandbox of its own. `visible` is the share of the visible tests that fail at first and pass
    in the end, at weight 0.
    """

    tasks = CodeTasks()
    weights = {"solved": 1.0, "visible": 0.0}
    state_is_data = False
    volatile = frozenset({"clock", "entropy", "process ids"})
    cheats = CHEATS
    verifier = "agent_envs.verifiers.unit_tests"

    def __init__(
        self,
        *,
        backend: str = "auto",
        split: str = "train",
        tasks: TasksLike | None = None,
        **arguments: Any,
    ) -> None:
        """`backend`: of the sandboxes, "auto" for the strongest that works here. `tasks`: also a
        file in HumanEval's format, `.jsonl` or `.jsonl.gz`; all of it is then of `split`. The
        others are as in `ToolEnv`. Raises ValueError for a backend or a file that is none."""
        if backend not in ("auto", *BACKENDS):
            hint = near(str(backend), BACKENDS)
            raise ValueError(f"no backend {backend!r}{hint}; there are auto, {', '.join(BACKENDS)}")
        if isinstance(tasks, str | PathLike):
            tasks = read_tasks(tasks, split)
        self.backend = backend
        self._workspace: Workspace | None = None
        self._stop = Stop()
        self._clock = Clock(TURN_SECONDS)
        self._sound: dict[str, list[Any]] = {}  # by task: visible tests that were tried out
        super().__init__(split=split, tasks=tasks, **arguments)

    # -- tools -------------------------------------------------------------------------------------

    @tool
    def python(self, code: str) -> ToolResult:
        """Run Python code in a session that keeps its variables from call to call.

        It shows what is printed, and the value of the last expression. Files of the workspace can
        be imported and opened; a module that was imported is read again by importlib.reload only.
        Threads and processes end with the call.

        Args:
            code: One or more statements.
        """
        result = self._room.run(code, self._clock)
        if result is None:
            raise TimeoutError("the calls of this turn have taken too long together")
        return ToolResult(_said(result), _ERRORS.get(result.ended, "failed"))

    @tool
    def write_file(self, path: str, content: str) -> str:
        """Write a text file of the workspace, in place of what was there.

        Args:
            path: Relative to the workspace; folders are made where they are missing.
            content: All of the file.
        """
        try:
            data = content.encode()
            self._room.box.write_file(_relative(path), data)
        except UnicodeEncodeError:
            raise ToolError("the content has a lone surrogate, which no file can hold") from None
        except SandboxFileError as error:
            raise ToolError(str(error)) from None
        return f"{len(data)} bytes written"

    @tool
    def read_file(self, path: str) -> str:
        """Show a file of the workspace.

        Args:
            path: Relative to the workspace.
        """
        try:
            content = self._room.box.read_file(_relative(path), limit=_MOST_READ)
        except SandboxFileError as error:
            raise ToolError(str(error)) from None
        return content.decode(errors="replace")

    @tool
    def list_files(self) -> str:
        """List the files of the workspace with their sizes in bytes."""
        try:
            entries = self._room.box.list_files()
        except SandboxFileError as error:
            raise ToolError(str(error)) from None
        lines = [f"{e.path} {e.size}" for e in entries if e.kind == "file"]
        lines += [f"{e.path} ({e.kind})" for e in entries if e.kind in ("link", "other")]
        return "\n".join(lines) or "no files"

    @tool
    def run_tests(self) -> str:
        """Run the visible tests on the files of the workspace, somewhere else."""
        data = self._data()
        if not data["visible"]:
            raise ToolError(_NO_TESTS)
        files = self._files()
        if not files:
            raise ToolError(f"there is no {data['module'] or 'file'} that can be read")
        return reported(self._visible(data, files, self._clock))

    # -- grading -----------------------------------------------------------------------------------

    def grade(self, answer: str | None) -> Verdict:
        """Whether the hidden tests pass on the files as they are; the answer's text is nothing.

        Files that are as they were at the start have solved nothing, and are not run."""
        files, start = self._files(), self.task.data["files"]
        if not files or all(start.get(path) == text for path, text in files.items()):
            return Verdict({"solved": 0.0, "visible": 0.0}, self.weights, False, VERSION)
        data = self._data()
        hidden, visible = verify_all(data, files, backend=self.backend, stop=self._stop)
        passed, new = hidden.passed, _share(data, visible.results)
        return Verdict({"solved": float(passed), "visible": new}, self.weights, passed, VERSION)

    def _files(self) -> dict[str, str] | None:
        """What is graded; None or empty where there is nothing."""
        if self.task.data["kind"] == "package":
            return self._room.read_all()
        module = self.task.data["module"]
        text = self._room.read(module)
        return None if text is None else {module: text}

    def _data(self) -> dict[str, Any]:
        """The task's data. Examples of a prompt may be wrong: those that the gold solution fails
        are no tests."""
        data: dict[str, Any] = self.task.data
        if not data.get("untried"):
            return data
        known = self._sound.get(self.task.id)
        if known is None:
            results = self._visible(data, data["solution"], None)
            tried = zip(data["visible"], results, strict=True)
            known = self._sound[self.task.id] = [test for test, r in tried if r.passed]
        return {**data, "visible": known}

    def _visible(
        self, data: dict[str, Any], files: dict[str, str], clock: Clock | None
    ) -> list[TestResult]:
        where: dict[str, Any] = {"backend": self.backend, "stop": self._stop}
        return verify(data, files, tests="visible", clock=clock, **where).results

    def corrupt(self, kind: FaultKind, call: ToolCall, content: str, u: float) -> str:
        """Another digit or truth value; another outcome of a test; or fewer lines."""
        if kind == "truncated":
            return shortened(content, u)
        return flipped(content, u) if call.name == "run_tests" else altered(content, u)

    @staticmethod
    def oracle(task: Task, messages: list[Message]) -> Move:
        """Write the solution, run the tests, and finish; a call that failed is made again."""
        done = [m for m in messages if m["role"] == "tool" and not _is_error(m["content"])]
        start = task.data["files"]
        new = {p: text for p, text in task.data["solution"].items() if start.get(p) != text}
        calls = [ToolCall("write_file", {"path": p, "content": text}) for p, text in new.items()]
        calls += [ToolCall("run_tests", {})] if task.data["visible"] else []
        return [calls[len(done)]] if len(done) < len(calls) else "done"

    def _act(self, move: Move, kept: Move | Text) -> Outcome:
        """Every turn has a clock of its own, so that no turn is as long as to count as hung."""
        self._clock = Clock(TURN_SECONDS)
        return super()._act(move, kept)

    # -- state -------------------------------------------------------------------------------------

    @property
    def _room(self) -> Workspace:
        assert self._workspace is not None, "reset() comes first"
        return self._workspace

    def setup(self, task: Task) -> None:
        """A new sandbox with the task's files in it. ValueError for a task of another form."""
        missing = sorted(NEEDED - task.data.keys()) if isinstance(task.data, dict) else NEEDED
        if missing:
            raise ValueError(f"task {task.id!r}: its data lack {', '.join(missing)}; see verify()")
        self._workspace = Workspace(self.backend, task.data["files"])

    def save(self) -> Saved:
        """See `ToolEnv`; what the sandbox cannot capture it names."""
        return Saved(self._room, self._room.save())

    def load(self, saved: Saved) -> None:
        """Go back to a state, maybe of an earlier episode's sandbox."""
        if saved.workspace is not self._workspace:
            self.teardown()
            self._workspace = saved.workspace
        saved.workspace.box.rollback(saved.snapshot)

    def drop(self, saved: Saved) -> None:
        """Give up a state, and its sandbox with the last one of it."""
        room = saved.workspace
        room.kept -= 1
        if not self.closed:  # else a call may be running in it: teardown ends all at once
            room.box.release(saved.snapshot)
        if room is not self._workspace and not room.kept:
            room.box.close()

    def teardown(self) -> None:
        """Leave the sandbox; it ends unless a state is kept of it. On close all that runs ends."""
        room, self._workspace = self._workspace, None
        if self.closed:
            self._stop()
        if room is not None and (self.closed or not room.kept):
            room.box.close()


def _relative(path: str) -> str:
    """The path, which must not be absolute: `/workspace/a` is not `a` here."""
    if path.startswith("/"):
        raise ToolError(f"{path[:100]!r} is absolute; paths are relative to the workspace")
    return path


def _said(result: ExecResult) -> str:
    return result.text() or "(nothing was printed)"


def _is_error(content: str) -> bool:
    return content.startswith("error: ") and _NO_TESTS not in content


def _share(data: dict[str, Any], results: list[TestResult]) -> float:
    """Of the visible tests that do not pass at the start, the share that does."""
    new = [r.passed for r in results if r.name not in data.get("passing", ())]
    return sum(new) / max(1, len(new))
