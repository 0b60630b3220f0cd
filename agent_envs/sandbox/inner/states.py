"""The states of a session, and how one of them forks the next call.

A *state* is a process that has finished a call and is stopped. A call is a fork of the current
state; if it ends well it is the next current state. So a snapshot keeps a state that is there
anyway, and a rollback says which state the next call is forked from: neither forks.
"""

import contextlib
import fcntl
import os
import resource
import select
import signal
import socket
import time
from dataclasses import replace
from typing import Any

from agent_envs.sandbox.inner.handle import DONE, HELLO, State, end, hear, kill
from agent_envs.sandbox.inner.processes import THREADS, Processes
from agent_envs.sandbox.inner.setup import Setup
from agent_envs.sandbox.inner.system import pidfd_getfd
from agent_envs.sandbox.inner.watch import Gone, Watch
from agent_envs.sandbox.inner.wire import send

FORK_SECONDS = 10.0
"""How long a state may take to fork; one that takes longer is given up."""
RUNNING, KEPT = 1000, 500
"""oom_score_adj: when memory runs out, what runs goes first, then what snapshots hold, and the
supervisor last."""
MOST_PROCESSES = 8192
ROUNDS = 20
WRITABLE = ("/workspace/", "/tmp/", "/dev/shm/")
DEVICES = {f"/dev/{name}" for name in ("null", "zero", "full", "random", "urandom")}


