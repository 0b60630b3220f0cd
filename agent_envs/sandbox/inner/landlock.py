"""One Landlock layer: which files, and (from kernel 6.7 and 6.12 on) no TCP and no foreign signals.

Layers only ever take away, and end at 16: each process here gets a fixed number of them.
"""

import os
import struct
from collections.abc import Iterable

from agent_envs.sandbox.inner.system import call

VERSION_FLAG = 1
RULE_PATH_BENEATH = 1
EXECUTE, WRITE_FILE, READ_FILE, READ_DIR, REMOVE_DIR, TRUNCATE = 1, 2, 4, 8, 16, 1 << 14
FILE_RIGHTS_BY_ABI = (13, 14, 15, 15, 16)
"""How many file rights each ABI knows, from 1 on; later ones know as many as the last."""
NETWORK_ABI, SCOPE_ABI = 4, 6


def abi() -> int:
    """The kernel's Landlock version; 0 where it has none."""
    try:
        return call("landlock_create_ruleset", None, 0, VERSION_FLAG)
    except OSError:
        return 0


def restrict(
    *,
    read: Iterable[str | int] = (),
    write: Iterable[str | int] = (),
    listed: Iterable[str] = (),
    emptied: Iterable[str] = (),
) -> None:
    """Add a layer to this process: read (and run) below `read`, everything below `write`.

    `listed` folders show the names below them, and nothing more; from `emptied` ones folders may
    be removed, as far as they are one's own. Paths that do not exist are left
    out; an int is an open descriptor. Raises OSError where the kernel has no Landlock.
    """
    version = abi()
    every = (1 << FILE_RIGHTS_BY_ABI[min(version, 5) - 1]) - 1
    handled = [every]
    if version >= NETWORK_ABI:
        handled.append(3)
    if version >= SCOPE_ABI:
        handled.append(3)
    attributes = struct.pack(f"<{len(handled)}Q", *handled)
    ruleset = call("landlock_create_ruleset", attributes, len(attributes), 0)
    rights = {
        READ_DIR: listed,
        REMOVE_DIR: emptied,
        EXECUTE | READ_FILE | READ_DIR: read,
        every: write,
    }
    for access, places in rights.items():
        for place in places:
            _grant(ruleset, place, access & every)
    call("landlock_restrict_self", ruleset, 0)
    os.close(ruleset)


def _grant(ruleset: int, place: str | int, access: int) -> None:
    try:
        fd = place if isinstance(place, int) else os.open(place, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    if not os.path.isdir(place):
        access &= EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE
    rule = struct.pack("<Qi", access, fd)
    call("landlock_add_rule", ruleset, RULE_PATH_BENEATH, rule, 0)
    if not isinstance(place, int):
        os.close(fd)
