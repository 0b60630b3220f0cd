"""`make bench` measures the trainer beside TRL."""

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("transformers", reason="the extra hf is not installed")

ROOT = Path(__file__).parents[2]


@pytest.mark.bench
def test_the_trainer_is_measured_beside_trl() -> None:
    log = ROOT / "docs" / "measured" / "bench_trainer.md"
    before = log.stat().st_mtime_ns if log.exists() else 0
    subprocess.run([sys.executable, "-m", "tests.benchmarks.bench_trainer"], cwd=ROOT, check=True)
    assert log.stat().st_mtime_ns > before
    lines = log.read_text().splitlines()
    assert sum("| met" in line or "| NOT MET" in line for line in lines) == 3
