"""How a run is getting on, while it runs."""

import sys
import time
from collections.abc import Callable


def announcer(quiet: bool) -> Callable[[str], None]:
    """What writes a line on standard error where a phase begins that takes a while."""

    def announce(phase: str) -> None:
        if not quiet:
            print(f"{time.strftime('%H:%M:%S')} {phase}", file=sys.stderr, flush=True)

    return announce


class Progress:
    """A line on standard error: redrawn on a terminal, one for each evaluation elsewhere."""

    def __init__(self, updates: int) -> None:
        self._updates, self._began = updates, time.monotonic()
        self._first: float | None = None
        self._live = sys.stderr.isatty()
        self._heldout = ""

    def show(self, row: dict[str, float]) -> None:
        """Draw the line of an update."""
        exam = "heldout/success" in row
        if exam:
            self._heldout = f", held-out {row['heldout/success']:.0%}"
            self._heldout += f" ({row['heldout_faults/success']:.0%} with faults)"
        line = f"update {row['update']:.0f}/{self._updates}{self._heldout}"
        if row["update"]:
            spent = row["seconds_playing"] + row["seconds_learning"]
            line += f", reward {row['reward']:.2f}, {spent:.2f} s an update"
            line += f", {row['own_tokens'] / row['seconds_playing']:,.0f} tokens/s"
            line += f", {self._left(row['update']):,.0f} s left"
        if self._live:
            sys.stderr.write(f"\r\x1b[K{line}")
        elif exam:
            sys.stderr.write(f"{line}\n")
        sys.stderr.flush()

    def close(self) -> None:
        """End the line."""
        if self._live:
            sys.stderr.write("\n")

    def _left(self, update: float) -> float:
        if self._first is None:
            self._first = update - 1
        spent = time.monotonic() - self._began
        return spent / (update - self._first) * (self._updates - update)
