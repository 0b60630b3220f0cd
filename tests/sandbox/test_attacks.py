"""Hostile code: each attack is refused or ended, says so, and leaves a sandbox that goes on."""

import os
import platform
import secrets
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_envs.sandbox import Limits, Sandbox
from tests.sandbox.attacks import ATTACKS, PRELUDE, Attack
from tests.sandbox.conftest import Make
from tests.sandbox.leftovers import descendants, zygote_pid

pytestmark = pytest.mark.skipif(
    platform.machine() != "x86_64", reason="the attacks name system calls by x86_64 numbers"
)
ENDED = {"ok", "error", "timeout", "memory", "output", "killed"}
SMALL = Limits(
    memory=256 << 20, total_memory=256 << 20, workspace=8 << 20, entries=3000, processes=32
)


@pytest.fixture(scope="module")
def targets() -> Iterator[dict[str, str]]:
    """What there is to reach outside: a process, a file, two sockets that accept anybody."""
    name = secrets.token_hex(8)
    victim = subprocess.Popen(["sleep", "600"], start_new_session=True)
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o777)
        secret = os.path.join(folder, "secret")
        with open(secret, "w") as file:
            file.write(name)
        os.chmod(secret, 0o666)
        with socket.socket(socket.AF_UNIX) as abstract, socket.socket(socket.AF_UNIX) as path:
            abstract.bind("\0" + name)
            path.bind(os.path.join(folder, "socket"))
            os.chmod(os.path.join(folder, "socket"), 0o777)
            abstract.listen()
            path.listen()
            yield {
                "victim": str(victim.pid),
                "host": str(os.getpid()),
                "secret": secret,
                "abstract": name,
                "socket": os.path.join(folder, "socket"),
            }
        assert os.stat(secret).st_mode & 0o777 == 0o666
        with open(secret) as file:
            assert file.read() == name
    assert victim.poll() is None, "an attack reached a process outside"
    victim.kill()
    victim.wait()


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
def test_attack(
    attack: Attack, isolated: str, targets: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET", "1")
    others = descendants(zygote_pid(isolated))
    with Sandbox(isolated, limits=SMALL) as box:
        box.run_python(PRELUDE + "keep = 41")
        before = box.snapshot()
        box.run_python("keep = 42")
        code = attack.code
        pids = {"zygote": str(zygote_pid(isolated)), "frozen": str(servants(isolated, others))}
        for name, value in (targets | pids).items():
            code = code.replace("{" + name + "}", value)
        result = box.run_python(code, seconds=attack.seconds)
        assert result.ended in attack.ended, result
        assert result.ok or result.text(), "an observation says what happened"
        if attack.check:
            assert attack.check(result.value or ""), result
        after = box.run_python("keep")
        assert after.ended in ENDED
        if attack.keeps:
            assert after.value == "42", after
        box.rollback(before)
        assert box.run_python("keep").value == "41"


def servants(backend: str, others: set[int]) -> list[int]:
    """The supervisor and the states of the newest sandbox, as they are seen inside."""
    pids = sorted(descendants(zygote_pid(backend)) - others)
    assert len(pids) == 4, "a supervisor; the first state, one that a snapshot holds, the current"
    return pids if backend == "landlock" else [inner_pid(pid) for pid in pids]


def inner_pid(pid: int) -> int:
    """A process's number in its own pid namespace."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[-1]) for line in lines if line.startswith("NSpid:"))


def test_another_sandbox_is_out_of_reach(isolated: str) -> None:
    with Sandbox(isolated) as other, Sandbox(isolated) as box:
        theirs = descendants(zygote_pid(isolated))
        if isolated == "docker":
            theirs = {inner_pid(pid) for pid in theirs}
        other.run_python("import os; open('secret', 'w').write('x'); os.chmod('secret', 0o666)")
        before = other.snapshot()
        base = other._channel.setup.base or "/dev/shm"
        box.run_python(PRELUDE + f"d = {base + '/workspace'!r}")
        code = """[tr(os.listdir, d), tr(open, d + '/secret'), tr(open, d + '/new', 'w'),
            tr(os.rename, d, d + 'x')]"""
        assert "WORKED" not in (box.run_python(code).value or "WORKED")
        code = f"[tr(os.kill, p, 9) for p in {sorted(theirs)} if p != os.getpid() and p > 9]"
        assert "WORKED" not in (box.run_python(code).value or "WORKED")
        other.rollback(before)
        assert other.run_python("os.listdir('.')").value == "['secret']"
        assert box.run_python("6 * 7").value == "42"


def test_supervisors_have_no_capabilities_and_a_filter(isolated: str) -> None:
    others = descendants(zygote_pid(isolated))
    with Sandbox(isolated) as box:
        box.run_python("x = 1")
        pids = descendants(zygote_pid(isolated)) - others
        found = [Path(f"/proc/{pid}/status").read_text() for pid in pids]
    assert len(found) == 3
    for text in found:
        status = dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)
        for kind in ("CapEff", "CapPrm", "CapInh", "CapAmb"):
            assert int(status[kind], 16) == 0, status["Name"]
        assert (status["Seccomp"].strip(), status["NoNewPrivs"].strip()) == ("2", "1")
        assert int(status["Uid"].split()[0]) != 0


def test_bombs_do_not_disturb_a_neighbour(isolated: str) -> None:
    with Sandbox(isolated, limits=SMALL) as bomber, Sandbox(isolated, limits=SMALL) as neighbour:
        bomber.run_python(
            "import os\nwhile True:\n  try: os.fork()\n  except OSError: pass", seconds=0.5
        )
        assert neighbour.exec("echo here").stdout == "here\n"
        assert (
            neighbour.run_python("import subprocess; subprocess.run('true').returncode").value
            == "0"
        )


@pytest.mark.skipif(
    os.getuid() != 0, reason="the kernel shows other users' namespaces to root only"
)
def test_every_session_has_a_network_of_its_own(namespace: str, make: Make) -> None:
    make(namespace)
    zygote, networks = zygote_pid(namespace), [os.readlink("/proc/self/ns/net")]
    for _ in range(4):
        before = descendants(zygote)
        make(namespace).run_python("1")
        after = descendants(zygote) - before
        networks += {os.readlink(f"/proc/{pid}/ns/net") for pid in after}
    assert len(networks) == len(set(networks)) == 5
