"""Making a folder what a captured tree says, by changing only what differs."""

import os
import stat
from collections import defaultdict

from agent_envs.sandbox.inner.tree import FOLDER, RWX, WRITE, Entry, Most, Refused, Tree, survey


def restore(root: int, tree: Tree, before: Tree, most: Most) -> None:
    """Bring back `tree` below `root`; `before` is any earlier capture, to compare faster.

    What is there now may be anything. Room is made first, so that a full file system is enough.
    """
    now = _what_is_there(root, before, most)
    touched = _remove_the_rest(root, now, tree)
    changed = [path for path, entry in tree.items() if _differs(entry, now.get(path))]
    for path in changed:
        _shrink(root, path, tree[path], now.get(path))
    _create(root, changed, now, tree)
    touched |= {_folder_of(path) for path in changed if path not in now}
    _set_modes_and_times(root, touched, set(changed), now, tree)


def _what_is_there(root: int, before: Tree, most: Most) -> Tree:
    try:
        return survey(root, before, most, {})
    except (Refused, OSError):  # a tree that cannot be read is thrown away whole
        now = {}
        for name in os.listdir(root):  # but for the folders at the top, which are mounted
            mode = os.stat(name, dir_fd=root, follow_symlinks=False).st_mode
            if stat.S_ISDIR(mode):
                empty_folder(root, name)
                now[name] = Entry(mode | RWX, None, 0, 0)
            else:
                os.unlink(name, dir_fd=root)
        return now


def _remove_the_rest(root: int, now: Tree, tree: Tree) -> set[str]:
    relinked = _names_by_link(now) ^ _names_by_link(tree)
    wrong = {path for names in relinked for path in names if not stat.S_ISDIR(_mode(now, path))}
    gone: set[str] = set()
    for path in sorted(now):
        entry = tree.get(path)
        if _folder_of(path) in gone:
            gone.add(path)
        elif entry is None or path in wrong or _kind(entry) != _kind(now[path]):
            remove(root, path)
            gone.add(path)
    for path in gone:
        del now[path]
    return {_folder_of(path) for path in gone}


def _folder_of(path: str) -> str:
    return path.rpartition("/")[0]


def _mode(now: Tree, path: str) -> int:
    return now[path].mode if path in now else 0


def _names_by_link(tree: Tree) -> set[frozenset[str]]:
    names = defaultdict(set)
    for path, entry in tree.items():
        if entry.link:
            names[entry.link].add(path)
    return {frozenset(group) for group in names.values()}


def _kind(entry: Entry) -> int:
    return stat.S_IFMT(entry.mode)


def _differs(entry: Entry, now: Entry | None) -> bool:
    return now is None or (entry.data is not now.data and entry.data != now.data)


def _shrink(root: int, path: str, entry: Entry, now: Entry | None) -> None:
    """Cut a file that is too long now."""
    if now and isinstance(entry.data, bytes) and isinstance(now.data, bytes):
        if len(now.data) > len(entry.data):
            fd = _open(root, path, now.mode)
            os.ftruncate(fd, len(entry.data))
            os.close(fd)


def _create(root: int, changed: list[str], now: Tree, tree: Tree) -> None:
    first: dict[int, str] = {}
    for path, entry in tree.items():
        if entry.link and path in now:
            first[entry.link] = path
    for path in changed:
        entry = tree[path]
        if stat.S_ISDIR(entry.mode):
            os.mkdir(path, RWX, dir_fd=root)
        elif isinstance(entry.data, str):
            if path in now:
                os.unlink(path, dir_fd=root)
            os.symlink(entry.data, path, dir_fd=root)
        elif entry.link in first and first[entry.link] != path and path not in now:
            os.link(first[entry.link], path, src_dir_fd=root, dst_dir_fd=root)
        elif isinstance(entry.data, bytes):
            _write(root, path, entry, _mode(now, path))
        if entry.link:
            first.setdefault(entry.link, path)


def _write(root: int, path: str, entry: Entry, mode: int) -> None:
    fd = _open(root, path, mode)
    try:
        view = memoryview(entry.data if isinstance(entry.data, bytes) else b"")
        while view:
            view = view[os.write(fd, view) :]
        if mode != entry.mode:
            os.fchmod(fd, stat.S_IMODE(entry.mode))
        os.utime(fd, ns=(entry.mtime, entry.mtime))
    finally:
        os.close(fd)


def _open(root: int, path: str, mode: int) -> int:
    """A file to write to; `mode` is what it has now, 0 if it is not there."""
    if mode and not mode & stat.S_IWUSR:
        os.chmod(path, stat.S_IMODE(mode) | stat.S_IWUSR, dir_fd=root)
    fd = os.open(path, WRITE, 0o600, dir_fd=root)
    if mode and not mode & stat.S_IWUSR:
        os.fchmod(fd, stat.S_IMODE(mode))
    return fd


def _set_modes_and_times(
    root: int, touched: set[str], changed: set[str], now: Tree, tree: Tree
) -> None:
    """Of folders, links, and files that were there: those that were written have them."""
    for path in reversed(tree):  # what is in a folder before the folder, which may lock it
        entry, old = tree[path], now.get(path)
        if path in changed and isinstance(entry.data, bytes):
            continue
        fresh = old is None or path in touched
        link = stat.S_ISLNK(entry.mode)
        if not link and (fresh or old is None or old.mode != entry.mode):
            os.chmod(path, stat.S_IMODE(entry.mode), dir_fd=root)
        if fresh or old is None or old.mtime != entry.mtime:
            times = (entry.mtime, entry.mtime)
            os.utime(path, ns=times, dir_fd=root, follow_symlinks=False)


def remove(at: int, name: str) -> None:
    """Remove a file, or a folder with all that is in it: also a chain of thousands of them."""
    try:
        os.unlink(name, dir_fd=at)
    except (IsADirectoryError, PermissionError):
        empty_folder(at, name)
        os.rmdir(name, dir_fd=at)


def empty_folder(at: int, name: str) -> None:
    """Remove all that is in a folder. Holds two descriptors, however deep it goes."""
    here, folders = _enter(at, name)
    stack = [("", folders)]
    while True:
        folders = stack[-1][1]
        if folders:
            child = folders.pop()
            below, inner = _enter(here, child)
            os.close(here)
            here = below
            stack.append((child, inner))
            continue
        done, _ = stack.pop()
        if not stack:
            break
        above = os.open("..", FOLDER, dir_fd=here)
        os.close(here)
        here = above
        os.rmdir(done, dir_fd=here)
    os.close(here)


def _enter(at: int, name: str) -> tuple[int, list[str]]:
    """Open a folder, remove the files in it, and list the folders."""
    mode = os.stat(name, dir_fd=at, follow_symlinks=False).st_mode
    if mode & RWX != RWX:
        os.chmod(name, stat.S_IMODE(mode) | RWX, dir_fd=at)
    here = os.open(name, FOLDER, dir_fd=at)
    folders = []
    with os.scandir(here) as entries:
        found = list(entries)
    for entry in found:
        if entry.is_dir(follow_symlinks=False):
            folders.append(entry.name)
        else:
            os.unlink(entry.name, dir_fd=here)
    return here, folders
