"""What the supervisor holds of a state: its pidfd, and the socket that it gives its words by."""

import os
import signal
import socket
import struct
from dataclasses import dataclass, field

HELLO, DONE = b"hello", b"done"
WORD_SIZE = 64
NOBODY = 0


@dataclass
class State:
    """A process that model code ran in, stopped (or, while its call lasts, running)."""

    pid: int
    command: socket.socket
    own: str
    """How its command socket is named among its descriptors."""
    pidfd: int
    uses: int = 1
    """The snapshots that hold it, and one for being the current state."""
    places: dict[int, str] = field(default_factory=dict)
    """Its open files by name when its call ended, and under -1 its working directory."""
    offsets: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Where the open files stood, and their flags; forks share both."""
    most_processes: int = 0
    """Its soft limit, which forks inherit."""
    kept: bool = False
    """Whether a snapshot has held it."""


def end(state: State) -> None:
    """Kill a state's process, by a pidfd that cannot mean another one, and let go of it."""
    if state.pidfd >= 0:
        kill(state)
        state.command.close()
        os.close(state.pidfd)
        state.pidfd = -1


def kill(state: State) -> None:
    """SIGKILL, wherever the process stands."""
    try:
        signal.pidfd_send_signal(state.pidfd, signal.SIGKILL)
    except ProcessLookupError:
        pass


def hear(sock: socket.socket) -> tuple[bytes, int]:
    """A word, and the pid, by the kernel's credentials, of who says it; NOBODY at the end.

    There is room for the credentials and nothing more: no descriptor can come along.
    """
    try:
        data, ancillary, _, _ = sock.recvmsg(WORD_SIZE, socket.CMSG_SPACE(12))
    except OSError:
        return b"", NOBODY
    for _, kind, raw in ancillary:
        if kind == socket.SCM_CREDENTIALS:
            return data, struct.unpack("3i", raw)[0]
    return b"", NOBODY
