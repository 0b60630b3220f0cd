"""The code environment: its tools, its faults, its snapshots, and who is paid."""

import re
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import gymnasium
import pytest
from gymnasium.envs.registration import EnvSpec

from agent_envs.env import ToolEnv
from agent_envs.envs.code import workspace
from agent_envs.envs.code.cheats import CHEATS
from agent_envs.envs.code.env import Code
from agent_envs.envs.code.tasks import CodeTasks
from agent_envs.errors import BackendUnavailable, SnapshotUnsupported
from agent_envs.sandbox import probe, probe_all
from agent_envs.task import Task
from agent_envs.testing import check_tool_env
from agent_envs.turns import Message, Move, ToolCall, ToolResult
from agent_envs.verifiers.unit_tests import boxes

pytestmark = pytest.mark.skipif(
    not any(report.works for report in probe_all() if report.backend in ("namespace", "landlock")),
    reason="no sandbox for untrusted code works on this machine: see agent-envs doctor",
)
TASKS = CodeTasks()
LEVELS = range(5)
every_level = pytest.mark.parametrize("level", LEVELS)


@pytest.fixture
def env() -> Iterator[Code]:
    """An env on a small function, reset."""
    made = Code()
    made.reset(seed=1, options={"task": "code/0/heldout/001"})
    yield made
    made.close()


def use(env: Code, tool: str, **arguments: str) -> ToolResult:
    """One call."""
    return env.call(ToolCall(tool, arguments))


def play(env: Code, task: Task, move: Any) -> tuple[float, dict[str, Any]]:
    """The sum of rewards and the last info; `move` gives text or moves from a conversation."""
    messages: list[Message] = list(env.reset(seed=1, options={"task": task})[1]["messages"])
    total, info = 0.0, {}
    while not env.ended:
        chosen: str | Move = move(messages)
        said = env.step(chosen) if isinstance(chosen, str) else env.act(chosen)
        total, info = total + said[1], said[4]
        messages += [{"role": "assistant", "content": ""}, *info["messages"]]
    return total, info


# -- tools ---------------------------------------------------------------------------------------


def test_python_keeps_its_session(env: Code) -> None:
    assert use(env, "python", code="x = 20\nprint('hi')").content == "hi"
    assert use(env, "python", code="x + 1").content == "21"
    assert use(env, "python", code="y = x").content == "(nothing was printed)"


def test_python_says_what_went_wrong(env: Code) -> None:
    failed = use(env, "python", code="1/0")
    assert failed.error == "failed" and "ZeroDivisionError" in failed.content
    left = use(env, "python", code="import os; os._exit(3)")
    assert left.error == "failed" and "killed" in left.content
    late = use(env, "python", code="x = 1\nwhile True: pass")
    assert late.error == "timeout" and late.content.startswith("[out of time")
    assert "signal" not in late.content, "that depends on which limit came first"
    assert use(env, "python", code="2 + 2").content == "4"


def test_files_are_shared_with_the_session(env: Code) -> None:
    assert use(env, "write_file", path="lib/a.py", content="B = 'é'\n").content == "9 bytes written"
    assert use(env, "read_file", path="lib/a.py").content == "B = 'é'\n"
    assert use(env, "python", code="from lib.a import B; B").content == "'é'"
    listed = use(env, "list_files").content.split("\n")
    assert "lib/a.py 9" in listed and any(line.startswith("solution.py ") for line in listed)


@pytest.mark.parametrize("path", ["", "..", "../x", "/etc/passwd", "a/../../b", "x" * 5000, "a\0b"])
def test_paths_outside_are_refused(env: Code, path: str) -> None:
    for tool, more in (("read_file", {}), ("write_file", {"content": "x"})):
        assert use(env, tool, path=path, **more).error == "failed"


