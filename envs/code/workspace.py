"""A sandbox with the agent's files, shared by the live episode and by kept states."""

import re
from collections.abc import Mapping
from dataclasses import replace

from agent_envs.sandbox import (
    ExecResult,
    Limits,
    Sandbox,
    SandboxFileError,
    SandboxSnapshot,
)
from agent_envs.sandbox.outcome import LOST_INTERPRETER, LOST_SESSION
from agent_envs.verifiers.unit_tests import Clock
from agent_envs.verifiers.unit_tests.boxes import crowding

LIMITS = Limits(seconds=20.0, cpu_seconds=2)
"""Of one call of the agent. CPU time decides; the wall is for a busy machine, and for sleepers."""
TURN_SECONDS = 4
"""Of CPU, of all calls of one turn."""
LARGEST = 256 * 1024
"""Bytes of a file that is graded."""
MOST_FILES = 200
"""Files of a package that is graded."""

_LEFT = re.compile("[0-9]+ (threads ended with the call|processes that the call left were ended)")
_BY_SIGNAL = "its process ended with signal"
_BEGIN = '__import__("sys").path.insert(0, __import__("os").getcwd())'
"""The first cell of an interpreter: what lies in the workspace can be imported."""


class Workspace:
    """A sandbox that is there as long as an episode lives in it or a state is kept of it."""

    def __init__(self, backend: str, files: Mapping[str, str]) -> None:
        """Raises BackendUnavailable."""
        self.box = Sandbox(backend, limits=LIMITS)
        self.kept = 0
        """How many states are kept of it."""
        try:
            for path, content in files.items():
                self.box.write_file(path, content)
            self.box.run_python(_BEGIN)
        except BaseException:
            self.box.close()
            raise

    def run(self, code: str, clock: Clock) -> ExecResult | None:
        """Run a cell, if there is time left for it.

        Where its interpreter gets lost, the new one can import files too.

        What a busy machine may change is not told: which of the limits on time ended it, and what
        was not yet at its end by itself."""
        limits = self.box.limits
        seconds = min(limits.seconds * crowding(), clock.seconds(limits.cpu_seconds))
        if not seconds:
            return None
        result = self.box.run_python(code, seconds=seconds)
        clock.note(result)
        told = [note for note in result.notes if not _LEFT.fullmatch(note)]
        if result.ended == "timeout":
            told = [note for note in told if not note.startswith(_BY_SIGNAL)]
        result = replace(result, notes=tuple(told))
        if LOST_INTERPRETER in result.notes or LOST_SESSION in result.notes:
            self.box.run_python(_BEGIN)
        return result

    def save(self) -> SandboxSnapshot:
        """Keep the current state. Raises SnapshotUnsupported."""
        snapshot = self.box.snapshot()
        self.kept += 1
        return snapshot

    def read(self, path: str) -> str | None:
        """The text of a file; None where there is none that can be graded."""
        try:
            return self.box.read_file(path, limit=LARGEST).decode()
        except (SandboxFileError, UnicodeDecodeError):
            return None

    def read_all(self) -> dict[str, str] | None:
        """The text files by path; None where they cannot be listed, or are too many."""
        try:
            paths = [entry.path for entry in self.box.list_files() if entry.kind == "file"]
        except SandboxFileError:
            return None
        if len(paths) > MOST_FILES:
            return None
        texts = {path: self.read(path) for path in paths if path.isprintable()}
        return {path: text for path, text in texts.items() if text is not None}
