"""`make bench` runs the whole benchmark of the browser."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.bench
def test_speeds_are_measured_and_logged() -> None:
    pytest.importorskip("playwright")
    if not shutil.which("bwrap"):
        pytest.skip("bubblewrap is not installed")
    log = ROOT / "docs" / "measured" / "browser.md"
    before = log.stat().st_mtime_ns if log.exists() else 0
    subprocess.run([sys.executable, "-m", "tests.benchmarks.bench_browser"], cwd=ROOT, check=True)
    assert log.stat().st_mtime_ns > before
    lines = [line for line in log.read_text().splitlines() if "| at " in line]
    assert len(lines) >= 6
    assert all("| met" in line or "| NOT MET" in line for line in lines)
