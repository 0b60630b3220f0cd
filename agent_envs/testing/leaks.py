"""Law 5: what an env holds outside Python is gone when it is closed."""

import contextlib
import gc
import os
import random
import tempfile
import threading
import time
import tracemalloc
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from agent_envs.testing.play import Player, Subject

PATIENCE = 5.0
"""Seconds: a thread or a process may take a moment to end."""
LEAST = 4096
"""Bytes a life and line. Less is noise: blocks that Python keeps for reuse, from before memory was
traced, are replaced by traced ones for a long while."""


def nothing_leaks(subject: Subject) -> None:
    """Law 5: descriptors, threads, children and temporary files are back to what they were."""
    with _temporary_files() as folder:
        _live_and_die(subject)
        before = _resources(folder)
        for _ in range(5):
            _live_and_die(subject)
        deadline = time.monotonic() + PATIENCE
        while (grown := _grown(before, _resources(folder))) and time.monotonic() < deadline:
            time.sleep(0.02)
    assert not grown, (
        f"law 5 (released): left behind after five lives, as (before, after): {grown}. teardown() "
        "frees the live state, drop() a saved one"
    )


def memory_does_not_grow(subject: Subject) -> None:
    """Law 5: Python's memory too is back to what it was. What a cache keeps of the first lives is
    no leak, nor are Python's own tables: only what one line leaves behind in every round is."""
    lives = 5 if subject.quick else 1
    with _traced():
        _lives(subject, lives + 1)
        marks = [_memory()]
        for _ in range(3):
            _lives(subject, lives)
            marks.append(_memory())
    rounds = [_growth(before, after) for before, after in pairwise(marks)]
    left = {line: min(grown.get(line, 0) // lives for grown in rounds) for line in rounds[0]}
    line = max(left, key=left.__getitem__, default="")
    assert left.get(line, 0) < LEAST, (
        f"law 5 (released): {left[line]:,} bytes of memory stay behind after each life of an env, "
        f"allocated at {line}: does a list or a dict of the class or the module grow?"
    )


def _lives(subject: Subject, count: int) -> None:
    for _ in range(count):
        _live_and_die(subject)
    gc.collect()


def _memory() -> tracemalloc.Snapshot:
    ours = tracemalloc.Filter(False, tracemalloc.__file__)
    return tracemalloc.take_snapshot().filter_traces([ours])


def _growth(before: tracemalloc.Snapshot, after: tracemalloc.Snapshot) -> dict[str, int]:
    """By line of code, how many bytes more are held."""
    return {str(x.traceback): x.size_diff for x in after.compare_to(before, "lineno")}


@contextlib.contextmanager
def _traced() -> Iterator[None]:
    """Memory is traced, as it may be already."""
    if tracemalloc.is_tracing():
        yield
        return
    tracemalloc.start()
    try:
        yield
    finally:
        tracemalloc.stop()


def _grown(before: dict[str, int], after: dict[str, int]) -> dict[str, tuple[int, int]]:
    return {name: (n, after[name]) for name, n in before.items() if after[name] > n}


def _live_and_die(subject: Subject) -> None:
    env = subject.make(max_snapshots=3)
    for seed in range(2):
        env.reset(seed=seed)
        kept = []
        for number in range(5):
            kept.append(env.snapshot())
            if not env.ended:
                Player(env).move(random.Random(number))
        env.fork().close()
        env.fork(kept[2]).close()
        env.rollback(kept[-1])
        env.rollback(kept[0])
        env.release(kept[1])
    env.close()
    env.close()


@contextlib.contextmanager
def _temporary_files() -> Iterator[Path]:
    """A folder of its own for the temporary files of this process and of its children."""
    kept, variable = tempfile.tempdir, os.environ.get("TMPDIR")
    with tempfile.TemporaryDirectory() as folder:
        tempfile.tempdir = os.environ["TMPDIR"] = folder
        try:
            yield Path(folder)
        finally:
            tempfile.tempdir = kept
            del os.environ["TMPDIR"]
            if variable is not None:
                os.environ["TMPDIR"] = variable


def _resources(folder: Path) -> dict[str, int]:
    gc.collect()
    counts = {"threads": threading.active_count(), "temporary files": len(list(folder.iterdir()))}
    if os.path.isdir("/proc/self/fd"):
        counts["descriptors"] = len(os.listdir("/proc/self/fd"))
        counts["children"] = sum(
            len(path.read_text().split()) for path in Path("/proc/self/task").glob("*/children")
        )
    return counts
