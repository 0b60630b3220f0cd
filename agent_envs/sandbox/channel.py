"""The host's end of one session: requests, and calls with their output.

Nothing that comes from a session is trusted: reads are bounded and have a deadline, no descriptor
is ever taken, and what model code wrote is parsed as one JSON value or not at all.
"""

import contextlib
import json
import os
import secrets
import select
import signal
import socket
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from agent_envs.errors import BackendUnavailable
from agent_envs.sandbox.cgroup import MemoryGroup
from agent_envs.sandbox.host import Zygote
from agent_envs.sandbox.identity import give_back
from agent_envs.sandbox.inner.setup import Setup
from agent_envs.sandbox.inner.wire import receive, send

ASK_SECONDS = 60.0
"""How long a request other than a call may take; then the session counts as lost."""
GRACE_SECONDS = 15.0
"""What a call may take beyond its own deadline, to fork and to clean up."""
READY_SECONDS = 20.0
CLOSE_SECONDS = 10.0
REPLY = 1 << 18
CHUNK = LARGEST_REPLY = 1 << 16
FLOOD = 1 << 20
"""Bytes beyond the limit that are read and thrown away; a call that writes more is ended. So what a
call that merely says too much comes to does not depend on who is faster."""
STREAMS = ("stdout", "stderr", "reply")


class SessionLost(Exception):
    """The session has ended or hangs. Its text is the supervisor's last word, if it had one."""


@dataclass(frozen=True)
class Outcome:
    """What came of a call."""

    facts: dict[str, Any]
    """From the supervisor."""
    output: dict[str, bytes]
    word: dict[str, Any]
    """What the model's interpreter said: its own word."""
    cut: frozenset[str]


class Channel:
    """One session, from its start to `close`."""

    def __init__(
        self, zygote: Zygote, setup: Setup, uid: int | None, group: MemoryGroup | None
    ) -> None:
        self.setup = setup
        self.uid = uid
        self.group = group
        self.owner = os.getpid()
        self.closing = threading.Lock()
        self.number = 0
        self.killed = 0
        self.waiting = False
        self.sock, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.pidfd = -1
        try:
            self._send_setup()  # it finds this when it begins
            name = group.path.name if group else ""
            self.pidfd = zygote.clone(theirs, uid, setup.base, name)
            self._ready()
        except BaseException:
            self.close()
            raise
        finally:
            theirs.close()

    def _send_setup(self) -> None:
        doors = [self.group.door()] if self.group else []
        try:
            send(self.sock, asdict(self.setup), doors)
        finally:
            for door in doors:
                os.close(door)

    def _ready(self) -> None:
        try:
            message = self._receive(time.monotonic() + READY_SECONDS)
        except SessionLost:
            message = {"failed": "it ends while its walls are built"}
        if "ready" not in message:
            raise BackendUnavailable(f"{self.setup.strength}: {message.get('failed')}")

    def ask(self, do: str, fds: Sequence[int] = (), **fields: Any) -> dict[str, Any]:
        """A request and its reply. Raises SessionLost."""
        self._send(do, fds, fields)
        return self._reply(time.monotonic() + ASK_SECONDS)

    def _send(self, do: str, fds: Sequence[int], fields: Mapping[str, Any]) -> None:
        if self.waiting:  # an exception came between a request and its reply
            raise SessionLost
        self.number += 1
        self.waiting = True
        try:
            send(self.sock, {**fields, "do": do, "n": self.number}, fds)
        except OSError:
            raise SessionLost from None

    def _reply(self, deadline: float) -> dict[str, Any]:
        while True:
            message = self._receive(deadline)
            if "failed" in message:
                raise SessionLost(message["failed"])
            if message.get("n") == self.number:
                self.waiting = False
                return message

    def _receive(self, deadline: float) -> dict[str, Any]:
        poll = select.poll()
        try:
            poll.register(self.sock, select.POLLIN)
            if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
                raise SessionLost
            message, _ = receive(self.sock, largest=LARGEST_REPLY)
        except (OSError, ValueError):
            raise SessionLost from None
        if message is None:
            raise SessionLost
        return message

    def call(self, order: Mapping[str, Any], seconds: float, most: int) -> Outcome:
        """Run code or a command. At most `most` bytes of each stream are kept; a flood stops it."""
        pipes = {name: os.pipe() for name in STREAMS}
        try:
            try:
                fields = {**order, "seconds": seconds}
                self._send("call", [write for _, write in pipes.values()], fields)
            finally:
                for _, write in pipes.values():
                    os.close(write)
            reader = Reader({name: read for name, (read, _) in pipes.items()}, most)
            facts = self._follow_or_stop(reader, time.monotonic() + seconds + GRACE_SECONDS)
            if "ended" not in facts:
                raise SessionLost(str(facts.get("refused")))
            reader.drain()
        finally:
            for read, _ in pipes.values():
                os.close(read)
        output = {name: bytes(reader.got[name]) for name in STREAMS}
        return Outcome(facts, output, parse(output["reply"]), frozenset(reader.cut))

    def _follow_or_stop(self, reader: "Reader", deadline: float) -> dict[str, Any]:
        """Follow a call; what interrupts that, as Ctrl-C does, ends the call too."""
        try:
            return self._follow(reader, deadline)
        except SessionLost:
            raise
        except BaseException:
            with contextlib.suppress(SessionLost):
                self._tell_to_stop()
                self._reply(time.monotonic() + GRACE_SECONDS)
            raise

    def _follow(self, reader: "Reader", deadline: float) -> dict[str, Any]:
        poll = select.poll()
        control = self.sock.fileno()
        if control < 0:  # closed from another thread since the call was sent
            raise SessionLost
        for fd in (*reader.names, control):
            poll.register(fd, select.POLLIN)
        told = False
        while (left := deadline - time.monotonic()) > 0:
            for fd, _ in poll.poll(left * 1000):
                if fd not in reader.names:
                    return self._reply(deadline)
                if not reader.read(fd):
                    poll.unregister(fd)
            if reader.floods and not told:
                told = True
                self._tell_to_stop()
        raise SessionLost

    def _tell_to_stop(self) -> None:
        try:
            send(self.sock, {"do": "stop", "n": self.number})
        except OSError:
            raise SessionLost from None

    def new_kills(self) -> int:
        """Processes ended for want of memory since the last time that this was asked."""
        before = self.killed
        self.killed = self.group.kills() if self.group else 0
        return self.killed - before

    def close(self) -> None:
        """End the session, from any thread: a call that is going on raises SessionLost."""
        if self.owner != os.getpid():
            return  # a fork of the host: it is the parent's
        with self.closing:
            if self.pidfd >= 0:
                self._end()
            self.sock.close()
            if self.group:
                self.group.close()
            give_back(self.uid)
            self.uid = None

    def _end(self) -> None:
        try:
            if self.setup.alone:
                signal.pidfd_send_signal(self.pidfd, signal.SIGKILL)
            self.sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        if not select.select([self.pidfd], [], [], CLOSE_SECONDS)[0]:
            signal.pidfd_send_signal(self.pidfd, signal.SIGKILL)
            select.select([self.pidfd], [], [], CLOSE_SECONDS)
        os.close(self.pidfd)
        self.pidfd = -1