class States:
    """All states of a session. `first` has never run model code, and is never given up."""

    def __init__(self, setup: Setup, processes: Processes, watch: Watch, first: State) -> None:
        self.setup = setup
        self.processes = processes
        self.watch = watch
        self.first = self.current = first
        first.uses = 2
        self._prefer_to_kill(first, RUNNING)
        self.by_pid = {first.pid: first}

    # -- forking --

    def fork(self, state: State, order: dict[str, Any], fds: list[int]) -> State | None:
        """Let a state go on just long enough to fork. The kernel says who the child is.

        Its CPU time is limited as that of any process, and each fork takes some: a state that has
        used half of it is replaced before.
        """
        if self.processes.own_seconds(state.pid) > self.setup.rlimits["CPU"] / 2:
            self._renew(state)
        return self._fork(state, order, fds)

    def _renew(self, state: State) -> None:
        """Put a fork of a state, which is the same but for its age, in the state's place."""
        new = self._twin(state)
        if new is None:
            return
        old = replace(state)
        for name in ("pid", "command", "own", "pidfd", "most_processes"):
            setattr(state, name, getattr(new, name))
        if state.kept:
            self._prefer_to_kill(state, KEPT)
        del self.by_pid[old.pid]
        self._add(state)
        end(old)

    def _twin(self, state: State) -> State | None:
        """A fork of a state that has done nothing, stopped."""
        new = self._fork(state, {}, [])
        return new if new and self._comes_to_rest(new) else None

    def _comes_to_rest(self, new: State) -> bool:
        """Whether a fork that has nothing to do says so, and stops."""
        deadline = time.monotonic() + FORK_SECONDS
        done = self.watch.first([new.command.fileno(), new.pidfd], deadline)
        well = done == new.command.fileno() and hear(new.command) == (DONE, new.pid)
        return well and self.processes.stop(new.pid)

    def _fork(self, state: State, order: dict[str, Any], fds: list[int]) -> State | None:
        mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        mine.setblocking(False)
        mine.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        own = f"socket:[{os.fstat(theirs.fileno()).st_ino}]"
        self._limit_processes(state)
        try:
            signal.pidfd_send_signal(state.pidfd, signal.SIGCONT)
            send(state.command, order, [theirs.fileno(), *fds])
        except OSError:
            self._lose(state)
            return None
        finally:
            theirs.close()
        pid = self._hello(state, mine)
        try:
            signal.pidfd_send_signal(state.pidfd, signal.SIGSTOP)
            if pid is None or pid in self.by_pid or os.getsid(pid) != pid:
                return None
            call = State(pid, mine, own, os.pidfd_open(pid))
        except OSError:
            return None
        call.most_processes = state.most_processes
        if state.kept:
            self._prefer_to_kill(call, RUNNING)
        return call

    def _hello(self, state: State, sock: socket.socket) -> int | None:
        """The pid that says hello. A state that does not say anything in time is given up."""
        if self.watch.notifications:
            self.watch.notifications.forking = state.pid
        deadline = time.monotonic() + FORK_SECONDS
        event = self.watch.first([sock.fileno(), state.pidfd], deadline)
        if self.watch.notifications:
            self.watch.notifications.forking = None
        if event != sock.fileno():
            self._lose(state)
            return None
        said, pid = hear(sock)
        return pid if said == HELLO else None

    def _limit_processes(self, state: State) -> None:
        """What is there now and `processes` more: the fork inherits it from the stopped state."""
        soft = min(self.processes.count + 1 + self.setup.processes, MOST_PROCESSES)
        if not self.setup.alone or soft == state.most_processes:
            return
        try:
            resource.prlimit(state.pid, resource.RLIMIT_NPROC, (soft, MOST_PROCESSES))
            state.most_processes = soft
        except OSError:
            return  # it is gone, as the order that follows will find

    def keep(self, state: State) -> None:
        """A snapshot holds it from now on."""
        state.uses += 1
        if not state.kept:
            state.kept = True
            self._prefer_to_kill(state, KEPT)

    def _prefer_to_kill(self, state: State, how_much: int) -> None:
        try:
            name = f"{state.pid}/oom_score_adj"
            fd = os.open(name, os.O_WRONLY | os.O_CLOEXEC, dir_fd=self.processes.proc)
        except OSError:
            return  # gone, or not allowed here: nothing hangs on it
        try:
            os.write(fd, str(how_much).encode())
        except OSError:
            pass
        finally:
            os.close(fd)

    # -- becoming a state --

    def adopt(self, call: State) -> dict[str, Any] | None:
        """Make a call that says that it is done the current state: stop it, end what it left.

        Returns how many processes and threads that were, and the CPU time of all together; None
        if the call did not live to it.
        """
        killed = self._quiet(call)
        fields = self.processes.stat(call.pid)
        if killed is None or fields[0] in "ZX":
            return None
        cpu = self.processes.seconds(call.pid, fields) + self.processes.seconds_of_ended()
        threads = int(fields[THREADS])
        new = self._without_threads(call) if threads > 1 else call
        if new is None or not self._note_files(new):
            return None
        self._add(new)
        old, self.current = self.current, new
        self.release(old)
        return {"killed": killed, "threads": threads - 1, "cpu": cpu}

    def _quiet(self, call: State) -> int | None:
        """Stop a call and end all else of it, whose end may set it going once more (SIGCONT, to a
        process group that gets orphaned). How many ended; None if the call did not live to it."""
        ended = 0
        for _ in range(ROUNDS):
            if not self.processes.stop(call.pid):
                return None
            found = self.processes.sweep({*self.by_pid, call.pid})
            ended += found
            if self.processes.stat(call.pid)[0] == "T":
                return ended
        return None

    def _add(self, state: State) -> None:
        self.by_pid[state.pid] = state
        self.processes.uncounted.add(state.pid)

    def _without_threads(self, call: State) -> State | None:
        """A fork has only the thread that forks; the original, whose threads run on, is ended.

        It is a fork by the C library, which frees what those threads held (locks of malloc) and
        had (their stacks), and thus a child of the original: ours as soon as that is dead.
        """
        self._add(call)
        new = self._fork(call, {"as": "child"}, [])
        kill(call)
        self.watch.first([call.pidfd], time.monotonic() + FORK_SECONDS)
        self._forget(call)
        if new and not self._comes_to_rest(new):
            new = None
        self.processes.sweep({*self.by_pid, new.pid} if new else self.by_pid)
        return new

    def _note_files(self, state: State) -> bool:
        try:
            descriptors = self.processes.descriptors(state.pid)
            state.places = {fd: to for fd, to in descriptors.items() if to.startswith("/")}
            files = [fd for fd, to in state.places.items() if to not in DEVICES]
            state.offsets = {fd: self.processes.opened(state.pid, fd) for fd in files}
            state.places[-1] = self.processes.folder(state.pid)
        except OSError:
            return False
        return True

    # -- going back --

    def go_to(self, state: State) -> None:
        """Fork the next call from this state."""
        self.put_offsets_back(state)
        old, self.current = self.current, state
        state.uses += 1
        self.release(old)

    def put_offsets_back(self, state: State) -> None:
        """Set open files to where and how they stood when the state's call ended."""
        for fd, (offset, flags) in state.offsets.items():
            try:
                copy = pidfd_getfd(state.pidfd, fd)
            except OSError:
                continue
            with contextlib.suppress(OSError):  # not of a FIFO, or a mere path
                fcntl.fcntl(copy, fcntl.F_SETFL, flags)
                os.lseek(copy, offset, os.SEEK_SET)
            os.close(copy)

    def release(self, state: State) -> None:
        """One use less; without any the state ends."""
        state.uses -= 1
        if state.uses == 0:
            self._forget(state)

    def _forget(self, state: State) -> None:
        end(state)
        self.by_pid.pop(state.pid, None)

    def _lose(self, state: State) -> None:
        """A state died or hangs: the model's loss. The session goes on from its first state."""
        if state is self.first:
            raise Gone
        kill(state)
        self.by_pid.pop(state.pid, None)
        if state is self.current:
            self.current = self.first
            self.first.uses += 1
            self.release(state)

    # -- what a stopped process cannot hold for itself --

    def is_dead(self, state: State) -> bool:
        """Whether a state has been lost."""
        return state.pid not in self.by_pid or bool(select.select([state.pidfd], [], [], 0)[0])

    def obstacle(self, state: State) -> str | None:
        """Why a state cannot be frozen, by name; None if it can."""
        if self._obstacle(state) is None:
            return None
        self._settle(state)  # what is in the way may have been on its way out
        return self._obstacle(state)

    def _settle(self, state: State) -> None:
        """Let a state finish what it was stopped in: closing what it handed to its last fork."""
        try:
            signal.pidfd_send_signal(state.pidfd, signal.SIGCONT)
            send(state.command, {})
        except OSError:
            pass  # it has died, or would not read: it is refused as it is
        else:
            deadline = time.monotonic() + FORK_SECONDS
            if self.watch.first([state.command.fileno(), state.pidfd], deadline) is not None:
                hear(state.command)
        self.processes.stop(state.pid)
        self.processes.sweep(self.by_pid)

    def _obstacle(self, state: State) -> str | None:
        for fd, to in self.processes.descriptors(state.pid).items():
            if to != state.own and (not to.startswith("/") or to.endswith(" (deleted)")):
                return f"descriptor {fd} is {to}"
            if to != state.own and self.processes.has_lock(state.pid, fd):
                return f"a lock on {to}"
        mapping = self.processes.mapping_apart(state.pid, self.setup.base or WRITABLE)
        return mapping and f"a {mapping}"

    def misplaced(self, state: State) -> str | None:
        """An open file, or the working directory, that is no longer where it was; None if all are.

        The files of a kept state may have been replaced by others of the same name.
        """
        now = self.processes.descriptors(state.pid)
        now[-1] = self.processes.folder(state.pid)
        for fd, place in state.places.items():
            if now.get(fd) != place:
                return place
        return None
