"""Waiting for descriptors, while signals and forks of model code are decided on the side."""

import select
import socket
import time
from collections.abc import Sequence

from agent_envs.sandbox.inner.signals import Notifications


class Gone(Exception):
    """The host, the zygote or the session's own first state is no more: end everything."""


class Watch:
    """The descriptors that matter all the time: the host, the zygote, the notifications."""

    def __init__(self, host: socket.socket, lifeline: int) -> None:
        self.host = host
        self.lifeline = lifeline
        self.notifications: Notifications | None = None

    def first(
        self, wanted: Sequence[int], deadline: float = float("inf"), *, host: bool = False
    ) -> int | None:
        """The first of `wanted` (and the host) that has something to say; None at the deadline.

        `deadline` is of time.monotonic. Raises Gone when the zygote is.
        """
        order = [*([self.host.fileno()] if host else []), *wanted]
        poll = select.poll()
        for fd in (*order, self.lifeline):
            poll.register(fd, select.POLLIN)
        asking = self.notifications.descriptor if self.notifications else -1
        if asking >= 0:
            poll.register(asking, select.POLLIN)
        while (left := deadline - time.monotonic()) > 0:
            ready = {fd for fd, _ in poll.poll(None if left == float("inf") else left * 1000 + 1)}
            if self.lifeline in ready:
                raise Gone
            if asking in ready and self.notifications:
                self.notifications.answer_one()
            for fd in order:
                if fd in ready:
                    return fd
        return None
