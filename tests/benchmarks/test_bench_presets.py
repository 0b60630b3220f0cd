"""`make bench` trains a model from scratch in each environment, over all seeds."""

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="the trainer is not installed")

from tests.benchmarks.bench_presets import ROWS, TARGETS, report  # noqa: E402

ROOT = Path(__file__).parents[2]


def test_the_log_says_what_was_met() -> None:
    """Of two seeds that gain 20 and 8 points, and of which one takes too long."""
    figures = {"heldout_start": 0.4, "sampled_reward": 0.5, "episodes": 10}
    one = figures | {"seed": 0, "heldout_end": 0.6, "minutes": 5.0}
    two = figures | {"seed": 1, "heldout_end": 0.48, "minutes": 21.0}
    lines = report({"sql": [one, two]}, [row for row in ROWS if row.name == "sql"], 2).splitlines()
    assert any("40.0" in x and "54.0" in x and "+14.0" in x and "+8.0" in x for x in lines)
    assert sum("| NOT MET" in x for x in lines) == len(TARGETS) == 2
    assert any("40 -> 60" in x and "40 -> 48" in x for x in lines)
    better = report({"sql": [one, one | {"seed": 1}]}, [ROWS[1]], 2)
    assert "NOT MET" not in better and better.count("| met") == 2


@pytest.mark.bench
def test_every_preset_is_measured_and_logged() -> None:
    log = ROOT / "docs" / "measured" / "bench_presets.md"
    before = log.stat().st_mtime_ns if log.exists() else 0
    subprocess.run([sys.executable, "-m", "tests.benchmarks.bench_presets"], cwd=ROOT, check=True)
    assert log.stat().st_mtime_ns > before
    lines = log.read_text().splitlines()
    assert sum("| met" in line or "| NOT MET" in line for line in lines) == 6
