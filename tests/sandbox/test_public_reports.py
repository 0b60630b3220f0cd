"""What went wrong in other people's sandboxes, by project and number of the public report."""

import errno
import fcntl
import os
import platform
import signal
import subprocess
import sys
import tempfile
import termios
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_envs.errors import BackendUnavailable
from agent_envs.sandbox import (
    Limits,
    Sandbox,
    SandboxClosed,
    SandboxFileError,
    SandboxWarning,
    cgroup,
)
from agent_envs.sandbox.backends import BACKENDS
from agent_envs.sandbox.probe import _probe, pick, warn_once
from tests.sandbox.conftest import Make
from tests.sandbox.leftovers import alive, descendants, traces, wait_until

ROOT = Path(__file__).parents[2]
MEGABYTE = 1 << 20
LEAVE = "import os\nfor i in range(5):\n  if os.fork() == 0: os.setsid()\n"


@pytest.fixture
def secret() -> Iterator[Path]:
    """A file of the host that anybody may read and write, as far as modes go."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o777)
        path = Path(folder, "secret")
        path.write_text("precious")
        path.chmod(0o666)
        yield path
        assert path.read_text() == "precious" and path.stat().st_mode & 0o777 == 0o666


def test_inspect_1357_1585_2779_a_timeout_ends_all_that_ran(box: Sandbox) -> None:
    box.run_python("x = 1")
    before = descendants(os.getpid())
    assert box.exec("sleep 70 & setsid sleep 70 & sleep 70", seconds=0.3).ended == "timeout"
    assert box.run_python(LEAVE + "while True: pass", seconds=0.3).ended == "timeout"
    assert wait_until(lambda: not {p for p in descendants(os.getpid()) - before if alive(p)})
    assert box.exec("echo next").stdout == "next\n"


def peak(name: str) -> int:
    """Bytes of this process's memory, by the kernel: VmHWM at most, VmRSS now."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name))


def test_inspect_836_output_does_not_fill_the_host(box: Sandbox) -> None:
    Path("/proc/self/clear_refs").write_text("5")  # the peak counts from here
    before = peak("VmRSS")
    assert box.run_python("while True: print('A' * 10**6)").ended == "output"
    assert box.exec("cat /dev/zero | tr '\\0' x").ended == "output"
    assert peak("VmHWM") - before < 8 * MEGABYTE


def test_inspect_1979_4108_a_timeout_shows_what_came_before(box: Sandbox) -> None:
    for result in (
        box.exec("echo partial; echo why >&2; sleep 60", seconds=1.0),
        box.run_python(
            "import sys, time\nprint('partial')\nprint('why', file=sys.stderr)\ntime.sleep(60)",
            seconds=1.0,
        ),
    ):
        assert (result.ended, result.stderr) == ("timeout", "why\n")
    assert box.exec("echo partial; sleep 60", seconds=1.0).stdout == "partial\n"


def test_qwed_338_floods_fill_no_disk_and_processes_are_limited(backend: str, make: Make) -> None:
    box = make(backend, limits=Limits(processes=20))
    before = traces(os.getpid())
    assert box.exec("yes").ended == "output"
    code = (
        "import os, time\nn = 0\ntry:\n"
        "  while True:\n    if os.fork() == 0: time.sleep(60)\n    n += 1\n"
        "except OSError: pass\nn"
    )
    if backend != "subprocess":  # its processes are counted by uid alone, with room for copies
        assert int(box.run_python(code).value or 10**9) < 40
    assert traces(os.getpid()).folders == before.folders
    assert box.list_files() == []


def test_e2b_736_884_1104_the_third_generation_has_its_files(box: Sandbox) -> None:
    taken = []
    for n in range(4):
        box.write_file(f"file{n}", str(n))
        box.run_python(f"x = {n}; open('all', 'a').write('{n}')")
        taken.append(box.snapshot())
        box.rollback(taken[n])
    for n in (0, 3, 1, 2):
        box.rollback(taken[n])
        assert [e.path for e in box.list_files()] == ["all", *(f"file{i}" for i in range(n + 1))]
        assert box.read_file("all") == "".join(map(str, range(n + 1))).encode()
        assert box.run_python("x").value == str(n)


