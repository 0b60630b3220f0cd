"""`agent-envs train` hands over to the trainer, and says what to install where it cannot."""

import json
from pathlib import Path
from typing import Any

import pytest

from agent_envs.cli import main


def test_a_missing_package_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def gone(name: str) -> Any:
        raise ModuleNotFoundError("No module named 'torch'", name="torch")

    monkeypatch.setattr("importlib.import_module", gone)
    assert main(["train", "workshop"]) == 1
    assert "needs the package torch" in capsys.readouterr().err


def test_a_wrong_preset_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch", reason="the trainer needs torch: pip install '.[train]'")
    assert main(["train", "workshp", "--out", str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert "workshop-best" in said and said.count("\n") == 1


def test_bad_changes_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch", reason="the trainer needs torch: pip install '.[train]'")
    assert main(["train", "workshop", "--out", str(tmp_path), "--set", "nonsense=1"]) == 2
    assert "fault_rate" in capsys.readouterr().err


def test_json_is_one_object(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch", reason="the trainer needs torch: pip install '.[train]'")
    small = ["updates=1", "tasks=2", "group=2", "width=16", "worksheets.steps=2"]
    quick = [f"--set={change}" for change in (*small, "demonstrations.steps=2")]
    assert main(["train", "workshop", "--out", str(tmp_path / "run"), "--json", *quick]) == 0
    told = json.loads(capsys.readouterr().out)
    keys = {"heldout_start", "heldout_end", "sampled_reward", "seconds_per_update", "episodes"}
    assert keys <= told.keys()