def test_links_are_not_followed(env: Code) -> None:
    use(env, "python", code="import os; os.symlink('/etc/passwd', 'p'); os.mkfifo('q')")
    assert use(env, "read_file", path="p").error == "failed"
    assert use(env, "read_file", path="q").error == "failed"
    assert "p (link)" in use(env, "list_files").content


def test_run_tests_shows_the_visible_ones_only(env: Code) -> None:
    before = use(env, "run_tests").content.split("\n")
    assert before[0] == "0 of 3 visible tests pass" and len(before) == 4
    use(env, "write_file", path="solution.py", content=env.task.data["solution"]["solution.py"])
    after = use(env, "run_tests").content.split("\n")
    assert after[0] == "3 of 3 visible tests pass"
    assert all(line.startswith("passed: ") for line in after[1:])


def test_run_tests_runs_elsewhere(env: Code) -> None:
    """Neither a patched session nor what the solution does to its own process shows."""
    use(env, "python", code="import builtins, json; json.loads = None; del builtins.len")
    use(env, "write_file", path="solution.py", content="open('left', 'w').write('x')\n")
    assert use(env, "run_tests").content.startswith("0 of 3 visible")
    assert "left" not in use(env, "list_files").content


def test_without_a_solution_there_is_nothing_to_run(env: Code) -> None:
    use(env, "python", code="import os; os.remove('solution.py')")
    assert use(env, "run_tests").error == "failed"
    verdict = env.finish("done")
    assert verdict is not None
    assert (verdict.passed, verdict.components) == (False, {"solved": 0.0, "visible": 0.0})


@pytest.mark.parametrize(
    "code",
    [
        "open('solution.py', 'wb').write(b'\\xff\\xfe')",
        "open('solution.py', 'w').write('x = 1\\n' * 100_000)",
        "import os; os.remove('solution.py'); os.mkfifo('solution.py')",
        "import os; os.remove('solution.py'); os.mkdir('solution.py')",
        "import os; os.remove('solution.py'); os.symlink('/proc/self/environ', 'solution.py')",
    ],
)
def test_a_solution_that_is_no_text_file_scores_nothing(env: Code, code: str) -> None:
    assert use(env, "python", code=code).error is None
    verdict = env.finish("done")
    assert verdict is not None and not verdict.passed


# -- who is paid -----------------------------------------------------------------------------------


@every_level
def test_the_oracle_is_paid_even_if_tools_fail(level: int) -> None:
    env = Code(fault_rate={"error": 0.2, "timeout": 0.2, "wrong": 0.2, "truncated": 0.1})
    for split in TASKS.splits:
        task = TASKS.split(split, level)[0]
        total, info = play(env, task, lambda messages, task=task: env.oracle(task, messages))
        assert (total, info["verdict"].passed, info["end_reason"]) == (1.0, True, "answer"), task
        assert info["verdict"].components == {"solved": 1.0, "visible": 1.0}
    env.close()


_OF_FUNCTIONS = ("hard_coded", "equal", "frames")
_OF_PACKAGES = ("overwritten_tests", "conftest", "sitecustomize", "os_exit", "at_exit", "patches")


@every_level
def test_no_cheat_is_paid(level: int) -> None:
    """All cheats on functions and programs; else those that the kind of task may matter to."""
    env = Code()
    task = TASKS.split("heldout", level)[1]
    for name in CHEATS if level in (0, 3) else _OF_PACKAGES if level == 4 else _OF_FUNCTIONS:
        cheat = CHEATS[name]
        total, info = play(env, task, cheat)
        assert info["verdict"] is not None, name
        assert (total, info["verdict"].passed) == (0.0, False), name
        assert info["end_reason"] == "answer"
    assert play(env, task, lambda messages: env.oracle(task, messages))[0] == 1.0
    env.close()


