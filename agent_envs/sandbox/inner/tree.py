"""The workspace, captured and put back by content.

Times lie (a write through mmap on a tmpfs changes none), so every file is read; one that has not
changed keeps the bytes object of the last capture. All of this runs while nothing else of the
session does: names cannot change under it. Walks stop at limits.
"""

import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
WRITE = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
DEEPEST = 200
LONGEST_PATH = 3800
RWX = 0o700


class Refused(Exception):
    """What cannot be captured, by name."""


class Entry(NamedTuple):
    """One name of a captured tree."""

    mode: int
    data: bytes | str | None
    """A file's bytes, a link's target."""
    mtime: int
    """Nanoseconds."""
    link: int
    """The inode, where a file has several names; else 0."""


Tree = dict[str, Entry]
"""By path; a folder comes before what is in it."""


@dataclass(frozen=True)
class Most:
    """Where walks stop."""

    entries: int
    size: int


def walk(
    root: int, most: Most, locked: dict[str, int]
) -> Iterator[tuple[int, str, str, os.stat_result]]:
    """(folder's descriptor, name, path, lstat) of everything below, a folder before what is in it.

    A folder that its owner may not read, change or enter is unlocked, and its mode noted in
    `locked`. Raises Refused at the limits.
    """
    todo = ["."]
    count = 0
    while todo:
        folder = todo.pop()
        prefix = "" if folder == "." else folder + "/"
        at = os.open(folder, FOLDER, dir_fd=root)
        try:
            names = os.listdir(at)
            count += len(names)
            check_limits(prefix, count, most)
            for name in names:
                info = os.stat(name, dir_fd=at, follow_symlinks=False)
                if stat.S_ISDIR(info.st_mode):
                    unlock(at, name, prefix + name, info.st_mode, locked)
                    todo.append(prefix + name)
                yield at, name, prefix + name, info
        finally:
            os.close(at)


def check_limits(prefix: str, count: int, most: Most) -> None:
    """Refuse what a walk does not go into."""
    if count > most.entries:
        raise Refused(f"more than {most.entries} files and folders in the workspace")
    if prefix.count("/") > DEEPEST or len(os.fsencode(prefix)) > LONGEST_PATH:
        raise Refused("folders nested too deep in the workspace")


def unlock(at: int, name: str, path: str, mode: int, locked: dict[str, int]) -> None:
    """Give the owner of a folder all rights to it."""
    if mode & RWX != RWX:
        locked[path] = stat.S_IMODE(mode)
        os.chmod(name, stat.S_IMODE(mode) | RWX, dir_fd=at)


def lock_again(root: int, locked: dict[str, int]) -> None:
    """Give unlocked folders their modes back, the inner ones first."""
    for path in reversed(locked):
        os.chmod(path, locked[path], dir_fd=root)


def capture(root: int, before: Mapping[str, Entry], most: Most) -> Tree:
    """Everything below `root`; contents that equal those in `before` are the same objects.

    Raises Refused, naming what it cannot hold: a FIFO, a socket, a device, too much of anything.
    """
    locked: dict[str, int] = {}
    try:
        tree = survey(root, before, most, locked)
    finally:
        lock_again(root, locked)
    for path, entry in tree.items():
        if entry.data is None and not stat.S_ISDIR(entry.mode):
            raise Refused(f"{path!r} is {KINDS.get(stat.S_IFMT(entry.mode), 'no file')}")
    for path, mode in locked.items():
        tree[path] = tree[path]._replace(mode=stat.S_IFDIR | mode)
    return tree


KINDS = {
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def survey(root: int, before: Mapping[str, Entry], most: Most, locked: dict[str, int]) -> Tree:
    """As `capture`, with unlocked folders as they are now, and odd kinds without contents."""
    tree: Tree = {}
    size = 0
    for at, name, path, info in walk(root, most, locked):
        mode, link = info.st_mode, 0
        data: bytes | str | None = None
        if stat.S_ISREG(mode):
            size += info.st_size
            if size > most.size:
                raise Refused(f"files of more than {most.size} bytes (holes count) together")
            data = read_file(at, name, info)
            old = before.get(path)
            if old is not None and old.data == data:
                data = old.data
            link = info.st_ino if info.st_nlink > 1 else 0
        elif stat.S_ISDIR(mode):
            mode |= RWX
        elif stat.S_ISLNK(mode):
            data = os.readlink(name, dir_fd=at)
        tree[path] = Entry(mode, data, info.st_mtime_ns, link)
    return tree


def read_file(at: int, name: str, info: os.stat_result) -> bytes:
    """The bytes of a regular file, also of one that its owner may not read."""
    if info.st_size == 0:
        return b""
    if not info.st_mode & stat.S_IRUSR:
        return read_closed_file(at, name, info)
    fd = os.open(name, READ, dir_fd=at)
    try:
        return os.read(fd, info.st_size)
    finally:
        os.close(fd)


def read_closed_file(at: int, name: str, info: os.stat_result) -> bytes:
    """Open it up for the moment."""
    os.chmod(name, stat.S_IMODE(info.st_mode) | stat.S_IRUSR, dir_fd=at)
    fd = os.open(name, READ, dir_fd=at)
    try:
        return os.read(fd, info.st_size)
    finally:
        os.fchmod(fd, stat.S_IMODE(info.st_mode))
        os.close(fd)


class Kept:
    """How many bytes of contents all kept trees hold, each object counted once."""

    def __init__(self) -> None:
        self.size = 0
        self._uses: dict[int, int] = {}

    def add(self, tree: Tree) -> None:
        """Count a tree that is kept from now on."""
        uses = self._uses
        for data in contents(tree):
            known = uses.get(id(data), 0)
            uses[id(data)] = known + 1
            if not known:
                self.size += len(data)

    def remove(self, tree: Tree) -> None:
        """Stop counting a tree, which must still exist."""
        for data in contents(tree):
            left = self._uses[id(data)] - 1
            if left:
                self._uses[id(data)] = left
            else:
                del self._uses[id(data)]
                self.size -= len(data)


def contents(tree: Tree) -> Iterator[bytes]:
    """The bytes of a tree's files."""
    return (entry.data for entry in tree.values() if isinstance(entry.data, bytes))
