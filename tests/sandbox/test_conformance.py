"""What every backend promises about calls, commands and files."""

import threading
import time
from pathlib import Path
from typing import Any

import pytest

from agent_envs.sandbox import Limits, Sandbox, SandboxClosed, SandboxFileError

MEGABYTE = 1 << 20


def test_session_keeps_its_names(box: Sandbox) -> None:
    box.run_python("import math\nx = [1, 2]")
    box.run_python("def f(n): return math.prod(x) * n")
    assert box.run_python("f(5)").value == "10"


def test_value_is_the_last_expression(box: Sandbox) -> None:
    result = box.run_python("print('out')\nimport sys\nprint('err', file=sys.stderr)\n'x' * 3")
    assert (result.ended, result.value) == ("ok", "'xxx'")
    assert (result.stdout, result.stderr) == ("out\n", "err\n")
    assert box.run_python("y = 1").value is None
    assert box.run_python("None").value is None
    assert box.run_python("").ended == "ok"


def test_exception_is_a_traceback_of_the_cell(box: Sandbox) -> None:
    box.run_python("x = 1")
    result = box.run_python("x = 2\ny = 1\nx / 0")
    assert result.ended == "error" and result.error is not None
    assert "line 3, in <module>" in result.error and "x / 0" in result.error
    assert "agent_envs" not in result.error
    assert box.run_python("x").value == "2", "what ran before the exception counts"


@pytest.mark.parametrize("code", ["x = (", "def f(:", "\0", "'\ud800'", "return 1"])
def test_code_that_does_not_compile(box: Sandbox, code: str) -> None:
    assert box.run_python(code).ended in ("error", "ok")
    assert box.run_python("1 + 1").value == "2"


def test_classes_pickle_and_dataclasses_work(box: Sandbox) -> None:
    box.run_python("from dataclasses import dataclass\n@dataclass\nclass P:\n    n: int")
    assert box.run_python("import pickle; pickle.loads(pickle.dumps(P(3)))").value == "P(n=3)"


def test_nothing_of_ours_can_be_imported_by_name(box: Sandbox) -> None:
    result = box.run_python("import agent_envs")
    assert result.error is not None and "ModuleNotFoundError" in result.error


def test_same_code_gives_the_same_bytes_in_every_session(backend: str, make: type) -> None:
    code = "import random; print({'a', 'b', 'c', 'd', 'e'}, random.random())"
    first, second = make(backend), make(backend)
    assert first.run_python(code).stdout == second.run_python(code).stdout


def test_timeout_puts_the_interpreter_back_and_shows_what_was_printed(box: Sandbox) -> None:
    box.run_python("x = 1")
    result = box.run_python("x = 2\nprint('so far', end='')\nwhile True: pass", seconds=1.0)
    assert (result.ended, result.stdout) == ("timeout", "so far")
    assert "out of time" in result.text()
    assert box.run_python("x").value == "1"


SPIN = """
import os, time
def spin(seconds):
    until = time.process_time() + seconds
    while time.process_time() < until: pass
"""
USED = {
    "by itself": "spin(.2)",
    "by a thread": "import threading\nt = threading.Thread(target=spin, args=(.2,))\n"
    "t.start()\nt.join()",
    "by a child that it waits for": "if os.fork() == 0: spin(.2); os._exit(0)\nos.wait(); None",
    "by a child that it leaves": "if os.fork() == 0: spin(.2); open('spun', 'w'); time.sleep(9)\n"
    "while not os.path.exists('spun'): time.sleep(.01)",
    "by a call that is ended": "spin(.2)\nos._exit(3)",
    "by a call that runs out of time": "spin(99)",
}


@pytest.mark.parametrize("how", USED)
def test_cpu_time_is_told_whoever_uses_it(how: str, box: Sandbox) -> None:
    box.run_python(SPIN + "time.process_time = lambda real=time.process_time: real()")
    assert box.run_python("time.sleep(.2)").cpu_seconds < 0.15
    short = "out of time" in how
    used = box.run_python(USED[how], seconds=1 if short else 60).cpu_seconds
    assert (0 if short else 0.15) < used < 2
    assert 0 < box.run_python("1").cpu_seconds < 0.15, "nothing of the call before"