@pytest.mark.parametrize("level", [0, 1, 2, 3])
def test_hard_coding_does_pass_the_visible_tests(level: int) -> None:
    """A test of the cheat: it is no straw man."""
    env = Code()
    shares = [
        play(env, task, CHEATS["hard_coded"])[1]["verdict"].components["visible"]
        for task in TASKS.split("train", level)[:4]
    ]
    assert max(shares) == 1.0
    env.close()


def test_breaking_what_worked_is_no_repair() -> None:
    """Of a package the tests that passed before count too."""
    env = Code()
    task = TASKS.split("heldout", 4)[0]
    broken = task.data["mutants"][-1]
    env.reset(options={"task": task})
    for path, text in broken.items():
        use(env, "write_file", path=path, content=text)
    verdict = env.finish("done")
    assert verdict is not None and not verdict.passed
    assert verdict.components["visible"] == 1.0, "those that failed at first do pass"
    env.close()


def test_tests_are_run_in_their_original_form() -> None:
    env = Code()
    task = TASKS.split("heldout", 4)[0]
    env.reset(options={"task": task})
    for test in task.data["visible"]:
        use(env, "write_file", path=test["path"], content="")
    report = use(env, "run_tests").content
    assert report.count("\nfailed: ") == sum(
        len(test["names"]) for test in task.data["visible"] if test["must"] == "fail_to_pass"
    )
    env.close()


@pytest.mark.parametrize(
    "code",
    [
        "import os, signal; os.kill(os.getppid(), signal.SIGKILL); os.kill(0, 9)",
        "import ctypes; ctypes.string_at(0)",
        "import os\nwhile True: os.fork()",
        "x = []\nwhile True: x.append(bytearray(10**7))",
        "print('x' * 10**8)",
    ],
)
@pytest.mark.parametrize("backend", ["namespace", "landlock"])
@pytest.mark.filterwarnings("ignore::agent_envs.sandbox.SandboxWarning")
def test_a_crash_is_the_models_failure(backend: str, code: str) -> None:
    if not probe(backend).works:
        pytest.skip(f"{backend}: {probe(backend).why}")
    env = Code(backend=backend)
    env.reset(seed=1, options={"task": "code/0/heldout/001"})
    use(env, "python", code=code)
    _, reward, terminated, truncated, info = env.act("done")
    assert (reward, terminated, truncated) == (0.0, True, False)
    assert info["infrastructure_error"] is None and not info["verdict"].passed
    env.close()


def test_sleeping_is_the_models_failure(env: Code, monkeypatch: pytest.MonkeyPatch) -> None:
    """A step is never so long that it counts as hung, and its episode as none."""
    monkeypatch.setattr(boxes, "PATIENCE", 1.0)
    for module in (boxes, workspace):  # how long it goes on must not hang on what else runs here
        monkeypatch.setattr(module, "crowding", lambda: 1.0)
    name = env.task.data["entry_point"]
    sleeper = f"import time\n\ndef {name}(*args):\n    time.sleep(0.3)\n"
    use(env, "write_file", path="solution.py", content=sleeper)
    nap = ToolCall("python", {"code": "import time; time.sleep(0.4)"})
    results = [result for _, result in env.act([nap] * 8 + [ToolCall("run_tests", {})])[4]["calls"]]
    said = [result.content for result in results]
    late = "error: timed out: the calls of this turn have taken too long together"
    assert said[0] == "(nothing was printed)" and said[7] == late and results[7].error == "timeout"
    assert re.search(r"failed: case \d+: out of time, all tests together", said[8])
    _, reward, terminated, _, info = env.act("done")
    assert (reward, terminated, info["infrastructure_error"]) == (0.0, True, None)


def test_what_is_missing_here_is_infrastructure(monkeypatch: pytest.MonkeyPatch) -> None:
    def down(*args: Any, **kwargs: Any) -> None:
        raise BackendUnavailable("no sandbox; do this")

    env = Code()
    env.reset(seed=1)
    use(env, "write_file", path="solution.py", content="x = 1\n")
    monkeypatch.setattr("agent_envs.envs.code.env.verify_all", down)
    _, reward, terminated, truncated, info = env.act("done")
    assert (reward, terminated, truncated) == (0.0, False, True)
    assert info["infrastructure_error"] == "no sandbox; do this" and info["verdict"] is None
    env.close()


