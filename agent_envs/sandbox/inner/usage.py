"""How much a workspace holds where no mount limits it, and making it fit again."""

import itertools
import os
import stat
from collections.abc import Iterator

from agent_envs.sandbox.inner.restore import empty_folder, remove
from agent_envs.sandbox.inner.tree import FOLDER, LONGEST_PATH, lock_again, unlock

BLOCK = 512
Found = tuple[int, str, os.stat_result]
"""(blocks' bytes, path, lstat)"""


def files_below(root: int, locked: dict[str, int] | None = None) -> Iterator[Found]:
    """What is there; no link is followed.

    While it may be changing, folders that cannot be entered are passed over. With `locked`, for
    when nothing changes it, they are unlocked, and their modes noted there.
    """
    todo = ["."]
    while todo:
        folder = todo.pop()
        prefix = "" if folder == "." else f"{folder}/"
        try:
            at = os.open(folder, FOLDER, dir_fd=root)
        except OSError:
            continue
        try:
            if is_too_long(prefix):
                yield from _files_deeper(at, prefix, locked)
                continue
            for name in os.listdir(at):
                info = os.stat(name, dir_fd=at, follow_symlinks=False)
                if stat.S_ISDIR(info.st_mode):
                    if locked is not None:
                        unlock(at, name, prefix + name, info.st_mode, locked)
                    todo.append(prefix + name)
                yield info.st_blocks * BLOCK, prefix + name, info
        except OSError:
            continue
        finally:
            os.close(at)


def is_too_long(path: str) -> bool:
    """Whether the system may not take a path for the name of what is below it."""
    return len(os.fsencode(path)) > LONGEST_PATH


def _files_deeper(at: int, prefix: str, locked: dict[str, int] | None) -> Iterator[Found]:
    """What is in a folder whose path is as long as one may be, named from the folder on."""
    inner: dict[str, int] | None = None if locked is None else {}
    for size, path, info in files_below(at, inner):
        yield size, prefix + path, info
    lock_again(at, inner or {})


def usage(root: int, entries: int) -> int:
    """Bytes below `root`; more than any limit where there are more than `entries` names."""
    total = 0
    for count, (size, _, _) in enumerate(files_below(root)):
        total += size
        if count > entries:
            return 1 << 62
    return total


def trim(root: int, most: int, entries: int) -> list[str]:
    """Remove the largest files until what is below `root` fits, or everything if names are many
    or too long to remove one. Nothing else may be at work there.

    Returns what was removed.
    """
    locked: dict[str, int] = {}
    found = list(itertools.islice(files_below(root, locked), entries + 2))
    total = sum(size for size, _, _ in found)
    deep = total > most and any(is_too_long(path) for _, path, _ in found)
    if len(found) > entries + 1 or deep:
        for name in os.listdir(root):
            empty_folder(root, name)
        return ["everything"]
    removed = []
    for size, path, info in sorted(found, reverse=True, key=lambda item: item[0]):
        if total > most and not stat.S_ISDIR(info.st_mode):
            remove(root, path)
            removed.append(path)
            total -= size
    lock_again(root, locked)
    return removed