class Reader:
    """Reads a call's pipes: at most so many bytes of each are kept, and it notes what was cut."""

    def __init__(self, pipes: Mapping[str, int], most: int) -> None:
        self.names = {fd: name for name, fd in pipes.items()}
        self.most = {name: REPLY if name == "reply" else most for name in pipes}
        self.got = {name: bytearray() for name in pipes}
        self.total = dict.fromkeys(pipes, 0)
        self.cut: set[str] = set()
        self.floods: set[str] = set()

    def read(self, fd: int) -> bool:
        """Read what is there. False at the end of the stream, or of what is wanted of it."""
        name = self.names[fd]
        data = os.read(fd, CHUNK)
        self.got[name] += data[: self.most[name] - len(self.got[name])]
        self.total[name] += len(data)
        if self.total[name] > self.most[name]:
            self.cut.add(name)
        if self.total[name] > self.most[name] + FLOOD:
            self.floods.add(name)
        return bool(data) and name not in self.floods

    def drain(self) -> None:
        """Read what the pipes still hold, without waiting for an end."""
        for fd, name in self.names.items():
            os.set_blocking(fd, False)
            try:
                while name not in self.floods and self.read(fd):
                    pass
            except BlockingIOError:
                continue


def parse(data: bytes) -> dict[str, Any]:
    """What a reply says, with texts for value and error; {} if it is not one JSON object."""
    try:
        word = json.loads(data) if data else {}
    except (ValueError, RecursionError):
        return {}
    if not isinstance(word, dict):
        return {}
    return {key: word[key] for key in ("value", "error") if isinstance(word.get(key), str)} | {
        key: word.get(key) is True for key in ("cut", "memory")
    }


def new_base(place: str = "") -> str:
    """A path for a session's folder, by default on memory where there is some."""
    if not place:
        place = "/dev/shm" if os.access("/dev/shm", os.W_OK | os.X_OK) else "/tmp"
    return f"{place}/agent-envs-{secrets.token_hex(8)}"
