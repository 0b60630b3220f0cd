"""How much a workspace holds where no mount limits it, and making it fit again."""

import os
import stat
from collections.abc import Iterator

from agent_envs.sandbox.inner.restore import empty_folder, remove
from agent_envs.sandbox.inner.tree import FOLDER

BLOCK = 512


def files_below(root: int) -> Iterator[tuple[int, str, os.stat_result]]:
    """(blocks' bytes, path, lstat) of what is there, while it may be changing.

    What cannot be entered is passed over; nothing is changed and no link followed.
    """
    todo = ["."]
    while todo:
        folder = todo.pop()
        try:
            at = os.open(folder, FOLDER, dir_fd=root)
        except OSError:
            continue
        try:
            for name in os.listdir(at):
                info = os.stat(name, dir_fd=at, follow_symlinks=False)
                path = name if folder == "." else f"{folder}/{name}"
                if stat.S_ISDIR(info.st_mode):
                    todo.append(path)
                yield info.st_blocks * BLOCK, path, info
        except OSError:
            continue
        finally:
            os.close(at)


def usage(root: int, entries: int) -> int:
    """Bytes below `root`; more than any limit where there are more than `entries` names."""
    total = 0
    for count, (size, _, _) in enumerate(files_below(root)):
        total += size
        if count > entries:
            return 1 << 62
    return total


def trim(root: int, most: int, entries: int) -> list[str]:
    """Remove the largest files until what is below `root` fits, or everything if names are many.

    Returns what was removed.
    """
    if usage(root, entries) <= most:
        return []
    found = []
    for count, item in enumerate(files_below(root)):
        found.append(item)
        if count > entries:
            for name in os.listdir(root):
                empty_folder(root, name)
            return ["everything"]
    total = sum(size for size, _, _ in found)
    removed = []
    for size, path, info in sorted(found, reverse=True, key=lambda item: item[0]):
        if total > most and not stat.S_ISDIR(info.st_mode):
            remove(root, path)
            removed.append(path)
            total -= size
    return removed
