"""A docker engine of the tests' own, with an image made of this machine's files: no network."""

import functools
import io
import os
import re
import shutil
import signal
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest

from agent_envs.errors import BackendUnavailable
from agent_envs.sandbox import close_zygotes
from agent_envs.sandbox.docker.engine import engine as client
from tests.sandbox.leftovers import descendants

IMAGE = "agent-envs/test:base"
PYTHON = Path(os.path.realpath("/usr/bin/python3"))
PROGRAMS = """sh bash cat chmod cp cut dd du echo env false find grep head id kill ln ls mkdir
    mkfifo mv nproc od ps pwd rm sed seq setsid sleep sort stat tail tee test timeout touch tr true
    uname unshare wc xargs yes""".split()
PACKAGES = ("pytest", "pluggy", "iniconfig", "packaging", "pygments")
UNWANTED = {"test", "idlelib", "tkinter", "ensurepip", "lib2to3", "__pycache__", "turtledemo"}
START_SECONDS = 60


class Engine:
    """An engine that runs; it can be stopped and started again."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="agent-envs-engine-"))
        self.address = f"unix://{self.folder}/docker.sock"
        self.process: subprocess.Popen[bytes] | None = None
        os.environ["DOCKER_HOST"] = self.address
        os.environ["AGENT_ENVS_DOCKER_IMAGE"] = IMAGE

    def start(self) -> None:
        """Start it, and wait until it answers."""
        at = self.folder
        log = open(at / "log", "ab")
        places = {"--data-root": "data", "--exec-root": "exec", "--pidfile": "pid"}
        self.process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "TERM", "dockerd", "--host", self.address]
            + [f"{name}={at / place}" for name, place in places.items()]
            + ["--bridge", "none", "--iptables=false", "--ip6tables=false"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        log.close()
        deadline = time.monotonic() + START_SECONDS
        while not self.answers():
            if self.process.poll() is not None or time.monotonic() > deadline:
                said = (at / "log").read_text().splitlines()
                raise RuntimeError(f"no engine: {said[-1] if said else 'it says nothing'}")
            time.sleep(0.05)

    def answers(self) -> bool:
        """Whether it can be asked."""
        try:
            with client() as asked:
                return bool(asked.ping())
        except BackendUnavailable:
            return False

    def stop(self) -> None:
        """Stop it, and all containers with it."""
        if self.process is not None:
            self.process.terminate()
            self.process.wait(60)
            self.process = None

    def kill(self) -> None:
        """End it as a crash does: containers live on."""
        assert self.process is not None
        for pid in [self.process.pid, *descendants(self.process.pid)]:
            os.kill(pid, signal.SIGKILL)  # its containerd is its child; containers are nobody's
        self.process.wait()
        # Where nobody reaps orphans the pid in it goes on being somebody's.
        (self.folder / "exec/containerd/containerd.pid").unlink(missing_ok=True)
        self.process = None

    def remove(self) -> None:
        """Leave nothing of it on the machine."""
        self.stop()
        mounts = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
        for mount in reversed(mounts):
            if mount.startswith(f"{self.folder}/"):
                subprocess.run(["umount", "--lazy", mount], check=True)
        shutil.rmtree(self.folder)


def files_of_image() -> dict[str, Path]:
    """What the image has, and where that is here: Python, a shell, programs, some packages."""
    found = [shutil.which(name) for name in PROGRAMS]
    programs = [*(Path(os.path.realpath(path)) for path in found if path), PYTHON]
    names = {f"usr/bin/{Path(path).name}": Path(path) for path in found if path}
    names[f"usr/bin/{PYTHON.name}"] = names["usr/bin/python3"] = PYTHON
    library = Path("/usr/lib") / PYTHON.name
    names.update(below(library))
    shared = [path for path in names.values() if path.suffix == ".so"]
    listed = subprocess.run(["ldd", *programs, *shared], capture_output=True, text=True).stdout
    for path in set(re.findall(r"(/\S+\.so\S*) \(", listed)):
        names["usr/" + path.removeprefix("/usr").lstrip("/")] = Path(path)
    site = "usr/lib/python3/dist-packages"
    for name in PACKAGES:
        for file in metadata.distribution(name).files or []:
            if file.parts[0] != ".." and "__pycache__" not in file.parts:
                names[f"{site}/{file}"] = Path(str(file.locate()))
    return names


def below(top: Path) -> dict[str, Path]:
    """Python's own library, as far as a program needs it."""
    found = {}
    for folder, names, files in os.walk(top):
        names[:] = [n for n in names if n not in UNWANTED and not n.startswith("config-")]
        found.update({f"{folder[1:]}/{name}": Path(folder, name) for name in files})
    return found


def write_image(target: Path) -> None:
    """The image's root, as a tar archive."""
    with tarfile.open(target, "w") as tar:
        for link in ("bin", "sbin", "lib", "lib64"):
            tar.addfile(entry(link, tarfile.SYMTYPE, f"usr/{link}"))
        names = files_of_image()
        above = {str(folder) for name in names for folder in Path(name).parents}
        above |= {"usr/sbin", "usr/lib64", "etc", "proc", "sys", "dev", "root", "var"}
        for folder in sorted(above - {"."}):
            tar.addfile(entry(folder, tarfile.DIRTYPE))
        scratch = entry("tmp", tarfile.DIRTYPE)
        scratch.mode = 0o1777
        tar.addfile(scratch)
        for name, path in names.items():
            if path.is_file():
                tar.add(os.path.realpath(path), name, recursive=False)
        users = b"root:x:0:0::/root:/bin/sh\n"
        passwd = entry("etc/passwd", tarfile.REGTYPE)
        passwd.size = len(users)
        tar.addfile(passwd, io.BytesIO(users))


def entry(name: str, kind: bytes, to: str = "") -> tarfile.TarInfo:
    """A member of the archive that is no file of this machine."""
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.mode = kind, to, 0o644 if kind == tarfile.REGTYPE else 0o755
    return info


def why_not() -> str:
    """Why there can be no engine here; "" if there can."""
    if os.getuid() != 0:
        return "an engine of the tests' own needs root"
    lacking = [p for p in ("dockerd", "runc", "setpriv", "ldd") if not shutil.which(p)]
    if lacking:
        return f"no {', '.join(lacking)}: apt-get install docker.io runc"
    return "" if PYTHON.is_file() else "no python3 of the system's to make an image of"


@functools.cache
def running() -> Engine:
    """The engine of this process, with the image in it; skips where there can be none."""
    if reason := why_not():
        pytest.skip(reason)
    one = Engine()
    try:
        one.start()
        archive = one.folder / "image.tar"
        write_image(archive)
        with client() as asked:
            asked.api.import_image_from_file(str(archive), "agent-envs/test", "base")
        archive.unlink()
    except BaseException:
        one.remove()
        raise
    return one


def end_engine() -> Iterator[None]:
    """For fixtures of the session's scope: the engine ends with the tests that used it."""
    yield
    if running.cache_info().currsize:
        close_zygotes()
        running().remove()
        running.cache_clear()
