"""`make bench` runs the whole benchmark of the docker sandbox."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.sandbox.engine import why_not

ROOT = Path(__file__).parents[2]


@pytest.mark.bench
@pytest.mark.skipif(bool(why_not()), reason=why_not())
def test_speeds_are_measured_and_logged() -> None:
    log = ROOT / "docs" / "measured" / "docker.md"
    before = log.stat().st_mtime_ns if log.exists() else 0
    subprocess.run([sys.executable, "-m", "tests.benchmarks.bench_docker"], cwd=ROOT, check=True)
    assert log.stat().st_mtime_ns > before
    lines = [line for line in log.read_text().splitlines() if "| at most" in line]
    assert len(lines) == 4
    assert all("| met" in line or "| NOT MET" in line for line in lines)
