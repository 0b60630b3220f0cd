"""Thousands of sandboxes: nothing stays, memory is flat, and many at once do not stall.

Counts are those of `make soak`; `make test` runs a fiftieth.
"""

import gc
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from functools import partial
from pathlib import Path

import pytest

from agent_envs.sandbox import Limits, Sandbox, close_zygotes, probe
from tests.sandbox.leftovers import (
    NONE_LEFT,
    alive,
    descendants,
    descriptors,
    left_since,
    of_sandboxes,
    traces,
    wait_until,
)

ROOT = Path(__file__).parents[2]
BACKENDS = ("namespace", "landlock")
SMALL = Limits(workspace=8 << 20, entries=500, total_memory=256 << 20)
MEGABYTE = 1 << 20


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> str:
    """Each backend that isolates, skipped where it does not work."""
    report = probe(request.param)
    if not report.works:
        pytest.skip(f"{request.param}: {report.why}")
    return str(request.param)


@pytest.fixture(autouse=True)
def quiet() -> None:
    """What a backend does not enforce is said elsewhere."""
    warnings.simplefilter("ignore")


def resident(pid: int) -> int:
    """Bytes of memory that a process has to itself or shares."""
    with open(f"/proc/{pid}/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")


def episode(backend: str, n: int) -> None:
    """A session with a branch, and now and then a timeout, a bomb or a fork."""
    with Sandbox(backend, limits=SMALL) as box:
        box.run_python(f"x = {n}; open('f', 'w').write('{n}')")
        before = box.snapshot()
        box.run_python("x = -1; open('f', 'a').write('more'); open('g', 'w').close()")
        if n % 10 == 0:
            assert box.run_python("while True: pass", seconds=0.05).ended == "timeout"
        if n % 25 == 0:
            box.run_python("import os\nfor i in range(9):\n  if os.fork() == 0: os.setsid()")
        if n % 40 == 0:
            with box.fork(before) as other:
                assert other.run_python("x").value == str(n)
        box.rollback(before)
        assert box.run_python("x, open('f').read()").value == f"({n}, '{n}')"


@pytest.mark.soak(10_000)
def test_sessions_leave_nothing_and_memory_is_flat(backend: str, rounds: int) -> None:
    warm = min(rounds // 4, 200)
    for n in range(warm):
        episode(backend, n)
    gc.collect()
    before, opened = traces(os.getpid()), len(descriptors())
    zygotes = of_sandboxes(os.getpid())
    memory = resident(os.getpid()) + sum(map(resident, zygotes))
    for n in range(rounds - warm):
        episode(backend, n)
    gc.collect()
    assert left_since(before) == NONE_LEFT
    assert len(descriptors()) == opened
    grown = resident(os.getpid()) + sum(map(resident, zygotes)) - memory
    assert grown < 8 * MEGABYTE, f"{grown} bytes more"
    close_zygotes()
    assert wait_until(lambda: not of_sandboxes(os.getpid()))


@pytest.mark.soak(600)
def test_64_sessions_at_once_do_not_stall(backend: str, rounds: int) -> None:
    """`rounds` is seconds: ten minutes of 64 threads, each with a sandbox and a branch."""
    until = time.monotonic() + rounds
    done = [0] * 64
    problems: list[object] = []

    def work(n: int) -> None:
        try:
            with Sandbox(backend, limits=SMALL) as box:
                box.run_python(f"x = {n}")
                before = box.snapshot()
                while time.monotonic() < until or done[n] == 0:
                    result = box.run_python("x += 1; open('f', 'w').write(str(x)); x", seconds=60)
                    box.rollback(before)
                    assert result.value == str(n + 1), result
                    done[n] += 1
        except BaseException as error:
            problems.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(64)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(rounds + 300)
    assert not problems and not any(thread.is_alive() for thread in threads), problems[:3]
    print(f"{backend}: {sum(done)} calls in {rounds} s; each at least {min(done)}")
    assert min(done) > 0


HOST = """
import signal, sys, threading, warnings
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored below a job in the background
warnings.simplefilter("ignore")
from agent_envs.sandbox import Sandbox
boxes = [Sandbox(sys.argv[1]) for _ in range(10)]
for box in boxes:
    box.run_python("x = 1")
    box.snapshot()
print("ready", flush=True)
boxes[0].run_python("while True: pass", seconds=60)
"""


@pytest.mark.soak(100)
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_hosts_that_are_ended_leave_nothing(backend: str, number: int, rounds: int) -> None:
    for _ in range(rounds):
        with subprocess.Popen(
            [sys.executable, "-c", HOST, backend],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        ) as host:
            assert host.stdout is not None and host.stdout.readline() == "ready\n"
            below = descendants(host.pid)
            assert len(below) > 20
            os.killpg(host.pid, number) if number == signal.SIGINT else host.kill()
        assert wait_until(partial(all_gone, below, host.pid))


def all_gone(pids: set[int], host: int) -> bool:
    """Whether nothing is left of a host: processes, cgroups."""
    return not any(map(alive, pids)) and not traces(host).groups
