"""One line on standard error that says how a long run is getting on."""

import sys
import time
from contextlib import suppress

from agent_envs.trajectory import Trajectory

_EVERY = 0.2
_NOT_BEFORE = 1.0


class Progress:
    """Counts episodes as they end; draws at most five times a second, and nothing in short runs."""

    def __init__(self, total: int) -> None:
        self.total = total
        self._main = self._branches = self._passed = self._invalid = self._turns = 0
        self._began = time.monotonic()
        self._next = self._began + _NOT_BEFORE
        self._drawn = False

    def add(self, episode: Trajectory) -> None:
        """Count an episode."""
        self._turns += len(episode.turns)
        if episode.parent is not None:
            self._branches += 1
        else:
            self._main += 1
            self._invalid += not episode.valid
            self._passed += bool(episode.valid and episode.verdict and episode.verdict.passed)
        if time.monotonic() >= self._next:
            self._draw()

    def close(self) -> None:
        """Draw the final state, if anything was drawn, and end the line."""
        if self._drawn:
            self._draw()
            _write("\n")

    def _draw(self) -> None:
        now = time.monotonic()
        self._next, self._drawn = now + _EVERY, True
        _write(f"\r\x1b[K{self._line(now - self._began)}")

    def _line(self, seconds: float) -> str:
        passed = self._passed / max(self._main - self._invalid, 1)
        line = f"{self._main}/{self.total} episodes, {passed:.0%} passed"
        line += f", {self._turns / max(seconds, 1e-9):,.0f} turns/s"
        if self._main:
            line += f", {seconds / self._main * (self.total - self._main):,.0f} s left"
        if self._branches:
            line += f", {self._branches} branches"
        if self._invalid:
            line += f", {self._invalid} invalid"
        return line


def _write(text: str) -> None:
    with suppress(OSError, ValueError, AttributeError):  # closed, or a pipe without a reader
        sys.stderr.write(text)
        sys.stderr.flush()
