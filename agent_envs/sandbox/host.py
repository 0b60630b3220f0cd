"""The host's side of the zygotes: one for each backend, interpreter and choice of packages."""

import atexit
import io
import json
import os
import socket
import subprocess
import threading
import zipfile
from pathlib import Path
from typing import Any

from agent_envs.errors import BackendUnavailable
from agent_envs.sandbox import inner
from agent_envs.sandbox.cgroup import find_place
from agent_envs.sandbox.inner.wire import receive, send
from agent_envs.sandbox.interpreter import FLAGS, Inside

BOOT = (
    "import sys; sys.path.insert(0, '/proc/self/fd/' + sys.argv[2]); "
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
START_SECONDS = 60
CLONE_SECONDS = 10
END_SECONDS = 10
LAST_WORDS = 2000


class Zygote:
    """A process that clones itself into sessions. Started at once; raises BackendUnavailable."""

    def __init__(self, backend: str, inside: Inside) -> None:
        self.backend = backend
        self.lock = threading.Lock()
        self.control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.control.settimeout(START_SECONDS)
        host = os.pidfd_open(os.getpid())
        archive = os.memfd_create("inside")
        self.words = os.memfd_create("stderr")
        place = find_place()
        try:
            os.write(archive, packed())
            options = {
                "backend": backend,
                "host": host,
                "read": inside.read,
                "path": inside.path,
                "warm": inside.warm,
                "groups": str(place[0]) if place else "",
            }
            fds = (theirs.fileno(), archive)
            self.process = subprocess.Popen(
                [inside.python, *FLAGS, "-u", "-c", BOOT, *map(str, fds), json.dumps(options)],
                pass_fds=(*fds, host),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self.words,
                env=ENVIRONMENT,
                cwd="/",
            )
        finally:
            theirs.close()
            os.close(archive)
            os.close(host)
        self._expect("ready")

    def clone(self, sock: socket.socket, uid: int | None, base: str, group: str) -> int:
        """Start a session that talks through `sock`. Returns a pidfd of its supervisor."""
        with self.lock:
            wanted = {"uid": uid, "base": base, "group": group}
            try:
                send(self.control, wanted, [sock.fileno()])
            except OSError:
                raise BackendUnavailable(f"the zygote is gone: {self.last_words()}") from None
            self.control.settimeout(CLONE_SECONDS)
            return self._expect("pid")

    def _expect(self, word: str) -> int:
        try:
            message, fds = receive(self.control, fds=1)
        except (OSError, ValueError) as error:
            message, fds = {"failed": str(error)}, []
        if message is None or word not in message:
            self.close()
            why = (message or {}).get("failed") or self.last_words()
            raise BackendUnavailable(f"{self.backend}: the zygote does not start: {why}")
        return fds[0] if fds else -1

    def last_words(self) -> str:
        """The end of what it wrote to stderr."""
        try:
            size = os.fstat(self.words).st_size
            text = os.pread(self.words, LAST_WORDS, max(0, size - LAST_WORDS))
        except OSError:
            return "it has ended"
        return text.decode("utf-8", "replace").strip() or "it says nothing"

    def alive(self) -> bool:
        """Whether it can be asked for a session."""
        return self.process.poll() is None and self.control.fileno() >= 0

    def close(self) -> None:
        """End it, and all its sessions with it."""
        self.control.close()
        try:
            self.process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def forget(self) -> None:
        """In a fork of the host: leave it to the parent."""
        self.control.close()
        self.process.returncode = 0


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


_zygotes: dict[Any, Zygote] = {}
_lock = threading.Lock()


def zygote(backend: str, inside: Inside) -> Zygote:
    """The warm zygote for a choice; it lives until `close_zygotes`, or the end of this process."""
    key = (backend, inside)
    with _lock:
        known = _zygotes.get(key)
        if known is None or not known.alive():
            known = _zygotes[key] = Zygote(backend, inside)
        return known


def close_zygotes() -> None:
    """End all zygotes, and every sandbox with them. The next sandbox starts a new one."""
    with _lock:
        for one in _zygotes.values():
            one.close()
            os.close(one.words)
        _zygotes.clear()


def _forget_zygotes() -> None:
    global _lock
    _lock = threading.Lock()  # a thread that is not in this fork may have held it
    for one in _zygotes.values():
        one.forget()
    _zygotes.clear()


atexit.register(close_zygotes)
os.register_at_fork(after_in_child=_forget_zygotes)
