"""What every benchmark's log needs: measures and targets, tables, and the machine it ran on."""

import datetime
import importlib.metadata
import os
import platform
import shlex
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from tests.benchmarks.programs import ROOT


def table(head: list[str], rows: list[list[str]]) -> str:
    """A Markdown table, aligned."""
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    lines = [head, ["-" * width for width in widths], *rows]
    return "\n".join("| " + " | ".join(map(str.ljust, line, widths)) + " |" for line in lines)


def spread(values: list[float], form: str) -> str:
    """Median, and the least and the largest in brackets."""
    low, middle, high = (
        f"{x:{form}}" for x in (min(values), statistics.median(values), max(values))
    )
    return f"{middle} ({low} to {high})"


def times(ours: list[float], floor: list[float]) -> float:
    """How many times as long ours takes, by the medians."""
    return statistics.median(ours) / statistics.median(floor)


def machine(peers: Iterable[str]) -> str:
    """The machine, the versions (`peers` as pip writes them), and the commit."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    model = next((x.partition(":")[2].strip() for x in lines if x.startswith("model name")), "CPU")
    git = ["git", "--no-optional-locks", "describe", "--always", "--dirty"]
    commit = subprocess.run(git, cwd=ROOT, capture_output=True, text=True).stdout.strip()
    versions = [f"{name}=={importlib.metadata.version(name)}" for name in ("gymnasium", "numpy")]
    python = f"{platform.python_implementation()} {platform.python_version()}"
    return (
        f"{model}, {os.cpu_count()} cores, {platform.system()} {platform.machine()}, {python}; "
        f"{', '.join([*versions, *peers])}; commit {commit or 'unknown'}"
    )


def command(name: str) -> str:
    """What was typed to run a benchmark: no path of the machine."""
    return shlex.join(["python", "-m", f"tests.benchmarks.{name}", *sys.argv[1:]])


def load() -> str:
    """The load average of the last minute."""
    return f"{os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "unknown"


class Log:
    """What ran where and when; made before anything is measured."""

    def __init__(self, title: str, command: str) -> None:
        self.title, self.command = title, command
        self.began, self.busy = datetime.datetime.now(datetime.UTC), load()

    def write(self, out: Path, facts: Iterable[str], *parts: str) -> None:
        """Write it, with what was measured, and print it."""
        lines = [
            f"Command: `python -m tests.benchmarks.{self.command}` (`make bench`)",
            *facts,
            f"Run: {self.began:%Y-%m-%d %H:%M} UTC; load {self.busy} before, {load()} after",
        ]
        head = "\n".join(f"- {line}" for line in lines)
        text = "\n\n".join([f"# {self.title}", head, *parts]) + "\n"
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(text)
        print(text)


@dataclass
class Result:
    """One line of the log."""

    what: str
    values: list[float]
    bound: float | None = None
    unit: str = "ms"
    at_least: bool = False

    def row(self) -> list[str]:
        """Its cells."""
        middle = statistics.median(self.values)
        found = spread(self.values, ".2f") if len(self.values) > 1 else f"{middle:.2f}"
        if self.bound is None:
            return [self.what, "-", f"{found} {self.unit}", "-"]
        met = middle >= self.bound if self.at_least else middle <= self.bound
        word = "at least" if self.at_least else "at most"
        return [
            self.what,
            f"{word} {self.bound:g} {self.unit}",
            f"{found} {self.unit}",
            "met" if met else "NOT MET",
        ]


@dataclass
class Bench:
    """All that was measured."""

    rounds: int
    results: list[Result] = field(default_factory=list)
    curves: dict[str, dict[str, list[tuple[float, float]]]] = field(default_factory=dict)

    def add(self, what: str, values: list[float], bound: float | None = None) -> None:
        """A time in milliseconds, with what it should be at most."""
        self.results.append(Result(what, values, bound))

    def ratio(self, what: str, times: float, bound: float, *, at_least: bool = False) -> None:
        """One measure as a multiple of another."""
        self.results.append(Result(what, [times], bound, "times", at_least))

    def table(self) -> str:
        """All of it, with targets and verdicts."""
        head = ["measure", "target", "median (least to largest)", "verdict"]
        return table(head, [result.row() for result in self.results])

    def point(self, against: str, what: str, x: float, values: list[float]) -> None:
        """A point of a curve: the median."""
        line = self.curves.setdefault(against, {}).setdefault(what, [])
        line.append((x, statistics.median(values)))


def timed(call: Callable[[], object]) -> float:
    """Milliseconds of a call."""
    began = time.perf_counter()
    call()
    return (time.perf_counter() - began) * 1e3


def proportional(pids: set[int]) -> float:
    """Megabytes of memory, what is shared counted in parts."""
    total = 0
    for pid in pids:
        try:
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        total += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return total / 1024