@pytest.mark.parametrize("copies", [8, 1], ids=["by its copy", "by replay"])
def test_agentuity_1161_1189_success_means_that_the_files_are_there(
    copies: int, backend: str, make: Make
) -> None:
    box = make(backend, max_snapshots=copies)
    box.run_python("import os\nfor i in range(20): open(f'{i}', 'wb').write(bytes([i]) * i)")
    first = box.snapshot()
    manifest = {entry.path: box.read_file(entry.path) for entry in box.list_files()}
    box.exec("rm -rf *")
    box.snapshot()
    box.rollback(first)
    assert {entry.path: box.read_file(entry.path) for entry in box.list_files()} == manifest
    assert len(manifest) == 20


def test_judge0_564_no_planted_link_is_written_through(box: Sandbox, secret: Path) -> None:
    before = box.snapshot()
    box.run_python(
        f"import os\nos.symlink({str(secret)!r}, 'out')\nos.symlink({str(secret.parent)!r}, 'd')\n"
        f"os.symlink({str(secret)!r}, os.environ['TMPDIR'] + '/t')"
    )
    for path in ("out", "d/secret", "d/new"):
        with pytest.raises(SandboxFileError):
            box.write_file(path, "forged")
    box.snapshot()
    box.rollback(before)
    box.run_python(f"import os; os.symlink({str(secret.parent)!r}, 'd')")
    box.close()
    assert sorted(secret.parent.iterdir()) == [secret]


@pytest.mark.parametrize(
    "plant",
    ["os.symlink({!r}, 'out')", "os.mkfifo('out')", "os.mkdir('out')", "os.symlink('out', 'out')"],
)
def test_compiler_explorer_6026_output_is_a_regular_file_or_refused(
    plant: str, box: Sandbox, secret: Path
) -> None:
    assert box.run_python("import os; " + plant.format(str(secret))).ok
    with pytest.raises(SandboxFileError):
        box.read_file("out")
    assert box.run_python("os.rename('out', 'o'); open('out', 'w').write('mine')").ok
    assert box.read_file("out") == b"mine"


@pytest.mark.parametrize("path", ["d/secret", "../secret", "d/../secret", "a/../../secret"])
def test_hydro_1111_neither_linked_folders_nor_dots_lead_out(
    path: str, box: Sandbox, secret: Path
) -> None:
    box.run_python(f"import os; os.mkdir('a'); os.symlink({str(secret.parent)!r}, 'd')")
    with pytest.raises(SandboxFileError):
        box.read_file(path)
    with pytest.raises(SandboxFileError):
        box.write_file(path, "forged")


AT_A_TERMINAL = """
import sys, warnings
warnings.simplefilter("ignore")
from agent_envs.sandbox import Sandbox
with Sandbox(sys.argv[1]) as box:
    print(box.run_python('''
import ctypes, os
libc = ctypes.CDLL(None)
opened = []
for name in ("/dev/tty", "/dev/console", "/dev/pts/0", "/proc/self/fd/0"):
    try: opened.append(os.open(name, os.O_RDWR | os.O_NOCTTY))
    except OSError: pass
calls = 0x5412, 0x541C
[libc.ioctl(fd, ctypes.c_ulong(call), b"x") for fd in (0, 1, 2, *opened) for call in calls]
''').value)
"""


def test_bubblewrap_142_555_nothing_can_be_typed_into_the_hosts_terminal(isolated: str) -> None:
    master, slave = os.openpty()
    with subprocess.Popen(
        [sys.executable, "-c", AT_A_TERMINAL, isolated],
        cwd=ROOT,
        stdin=slave,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        text=True,
    ) as host:
        assert host.stdout is not None
        tried = host.stdout.read().strip()
    typed = fcntl.ioctl(slave, termios.FIONREAD, bytes(4))
    os.close(master)
    os.close(slave)
    assert set(tried.strip("[]").split(", ")) == {"-1"}
    assert typed == bytes(4)


def test_bubblewrap_368_namespaces_do_not_nest(isolated: str, make: Make) -> None:
    box = make(isolated)
    for flag in ("--user", "--mount", "--net", "--pid"):
        assert box.exec(["unshare", flag, "true"]).ended == "error"
    code = "import ctypes; ctypes.CDLL(None).unshare(0x10000000)"
    assert box.run_python(code).value == "-1"
    assert box.exec("id -u").stdout != "0\n"


