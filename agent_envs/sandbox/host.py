"""The host's side of the zygotes: one for each way to start it, strength and interpreter."""

import atexit
import os
import socket
import threading

from agent_envs.errors import BackendUnavailable
from agent_envs.sandbox.cgroup import find_place
from agent_envs.sandbox.inner.wire import receive, send
from agent_envs.sandbox.interpreter import Inside
from agent_envs.sandbox.launch import Launch, launch_here

START_SECONDS = 60
CLONE_SECONDS = 60
"""A zygote that does not answer in that time is ended, and all its sessions with it."""


class Zygote:
    """A process that clones itself into sessions. Started at once; raises BackendUnavailable.

    `strength`: which walls its sessions build, NAMESPACE, LANDLOCK or SUBPROCESS.
    """

    def __init__(self, strength: str, inside: Inside, launch: Launch = launch_here) -> None:
        self.strength = strength
        self.lock = threading.Lock()
        self.servant = launch(inside)
        self.control = self.servant.control
        self.control.settimeout(START_SECONDS)
        self._tell(inside)
        failed, _ = self._hear()
        if failed:
            raise self._failure(failed)

    def _tell(self, inside: Inside) -> None:
        options = {
            "strength": self.strength,
            "read": inside.read,
            "path": inside.path,
            "warm": inside.warm,
            "modules": dict(inside.modules),
        }
        place = find_place()
        fds = [os.pidfd_open(os.getpid())]
        try:
            if place:
                fds.append(os.open(place[0], os.O_RDONLY | os.O_DIRECTORY))
            send(self.control, options, fds)
        except OSError:
            raise self._failure() from None
        finally:
            for fd in fds:
                os.close(fd)

    def clone(self, sock: socket.socket, uid: int | None, base: str, group: str) -> int:
        """Start a session that talks through `sock`. Returns a pidfd of its supervisor.

        Raises BackendUnavailable; the other sessions go on, unless the zygote itself has ended.
        """
        with self.lock:
            wanted = {"uid": uid, "base": base, "group": group}
            try:
                send(self.control, wanted, [sock.fileno()])
            except OSError:
                raise self._failure() from None
            self.control.settimeout(CLONE_SECONDS)
            failed, pidfd = self._hear()
        if failed:
            raise BackendUnavailable(f"{self.strength}: no session can be started: {failed}")
        return pidfd

    def _hear(self) -> tuple[str, int]:
        """Why the zygote could not do what it was told, if so, and the descriptor that it sends."""
        try:
            message, fds = receive(self.control, fds=1)
        except (OSError, ValueError) as error:
            raise self._failure(otherwise=str(error)) from None
        if message is None:
            raise self._failure()
        return message.get("failed", ""), fds[0] if fds else -1

    def _failure(self, why: str = "", otherwise: str = "it says nothing") -> BackendUnavailable:
        words = self.close()
        why = why or words or otherwise
        return BackendUnavailable(f"{self.strength}: the zygote does not start: {why}")

    def alive(self) -> bool:
        """Whether it can be asked for a session."""
        return self.control.fileno() >= 0 and self.servant.alive()

    def close(self) -> str:
        """End it, and all its sessions with it. Returns its last words."""
        self.control.close()
        return self.servant.end()

    def forget(self) -> None:
        """In a fork of the host: leave it to the parent."""
        self.control.close()
        self.servant.forget()


_zygotes: dict[tuple[Launch, str, Inside], Zygote] = {}
_lock = threading.Lock()


def zygote(strength: str, inside: Inside, launch: Launch = launch_here) -> Zygote:
    """The warm zygote for a choice; it lives until `close_zygotes`, or the end of this process."""
    key = (launch, strength, inside)
    with _lock:
        known = _zygotes.get(key)
        if known is None or not known.alive():
            if known is not None:
                known.close()
            known = _zygotes[key] = Zygote(strength, inside, launch)
        return known


def close_zygotes() -> None:
    """End all zygotes, and every sandbox with them. The next sandbox starts a new one."""
    with _lock:
        for one in _zygotes.values():
            one.close()
        _zygotes.clear()


def _forget_zygotes() -> None:
    global _lock
    _lock = threading.Lock()  # a thread that is not in this fork may have held it
    for one in _zygotes.values():
        one.forget()
    _zygotes.clear()


atexit.register(close_zygotes)
os.register_at_fork(after_in_child=_forget_zygotes)
