"""What every benchmark's log needs: tables, spreads, and the machine it ran on."""

import importlib.metadata
import os
import platform
import statistics
import subprocess
from collections.abc import Iterable
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


def load() -> str:
    """The load average of the last minute."""
    return f"{os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "unknown"
