"""`make bench` runs the whole benchmark of the code environment."""

import subprocess
import sys
from pathlib import Path

import pytest

from agent_envs.sandbox import probe_all

ROOT = Path(__file__).parents[2]


@pytest.mark.bench
def test_speeds_are_measured_and_logged() -> None:
    if not any(r.works for r in probe_all() if r.backend in ("namespace", "landlock")):
        pytest.skip("no sandbox for untrusted code works on this machine: see agent-envs doctor")
    log = ROOT / "docs" / "measured" / "code.md"
    before = log.stat().st_mtime_ns if log.exists() else 0
    subprocess.run([sys.executable, "-m", "tests.benchmarks.bench_code"], cwd=ROOT, check=True)
    assert log.stat().st_mtime_ns > before
    lines = log.read_text().splitlines()
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines if "|" in line]
    speeds = {row[0]: row for row in rows if row[0].isdigit()}
    assert list(speeds) == ["1", "2", "4", "16", "64"]
    assert all(float(row[2]) > 0 and row[3] == "0" for row in speeds.values())
    assert not any("PASSES" in line or "FAILS" in line for line in lines)
