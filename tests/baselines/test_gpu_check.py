"""The check of a device, on a CPU and small."""

import json
from pathlib import Path

import pytest
import torch

pytest.importorskip("transformers", reason="pip install '.[hf]'")

from agent_envs.baselines import gpu_check  # noqa: E402
from agent_envs.baselines.gpu_check import TINY, Line  # noqa: E402


def test_all_figures_but_the_workshops(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(gpu_check, "workshop", lambda device, scale: [])
    out = tmp_path / "figures.json"
    assert gpu_check.main(["--tiny", "--device", "cpu", "--out", str(out)]) == 0
    found = json.loads(out.read_text())
    assert found["wrong"] == [] and found["device"] == "cpu"
    assert all(line["value"] > 0 for line in found["lines"] if line["unit"] in ("s", "/s"))
    told = capsys.readouterr().out
    assert all(line["what"] in told for line in found["lines"])


def test_a_device_that_disagrees_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = [Line("log-probs differ", 0.1, "nats", 1e-3), Line("writing", 1.0, "s", 0.1)]
    monkeypatch.setattr(gpu_check, "check", lambda device, scale: wrong)
    assert gpu_check.main(["--device", "cpu"]) == 1


def test_sharing_prompts_reads_fewer_tokens() -> None:
    batch = gpu_check.tokens(TINY, 17, "cpu")
    assert torch.equal(batch.tokens[0, : TINY.prompt], batch.tokens[7, : TINY.prompt])
    assert batch.own.sum() == TINY.rows * TINY.own
    lines = gpu_check.learning(gpu_check.made(TINY), TINY, torch.float32)
    assert [line.what.split()[-2] for line in lines] == ["95", "256"]
