"""How much of the machine's memory a browser may take, and a page.

A page's process that takes more than its share is ended, as if it had crashed: the kernel's limit
on what a process may allocate would not end it, since a script goes on after an allocation that
fails. That limit is behind, for a page that is faster than the looking. Where a cgroup can be made,
all processes of a browser are in one, as they are in a container: what none of them takes alone is
limited there, and the kernel ends the largest page first. What pages keep in Chromium's first
process (blobs) may end the whole browser, after which every episode goes on in another.
"""

import asyncio
import contextlib
import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PAUSE = 0.25
"""Seconds between two looks."""
_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class MemoryLimits:
    """Bytes that a browser may take."""

    process: int = 1 << 30
    """One of its processes; a page has one, with its frames and workers."""
    total: int = 8 << 30
    """All together; three quarters of the machine at most."""

    @property
    def data(self) -> int:
        """What one may allocate at all; half a gigabyte of it goes before a page asks for any."""
        return 4 * self.process

    @property
    def here(self) -> int:
        """The total on this machine."""
        return min(self.total, _PAGE * os.sysconf("SC_PHYS_PAGES") * 3 // 4)


LIMITS = MemoryLimits()


async def watch(root: int, limits: MemoryLimits) -> None:
    """End what takes too much of all that is below a process, until that one has ended."""
    while Path(f"/proc/{root}").exists():
        for pid in _below(root):
            if _resident(pid) > limits.process:
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
        await asyncio.sleep(PAUSE)


def _below(root: int) -> Iterator[int]:
    """A process and those that first threads below it have started, as those of pages are."""
    yield root
    for child in _words(f"/proc/{root}/task/{root}/children"):
        yield from _below(int(child))


def _resident(pid: int) -> int:
    """Bytes that a process has in memory; 0 when it has ended."""
    return int([*_words(f"/proc/{pid}/statm"), "0", "0"][1]) * _PAGE


def _words(file: str) -> list[str]:
    try:
        return Path(file).read_text().split()
    except OSError:
        return []
