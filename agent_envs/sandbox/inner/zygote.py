"""The zygote: a clean interpreter that imports once, then clones itself into sessions.

    python -c BOOT socket archive

`socket` is a descriptor's number, or the path of a Unix socket to connect to. The first message
there says the rest, with a pidfd of the host and maybe the folder of the cgroups. The zygote lives
as long as the host: it watches the host's process, and the other end of its socket.
"""

import contextlib
import gc
import os
import resource
import select
import signal
import socket
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

from agent_envs.sandbox.inner import rooms, seccomp, session, state, system
from agent_envs.sandbox.inner.forks import OURS
from agent_envs.sandbox.inner.memory import fill_gaps, keep_a_heap
from agent_envs.sandbox.inner.modules import USUAL, define, warm
from agent_envs.sandbox.inner.processes import Processes
from agent_envs.sandbox.inner.setup import NAMESPACE, SUBPROCESS
from agent_envs.sandbox.inner.wire import receive, send

ADDR_NO_RANDOMIZE = 0x0040000
GO = "go"
END_SECONDS = 5


def main() -> None:
    """Exec once more without address randomisation, then serve."""
    place, archive = sys.argv[1:3]
    if GO not in sys.argv and fixed_addresses():
        os.execv(sys.executable, [*sys.orig_argv, GO])
    control = connect(place)
    options, fds = receive(control, fds=2)
    if options is None:
        return
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # one for each session, each snapshot
    if os.getuid() == 0:
        with contextlib.suppress(PermissionError):  # in a user namespace that forbids it
            os.setgroups([])
    for number in session.IGNORED:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
    sys.path += options["path"]
    failed = warm(USUAL) or warm(options["warm"])
    state.prepare(archive, options["path"])
    failed = failed or define(options["modules"])
    if failed:
        send(control, {"failed": failed})
        return
    Zygote(control, options, *fds).serve()


def connect(place: str) -> socket.socket:
    """The socket to the host: a descriptor that is there, or one to a path."""
    if place.isdigit():
        control = socket.socket(fileno=int(place))
        control.set_inheritable(False)
        return control
    control = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    control.connect(place)
    return control


def fixed_addresses() -> bool:
    """Ask that the next exec puts everything at the same addresses; False where that is refused."""
    return bool(system.LIBC.personality(ADDR_NO_RANDOMIZE) >= 0)


@contextlib.contextmanager
def acting_as(uid: int | None) -> Iterator[None]:
    """Clone as another uid and gid: a user namespace belongs to who makes it. Root comes back."""
    if uid is None:
        yield
        return
    try:
        os.setresgid(uid, uid, 0)
        os.setresuid(uid, uid, 0)
        system.prctl(system.PR_SET_DUMPABLE, 1)
        yield
    finally:
        os.setresuid(0, 0, 0)
        os.setresgid(0, 0, 0)


