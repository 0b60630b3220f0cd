"""How a zygote is started: on this machine, or by whatever else can connect a socket to it.

A zygote takes two arguments: its socket (a descriptor's number, or the path of a listening Unix
socket to connect to) and the archive with its code. All else, descriptors too, comes by the
socket, so it may live in any namespace of this kernel: in a container, say, with a folder of the
host's that holds both.
"""

import io
import os
import socket
import subprocess
import zipfile
from pathlib import Path
from typing import Protocol

from agent_envs.sandbox import inner
from agent_envs.sandbox.interpreter import FLAGS, Inside

BOOT = (
    "import sys; sys.path.insert(0, sys.argv[2]); "
    "from agent_envs.sandbox.inner.zygote import main; main()"
)
ENVIRONMENT = {
    "PATH": "/usr/bin:/bin",
    "LANG": "C.UTF-8",
    "PYTHONHASHSEED": "0",
    "PYTHONDONTWRITEBYTECODE": "1",
    "HOME": "/workspace",
    "TMPDIR": "/tmp",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
}
"""All that model code sees of an environment."""
END_SECONDS = 10
LAST_WORDS = 2000


class Servant(Protocol):
    """A process that a zygote runs in, as the host holds it."""

    control: socket.socket
    """SOCK_SEQPACKET, connected with the zygote."""

    def alive(self) -> bool:
        """Whether it runs."""

    def end(self) -> str:
        """See to it that it ends; `control` is closed, so it does by itself if it can.

        Returns the end of what it wrote to stderr, "" the second time.
        """

    def forget(self) -> None:
        """In a fork of the host: leave it to the parent."""


class Launch(Protocol):
    """Starts zygotes; equal ones start the same. Raises BackendUnavailable."""

    def __call__(self, inside: Inside) -> Servant:
        """Start one, with BOOT under ENVIRONMENT."""

    def __hash__(self) -> int:
        """A zygote is kept for each choice."""


class Process:
    """A zygote that is a child of this process."""

    def __init__(self, inside: Inside) -> None:
        self.control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        archive = os.memfd_create("inside")
        self.words = os.memfd_create("stderr")
        try:
            os.write(archive, packed())
            self.process = subprocess.Popen(
                command(inside, str(theirs.fileno()), f"/proc/self/fd/{archive}"),
                pass_fds=(theirs.fileno(), archive),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self.words,
                env=ENVIRONMENT,
                cwd="/",
            )
        finally:
            theirs.close()
            os.close(archive)

    def alive(self) -> bool:
        """Whether it runs."""
        return self.process.poll() is None

    def end(self) -> str:
        """Wait for it, or kill it."""
        try:
            self.process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        if self.words < 0:
            return ""
        size = os.fstat(self.words).st_size
        text = os.pread(self.words, LAST_WORDS, max(0, size - LAST_WORDS))
        os.close(self.words)
        self.words = -1
        return text.decode("utf-8", "replace").strip()

    def forget(self) -> None:
        """It is no child of this process."""
        self.process.returncode = 0


def launch_here(inside: Inside) -> Servant:
    """Start a zygote on this machine."""
    return Process(inside)


def command(inside: Inside, place: str, archive: str) -> list[str]:
    """What starts a zygote whose socket and archive are at these places."""
    return [inside.python, *FLAGS, "-u", "-c", BOOT, place, archive]


def packed() -> bytes:
    """The code that runs inside, as a zip archive that Python can import from."""
    folder = Path(inner.__file__).parent
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for package in ("agent_envs", "agent_envs/sandbox"):
            archive.writestr(f"{package}/__init__.py", "")
        for file in sorted(folder.glob("*.py")):
            archive.writestr(f"agent_envs/sandbox/inner/{file.name}", file.read_bytes())
    return buffer.getvalue()
