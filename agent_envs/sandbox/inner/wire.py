"""JSON messages over a SEQPACKET socket, with descriptors where they are expected."""

import array
import json
import os
import socket
from collections.abc import Iterable
from typing import Any

LARGEST = 1 << 18
"""Bytes of one message; longer ones are refused, never read in part."""


def send(sock: socket.socket, message: dict[str, Any], fds: Iterable[int] = ()) -> None:
    """One message; the descriptors are duplicated into the receiver."""
    rights = array.array("i", fds)
    ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)] if rights else []
    sock.sendmsg([json.dumps(message).encode()], ancillary)


def receive(
    sock: socket.socket, fds: int = 0, largest: int = LARGEST
) -> tuple[dict[str, Any] | None, list[int]]:
    """One message with at most `fds` descriptors; None at the end of the connection.

    Raises ValueError for what is no JSON object, or too long.
    """
    space = socket.CMSG_SPACE(4 * fds) if fds else 0
    data, ancillary, flags, _ = sock.recvmsg(largest, space, socket.MSG_CMSG_CLOEXEC)
    got = [fd for _, kind, raw in ancillary if kind == socket.SCM_RIGHTS for fd in integers(raw)]
    if not data:
        return None, got
    try:
        message = None if flags & socket.MSG_TRUNC else json.loads(data)
    except RecursionError:
        message = None
    if not isinstance(message, dict):
        for fd in got:
            os.close(fd)
        raise ValueError("a message that is no JSON object, or too long")
    return message, got


def integers(raw: bytes) -> "array.array[int]":
    """The whole C ints at the start of `raw`."""
    return array.array("i", raw[: len(raw) // 4 * 4])