@pytest.mark.skipif(platform.machine() != "x86_64", reason="calls by x86_64 number")
def test_bubblewrap_cve_2019_10063_high_words_do_not_hide_a_call(isolated: str, make: Make) -> None:
    code = (
        "import ctypes\nlibc = ctypes.CDLL(None, use_errno=True)\n"
        "def tried(*a):\n"
        "  libc.syscall(*a)\n  return ctypes.get_errno()\n"
        "[tried(16, 0, ctypes.c_ulong(high | 0x5412), b'x') for high in (0, 1 << 32, 1 << 63)]"
    )
    # /dev/null itself would say ENOTTY: it is the filter that answers.
    assert make(isolated).run_python(code).value == str([errno.EPERM] * 3)


def test_nsjail_69_199_no_cgroup_is_left_or_can_be_made_inside(isolated: str, make: Make) -> None:
    place = cgroup.find_place()
    before = traces(os.getpid()).groups
    for _ in range(10):
        with Sandbox(isolated) as box:
            assert place is None or len(traces(os.getpid()).groups) == len(before) + 1
            code = "import os; os.mkdir('/sys/fs/cgroup/memory/mine')"
            assert box.run_python(code).ended == "error"
            assert box.run_python("os.listdir('/sys')").ended == "error"
    assert traces(os.getpid()).groups == before


def test_isolate_72_84_158_cpu_time_is_a_calls_own(backend: str, make: Make) -> None:
    box = make(backend, limits=Limits(cpu_seconds=1, seconds=20))
    spin = "import time\nuntil = time.process_time() + .4\nwhile time.process_time() < until: pass"
    for _ in range(3):
        assert box.run_python(spin).ok, "it does not add up over calls"
    assert box.run_python("time.sleep(1.2)").ok, "sleep is no CPU time"
    assert box.run_python("while True: pass").ended == "timeout"
    assert box.run_python("while True: time.sleep(1)", seconds=0.5).ended == "timeout"


def test_isolate_123_memory_is_limited_in_the_first_call(backend: str, make: Make) -> None:
    for code in ("x = bytearray(300 << 20)", "x = [bytes(1 << 20) for _ in range(300)]"):
        box = make(backend, limits=Limits(memory=200 * MEGABYTE))
        assert box.run_python(code).ended == "memory"
        assert box.run_python("'next'").value == "'next'"


def test_langbot_69_nsjail_196_a_cgroup_that_cannot_be_written_is_no_cgroup(
    isolated: str, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cgroup, "candidates", lambda: [(Path("/proc/self"), 1)])
    caches = (cgroup.find_place, _probe)
    for cached in caches:
        cached.cache_clear()
    try:
        lacking = BACKENDS[isolated].capabilities().missing()
        assert any("no writable cgroup" in what for what in lacking)
        with pytest.raises(BackendUnavailable, match="no writable cgroup"):
            pick(isolated, strict=True)
        warn_once.cache_clear()
        with pytest.warns(SandboxWarning, match="no writable cgroup"):
            assert make(isolated).run_python("6 * 7").value == "42"
    finally:
        for cached in caches:
            cached.cache_clear()


POLICY = {
    "seconds": (Limits(seconds=0.3), "import time; time.sleep(1)"),
    "memory": (Limits(memory=150 * MEGABYTE), "x = bytearray(200 << 20); del x"),
    "processes": (
        Limits(processes=3),
        "import subprocess as s\nps = [s.Popen(['sleep', '9']) for _ in range(10)]",
    ),
    "output": (Limits(output=1000), "print('x' * 2000)"),
    "workspace": (
        Limits(workspace=MEGABYTE),
        "for i in range(4): open(f'f{i}', 'wb').write(bytes(1 << 19))\n"
        "import time; time.sleep(.6); assert len(open('f3', 'rb').read()) == 1 << 19",
    ),
    "entries": (
        Limits(entries=50),
        "for i in range(100): open(f'f{i}', 'w').close()\nimport time; time.sleep(.6)",
    ),
    "open_files": (Limits(open_files=20), "fs = [open('/dev/null') for _ in range(40)]; del fs"),
}


@pytest.mark.parametrize("what", POLICY)
def test_llm_sandbox_147_every_limit_makes_the_difference(
    what: str, backend: str, make: Make
) -> None:
    limits, code = POLICY[what]
    if what == "processes" and backend == "subprocess":
        pytest.skip("it has no notifications: processes are limited by uid, with room for copies")
    usual = make(backend).run_python(code)
    assert usual.ok and not usual.cut, "as things are, it works"
    box = make(backend, limits=limits)
    result = box.run_python(code)
    assert result.ended != "ok" or result.cut
    assert box.run_python("6 * 7").value == "42"


