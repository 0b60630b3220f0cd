"""Zygotes that start elsewhere: in other namespaces, with a folder of the host's and no more."""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from agent_envs.errors import BackendUnavailable
from agent_envs.sandbox import Limits, close_zygotes
from agent_envs.sandbox.backends import setup_for
from agent_envs.sandbox.channel import Channel, new_base
from agent_envs.sandbox.host import zygote
from agent_envs.sandbox.inner.setup import LANDLOCK
from agent_envs.sandbox.interpreter import Inside, choose
from agent_envs.sandbox.launch import ENVIRONMENT, command, packed
from tests.sandbox.conftest import works
from tests.sandbox.leftovers import alive, descendants, wait_until

APART = [
    "unshare",
    "--user",
    "--map-root-user",
    "--mount",
    "--pid",
    "--fork",
    "--mount-proc",
    "--net",
]


class Stranger:
    """A zygote that was given nothing but paths."""

    def __init__(self, process: "subprocess.Popen[bytes]", control: socket.socket) -> None:
        self.process = process
        self.control = control

    def alive(self) -> bool:
        return self.process.poll() is None

    def end(self) -> str:
        self.process.wait(20)
        return ""

    def forget(self) -> None:
        self.process.returncode = 0


@dataclass(frozen=True)
class Elsewhere:
    """Starts zygotes in user, mount, pid and net namespaces of their own, by way of a folder."""

    folder: str

    def __call__(self, inside: Inside) -> Stranger:
        Path(self.folder, "archive.zip").write_bytes(packed())
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
            listener.bind(f"{self.folder}/socket")
            listener.listen()
            listener.settimeout(20)
            argv = command(inside, f"{self.folder}/socket", f"{self.folder}/archive.zip")
            process = subprocess.Popen([*APART, *argv], env=ENVIRONMENT, cwd="/")
            control, _ = listener.accept()
        return Stranger(process, control)


@pytest.fixture
def elsewhere() -> Iterator[Elsewhere]:
    """A way to start zygotes elsewhere; skipped where there is no elsewhere."""
    works(LANDLOCK)
    if not shutil.which("unshare") or subprocess.run([*APART, "true"]).returncode:
        pytest.skip("no namespaces to start a zygote in")
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        yield Elsewhere(folder)
    close_zygotes()


def test_sessions_come_from_a_zygote_in_other_namespaces(elsewhere: Elsewhere) -> None:
    inside = choose(None, ())
    earlier = descendants(os.getpid())
    source = zygote(LANDLOCK, inside, elsewhere)
    assert zygote(LANDLOCK, inside, elsewhere) is source
    setup = setup_for(LANDLOCK, inside, Limits(), new_base("/tmp"))
    channel = Channel(source, setup, None, None)
    value = "import os; x = 1; os.getpid() < 100"
    outcome = channel.call({"code": value, "name": "<cell>"}, 20, 1000)
    assert (outcome.facts["ended"], outcome.word["value"]) == ("ok", "True")
    assert channel.ask("snapshot") == {"n": 2, "snapshot": 1}
    outcome = channel.call({"code": "x = 2; print(x)", "name": "<cell>"}, 20, 1000)
    assert outcome.output["stdout"] == b"2\n"
    assert channel.ask("rollback", snapshot=1)["back"]
    assert channel.call({"code": "x", "name": "<cell>"}, 20, 1000).word["value"] == "1"
    late = channel.call({"code": "while True: pass", "name": "<cell>"}, 0.2, 1000)
    assert late.facts["ended"] == "timeout" and late.facts["cpu"] > 0
    channel.close()
    assert not Path(setup.base).exists()
    ours = descendants(os.getpid()) - earlier
    close_zygotes()
    assert wait_until(lambda: not any(map(alive, ours)))


def test_zygote_elsewhere_ends_with_its_host(elsewhere: Elsewhere) -> None:
    code = (
        "import os, sys; from tests.sandbox.test_launch import *\n"
        "zygote(LANDLOCK, choose(None, ()), Elsewhere(sys.argv[1]))\n"
        "print('ready', flush=True); os.read(0, 1)"
    )
    host = subprocess.Popen(
        [sys.executable, "-c", code, elsewhere.folder],
        cwd=Path(__file__).parents[2],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with host:
        assert host.stdout is not None and host.stdout.readline() == b"ready\n"
        below = descendants(host.pid)
        assert below
        host.kill()
    assert wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in below))


def test_launch_that_fails_is_the_reason(elsewhere: Elsewhere) -> None:
    def launch(inside: Inside) -> Stranger:
        raise BackendUnavailable("no daemon: start it")

    with pytest.raises(BackendUnavailable, match="start it"):
        zygote(LANDLOCK, choose(None, ()), launch)
