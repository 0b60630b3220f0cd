"""Nothing stays behind: after close, after a lost session, after the host is killed or stopped."""

import multiprocessing
import os
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from agent_envs.errors import BackendUnavailable
from agent_envs.sandbox import Sandbox, SandboxClosed, budget, close_zygotes, identity
from tests.sandbox.conftest import Make
from tests.sandbox.leftovers import (
    NONE_LEFT,
    alive,
    descendants,
    descriptors,
    left_since,
    traces,
    wait_until,
    zygote_pid,
)

ROOT = Path(__file__).parents[2]
HOST = """
import signal, sys, threading, warnings
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored below a job in the background
warnings.simplefilter("ignore")
from agent_envs.sandbox import Sandbox
boxes = [Sandbox(sys.argv[1]) for _ in range(3)]
for box in boxes:
    box.run_python("import os\\nopen('f', 'w').write('x')")
    box.snapshot()
    box.run_python("y = 1")
busy = "import os\\nfor i in range(5):\\n  if os.fork() == 0: os.setsid()\\nwhile True: pass"
threading.Thread(target=boxes[0].run_python, args=(busy,), kwargs={"seconds": 60}).start()
print("ready", flush=True)
boxes[1].run_python("import time; time.sleep(60)", seconds=60)
"""


@pytest.fixture
def host(backend: str) -> Iterator["subprocess.Popen[str]"]:
    """A process with three sandboxes, two of them in the middle of a call."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOST, backend],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    wait_until(lambda: len(descendants(process.pid)) > 10)
    with process:
        yield process
        process.kill()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_host_that_is_ended_leaves_nothing(
    host: "subprocess.Popen[str]", backend: str, number: int
) -> None:
    before = traces(host.pid)
    assert len(before.processes) > 10
    assert len(before.folders) == (0 if backend == "namespace" else 3) or os.getuid() != 0
    if number == signal.SIGINT:
        os.killpg(host.pid, number)  # as a terminal does: everybody in the group gets it
        wait_until(lambda: not alive(host.pid), 3)
        host.kill()  # its other thread is still in a call
    else:
        host.send_signal(number)
    assert wait_until(lambda: not any(map(alive, before.processes))), "processes"
    assert wait_until(lambda: not traces(host.pid).groups), "cgroups"
    assert wait_until(lambda: not traces(host.pid).folders), "folders"


@pytest.mark.parametrize("victim", ["zygote", "supervisor"])
def test_killed_servants_take_everything_with_them(
    host: "subprocess.Popen[str]", victim: str
) -> None:
    before = traces(host.pid)
    zygotes = [pid for pid in before.processes if parent(pid) == host.pid]
    supervisors = [pid for pid in before.processes if parent(pid) in zygotes]
    assert len(zygotes) == 1 and len(supervisors) == 3
    spared = set() if victim == "zygote" else set(zygotes)
    for pid in zygotes if victim == "zygote" else supervisors:
        os.kill(pid, signal.SIGKILL)
    assert wait_until(lambda: not any(alive(pid) for pid in before.processes - spared))
    host.kill()
    assert wait_until(lambda: not traces(host.pid).folders)


def parent(pid: int) -> int:
    """A process's parent."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def test_close_leaves_the_zygote_and_nothing_else(backend: str, make: Make) -> None:
    make(backend).close()
    before, opened = traces(os.getpid()), descriptors()
    boxes = [make(backend) for _ in range(3)]
    for box in boxes:
        box.run_python("import os\nif os.fork() == 0: os.setsid()")
        box.snapshot()
        box.run_python("while True: pass", seconds=0.1)
        box.write_file("a/b", "c")
    assert len(traces(os.getpid()).processes) > len(before.processes)
    for box in boxes:
        box.close()
    assert left_since(before) == NONE_LEFT
    assert descriptors() == opened


def test_zygotes_can_be_closed_and_start_again(backend: str, make: Make) -> None:
    box = make(backend)
    zygote = zygote_pid(backend)
    below = {zygote, *descendants(zygote)}
    close_zygotes()
    assert wait_until(lambda: not any(map(alive, below)))
    assert box.run_python("1").ended in ("killed", "ok")
    assert box.run_python("2").value == "2", "a new session in a new zygote"


@pytest.mark.parametrize("numbers", range(6))
def test_session_that_cannot_start_ends_no_other(backend: str, make: Make, numbers: int) -> None:
    """Its zygote has so many descriptors left."""
    box = make(backend)
    box.run_python("x = 1")
    pid = zygote_pid(backend)
    before = descendants(pid)
    limits = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    used = set(map(int, os.listdir(f"/proc/{pid}/fd")))
    free = [number for number in range(len(used) + numbers + 1) if number not in used]
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (free[numbers], limits[1]))
    try:
        with pytest.raises(BackendUnavailable) if numbers < 2 else suppress(BackendUnavailable):
            make(backend).close()
    finally:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, limits)
    assert zygote_pid(backend) == pid and box.run_python("x").value == "1"
    box.close()
    assert make(backend).run_python("2").value == "2"
    assert wait_until(lambda: len(descendants(pid)) == len(before))


