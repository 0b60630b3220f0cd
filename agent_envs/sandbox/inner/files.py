"""Single files of the workspace, for the host: by a path that is walked one folder at a time.

No link is followed, nothing but a regular file is opened. Contents go through a descriptor that
the host made, of a size that it fixed.
"""

import json
import os
import stat

from agent_envs.sandbox.inner.tree import FOLDER, READ, Most, lock_again, walk

OVERWRITE = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
CHUNK = 1 << 20


def parent(root: int, path: str, *, create: bool) -> tuple[int, str]:
    """A descriptor of the folder that `path` is in, and the last name."""
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if not parts or ".." in parts or "\0" in path:
        raise ValueError(f"{path!r} is no path below the workspace")
    at = os.dup(root)
    for part in parts[:-1]:
        try:
            if create:
                make_folder(at, part)
            below = os.open(part, FOLDER, dir_fd=at)
        finally:
            os.close(at)
        at = below
    return at, parts[-1]


def make_folder(at: int, name: str) -> None:
    """A folder, unless the name is taken."""
    try:
        os.mkdir(name, 0o755, dir_fd=at)
    except FileExistsError:
        pass


def open_regular(root: int, path: str, flags: int) -> int:
    """Open a regular file, and refuse everything else by name."""
    at, name = parent(root, path, create=bool(flags & os.O_CREAT))
    try:
        fd = os.open(name, flags, 0o644, dir_fd=at)
    finally:
        os.close(at)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise ValueError(f"{path!r} is no regular file")
    return fd


def read_into(root: int, path: str, target: int, most: int) -> int:
    """Copy a file of at most `most` bytes to `target`. Returns its size."""
    fd = open_regular(root, path, READ)
    try:
        size = os.fstat(fd).st_size
        if size > most:
            raise ValueError(f"{path!r} has {size} bytes, more than {most}")
        return copy(fd, target)
    finally:
        os.close(fd)


def write_from(root: int, path: str, source: int) -> None:
    """Make a file hold what `source` holds, with the folders above it."""
    fd = open_regular(root, path, OVERWRITE)
    try:
        os.ftruncate(fd, 0)
        copy(source, fd)
    finally:
        os.close(fd)


def copy(source: int, target: int) -> int:
    """All bytes of one file into another, from their starts."""
    done = 0
    while data := os.pread(source, CHUNK, done):
        done += os.pwrite(target, data, done)
    return done


def list_into(root: int, target: int, most: Most) -> int:
    """Write [path, kind, size] of everything below `root` to `target`, as JSON. Returns its
    size."""
    locked: dict[str, int] = {}
    try:
        found = [
            (path, kind(info.st_mode), info.st_size)
            for _, _, path, info in walk(root, most, locked)
        ]
    finally:
        lock_again(root, locked)
    return os.pwrite(target, json.dumps(found).encode(), 0)


def kind(mode: int) -> str:
    """`file`, `folder`, `link` or `other`."""
    if stat.S_ISREG(mode):
        return "file"
    if stat.S_ISDIR(mode):
        return "folder"
    return "link" if stat.S_ISLNK(mode) else "other"
