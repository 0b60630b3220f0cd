"""A container with a zygote in it: how it is started, locked down, and ended."""

import contextlib
import errno
import json
import os
import secrets
import select
import shutil
import socket
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent_envs.errors import BackendUnavailable
from agent_envs.sandbox.docker.engine import (
    HOST_LABEL,
    Words,
    engine,
    remove,
    started,
    sweep,
    this_host,
)
from agent_envs.sandbox.docker.image import InImage, look_into
from agent_envs.sandbox.identity import SMALL_RANGE, peer
from agent_envs.sandbox.inner.numbers import MACHINE
from agent_envs.sandbox.inner.seccomp import DENIED, NAMESPACE_FLAGS
from agent_envs.sandbox.interpreter import Inside
from agent_envs.sandbox.launch import ENVIRONMENT, command, packed

SEEN_AT = "/agent-envs"
"""Where a container has the folder with its socket."""
FOLDER = "agent-envs-docker-"
NEEDED = {"seccomp", "personality"}
"""What model code may not call and a zygote must: filters, fixed addresses."""
MORE_DENIED = ("get_mempolicy", "mbind", "set_mempolicy", "sysfs", "ustat", "vm86", "vm86old")
START_SECONDS = 60
X86_64 = ["SCMP_ARCH_X86_64", "SCMP_ARCH_X32"]
"""x32 is left to model code's filter, which says ENOSYS: this one could only kill."""
SHARES = 16 << 10
"""Sixteen times a process's: there are many sessions in one container."""


@dataclass(frozen=True)
class ContainerLimits:
    """What all sessions of a container may use together. 0 is for what the machine has."""

    memory: int = 0
    """Bytes; three quarters of the machine's by default. There is no swap."""
    cpus: float = 0.0
    processes: int = 16384
    """Frozen copies are processes too."""
    workspaces: int = 2 << 30
    """Bytes of all their files."""

    def options(self) -> dict[str, Any]:
        """For the engine."""
        machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        memory = self.memory or machine * 3 // 4
        cpus = self.cpus or float(os.cpu_count() or 1)
        return {
            "mem_limit": memory,
            "memswap_limit": memory,
            "nano_cpus": int(cpus * 10**9),
            "cpu_shares": SHARES,
            "pids_limit": self.processes,
        }


@dataclass(frozen=True)
class Start:
    """Starts containers; equal ones start the same. Raises BackendUnavailable."""

    limits: ContainerLimits

    def __call__(self, inside: Inside) -> "Container":
        """One with a zygote that has connected."""
        assert isinstance(inside, InImage)
        with engine() as client, meeting_place() as folder:
            sweep(client)
            name = secrets.token_hex(8)
            (folder / "code.zip").write_bytes(packed())
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
                listener.bind(str(folder / name))
                os.chmod(folder / name, 0o666)
                listener.listen(1)
                (folder / "seccomp.json").write_text(json.dumps(profile()))
                options = self.options(inside, folder, name, is_podman(client))
                made = create(client, options)
                try:
                    return Container(made.id, connected(made, listener))
                except BaseException:
                    remove(made)
                    raise

    def options(self, inside: InImage, folder: Path, name: str, podman: bool) -> dict[str, Any]:
        """All that makes it what it is."""
        from docker.types import LogConfig, Mount

        uid = SMALL_RANGE[os.getpid() % len(SMALL_RANGE)]
        argv = command(inside, f"{SEEN_AT}/{name}", f"{SEEN_AT}/code.zip")
        seen = {str(folder): SEEN_AT, **{place: place for place in inside.folders}}
        mine = f"mode=700,uid={uid},gid={uid}"
        owner = "mode=1777,notmpcopyup" if podman else mine  # it has no uid=
        room = f"rw,exec,nosuid,nodev,size={self.limits.workspaces},{owner}"
        seccomp = folder / "seccomp.json"
        told = seccomp if podman else seccomp.read_text()
        return {
            "image": inside.image,
            "entrypoint": argv[0],
            "command": argv[1:],
            "environment": {**ENVIRONMENT, "PATH": inside.search},
            "working_dir": "/",
            "user": f"{uid}:{uid}",
            "read_only": True,
            "tmpfs": {"/tmp": room},
            "mounts": [Mount(at, place, "bind", read_only=True) for place, at in seen.items()],
            "network_mode": "none",
            "ipc_mode": "none",
            "cap_drop": ["ALL"],
            "security_opt": ["no-new-privileges", f"seccomp={told}"],
            "log_config": LogConfig(type="none"),
            "healthcheck": {"test": ["NONE"]},
            "stop_signal": "SIGKILL",
            "auto_remove": True,
            "labels": {HOST_LABEL: this_host()},
            **self.limits.options(),
        }


