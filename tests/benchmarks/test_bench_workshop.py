"""`make bench` runs the workshop over all its seeds."""

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="the trainer is not installed")

ROOT = Path(__file__).parents[2]


@pytest.mark.bench
def test_the_workshop_is_measured_and_logged() -> None:
    log = ROOT / "docs" / "measured" / "bench_workshop.md"
    before = log.stat().st_mtime_ns if log.exists() else 0
    subprocess.run([sys.executable, "-m", "tests.benchmarks.bench_workshop"], cwd=ROOT, check=True)
    assert log.stat().st_mtime_ns > before
    lines = log.read_text().splitlines()
    assert sum("| met" in line or "| NOT MET" in line for line in lines) == 10