def test_an_unknown_backend_is_refused_when_it_is_made() -> None:
    with pytest.raises(ValueError, match="no backend 'chroot'; there are auto, "):
        Code(backend="chroot")
    with pytest.raises(ValueError, match="no backend 'namepsace' .did you mean 'namespace'"):
        Code(backend="namepsace")


# -- faults ----------------------------------------------------------------------------------------

REPORT = "1 of 2 visible tests pass\npassed: tests/a.py::b\nfailed: case 2: gave: 3"


def test_a_wrong_report_has_another_outcome_and_fits_its_count() -> None:
    call = ToolCall("run_tests", {})
    seen = {Code.corrupt(Code(), "wrong", call, REPORT, u / 10) for u in range(10)}
    assert seen == {
        "0 of 2 visible tests pass\nfailed: tests/a.py::b: out of time\nfailed: case 2: gave: 3",
        "2 of 2 visible tests pass\npassed: tests/a.py::b\npassed: case 2",
    }


@pytest.mark.parametrize(
    ("kind", "content", "seen"),
    [
        ("wrong", "7", {"0", "1", "2", "3", "4", "5", "6", "8", "9"}),
        ("wrong", "True", {"False"}),
        ("truncated", "a\nb\nc", {"a", "a\nb"}),
        ("truncated", "ab", {"a"}),
        ("wrong", "---", {"---"}),
    ],
)
def test_other_results_keep_their_form(kind: Any, content: str, seen: set[str]) -> None:
    env, call = Code(), ToolCall("python", {"code": ""})
    assert {env.corrupt(kind, call, content, u / 997) for u in range(997)} == seen


def test_faults_are_flagged(env: Code) -> None:
    noisy = Code(fault_rate={"stale": 1.0})
    noisy.reset(seed=1, options={"task": env.task})
    before = use(noisy, "list_files")
    assert before.fault is None
    use(noisy, "write_file", path="solution.py", content="x")
    stale = use(noisy, "list_files")
    assert (stale.fault, stale.content) == ("stale", before.content)
    assert stale.truth == "solution.py 1"
    noisy.close()
    late = Code(fault_rate={"timeout": 1.0})
    late.reset(seed=1)
    assert (use(late, "run_tests").error, use(late, "run_tests").fault) == ("timeout", "timeout")
    late.close()


# -- snapshots -------------------------------------------------------------------------------------


def test_rollback_brings_back_variables_and_files(env: Code) -> None:
    use(env, "python", code="x = [1]")
    before = env.snapshot()
    use(env, "python", code="x.append(2); open('new', 'w').close()")
    use(env, "write_file", path="solution.py", content="gone")
    for _ in range(2):
        env.rollback(before)
        assert use(env, "python", code="x").content == "[1]"
        assert "new" not in use(env, "list_files").content
        assert use(env, "read_file", path="solution.py").content != "gone"


def test_a_snapshot_outlives_its_episode(env: Code) -> None:
    use(env, "python", code="x = 5")
    early = env.snapshot()
    env.finish("done")
    ended = env.snapshot()
    for task in ("code/3/train/000", "code/4/train/000"):
        env.reset(seed=2, options={"task": task})
        use(env, "python", code="x = 6")
    other = env.snapshot()
    env.rollback(early)
    assert (env.task.id, use(env, "python", code="x").content) == ("code/0/heldout/001", "5")
    env.rollback(other)
    assert (env.task.id, use(env, "python", code="x").content) == ("code/4/train/000", "6")
    env.rollback(ended)
    assert env.ended
    env.release(early, ended)
    env.rollback(other)
    assert use(env, "python", code="x").content == "6"


