"""`make bench` runs the whole benchmark of the contract and the calculator."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.bench
def test_speeds_are_measured_and_logged() -> None:
    log = ROOT / "docs" / "measured" / "bench_env.md"
    before = log.stat().st_mtime_ns if log.exists() else 0
    subprocess.run([sys.executable, "-m", "tests.benchmarks.bench_env"], cwd=ROOT, check=True)
    assert log.stat().st_mtime_ns > before
    lines = [line for line in log.read_text().splitlines() if " / " in line and "| at " in line]
    assert len(lines) == 6
    assert all("| met" in line or "| NOT MET" in line for line in lines)