def test_limit_of_cpu_time_is_for_each_process(backend: str, make: type) -> None:
    box = make(backend, limits=Limits(cpu_seconds=1, seconds=120))
    box.write_file("spin.py", SPIN + "spin(.6)")
    result = box.exec("python3 spin.py; python3 spin.py")
    assert (result.ended, result.exit_code) == ("ok", 0)
    assert result.cpu_seconds > 1.1


@pytest.mark.parametrize("when", ["first", "second"])
def test_memory_is_limited_from_the_first_call_on(backend: str, make: type, when: str) -> None:
    box = make(backend, limits=Limits(memory=200 * MEGABYTE))
    if when == "second":
        box.run_python("1")
    assert box.run_python(f"x = bytearray({300 * MEGABYTE})").ended == "memory"
    assert box.run_python("len(bytearray(1 << 20))").value == str(1 << 20)


def test_output_is_limited_and_what_came_is_shown(box: Sandbox) -> None:
    result = box.run_python("while True: print('A' * 10**6)")
    assert (result.ended, result.cut) == ("output", ("stdout",))
    assert result.stdout == "A" * box.limits.output
    assert "stdout was cut" in result.text()
    result = box.exec("yes >&2")
    assert (result.ended, result.cut) == ("output", ("stderr",))
    assert box.run_python("2").value == "2"


def test_output_that_is_merely_long_is_cut_and_the_call_counts(box: Sandbox) -> None:
    for n in range(20):
        result = box.run_python(f"x = {n}; print('A' * 150_000)")
        assert (result.ended, result.cut) == ("ok", ("stdout",))
        assert result.stdout == "A" * box.limits.output
    assert box.run_python("x").value == "19"


def test_long_values_and_tracebacks_are_cut(box: Sandbox) -> None:
    result = box.run_python("'x' * 50_000_000")
    assert result.ended == "ok" and result.cut == ("value",)
    assert result.value is not None and len(result.value) < 21_000
    result = box.run_python("raise ValueError('y' * 10**6)")
    assert result.ended == "error" and result.cut == ("error",)


def test_code_that_is_too_long_is_an_error_that_says_what_to_do(box: Sandbox) -> None:
    result = box.run_python("x = '" + "a" * 200_000 + "'")
    assert result.ended == "error" and "write a file" in (result.error or "")


@pytest.mark.parametrize(
    ("code", "note"),
    [
        ("import os; os._exit(0)", "exit code 0"),
        ("import os; os.kill(os.getpid(), 9)", "signal 9"),
        ("import ctypes; ctypes.string_at(0)", "signal 11"),
    ],
)
def test_interpreter_that_ends_itself(box: Sandbox, code: str, note: str) -> None:
    box.run_python("x = 1")
    result = box.run_python("x = 2\n" + code)
    assert result.ended == "killed" and any(note in said for said in result.notes)
    assert box.run_python("x").value == "1"


def test_system_exit_is_an_error(box: Sandbox) -> None:
    result = box.run_python("import sys; sys.exit(3)")
    assert result.ended == "error" and "SystemExit: 3" in (result.error or "")


def test_what_a_call_leaves_behind_ends_with_it(box: Sandbox) -> None:
    result = box.run_python("import subprocess; p = subprocess.Popen(['sleep', '50'])")
    assert result.ended == "ok" and "1 processes" in result.notes[0]
    result = box.run_python(
        "import threading, time\n"
        "for _ in range(3): threading.Thread(target=time.sleep, args=(50,)).start()\n"
        "kept = 7"
    )
    assert result.ended == "ok" and "3 threads" in result.notes[0]
    assert box.run_python("kept").value == "7"


def test_threads_that_calls_leave_take_no_room_and_no_lock_with_them(box: Sandbox) -> None:
    code = (
        "import os, threading, zlib\nblob = os.urandom(999) * 99\n"
        "def work():\n  while True: zlib.decompress(zlib.compress(blob))\n"
        "for _ in range(2): threading.Thread(target=work, daemon=True).start()"
    )
    for _ in range(30):
        result = box.run_python(code)
        assert result.ended == "ok" and "2 threads" in result.notes[0], result


def test_subprocesses_threads_and_pools_work_within_a_call(box: Sandbox) -> None:
    code = "import subprocess; subprocess.run(['echo', 'hi'], capture_output=True).stdout"
    assert box.run_python(code).value == "b'hi\\n'"
    code = "import concurrent.futures as c\nwith c.ThreadPoolExecutor(3) as p:"
    result = box.run_python(code + "\n    r = list(p.map(abs, [-1, -2]))")
    assert result.ended == "ok" and box.run_python("r").value == "[1, 2]"
    code = "import subprocess\ntry: subprocess.run(['sleep', '9'], timeout=.1)"
    assert box.run_python(code + "\nexcept subprocess.TimeoutExpired: print('late')").stdout