@pytest.mark.parametrize(
    "name", ["; touch forged", "$(touch forged)", "`touch forged`", "a\nb", "-"]
)
def test_llm_sandbox_147_names_are_no_commands(name: str, box: Sandbox) -> None:
    box.write_file(name, "in")
    assert box.read_file(name) == b"in"
    assert box.exec(["cat", "--", "./" + name]).stdout == "in"
    assert [entry.path for entry in box.list_files()] == [name]


def test_smolagents_2094_2281_2395_no_name_is_the_wall(
    isolated: str, make: Make, secret: Path
) -> None:
    box = make(isolated)
    through = (
        "import ctypes\nlibc = ctypes.CDLL(None)\n"
        "[c for c in ().__class__.__base__.__subclasses__() if c.__name__ == '_wrap_close'][0]"
        ".__init__.__globals__['popen']('cat {0} 2>&1').read(), libc.open(b'{0}', 0),"
        " __builtins__['__import__']('os').system('cat {0} 2>/dev/null') != 0"
    )
    value = box.run_python(through.format(secret)).value
    assert value is not None and "precious" not in value and value.endswith(", -1, True)")
    assert box.run_python("libc.getpid() > 0").value == "True"


def test_sandboxfusion_67_verl_3478_many_at_once_all_answer(backend: str) -> None:
    answers: list[str | None] = []

    def work(n: int) -> None:
        with Sandbox(backend, limits=Limits(seconds=60)) as box:
            for _ in range(3):
                answers.append(box.run_python(f"{n} * {n}").value)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert sorted(map(str, answers)) == sorted(str(n * n) for n in range(16) for _ in range(3))


def test_verifiers_1245_a_sandbox_that_is_gone_says_so(backend: str, make: Make) -> None:
    box = make(backend)
    before = box.snapshot()
    box.close()
    uses = (lambda: box.run_python("1"), lambda: box.rollback(before), lambda: box.read_file("f"))
    for use in uses:
        with pytest.raises(SandboxClosed):
            use()


CTRL_C = """
import sys, warnings
warnings.simplefilter("ignore")
from agent_envs.sandbox import Sandbox
boxes = [Sandbox(sys.argv[1]) for _ in range(2)]
for box in boxes: box.run_python("x = 1"); box.snapshot()
print("ready", flush=True)
boxes[0].run_python("while True: pass", seconds=60)
"""


def test_skyrl_1194_ctrl_c_leaves_no_sandbox(backend: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", CTRL_C, backend],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    ) as host:
        assert host.stdout is not None and host.stdout.readline() == "ready\n"
        below = descendants(host.pid)
        assert len(below) > 4
        os.killpg(host.pid, signal.SIGINT)
    left = traces(host.pid)
    assert wait_until(lambda: not any(map(alive, below)))
    assert not left.groups and not left.folders


def test_dmoj_318_a_compiler_runs_within_the_same_walls(
    isolated: str, make: Make, secret: Path
) -> None:
    box = make(isolated, limits=Limits(seconds=20))
    box.write_file("m.py", f"import py_compile\nopen({str(secret)!r}).read()")
    assert box.exec(["python3", "-m", "py_compile", "m.py"]).ok
    said = box.exec(["python3", "m.py"]).stderr
    assert "PermissionError" in said or "FileNotFoundError" in said
    assert box.exec(["cat", str(secret)]).ended == "error"
    assert box.exec("python3 -c 'import socket; socket.socket(2)'").ended == "error"


def test_cpython_100228_no_thread_crosses_a_fork(box: Sandbox) -> None:
    result = box.run_python(
        "import threading, time\nlock = threading.Lock()\n"
        "def hold():\n    with lock: time.sleep(60)\n"
        "threading.Thread(target=hold).start()\ntime.sleep(.1)"
    )
    assert result.ok and "1 threads ended" in result.notes[0]
    before = box.snapshot()
    for _ in range(2):
        box.rollback(before)
        assert (
            box.run_python("threading.active_count(), lock.acquire(timeout=.1)").value is not None
        )
        again = "t = threading.Thread(target=print, args=('new',)); t.start(); t.join()"
        assert box.run_python(again).stdout == "new\n"
