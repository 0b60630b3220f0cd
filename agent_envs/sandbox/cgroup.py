"""A memory limit for a whole session: a cgroup, version 1 or 2, where one can be made."""

import functools
import itertools
import os
import subprocess
import time
from pathlib import Path

PREFIX = "agent-envs-"
_numbers = itertools.count()


class MemoryGroup:
    """A cgroup with a limit. A session's first process enters by its `door`."""

    def __init__(self, parent: Path, version: int, limit: int) -> None:
        self.path = parent / f"{PREFIX}{os.getpid()}-{next(_numbers)}"
        self.version = version
        self.path.mkdir()
        try:
            self._limit(limit)
        except OSError:
            self.path.rmdir()
            raise

    def _limit(self, limit: int) -> None:
        if self.version == 1:
            self._write("memory.limit_in_bytes", limit)
            return
        self._write("memory.max", limit)
        if (self.path / "memory.swap.max").exists():
            self._write("memory.swap.max", 0)

    def _write(self, name: str, value: int) -> None:
        fd = os.open(self.path / name, os.O_WRONLY)
        try:
            os.write(fd, str(value).encode())
        finally:
            os.close(fd)

    def door(self) -> int:
        """A descriptor; a process of one thread that writes 0 to it is in, and all that it starts.

        With version 1 it is the door for threads: a thread that moves itself does not have to wait
        for the kernel's global lock, which takes 10 ms.
        """
        name = "tasks" if self.version == 1 else "cgroup.procs"
        return os.open(self.path / name, os.O_WRONLY | os.O_CLOEXEC)

    def kills(self) -> int:
        """How many processes the kernel has ended here for want of memory."""
        name = "memory.oom_control" if self.version == 1 else "memory.events"
        try:
            words = [line.split() for line in (self.path / name).read_text().splitlines()]
        except FileNotFoundError:
            return 0  # it went with its zygote
        return next((int(word[1]) for word in words if word[0] == "oom_kill"), 0)

    def close(self, seconds: float = 1.0) -> None:
        """Remove it; its processes must have ended, which the kernel may take a moment to see."""
        deadline = time.monotonic() + seconds
        while True:
            try:
                self.path.rmdir()
                return
            except FileNotFoundError:
                return
            except OSError:
                if time.monotonic() > deadline:
                    return
                time.sleep(0.002)


def new_group(limit: int) -> MemoryGroup | None:
    """A group with a limit in bytes; None where none can be made."""
    place = find_place()
    if place is None:
        return None
    try:
        return MemoryGroup(*place, limit)
    except OSError:
        return None


@functools.cache
def find_place() -> tuple[Path, int] | None:
    """Where groups can be made, and the version; found out by making one, and putting it to use."""
    for parent, version in candidates():
        try:
            group = MemoryGroup(parent, version, 64 << 20)
        except OSError:
            continue
        try:
            group.kills()
            remove_stale(parent)
            if takes_processes(group):
                return parent, version
        except OSError:
            continue
        finally:
            group.close()
    return None


def remove_stale(parent: Path) -> None:
    """Remove the groups of processes that are no more, killed together with their zygote."""
    for path in parent.glob(f"{PREFIX}*-*"):
        pid = path.name.removeprefix(PREFIX).split("-")[0]
        if pid.isdigit() and not Path("/proc", pid).exists():
            try:
                path.rmdir()
            except OSError:
                continue


def takes_processes(group: MemoryGroup) -> bool:
    """Whether a process of ours can be moved into a group."""
    door = group.door()
    try:
        return (
            subprocess.run(["/bin/echo", "0"], stdout=door, stderr=subprocess.DEVNULL).returncode
            == 0
        )
    finally:
        os.close(door)


def candidates(process: Path = Path("/proc/self")) -> list[tuple[Path, int]]:
    """Folders of the mounted hierarchies that have a memory controller: our own group's first."""
    found = []
    own = own_groups(process)
    for line in (process / "mountinfo").read_text().splitlines():
        head, _, tail = line.partition(" - ")
        root, mount = head.split()[3:5]
        kind, _, options = tail.split(maxsplit=2)
        version = 1 if kind == "cgroup" and "memory" in options.split(",") else 2
        if kind == "cgroup2" or (kind == "cgroup" and version == 1):
            path = own.get(version, "/").removeprefix(root.rstrip("/")).lstrip("/")
            found += [(Path(mount) / path, version), (Path(mount), version)]
    return [(parent, version) for parent, version in found if has_memory(parent, version)]


def own_groups(process: Path) -> dict[int, str]:
    """A process's own cgroup's path by version."""
    found = {}
    for line in (process / "cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            found[2] = path
        elif "memory" in controllers.split(","):
            found[1] = path
    return found


def has_memory(parent: Path, version: int) -> bool:
    """Whether groups made here have a memory limit; version 2 has to be asked for that."""
    if version == 1:
        return (parent / "memory.limit_in_bytes").exists()
    control = parent / "cgroup.subtree_control"
    try:
        if "memory" not in control.read_text().split():
            control.write_text("+memory")
        return "memory" in control.read_text().split()
    except OSError:
        return False
