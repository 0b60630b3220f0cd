"""How much a workspace holds where no mount limits it, and making it fit again."""

import os
import stat
from collections.abc import Iterator

from agent_envs.sandbox.inner.restore import empty_folder, remove
from agent_envs.sandbox.inner.tree import FOLDER, LONGEST_PATH, Refused, lock_again, unlock

BLOCK = 512
TOO_MUCH = 1 << 62


def files_below(
    root: int, locked: dict[str, int] | None = None
) -> Iterator[tuple[int, str, os.stat_result]]:
    """(blocks' bytes, path, lstat) of what is there; no link is followed.

    While it may be changing, folders that cannot be entered are passed over. With `locked`, for
    when nothing changes it, they are unlocked, and their modes noted there. Raises Refused where
    folders are nested too deep.
    """
    todo = ["."]
    while todo:
        folder = todo.pop()
        prefix = "" if folder == "." else f"{folder}/"
        if len(os.fsencode(prefix)) > LONGEST_PATH:
            raise Refused("folders nested too deep to look into")
        try:
            at = os.open(folder, FOLDER, dir_fd=root)
        except OSError:
            continue
        try:
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


def usage(root: int, entries: int, locked: dict[str, int] | None = None) -> int:
    """Bytes below `root`; more than any limit where there are more than `entries` names, or
    folders that are nested too deep."""
    total = 0
    try:
        for count, (size, _, _) in enumerate(files_below(root, locked)):
            total += size
            if count > entries:
                return TOO_MUCH
    except Refused:
        return TOO_MUCH
    return total


def trim(root: int, most: int, entries: int) -> list[str]:
    """Remove the largest files until what is below `root` fits, or everything if names are many
    or nested too deep. Nothing else may be at work there.

    Returns what was removed.
    """
    locked: dict[str, int] = {}
    total = usage(root, entries, locked)
    if total == TOO_MUCH:
        for name in os.listdir(root):
            empty_folder(root, name)
        return ["everything"]
    removed = []
    found = files_below(root) if total > most else ()
    for size, path, info in sorted(found, reverse=True, key=lambda item: item[0]):
        if total > most and not stat.S_ISDIR(info.st_mode):
            remove(root, path)
            removed.append(path)
            total -= size
    lock_again(root, locked)
    return removed
