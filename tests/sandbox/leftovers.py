"""What sandboxes may leave behind: found by looking at the whole machine."""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from agent_envs.sandbox import BACKENDS
from agent_envs.sandbox.cgroup import find_place
from agent_envs.sandbox.docker import Docker
from agent_envs.sandbox.docker.container import Container
from agent_envs.sandbox.host import zygote
from agent_envs.sandbox.identity import PER_PROCESS, RANGE
from agent_envs.sandbox.inner.setup import LANDLOCK
from agent_envs.sandbox.interpreter import choose
from agent_envs.sandbox.launch import Process


def zygote_pid(strength: str) -> int:
    """The process that sessions of this strength are cloned from here."""
    if strength == "docker":
        backend = BACKENDS[strength]
        assert isinstance(backend, Docker)
        servant = zygote(LANDLOCK, backend.inside(None, ()), backend.start_container).servant
        assert isinstance(servant, Container)
        return servant.pid
    servant = zygote(strength, choose(None, ())).servant
    assert isinstance(servant, Process)
    return servant.process.pid


@dataclass(frozen=True)
class Traces:
    """A host's zygotes and what is below them, and what carries its pid or our prefix."""

    processes: frozenset[int]
    groups: frozenset[str]
    folders: frozenset[str]
    mounts: int

    def __sub__(self, before: "Traces") -> "Traces":
        """What there is more than before."""
        return Traces(
            self.processes - before.processes,
            self.groups - before.groups,
            self.folders - before.folders,
            max(0, self.mounts - before.mounts),
        )


NONE_LEFT = Traces(frozenset(), frozenset(), frozenset(), 0)


def descendants(root: int) -> set[int]:
    """All processes below one, but for the tests' own engine."""
    parents = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                stat = Path(f"/proc/{name}/stat").read_text()
            except OSError:
                continue
            if "(dockerd)" not in stat:
                parents[int(name)] = int(stat.rpartition(")")[2].split()[1])
    found = {root}
    while grown := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= grown
    return found - {root}


def of_sandboxes(host: int) -> set[int]:
    """A host's zygotes and all below them: not its browsers, engines and servers."""
    zygotes = [pid for pid in descendants(host) if is_zygote(pid)]
    return {*zygotes, *(below for pid in zygotes for below in descendants(pid))}


def is_zygote(pid: int) -> bool:
    """Whether a process is one, or a clone of one."""
    try:
        return b"inner.zygote" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def program(pid: int) -> str:
    """The path of what a process runs; empty if it has ended meanwhile."""
    try:
        return os.readlink(f"/proc/{pid}/exe")
    except OSError:
        return ""


def descriptors() -> set[str]:
    """Of this process, but for those that its other threads open for a moment, as the browser's
    do."""
    looks = []
    for _ in range(5):
        looks.append(set(os.listdir("/proc/self/fd")))
        time.sleep(0.01)
    return set.intersection(*looks)


def traces(host: int) -> Traces:
    """What there is now."""
    place = find_place()
    groups = {str(path) for path in place[0].glob(f"agent-envs-{host}-*")} if place else set()
    found = [path for top in ("/dev/shm", "/tmp") for path in Path(top).glob("agent-envs-*")]
    folders = {str(path) for path in found if belongs_to(host, path)}
    return Traces(
        frozenset(of_sandboxes(host)), frozenset(groups), frozenset(folders), count_mounts()
    )


def count_mounts() -> int:
    """Of this mount namespace, but for those of the engines that tests run beside this one."""
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    return sum("agent-envs-engine-" not in line for line in lines)


def belongs_to(host: int, path: Path) -> bool:
    """Whether a folder is of a session of this host, which gives out uids by its pid."""
    try:
        uid = path.stat().st_uid
    except FileNotFoundError:
        return False
    if os.getuid() != 0:
        return uid == os.getuid()
    return uid in RANGE and (RANGE.index(uid) - host * PER_PROCESS) % len(RANGE) < PER_PROCESS


def alive(pid: int) -> bool:
    """Whether a process is there, and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def wait_until(condition: Callable[[], bool], seconds: float = 20.0) -> bool:
    """Whether a condition comes true in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def left_since(before: Traces) -> Traces:
    """What this process has more than before, when there has been time for it to go."""
    wait_until(lambda: traces(os.getpid()) - before == NONE_LEFT)
    return traces(os.getpid()) - before
