"""The file system of a `namespace` session.

`build` makes what is the same for all: the zygote does it once, in a mount namespace of its own,
where it can; else each session does. `furnish` adds what is a session's own.
"""

import os
import stat
from collections.abc import Iterable

from agent_envs.sandbox.inner.system import LIBC, call, check

RDONLY, NOSUID, NODEV, NOEXEC, REMOUNT, BIND, REC = 1, 2, 4, 8, 32, 4096, 16384
PRIVATE = 1 << 18
DETACH = 2
DEVICES = ("null", "zero", "full", "random", "urandom")
FOLDERS = ("usr", "dev", "old", "state", "proc", "empty", "kept", "etc")
WRITABLE = {"workspace": "workspace", "tmp": "tmp", "shm": "dev/shm"}
"""Folders of the one tmpfs that model code may write to, and where they appear."""


def mount(
    source: str | None, target: str, kind: str | None = None, flags: int = 0, data: str = ""
) -> None:
    """`mount(2)`."""
    words = [None if word is None else os.fsencode(word) for word in (source, target, kind)]
    result = LIBC.mount(words[0], words[1], words[2], flags, os.fsencode(data))
    check(result, f"mount {source} at {target}")


def detach(target: str) -> None:
    """Take a mount out of sight; open descriptors below it go on working."""
    check(LIBC.umount2(os.fsencode(target), DETACH), f"umount {target}")


def show(source: int, target: str) -> None:
    """Bind an open folder or file to a place, read-only, and close it."""
    if stat.S_ISDIR(os.fstat(source).st_mode):
        os.makedirs(target, exist_ok=True)
    else:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY, 0o644))
    mount(f"/proc/self/fd/{source}", target, None, BIND | REC)
    mount(None, target, None, BIND | REMOUNT | RDONLY | NOSUID | NODEV)
    os.close(source)


def build(read: Iterable[str]) -> dict[str, str]:
    """Pivot into a small read-only tree: what is the same for every session.

    Returns where those of the `read` paths are kept for now that lie in writable folders.
    """
    sources = {path: os.open(path, os.O_PATH | os.O_CLOEXEC) for path in read}
    mount("none", "/", None, REC | PRIVATE)
    room = f"size=256k,nr_inodes={256 + 16 * len(sources)},mode=755"
    mount("tmpfs", "/tmp", "tmpfs", NOSUID | NODEV, room)
    os.chdir("/tmp")
    for name in (*FOLDERS, *WRITABLE.values()):
        os.makedirs(name, exist_ok=True)
    for link in ("bin", "lib", "lib64"):
        os.symlink("usr/" + link, link)
    late = {}
    for number, (path, source) in enumerate(sources.items()):
        if path.lstrip("/").startswith(tuple(f"{place}/" for place in WRITABLE.values())):
            late[path] = f"/kept/{number}"
        show(source, "." + late.get(path, path))
    for name in DEVICES:
        os.close(os.open("dev/" + name, os.O_CREAT))
        mount("/dev/" + name, "dev/" + name, None, BIND)
    mount("/proc", "proc", None, BIND | REC)
    call("pivot_root", b".", b"old")
    os.chdir("/")
    detach("/old")
    mount(None, "/", None, BIND | REMOUNT | RDONLY | NOSUID | NODEV)
    return late


def furnish(size: int, inodes: int, late: dict[str, str]) -> tuple[int, int]:
    """Add what each session has of its own: one writable tmpfs of `size` bytes, and a /proc.

    Returns descriptors of both. An empty folder covers each of them, so that model code has no name
    for it: taking a mount away would wait until every processor has taken note.
    """
    mount("tmpfs", "/state", "tmpfs", NOSUID | NODEV, f"size={size},nr_inodes={inodes},mode=755")
    for folder, place in WRITABLE.items():
        os.mkdir("/state/" + folder)
        mount("/state/" + folder, "/" + place, None, BIND)
    files = os.open("/state", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    mount("/empty", "/state", None, BIND)
    for path, kept in late.items():
        show(os.open(kept, os.O_PATH | os.O_CLOEXEC), path)
    mount("proc", "/proc", "proc", NOSUID | NODEV | NOEXEC)
    proc = os.open("/proc", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    mount("/empty", "/proc", None, BIND)
    return files, proc