def test_what_cannot_be_captured_is_named(env: Code) -> None:
    use(env, "python", code="import mmap; m = mmap.mmap(-1, 4096)")
    with pytest.raises(SnapshotUnsupported, match="mapping|shared"):
        env.snapshot()
    handle = env.snapshot(on_refusal="mark")
    assert handle.refused
    with pytest.raises(SnapshotUnsupported):
        env.rollback(handle)
    use(env, "python", code="m.close(); del m")
    env.rollback(env.snapshot())


def test_a_fork_goes_its_own_way(env: Code) -> None:
    use(env, "python", code="x = 1")
    twin = env.fork()
    use(env, "python", code="x = 2")
    assert use(twin, "python", code="x").content == "1"
    env.close()
    assert use(twin, "python", code="x + 1").content == "2"
    twin.close()


LONG = "import time\n\ndef nothing(*args):\n    time.sleep(19)\n\n"


@pytest.mark.parametrize("move", [[ToolCall("run_tests", {})], "done"])
@pytest.mark.parametrize("where", ["session", "verifier"])
def test_close_ends_a_running_step(env: Code, move: Move, where: str) -> None:
    """In the agent's sandbox, and in the verifier's."""
    env.snapshot()
    name = env.task.data["entry_point"]
    use(env, "write_file", path="solution.py", content=f"{LONG}{name} = nothing\n")
    if where == "session":
        move = [ToolCall("python", {"code": "import time; time.sleep(19)"})]
    ended = []
    thread = Thread(target=lambda: ended.append(env.act(move)))
    thread.start()
    time.sleep(0.5)
    env.close()
    thread.join(5)
    assert not thread.is_alive()
    assert ended[0][4]["infrastructure_error"] is not None


@pytest.mark.parametrize("task", ["code/2/heldout/000", "code/3/heldout/000", "code/4/heldout/000"])
def test_every_family_can_be_branched(task: str) -> None:
    """From one state the oracle wins in one branch and the null policy loses in the other."""
    env = Code(fault_rate={"wrong": 0.3})
    _, info = env.reset(seed=3, options={"task": task})
    use(env, "python", code="seen = 1")
    start = env.snapshot()
    for passes in (True, False, True):
        messages = list(info["messages"])
        env.rollback(start)
        while passes and not env.ended:
            said = env.act(env.oracle(env.task, messages))[4]["messages"]
            messages += [{"role": "assistant", "content": ""}, *said]
        verdict = env.finish("nothing to do")
        assert verdict is not None and verdict.passed is passes
    env.close()


# -- the contract ----------------------------------------------------------------------------------


def test_arguments_have_a_json_form(tmp_path: Path) -> None:
    env = gymnasium.make("agent/Code-v0", backend="auto", split="heldout", level=2)
    assert env.spec is not None
    again = gymnasium.make(EnvSpec.from_json(env.spec.to_json()))
    assert isinstance(again, Code) and (again.backend, again.level) == ("auto", 2)
    assert env.reset(seed=5)[0] == again.reset(seed=5)[0]
    env.close()
    again.close()


def test_what_the_class_declares() -> None:
    assert issubclass(Code, ToolEnv) and not Code.state_is_data
    assert Code.components == ("solved", "visible")
    assert list(Code.tools) == ["python", "write_file", "read_file", "list_files", "run_tests"]
    assert Code.volatile == {"clock", "entropy", "process ids"}


@pytest.mark.soak(len(LEVELS))
def test_it_conforms(rounds: int) -> None:
    """On each level; level 0 is where an episode takes the least time."""
    for level in LEVELS[:rounds]:

        def made(level: int = level, **arguments: Any) -> Code:
            env = gymnasium.make("agent/Code-v0", level=level, **arguments)
            assert isinstance(env, Code)
            return env

        check_tool_env(made, examples=3, depth=12, tasks=1)
