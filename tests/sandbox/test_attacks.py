"""Hostile code: each attack is refused or ended, says so, and leaves a sandbox that goes on."""

import os
import platform
import secrets
import socket
import subprocess
import tempfile
from collections.abc import Iterator

import pytest

from agent_envs.sandbox import Limits, Sandbox
from agent_envs.sandbox.host import zygote
from agent_envs.sandbox.interpreter import choose
from tests.sandbox.attacks import ATTACKS, PRELUDE, Attack

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
    code = attack.code
    pids = {**targets, "zygote": str(zygote(isolated, choose(None, ())).process.pid)}
    for name, value in pids.items():
        code = code.replace("{" + name + "}", value)
    with Sandbox(isolated, limits=SMALL) as box:
        box.run_python(PRELUDE + "keep = 41")
        before = box.snapshot()
        box.run_python("keep = 42")
        result = box.run_python(code, seconds=attack.seconds)
        assert result.ended in attack.ended, result
        if attack.check:
            assert attack.check(result.value or ""), result
        after = box.run_python("keep")
        assert after.ended in ENDED
        if attack.keeps:
            assert after.value == "42", after
        box.rollback(before)
        assert box.run_python("keep").value == "41"


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
