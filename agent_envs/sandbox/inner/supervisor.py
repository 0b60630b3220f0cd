"""The supervisor of a session. It never runs model code and believes nothing that code says."""

import hashlib
import os
import socket
import time
from dataclasses import dataclass
from typing import Any

from agent_envs.sandbox.inner import files
from agent_envs.sandbox.inner.handle import DONE, NOBODY, State, hear
from agent_envs.sandbox.inner.handle import end as end_state
from agent_envs.sandbox.inner.restore import restore
from agent_envs.sandbox.inner.setup import Setup
from agent_envs.sandbox.inner.states import States
from agent_envs.sandbox.inner.tree import Kept, Most, Refused, Tree, capture
from agent_envs.sandbox.inner.usage import trim, usage
from agent_envs.sandbox.inner.watch import Gone
from agent_envs.sandbox.inner.wire import receive, send

WATCH_SECONDS = 0.2
"""How often the workspace is measured where no mount limits it."""


@dataclass(frozen=True)
class Frozen:
    """A snapshot: a state, and the workspace as it was."""

    state: State
    tree: Tree


class Supervisor:
    """One session: its states, its snapshots, its files, and the host at the other end."""

    def __init__(self, setup: Setup, host: socket.socket, folder: int, states: States) -> None:
        self.setup = setup
        self.host = host
        self.folder = folder
        self.workspace = os.open("workspace", os.O_RDONLY | os.O_DIRECTORY, dir_fd=folder)
        self.states = states
        self.processes = states.processes
        self.watch = states.watch
        self.most = Most(setup.entries, 2 * setup.workspace)
        self.kept = Kept()
        self.last: Tree = {}
        start = capture(folder, {}, self.most)
        self.snapshots = {0: Frozen(states.first, start)}
        self.taken = 0
        self.actions = {
            "call": self.call,
            "snapshot": self.snapshot,
            "rollback": self.rollback,
            "drop": self.drop,
            "digest": self.digest,
            "read": self.read,
            "write": self.write,
            "list": self.list,
        }

    def serve(self) -> None:
        """Answer requests until the host, or the zygote, is gone. Raises Gone at once then."""
        while True:
            self.watch.first([], host=True)
            message, fds = receive(self.host, fds=4)
            if message is None:
                raise Gone
            if message["do"] != "stop":  # a call may have ended while the host said so
                self.answer(message, fds)

    def answer(self, message: dict[str, Any], fds: list[int]) -> None:
        """Carry out one request; the reply carries its number."""
        try:
            reply = self.actions[message["do"]](message, fds)
        except (OSError, ValueError, Refused) as error:
            reply = {"refused": reason(error)}
        finally:
            for fd in fds:
                os.close(fd)
        send(self.host, {**reply, "n": message["n"]})

    # -- calls --

    def call(self, message: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        """Run `code` in a fork of the current state, or `argv` in one of the first.

        `ended`: `ok`, `exited`, `timeout`, `output`, `space`; `forged`: it wrote to the socket
        that its end is told by; `lost`: the state would not fork.
        """
        self.processes.ends.clear()
        current = self.states.current
        wanted = ("argv",) if "argv" in message else ("code", "name")
        state = self.states.first if "argv" in message else current
        call = self.states.fork(state, {key: message[key] for key in wanted}, fds)
        while fds:
            os.close(fds.pop())
        if call is None:
            self.processes.sweep(self.states.by_pid)
            return {"ended": "lost" if self.states.current is not current else "no_process"}
        end = self._wait(call, message["n"], time.monotonic() + message["seconds"])
        adopted = self.states.adopt(call) if end == "ok" else None
        reply = {"ended": "ok", **adopted} if adopted else self._leave(call, end)
        return reply if self.setup.alone else {**reply, **self._keep_within_bounds(end)}

    def _wait(self, call: State, n: int, deadline: float) -> str:
        """How a call ends. (A command closes its end of the socket; a call must not.)"""
        watched = [call.command.fileno(), call.pidfd]
        while True:
            until = deadline if self.setup.alone else time.monotonic() + WATCH_SECONDS
            event = self.watch.first(watched, min(until, deadline), host=True)
            if event is None and time.monotonic() >= deadline:
                return "timeout"
            if event is None and usage(self.folder, self.setup.entries) > self.setup.workspace:
                return "space"
            if event == self.host.fileno() and self._told_to_stop(n):
                return "output"
            if event == call.pidfd:
                return "exited"
            if event == call.command.fileno():
                said, speaker = hear(call.command)
                if (said, speaker) == (DONE, call.pid):
                    return "ok"
                if speaker == NOBODY:
                    watched = [call.pidfd]
                elif said != DONE:
                    return "forged"

    def _told_to_stop(self, n: int) -> bool:
        message, _ = receive(self.host)
        if message is None:
            raise Gone
        return bool(message["do"] == "stop" and message["n"] == n)

    def _leave(self, call: State, end: str) -> dict[str, Any]:
        """A call that is over and leaves no state: all that it started ends, files stay."""
        killed = self.processes.sweep(self.states.by_pid)
        end_state(call)
        self.states.put_offsets_back(self.states.current)
        reply: dict[str, Any] = {"ended": "exited" if end == "ok" else end, "killed": killed}
        if ended := self.processes.ends.get(call.pid):
            reply.update(status=ended.status, own_cpu=ended.seconds)
        return {**reply, "cpu": self.processes.seconds_of_ended()}

    def _keep_within_bounds(self, end: str) -> dict[str, Any]:
        """Where no mount limits the workspace: remove the largest files until it fits."""
        removed = trim(self.folder, self.setup.workspace, self.setup.entries)
        return {"removed": removed} if removed else {}

    # -- snapshots --

    def snapshot(self, message: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        """Keep the current state and the workspace. Refused, by name, for what neither holds."""
        state = self.states.current
        if self.states.is_dead(state):
            return {"lost": True}
        obstacle = self.states.obstacle(state)
        if obstacle:
            raise Refused(obstacle)
        tree = capture(self.folder, self.last, self.most)
        self.kept.add(tree)
        if self.kept.size > self.setup.kept:
            self.kept.remove(tree)
            raise Refused(f"snapshots that hold more than {self.setup.kept} bytes of files")
        self.last = tree
        self.taken += 1
        self.snapshots[self.taken] = Frozen(state, tree)
        self.states.keep(state)
        return {"snapshot": self.taken}

    def rollback(self, message: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        """Back to a snapshot. `gone` says why it cannot be reached any more."""
        frozen = self.snapshots[message["snapshot"]]
        if self.states.is_dead(frozen.state):
            return {"gone": "the interpreter that it held has died"}
        restore(self.folder, frozen.tree, self.last, self.most)
        self.last = frozen.tree
        misplaced = self.states.misplaced(frozen.state)
        if misplaced:
            return {"gone": f"{misplaced}, which it had open, has been replaced"}
        self.states.go_to(frozen.state)
        return {"back": True}

    def drop(self, message: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        """Keep a snapshot no longer."""
        frozen = self.snapshots.pop(message["snapshot"])
        self.kept.remove(frozen.tree)
        self.states.release(frozen.state)
        return {}

    def digest(self, message: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        """A hash of names, modes and contents in the workspace, now or in a snapshot."""
        if message["snapshot"] is None:
            tree = self.last = capture(self.folder, self.last, self.most)
        else:
            tree = self.snapshots[message["snapshot"]].tree
        digest = hashlib.sha256()
        for path, entry in sorted(tree.items()):
            if path.startswith("workspace"):
                text = entry.data if isinstance(entry.data, str) else None
                data = entry.data if isinstance(entry.data, bytes) else b""
                digest.update(ascii((path, entry.mode, text, len(data))).encode() + data)
        return {"digest": digest.hexdigest()}

    # -- files --

    def read(self, message: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        """Copy a file to the host's descriptor."""
        return {"size": files.read_into(self.workspace, message["path"], fds[0], message["most"])}

    def write(self, message: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        """Copy the host's descriptor to a file."""
        files.write_from(self.workspace, message["path"], fds[0])
        return {}

    def list(self, message: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        """Write the names of everything to the host's descriptor."""
        return {"size": files.list_into(self.workspace, fds[0], self.most)}


def reason(error: Exception) -> str:
    """What the host is told."""
    if isinstance(error, OSError):
        name = f" {error.filename!r}" if error.filename is not None else ""
        return f"{error.strerror}{name}"
    return str(error)