def test_forks_of_model_code_are_what_python_makes_of_them(box: Sandbox) -> None:
    code = (
        "import os, random\nr, w = os.pipe()\n"
        "if os.fork() == 0: os.write(w, repr(random.random()).encode()); os._exit(0)\n"
        "os.wait(); theirs = os.read(r, 99).decode(); os.close(r); os.close(w)\n"
        "theirs != repr(random.random())"
    )
    assert box.run_python(code).value == "True", "a child has random numbers of its own"
    threads = "import threading, time\nfor _ in range(3): threading.Thread(target=time.sleep, "
    assert box.run_python(threads + "args=(9,)).start()\nthreading.active_count()").value == "4"
    for _ in range(2):
        assert box.run_python("threading.active_count()").value == "1", "those are of a call before"
        joined = "t = threading.Thread(target=print); t.start(); t.join(); t.is_alive()"
        assert box.run_python(joined).value == "False"


def test_stdin_is_empty(box: Sandbox) -> None:
    assert "EOFError" in (box.run_python("input()").error or "")
    assert box.exec("cat").ended == "ok"


def test_exec_runs_a_line_or_a_program(box: Sandbox) -> None:
    box.run_python("open('a.txt', 'w').write('hi')")
    result = box.exec("cat a.txt; echo no >&2; exit 3")
    assert (result.ended, result.exit_code) == ("error", 3)
    assert (result.stdout, result.stderr) == ("hi", "no\n")
    result = box.exec(["echo", "; $(reboot)\n"])
    assert (result.ended, result.exit_code, result.stdout) == ("ok", 0, "; $(reboot)\n\n")


def test_exec_says_what_went_wrong(box: Sandbox) -> None:
    missing = box.exec(["no-such-program"])
    assert (missing.ended, missing.exit_code) == ("error", 127)
    assert missing.error == "no-such-program: No such file or directory"
    assert box.exec([]).ended == "error"
    for null in (["a\0b"], "a\0b"):
        assert "null byte" in (box.exec(null).error or "")
    assert box.exec("sleep 9", seconds=0.2).ended == "timeout"
    assert box.exec("kill -9 $$").ended == "killed"
    assert box.exec("true").ok


def test_exec_is_not_the_interpreter_of_the_cells(box: Sandbox) -> None:
    box.run_python("import os\nos.execvpe = None\nos.environ['X'] = '1'")
    assert box.exec("echo [$X]").stdout == "[]\n"


def test_files_go_in_and_out(box: Sandbox) -> None:
    box.write_file("deep/er/a.bin", bytes(range(256)))
    box.write_file("b.txt", "höhe\n")
    assert box.run_python("open('deep/er/a.bin', 'rb').read() == bytes(range(256))").value == "True"
    box.run_python("import os\nopen('c', 'w').write('c' * 1000)\nos.symlink('c', 'l')")
    assert box.read_file("c") == b"c" * 1000
    assert box.read_file("b.txt").decode() == "höhe\n"
    listed = [(entry.path, entry.kind) for entry in box.list_files()]
    assert ("deep/er/a.bin", "file") in listed and ("l", "link") in listed
    assert [e.size for e in box.list_files() if e.path == "c"] == [1000]
    box.write_file("c", "shorter")
    assert box.read_file("c") == b"shorter"


@pytest.mark.parametrize(
    "path", ["", ".", "..", "../x", "a/../../x", "/", "a\0b", "missing", "f/x"]
)
def test_paths_that_lead_nowhere(box: Sandbox, path: str) -> None:
    box.write_file("f", "1")
    with pytest.raises(SandboxFileError):
        box.read_file(path)
    assert box.run_python("1").value == "1"


def test_absolute_paths_are_below_the_workspace(box: Sandbox) -> None:
    box.write_file("/etc/passwd", "mine")
    assert box.read_file("etc/passwd") == b"mine"


def test_read_file_has_a_limit(box: Sandbox) -> None:
    box.run_python("open('big', 'wb').write(bytes(5000))")
    with pytest.raises(SandboxFileError, match="5000 bytes"):
        box.read_file("big", limit=4999)
    assert len(box.read_file("big", limit=5000)) == 5000


