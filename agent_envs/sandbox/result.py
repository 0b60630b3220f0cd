"""What comes of a call."""

import hashlib
import json
from dataclasses import dataclass, field
from typing import Literal

Ended = Literal["ok", "error", "timeout", "memory", "output", "killed"]
"""How a call ended.

`ok`; `error`: an exception, or an exit code that is not 0; `timeout`: wall or CPU time; `memory`:
a MemoryError, or the kernel ended it for that; `output`: a flood, far more than it may; `killed`:
anything else that left no interpreter to go on with.
"""


@dataclass(frozen=True)
class ExecResult:
    """One call. What the code says of itself is its own word; `ended` is the kernel's, but for the
    difference between `ok` and `error`."""

    ended: Ended
    stdout: str = ""
    stderr: str = ""
    value: str | None = None
    """The repr of the last expression of a cell, unless that is None."""
    error: str | None = None
    """A traceback, or why a command could not be started."""
    exit_code: int | None = None
    """A command's; minus the number of the signal that ended it."""
    cut: tuple[str, ...] = ()
    """Which of stdout, stderr, value, error were longer than shown."""
    notes: tuple[str, ...] = ()
    """What else happened: processes ended, an interpreter lost."""
    cpu_seconds: float = field(default=0.0, compare=False)
    """CPU time, by the kernel, of the call's process (about a millisecond of it is the start), of
    the children that it waited for, and of all that was ended with it. Not of children that ended
    while the call ignored SIGCHLD: the kernel forgets those."""
    seconds: float = field(default=0.0, compare=False)
    """Wall time on the host."""

    @property
    def ok(self) -> bool:
        """Whether the call ended well."""
        return self.ended == "ok"

    def digest(self) -> str:
        """A short hash of what a replay must bring about again: all of it, if the call came to an
        end by itself, else how it ended."""
        whole = self.ended in ("ok", "error")
        said = [self.ended, *([self.stdout, self.stderr, self.value, self.error] if whole else [])]
        return hashlib.sha256(json.dumps(said).encode()).hexdigest()[:16]

    def text(self) -> str:
        """All of it, as a model would read it."""
        parts = [self.stdout.rstrip("\n"), self.stderr.rstrip("\n"), self.value or ""]
        parts.append((self.error or "").rstrip("\n"))
        if self.exit_code:
            parts.append(f"exit code {self.exit_code}")
        if not self.ok and self.ended != "error":
            parts.append(f"[{EXPLAINED[self.ended]}]")
        parts += [f"[{name} was cut]" for name in self.cut]
        parts += [f"[{note}]" for note in self.notes]
        return "\n".join(part for part in parts if part)


EXPLAINED: dict[Ended, str] = {
    "timeout": "out of time: the interpreter is as before this call, files stay as they were left",
    "memory": "out of memory: the interpreter is as before this call",
    "output": "too much output: the interpreter is as before this call",
    "killed": "the call was killed: the interpreter is as before this call",
}


@dataclass(frozen=True)
class FileEntry:
    """A name in the workspace. Names that are no UTF-8 come as `os.fsdecode` has them."""

    path: str
    """Relative to the workspace."""
    kind: Literal["file", "folder", "link", "other"]
    size: int
    """Bytes."""


class SandboxFileError(OSError):
    """A file of the workspace that cannot be read or written; the message says why, for a model."""


class SandboxClosed(RuntimeError):
    """The sandbox was closed, maybe by another thread in the middle of this call; or it belongs to
    the process that this one was forked from."""
