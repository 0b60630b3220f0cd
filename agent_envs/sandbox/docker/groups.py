"""A memory limit for one session below that of its container: a cgroup below the container's."""

import os
from pathlib import Path

from agent_envs.sandbox.cgroup import MemoryGroup, has_memory, own_groups

LEAF = "zygote"


def new_group_below(pid: int, container: str, limit: int) -> MemoryGroup | None:
    """A group with a limit in bytes, below that of a container, whose first process is `pid`; None
    where none can be made. What is left of it goes with the container."""
    if pid == 0 or os.getuid() != 0:
        return None
    try:
        place = place_below(pid, container)
        return MemoryGroup(*place, limit) if place else None
    except OSError:
        return None


def place_below(pid: int, container: str) -> tuple[Path, int] | None:
    """The container's own group, if groups with a memory limit can be made in it; the version."""
    own = own_groups(Path(f"/proc/{pid}"))
    for folder, version in hierarchies():
        group = folder / own.get(version, "/").lstrip("/")
        if container not in group.name or not group.is_dir():
            continue  # a rootless engine may have no groups to give
        if version == 2:
            move_to_leaf(group, pid)
        if has_memory(group, version):
            return group, version
    return None


def move_to_leaf(group: Path, pid: int) -> None:
    """Have no process in a group of version 2 itself: else it may not limit those below it."""
    if not (group / LEAF).exists():
        (group / LEAF).mkdir()
        (group / LEAF / "cgroup.procs").write_text(str(pid))


def hierarchies() -> list[tuple[Path, int]]:
    """Where whole hierarchies are mounted that may limit memory."""
    found = []
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        head, _, tail = line.partition(" - ")
        root, mount = head.split()[3:5]
        kind, _, options = tail.split(maxsplit=2)
        if root == "/" and kind == "cgroup2":
            found.append((Path(mount), 2))
        if root == "/" and kind == "cgroup" and "memory" in options.split(","):
            found.append((Path(mount), 1))
    return sorted(found, key=lambda place: place[1])