def create(client: Any, options: dict[str, Any]) -> Any:
    """A container that has not started. What is known of its image is forgotten if that is gone."""
    from docker.errors import ImageNotFound

    try:
        return client.containers.create(**options)
    except ImageNotFound:
        look_into.cache_clear()
        raise


def is_podman(client: Any) -> bool:
    """Whether the engine is podman's, which takes a seccomp profile by the path of its file."""
    return any("Podman" in part["Name"] for part in client.version().get("Components", []))


def profile() -> dict[str, Any]:
    """The container's seccomp profile: for zygote and supervisors, and behind model code's own.

    The engine's would refuse what the zygote needs: fixed addresses, and descriptors of a stopped
    state by its pidfd.
    """
    names = [*(name for name in DENIED if name not in NEEDED), *MORE_DENIED]
    bits = [bit for bit in (1 << n for n in range(32)) if bit & NAMESPACE_FLAGS]
    refused = {"action": "SCMP_ACT_ERRNO", "errnoRet": errno.EPERM}
    rules = [{"names": names, **refused}]
    for bit in bits:
        test = {"index": 0, "op": "SCMP_CMP_MASKED_EQ", "value": bit, "valueTwo": bit}
        rules.append({"names": ["clone"], "args": [test], **refused})
    unknown = {"action": "SCMP_ACT_ERRNO", "errnoRet": errno.ENOSYS}
    rules.append({"names": ["clone3"], **unknown})  # its flags are behind a pointer
    own = {"architectures": X86_64} if MACHINE == "x86_64" else {}
    return {"defaultAction": "SCMP_ACT_ALLOW", "syscalls": rules, **own}


@contextmanager
def meeting_place() -> Iterator[Path]:
    """A folder of the host's that a container sees too; gone when the two have met."""
    top = Path(os.environ.get("AGENT_ENVS_DOCKER_FOLDER") or tempfile.gettempdir())
    for old in top.glob(f"{FOLDER}*-*-*"):
        pid, begun = old.name.removeprefix(FOLDER).split("-")[:2]
        if pid.isdigit() and started(int(pid)) != begun:
            shutil.rmtree(old, ignore_errors=True)
    mine = f"{FOLDER}{os.getpid()}-{started(os.getpid())}-"
    with tempfile.TemporaryDirectory(prefix=mine, dir=top) as folder:
        os.chmod(folder, 0o711)  # the container's uid must come in, and nobody need look around
        yield Path(folder)


def connected(container: Any, listener: socket.socket) -> socket.socket:
    """Start a container, and wait for its zygote to connect. Raises BackendUnavailable."""
    deadline = time.monotonic() + START_SECONDS
    with Words(container) as words:
        container.start()
        while time.monotonic() < deadline:
            if select.select([listener], [], [], 0.1)[0]:
                control, _ = listener.accept()
                if is_init_of(container, peer(control)):
                    return control
                control.close()
            elif not is_running(container):
                break
        why = what_is_wrong(container, words)
    raise BackendUnavailable(f"docker: the zygote does not start: {why}")


def is_init_of(container: Any, pid: int) -> bool:
    """Whether a peer is a container's first process. One of another pid namespace is 0 here."""
    container.reload()
    return pid in (0, container.attrs["State"]["Pid"])


def is_running(container: Any) -> bool:
    """Whether it has not ended yet."""
    from docker.errors import NotFound

    try:
        container.reload()
    except NotFound:
        return False
    return str(container.status) in ("created", "running")


def what_is_wrong(container: Any, words: Words) -> str:
    """Why nobody connects; a container that would still try is removed."""
    if is_running(container):
        remove(container)
        return (
            "its container cannot reach this process's socket: the engine must be on this machine "
            "and not in a virtual one; from inside a container, set AGENT_ENVS_DOCKER_FOLDER to a "
            "folder that both have at the same path"
        )
    said = words.read()[1].strip()
    return said.splitlines()[-1] if said else "it says nothing"


class Container:
    """A container that runs, as the host holds it: a `Servant`."""

    def __init__(self, id: str, control: socket.socket) -> None:
        self.id = id
        self.control = control
        self.pid = peer(control)
        """Its first process; 0 where the host cannot see it."""
        self.removed = False

    def alive(self) -> bool:
        """Whether its zygote is there: it alone has the other end of the socket."""
        if self.control.fileno() < 0:
            return False
        poll = select.poll()
        poll.register(self.control, 0)
        return not poll.poll(0)

    def end(self) -> str:
        """Remove it. Where the engine does not answer, that is left to the next sweep."""
        if not self.removed:
            self.removed = True
            with contextlib.suppress(BackendUnavailable), engine() as client:
                remove(client.containers.get(self.id))
        return ""

    def forget(self) -> None:
        """It is the parent's."""
        self.removed = True
