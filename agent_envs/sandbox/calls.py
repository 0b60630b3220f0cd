"""Calls and files: what a sandbox does in its present session, and how it gets a new one."""

import json
import os
import sys
import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any, Self

from agent_envs.errors import seconds_of, whole
from agent_envs.sandbox.backends import Capabilities
from agent_envs.sandbox.channel import Channel, SessionLost
from agent_envs.sandbox.log import LOST, Step, after, cells_of
from agent_envs.sandbox.outcome import LOST_INTERPRETER, LOST_SESSION, read_outcome
from agent_envs.sandbox.payload import Payload
from agent_envs.sandbox.probe import pick, warn_once
from agent_envs.sandbox.result import (
    Ended,
    ExecResult,
    FileEntry,
    SandboxClosed,
    SandboxFileError,
)
from agent_envs.sandbox.settings import Limits

LONGEST_CODE = 150_000
"""Bytes of one cell or command, as JSON."""
BYTES_OF_A_NAME = 8192
"""At most what a name takes in a listing."""


class Calls:
    """A session that calls can be made in; one that is lost is followed by a new one."""

    def __init__(
        self,
        backend: str,
        interpreter: str | None,
        packages: tuple[str, ...],
        modules: tuple[tuple[str, str], ...],
        limits: Limits,
        strict: bool,
    ) -> None:
        self.limits = limits
        self._backend, inside, self._capabilities = pick(
            backend, interpreter, packages, strict=strict
        )
        self._inside = replace(inside, modules=modules)
        warn_once(self._capabilities)
        self._lock = threading.RLock()
        self._closed = False
        self._step: Step | None = None
        self._channel: Channel = self._backend.start(self._inside, limits)
        _open.add(self)

    # -- running --

    def run_python(self, code: str, *, seconds: float | None = None) -> ExecResult:
        """Run a cell in the session's interpreter, as a notebook does.

        A call that does not come to an end by itself leaves the interpreter as it was before, and
        the files as they are. `seconds` of wall time instead of the limits'. Raises TypeError for
        code that is no text, ValueError for `seconds` that are none.
        """
        _check_text("code", code)
        with self._lock:
            order = {"code": code, "name": f"<cell {cells_of(self._step) + 1}>"}
            result = self._call(order, seconds)
            arguments = {"code": code, "seconds": seconds}
            self._step = after(self._step, "run_python", arguments, result.digest())
            return self._after(result)

    def exec(self, command: str | Sequence[str], *, seconds: float | None = None) -> ExecResult:
        """Run a command in the workspace: a line for /bin/sh, or a program and its arguments.

        It starts from a clean process, whatever the interpreter has become. stdin is empty. Raises
        as `run_python` does.
        """
        shell = isinstance(command, str)
        argv = ["/bin/sh", "-c", command] if shell else _words(command)
        with self._lock:
            result = self._call({"argv": argv}, seconds, command=True)
            arguments = {"command": command if shell else argv, "seconds": seconds}
            self._step = after(self._step, "exec", arguments, result.digest())
            return self._after(result)

    def _call(
        self, order: Mapping[str, Any], seconds: float | None, *, command: bool = False
    ) -> ExecResult:
        size = len(json.dumps(order))
        if size > LONGEST_CODE:
            why = f"{size} bytes are too long (limit {LONGEST_CODE}): write a file and run that"
            return ExecResult("error", error=why)
        argv = order.get("argv", ["-"])
        if not any(argv) or any("\0" in word for word in argv):
            return ExecResult("error", error="no command, or one with a null byte")
        wall = self.limits.seconds if seconds is None else seconds_of("seconds", seconds)
        channel = self._ready()
        started = time.monotonic()
        try:
            outcome = channel.call(order, wall, self.limits.output)
        except SessionLost as lost:
            ended = self._restart()
            notes = (LOST_SESSION, *map(str, lost.args))
            return ExecResult(ended, notes=notes, seconds=time.monotonic() - started)
        short = outcome.facts["ended"] not in ("ok", "timeout", "output")
        kills = channel.new_kills() if short else 0
        result = read_outcome(outcome, self.limits, command=command, kills=kills)
        return replace(result, seconds=time.monotonic() - started)

    def _after(self, result: ExecResult) -> ExecResult:
        """Where an interpreter was lost, what comes next cannot be had by replay."""
        if LOST_SESSION in result.notes:
            self._step = None
        elif LOST_INTERPRETER in result.notes:
            self._step = after(self._step, LOST, {})
        return result

    # -- files --

    def write_file(self, path: str, data: bytes | str) -> None:
        """Make a file of the workspace, with the folders above it. Raises SandboxFileError."""
        _check_text("path", path)
        if not isinstance(data, str | bytes | bytearray | memoryview):
            raise TypeError(f"data is bytes or text, not {data!r:.80}")
        content = data.encode() if isinstance(data, str) else bytes(data)
        with self._lock:
            if len(content) > self.limits.workspace:
                raise SandboxFileError(f"{len(content)} bytes are more than the workspace holds")
            with Payload(content) as payload:
                self._ask_for_file("write", payload, path=path)
            self._step = after(self._step, "write_file", {"path": path, "data": content})

    def read_file(self, path: str, *, limit: int | None = None) -> bytes:
        """The bytes of a regular file of the workspace. Raises SandboxFileError, also for a link,
        and for a file of more than `limit` bytes (by default what the workspace may hold)."""
        _check_text("path", path)
        most = self.limits.workspace if limit is None else whole("limit", limit, 0)
        with self._lock, Payload(room=most) as payload:
            size = self._ask_for_file("read", payload, path=path, most=most)["size"]
            return payload.read(int(size))

    def list_files(self) -> list[FileEntry]:
        """Everything in the workspace, by name. Raises SandboxFileError at the walk's limits."""
        room = self.limits.entries * BYTES_OF_A_NAME
        with self._lock, Payload(room=room) as payload:
            size = int(self._ask_for_file("list", payload)["size"])
            try:
                found = json.loads(payload.read(size))
            except ValueError:
                raise SandboxFileError("the names of its files are too long for a list") from None
        return sorted((FileEntry(*entry) for entry in found), key=lambda entry: entry.path)

    def _ask_for_file(self, do: str, payload: Payload, **fields: Any) -> dict[str, Any]:
        try:
            reply = self._ready().ask(do, [payload.fd], **fields)
        except SessionLost:
            self._restart()
            raise SandboxFileError(LOST_SESSION) from None
        if "refused" in reply:
            raise SandboxFileError(reply["refused"])
        return reply

    # -- the session --

    @property
    def capabilities(self) -> Capabilities:
        """What is enforced."""
        return self._capabilities

    def _ready(self) -> Channel:
        """The session, for a request. Raises SandboxClosed."""
        if self._closed:
            raise SandboxClosed("this sandbox is closed")
        return self._channel

    def _forget_copies(self) -> None:
        """The session has ended, and its frozen copies with it."""

    def _restart(self) -> Ended:
        """A new session for one that is lost, with nothing in it. Says how the old one ended.

        Raises SandboxClosed if it was `close` that ended it.
        """
        if self._closed:
            raise SandboxClosed("this sandbox was closed")
        memory = self._channel.new_kills() > 0
        self._channel.close()
        self._forget_copies()
        self._step = None
        self._channel = self._backend.start(self._inside, self.limits)
        if self._closed:
            self._channel.close()
            raise SandboxClosed("this sandbox was closed")
        return "memory" if memory else "killed"

    def close(self) -> None:
        """End everything: processes, files, snapshots. Also from another thread, in mid-call."""
        self._closed = True
        self._channel.close()
        self._forget_copies()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __del__(self, at_exit: Callable[[], bool] = sys.is_finalizing) -> None:
        if hasattr(self, "_channel") and not at_exit():  # then it ends with its zygote
            self.close()


def _check_text(name: str, given: Any) -> None:
    if not isinstance(given, str):
        raise TypeError(f"{name} is text, not {given!r:.80}")


def _words(command: Any) -> list[str]:
    """A program and its arguments, of which some may be numbers or paths. Raises TypeError for
    anything else, which is no line of text either."""
    if isinstance(command, list | tuple) and all(isinstance(word, _WORD) for word in command):
        return [str(word) for word in command]
    raise TypeError(f"a command is a line of text, or a list of words, not {command!r:.80}")


_WORD = (str, int, float, os.PathLike)


_open: "weakref.WeakSet[Calls]" = weakref.WeakSet()


def _leave_to_parent() -> None:
    """In a fork of this process: its sandboxes are the parent's, and closed here."""
    for box in list(_open):
        box._closed = True
        box._lock = threading.RLock()  # a thread that is not in this fork may have held it


os.register_at_fork(after_in_child=_leave_to_parent)