def test_lost_session_is_the_models_failure(backend: str, make: Make) -> None:
    earlier = descendants(zygote_pid(backend))
    box = make(backend)
    box.run_python("x = 1; open('f', 'w').write('1')")
    before = box.snapshot()
    before_killed = descendants(zygote_pid(backend)) - earlier
    other = make(backend)
    other.close()
    supervisor = next(pid for pid in before_killed if parent(pid) == zygote_pid(backend))
    os.kill(supervisor, signal.SIGKILL)
    result = box.run_python("x")
    assert result.ended == "killed" and "sandbox was lost" in result.notes[0]
    assert "NameError" in (box.run_python("x").error or "")
    box.rollback(before)
    assert box.run_python("x, open('f').read()").value == "(1, '1')"


def test_interrupt_ends_the_call_and_the_sandbox_goes_on(box: Sandbox) -> None:
    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    box.run_python("x = 1")
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        with pytest.raises(KeyboardInterrupt):
            box.run_python("x = 2\nwhile True: pass", seconds=60)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert box.run_python("x").value == "1"


def in_a_fork(box: Sandbox, queue: "multiprocessing.Queue[object]") -> None:
    """What a worker that was forked may do with its parent's sandbox, and with one of its own."""
    assert len(budget) == 0
    for use in (lambda: box.run_python("x = 2"), box.snapshot):
        with pytest.raises(SandboxClosed):
            use()
    box.close()
    with Sandbox(box.capabilities.backend) as own:
        queue.put(own.run_python("6 * 7").value)


@contextmanager
def held(*locks: AbstractContextManager[object]) -> Iterator[None]:
    """Another thread holds all of these for a while."""
    holding, enough = threading.Event(), threading.Event()

    def hold() -> None:
        with ExitStack() as stack:
            for lock in locks:
                stack.enter_context(lock)
            holding.set()
            enough.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    holding.wait()
    yield
    enough.set()
    thread.join()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_fork_of_the_host_leaves_the_parents_sandboxes_alone(backend: str, make: Make) -> None:
    box = make(backend)
    box.run_python("x = 1")
    before = box.snapshot()
    context = multiprocessing.get_context("fork")
    queue: multiprocessing.Queue[object] = context.Queue()
    worker = context.Process(target=in_a_fork, args=(box, queue))
    with held(box._lock, budget._lock, identity._lock):  # by a thread that no fork has
        worker.start()
    assert queue.get(timeout=30) == "42"
    worker.join()
    assert worker.exitcode == 0
    assert box.run_python("x").value == "1"
    box.rollback(before)


def test_closing_between_a_call_and_its_answer_says_so(
    box: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    send = box._channel._send

    def send_and_close(*arguments: Any) -> None:
        send(*arguments)
        box.close()

    monkeypatch.setattr(box._channel, "_send", send_and_close)
    with pytest.raises(SandboxClosed):
        box.run_python("x = 1")


def test_closing_many_while_they_run(backend: str, make: Make) -> None:
    boxes = [make(backend) for _ in range(4)]
    ended = []

    def run(box: Sandbox) -> None:
        try:
            while True:
                box.run_python("x = 1")
        except SandboxClosed:
            ended.append(box)

    threads = [threading.Thread(target=run, args=(box,)) for box in boxes]
    for thread in threads:
        thread.start()
    for box in boxes:
        box.close()
    for thread in threads:
        thread.join(20)
    assert len(ended) == 4


SLOW_TO_DIE = """
import os, signal, subprocess, threading, time
from agent_envs.sandbox.inner import processes

def kill_later(pid):
    doomed.setdefault(pid, threading.Timer(1, os.kill, [pid, signal.SIGKILL]).start())

doomed, processes.kill = {}, kill_later
child = subprocess.Popen(["sleep", "60"]).pid
processes.Processes.everyone = lambda self: [child] * os.path.exists(f"/proc/{child}")
print(processes.Processes(os.open("/proc", os.O_RDONLY), alone=True).sweep(()))
"""


def test_sweep_waits_for_what_needs_a_while_to_die() -> None:
    """As on a busy machine, where the killed are not given the processor to end on."""
    command = [sys.executable, "-c", SLOW_TO_DIE]
    assert subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout == "1\n"
