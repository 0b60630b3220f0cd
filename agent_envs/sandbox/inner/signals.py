"""Model code's signals and forks, which the kernel puts before the supervisor (seccomp notify)."""

import ctypes
import errno
import fcntl
import os
import struct
from collections.abc import Container

from agent_envs.sandbox.inner.numbers import number
from agent_envs.sandbox.inner.processes import Processes

RECEIVE, ANSWER = 0xC0502100, 0xC0182101
"""SECCOMP_IOCTL_NOTIF_RECV and _SEND."""
REQUEST_SIZE = 80
GO_ON = 1

KILL = number("kill")
BY_PIDFD = number("pidfd_send_signal")
FORKS = {number("clone"), number("fork"), number("vfork")}


class Notifications:
    """Decides for one session. `most` processes is a limit only where forks are asked for."""

    def __init__(
        self, descriptor: int, processes: Processes, most: int, states: Container[int]
    ) -> None:
        self.descriptor = descriptor
        self.processes = processes
        self.most = most
        self.states = states
        self.forking: int | None = None
        """The state that was told to fork the next call."""

    def answer_one(self) -> None:
        """Take a request and answer it. Nothing when its process is gone meanwhile."""
        request = bytearray(REQUEST_SIZE)
        try:
            fcntl.ioctl(self.descriptor, RECEIVE, request)
            ident, caller, _, nr = struct.unpack_from("<QIIi", request)
            (first,) = struct.unpack_from("<Q", request, 32)
            if nr in FORKS:
                code = 0 if self._may_fork(caller) else -errno.EAGAIN
            else:
                code = 0 if self._may_signal(nr, caller, first) else -errno.EPERM
            reply = struct.pack("<QqiI", ident, 0, code, 0 if code else GO_ON)
            fcntl.ioctl(self.descriptor, ANSWER, bytearray(reply))
        except OSError:
            return

    def _may_fork(self, caller: int) -> bool:
        if caller == self.forking:
            return True
        alive = [pid for pid in self.processes.descendants() if pid not in self.states]
        return sum(self.processes.threads(pid) for pid in alive) < self.most

    def _may_signal(self, nr: int, caller: int, first: int) -> bool:
        if nr == BY_PIDFD:
            return True  # a pidfd could only be opened for what is allowed
        target = ctypes.c_int(first & 0xFFFFFFFF).value
        if nr == KILL and target <= 0:
            return target != -1 and self._may_signal_group(-target or os.getpgid(caller))
        if target in self.states or target == os.getpid():
            return False
        return self.processes.alone or self._is_ours(target)

    def _may_signal_group(self, group: int) -> bool:
        """A group that holds neither the supervisor nor a state, nor anything of the host."""
        if group == os.getpgrp():
            return False
        everyone = self.processes.everyone()
        inside = {pid for pid in everyone if group_of(pid) == group}
        return bool(inside) and not any(pid in self.states for pid in inside)

    def _is_ours(self, target: int) -> bool:
        """A process of this session, or (tkill) one of its threads."""
        everyone = self.processes.descendants()
        return target in everyone or any(self.processes.has_thread(pid, target) for pid in everyone)


def group_of(pid: int) -> int | None:
    """A process's group, None when it is gone."""
    try:
        return os.getpgid(pid)
    except ProcessLookupError:
        return None