def remove_base(base: str) -> None:
    """Remove the folder of a session that could not do it itself."""
    try:
        os.chmod(base, 0o700)  # its processes have ended
        folder = os.open(base, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except FileNotFoundError:
        return
    session.remove_base(folder, base)


def build_rooms(read: list[str]) -> dict[str, str] | None:
    """Do once, in a mount namespace of one's own, what all sessions have in common.

    Returns what is left to do; None, all of it, where this machine only lets sessions do it.
    """
    uid, gid = os.getuid(), os.getgid()
    try:
        if uid == 0:
            system.call("unshare", system.NEW_MOUNTS)
        else:
            system.call("unshare", system.NEW_MOUNTS | system.NEW_USER)
            session.map_user(uid, gid, inside=(uid, gid))
    except OSError:
        return None
    return rooms.build(read)


class Session(NamedTuple):
    """A supervisor's pid, and what it may leave: a folder of the host's, a cgroup."""

    pid: int
    base: str
    group: str


class Zygote:
    """One zygote: the host's socket, and the sessions that are alive."""

    def __init__(
        self, control: socket.socket, options: dict[str, Any], host: int, groups: int = -1
    ) -> None:
        self.control = control
        self.strength: str = options["strength"]
        self.host = host
        self.lifeline, self.held = os.pipe()
        self.sessions: dict[int, Session] = {}
        self.groups: set[str] = set()
        self.group_folder = groups
        self.filled: list[object] = []
        self.filters = {"supervisor": seccomp.supervisor_filter()} if self.walled else {}
        if self.walled:
            alone = self.strength == NAMESPACE
            self.filters[self.strength] = seccomp.model_filter(shared_kernel_view=not alone)
        self.late = build_rooms(options["read"]) if self.strength == NAMESPACE else None
        self.flags = self.next_flags()
        if self.strength != NAMESPACE:
            system.prctl(system.PR_SET_CHILD_SUBREAPER, 1)
            proc = os.open("/proc", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            self.processes = Processes(proc, alone=False)

    @property
    def walled(self) -> bool:
        """Whether its sessions have filters at all."""
        return self.strength != SUBPROCESS

    def serve(self) -> None:
        """Start a session for each message, until the host is gone; then end them all."""
        gc.collect()
        keep_a_heap()
        self.filled = fill_gaps()
        gc.freeze()
        send(self.control, {"ready": True})
        poll = select.poll()
        poll.register(self.control, select.POLLIN)
        poll.register(self.host, select.POLLIN)
        while True:
            ready = {fd for fd, _ in poll.poll()}
            for pidfd in ready & set(self.sessions):
                poll.unregister(pidfd)
                self.bury(pidfd)
            if self.host in ready:
                break
            if self.control.fileno() in ready:
                message, fds = receive(self.control, fds=1)
                if message is None:
                    break
                started = self.start_or_say_why_not(fds, message)
                if started is not None:
                    poll.register(started, select.POLLIN)
                self.flags = self.next_flags()
        self.end()

    def start_or_say_why_not(self, fds: list[int], wanted: dict[str, Any]) -> int | None:
        """Start a session that talks through `fds[0]`, and tell the host its pidfd, or what failed:
        the other sessions go on."""
        try:
            if not fds:
                raise OSError("the zygote has no descriptor left (RLIMIT_NOFILE)")
            pidfd = self.start(fds[0], wanted)
        except OSError as error:
            send(self.control, {"failed": str(error)})
            return None
        finally:
            for fd in fds:
                os.close(fd)
        send(self.control, {}, [pidfd])
        return pidfd

    def start(self, host: int, wanted: dict[str, Any]) -> int:
        """Clone a session that talks to `host`. Returns its pidfd."""
        uid = os.getuid() if wanted["uid"] is None else wanted["uid"]
        gid = os.getgid() if wanted["uid"] is None else wanted["uid"]
        place = os.dup(host)  # kept for the pidfd: without it nothing is started
        try:
            with acting_as(wanted["uid"]):
                with OURS:
                    pid = system.clone(self.flags)
                if pid == 0:
                    self.leave(place)
                    sock = socket.socket(fileno=host)
                    session.run(sock, self.lifeline, self.filters, uid, gid, self.late)
        finally:
            os.close(place)
        pidfd = os.pidfd_open(pid)
        self.sessions[pidfd] = Session(pid, wanted["base"], wanted["group"])
        return pidfd

    def next_flags(self) -> int:
        """What the next session is cloned with.

        Its network namespace takes longest to make. So where it can the zygote goes into a new one
        while nobody waits, and the session is born there.
        """
        if self.strength != NAMESPACE:
            return 0
        if self.late is None:  # the zygote may not make namespaces of its own
            return system.NEW_NAMESPACES
        try:
            system.call("unshare", system.NEW_NETWORK)
        except OSError:
            return system.NEW_NAMESPACES
        return system.NEW_NAMESPACES & ~system.NEW_NETWORK

    def leave(self, place: int) -> None:
        """In a session: let go of what is the zygote's, and of `place`."""
        groups = [self.group_folder] if self.group_folder >= 0 else []
        for fd in (self.control.detach(), self.held, self.host, place, *groups, *self.sessions):
            os.close(fd)

    def bury(self, pidfd: int) -> None:
        """A session has ended: what is left of it, if it was killed, ends too."""
        ended = self.sessions.pop(pidfd)
        os.close(pidfd)
        try:
            os.waitpid(ended.pid, 0)
        except ChildProcessError:
            pass  # the last sweep has reaped it
        if self.strength != NAMESPACE:
            self.processes.apart = {live.pid for live in self.sessions.values()}
            self.processes.sweep(())
            self.processes.ends.clear()
            with contextlib.suppress(OSError):  # what one session has done to it ends no other
                remove_base(ended.base)
        # The host reads the group before it removes it: only its end makes that the zygote's task.
        self.groups = {*filter(self.is_group, self.groups), ended.group} - {""}

    def end(self) -> None:
        """Let go of the lifeline, and wait for the sessions to end in good order."""
        os.close(self.held)
        self.control.close()
        for pidfd in list(self.sessions):
            if self.strength == NAMESPACE:
                signal.pidfd_send_signal(pidfd, signal.SIGKILL)
            elif not select.select([pidfd], [], [], END_SECONDS)[0]:
                signal.pidfd_send_signal(pidfd, signal.SIGKILL)
            select.select([pidfd], [], [], END_SECONDS)
            self.bury(pidfd)
        for group in filter(self.is_group, self.groups):
            os.rmdir(group, dir_fd=self.group_folder)

    def is_group(self, name: str) -> bool:
        """Whether a cgroup that the host made is still there."""
        try:
            os.stat(name, dir_fd=self.group_folder)
        except FileNotFoundError:
            return False
        return True