def test_write_file_has_a_limit(backend: str, make: type) -> None:
    box = make(backend, limits=Limits(workspace=MEGABYTE))
    with pytest.raises(SandboxFileError, match="more than the workspace"):
        box.write_file("big", bytes(MEGABYTE + 1))
    box.write_file("small", b"1")


def test_two_sandboxes_see_nothing_of_each_other(backend: str, make: type) -> None:
    first, second = make(backend), make(backend)
    first.run_python("secret = 1\nopen('secret', 'w').write('x')")
    assert "NameError" in (second.run_python("secret").error or "")
    assert second.list_files() == []


def test_close_from_another_thread_ends_a_call(box: Sandbox) -> None:
    timer = threading.Timer(0.3, box.close)
    timer.start()
    started = time.monotonic()
    with pytest.raises(SandboxClosed):
        box.run_python("while True: pass", seconds=30)
    assert time.monotonic() - started < 10
    timer.join()


def test_closed_sandbox_says_so(box: Sandbox) -> None:
    box.close()
    box.close()
    for use in (lambda: box.run_python("1"), box.snapshot, box.list_files):
        with pytest.raises(SandboxClosed):
            use()


@pytest.mark.parametrize(
    ("limit", "said"),
    [
        ({"processes": 0}, "processes=0: a whole number from 1 up"),
        ({"memory": "1G"}, "memory='1G': a whole number of bytes from 1 up"),
        ({"memory": None}, "memory=None: a whole number of bytes"),
        ({"cpu_seconds": 1.5}, "cpu_seconds=1.5: a whole number"),
        ({"entries": True}, "entries=True: a whole number"),
        *(({"seconds": x}, "a number of seconds above 0") for x in (-1, "1", float("inf"), True)),
    ],
    ids=str,
)
def test_limits_are_checked(limit: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Limits(**limit)


@pytest.mark.parametrize(
    ("argument", "said"),
    [
        ({"limits": 5}, "limits=5: Limits"),
        ({"limits": {"seconds": 1}}, "limits={'seconds': 1}: Limits"),
        ({"backend": 5}, "no backend 5; there are auto, namespace"),
        ({"backend": ["auto"]}, "no backend .* there are auto, namespace"),
        ({"backend": "namepsace"}, "did you mean 'namespace'"),
        ({"packages": "numpy"}, "packages='numpy': a list of names"),
        ({"packages": None}, "packages=None: a list of names"),
        ({"packages": ["numpy", 5]}, "packages: 5 in it"),
        ({"interpreter": 5}, "interpreter=5: the path of a Python"),
        ({"strict": "no"}, "strict='no': True or False"),
        ({"max_snapshots": -1}, "max_snapshots=-1: a whole number"),
    ],
    ids=str,
)
def test_arguments_are_checked(argument: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Sandbox(**argument)


@pytest.mark.parametrize("wrong", [5, None, ["a", 5, None], {"a"}, b"1"], ids=str)
def test_what_is_of_another_type_is_refused_and_changes_nothing(box: Sandbox, wrong: Any) -> None:
    box.run_python("x = 1")
    box.write_file("f", "1")
    use: Any
    for use in (
        lambda: box.run_python(wrong),
        lambda: box.exec(wrong),
        lambda: box.write_file(wrong, b""),
        lambda: box.read_file(wrong),
        *([] if isinstance(wrong, bytes) else [lambda: box.write_file("f", wrong)]),
    ):
        with pytest.raises(TypeError, match="text"):
            use()
    assert box.run_python("x, open('f').read()").value == "(1, '1')"


def test_times_and_sizes_that_are_none(box: Sandbox) -> None:
    seconds: Any
    for seconds in ("1", 0, -1, float("nan"), float("inf")):
        for call in (box.run_python, box.exec):
            with pytest.raises(ValueError, match="a number of seconds above 0"):
                call("1", seconds=seconds)
    for limit in ("1", -1, 1.5):
        with pytest.raises(ValueError, match="a whole number from 0 up"):
            box.read_file("f", limit=limit)  # type: ignore[arg-type]


def test_words_of_a_command_may_be_numbers_and_paths(box: Sandbox) -> None:
    assert box.exec(("echo", 5, Path("a"))).stdout == "5 a\n"  # type: ignore[arg-type]
