"""`make bench` runs the whole benchmark of the SQL environment."""

import subprocess
import sys
from pathlib import Path

import pytest

from agent_envs.sandbox import probe

ROOT = Path(__file__).parents[2]


@pytest.mark.bench
def test_speeds_are_measured_and_logged() -> None:
    if not probe("namespace").works:
        pytest.skip(probe("namespace").why)
    log = ROOT / "docs" / "measured" / "sql.md"
    before = log.stat().st_mtime_ns if log.exists() else 0
    subprocess.run([sys.executable, "-m", "tests.benchmarks.bench_sql"], cwd=ROOT, check=True)
    assert log.stat().st_mtime_ns > before
    lines = [line for line in log.read_text().splitlines() if "| at " in line]
    assert len(lines) >= 7
    assert all("| met" in line or "| NOT MET" in line for line in lines)
