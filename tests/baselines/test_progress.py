"""What a run says while it is under way."""

from collections.abc import Callable
from pathlib import Path

import pytest

from agent_envs.baselines.grpo import train
from agent_envs.baselines.settings import Args


def test_each_phase_says_that_it_begins(
    small: Callable[..., Args], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also where nobody sits at a terminal, who would see the line redrawn."""
    train(small(updates=1), tmp_path / "loud")
    said = [line.partition(" ")[2] for line in capsys.readouterr().err.splitlines()]
    assert said[:2] == ["worksheets, 5 steps", "demonstrations are played, 30 of them"]
    assert said[2:4] == ["demonstrations are learned, 60 steps", "held-out tasks are played"]
    assert said[4:] and all("held-out" in line for line in said[4:])
    train(small(updates=1), tmp_path / "quiet", quiet=True)
    assert not capsys.readouterr().err
