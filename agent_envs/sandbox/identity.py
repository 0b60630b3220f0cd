"""Which uid model code runs under when the host is root, one that nobody else has; and who it is
that connects."""

import functools
import os
import socket
import struct
import threading
from pathlib import Path

RANGE, SMALL_RANGE = range(0x70000000, 0x7FFFFFFF), range(61184, 65520)
"""Uids that no distribution gives out; and, where few are mapped, those of passing services."""
PER_PROCESS = 1024
PEER = struct.Struct("3i")

_lock = threading.Lock()
_taken: set[int] = set()


def take_uid() -> int | None:
    """A uid for one session, to be given back; None where the host is not root, or has no other.

    Every session gets its own: the kernel counts processes by uid, and none can reach another's.
    """
    if os.getuid() != 0:
        return None
    uids = next((r for r in (RANGE, SMALL_RANGE) if is_mapped(r)), None)
    if uids is None:
        return None
    with _lock:
        slot = next(n for n in range(len(_taken) + 1) if n not in _taken)
        _taken.add(slot)
    return uids[(os.getpid() * PER_PROCESS + slot) % len(uids)]


def give_back(uid: int | None) -> None:
    """Let another session have the uid."""
    if uid is None:
        return
    uids = RANGE if uid in RANGE else SMALL_RANGE
    with _lock:
        _taken.discard((uids.index(uid) - os.getpid() * PER_PROCESS) % len(uids))


@functools.cache
def is_mapped(uids: range) -> bool:
    """Whether this user namespace has all of these uids."""
    for line in Path("/proc/self/uid_map").read_text().splitlines():
        first, _, count = (int(word) for word in line.split())
        if first <= uids[0] and uids[-1] < first + count:
            return True
    return False


def peer(sock: socket.socket) -> int:
    """The pid of who connected, by the kernel's word."""
    pid, _, _ = PEER.unpack(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, PEER.size))
    return int(pid)


def _forget_taken() -> None:
    global _lock
    _lock = threading.Lock()  # a thread that is not in this fork may have held it
    _taken.clear()


os.register_at_fork(after_in_child=_forget_taken)
