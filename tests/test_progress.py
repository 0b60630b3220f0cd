"""The progress line: what it counts, when it is drawn, and that it breaks nothing."""

import io
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent_envs import progress
from agent_envs.policy import null
from agent_envs.progress import Progress
from agent_envs.rollout import rollout
from agent_envs.task import Task
from agent_envs.trajectory import EndReason, Trajectory
from agent_envs.turns import Action, Turn
from agent_envs.verdict import Verdict


class Clock:
    """Stands in for the module time."""

    now = 100.0

    def monotonic(self) -> float:
        """The time that the test says."""
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """A clock that stands still."""
    made = Clock()
    monkeypatch.setattr(progress, "time", made)
    return made


def episode(
    passed: bool = True, reason: EndReason = "answer", branch: bool = False, turns: int = 2
) -> Trajectory:
    """An episode that ended."""
    return Trajectory(
        "0.0",
        "0",
        Task("t", "s", "p"),
        1,
        [],
        ("0.0", 1) if branch else None,
        [Turn(Action(""), "", 0.0, {}) for _ in range(turns)],
        Verdict({}, {}, passed),
        reason,
    )


def lines(text: str) -> list[str]:
    """What was drawn, one after the other."""
    drawn = text.split("\r\x1b[K")
    assert drawn[0] == ""
    return drawn[1:]


def test_a_short_run_draws_nothing(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    shown = Progress(3)
    for _ in range(3):
        shown.add(episode())
        clock.now += 0.3
    shown.close()
    assert capsys.readouterr() == ("", "")


def test_a_long_run_draws_now_and_then(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    shown = Progress(200)
    for i in range(100):
        clock.now += 0.125
        shown.add(episode(passed=i % 4 == 0))
    out, err = capsys.readouterr()
    drawn = lines(err)
    assert out == "" and len(drawn) == 47  # after a second, then every quarter of one
    assert drawn[0] == "8/200 episodes, 25% passed, 16 turns/s, 24 s left"
    shown.close()
    end = capsys.readouterr().err
    assert end.endswith("\n") and lines(end[:-1]) == [
        "100/200 episodes, 25% passed, 16 turns/s, 12 s left"
    ]


def test_branches_and_invalid_episodes(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    shown = Progress(4)
    clock.now += 2
    shown.add(episode(branch=True))
    assert lines(capsys.readouterr().err) == ["0/4 episodes, 0% passed, 1 turns/s, 1 branches"]
    shown.add(episode(passed=True))
    shown.add(episode(passed=True, reason="infrastructure"))
    shown.add(episode(passed=False, branch=True))
    clock.now += 2
    shown.add(episode(passed=False))
    assert lines(capsys.readouterr().err) == [
        "3/4 episodes, 50% passed, 2 turns/s, 1 s left, 2 branches, 1 invalid"
    ]


def test_an_episode_without_a_verdict(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    shown = Progress(1)
    made = episode(reason="policy_error", turns=0)
    made.verdict = None
    clock.now += 1
    shown.add(made)
    assert lines(capsys.readouterr().err) == [
        "1/1 episodes, 0% passed, 0 turns/s, 0 s left, 1 invalid"
    ]


class Broken(io.StringIO):
    """A pipe whose reader has gone."""

    def write(self, text: str) -> int:
        raise BrokenPipeError


@pytest.mark.parametrize("stream", ["closed", "broken", "none"])
def test_no_stream_breaks_a_run(clock: Clock, monkeypatch: pytest.MonkeyPatch, stream: str) -> None:
    closed = io.StringIO()
    closed.close()
    streams: dict[str, Any] = {"closed": closed, "broken": Broken(), "none": None}
    monkeypatch.setattr(sys, "stderr", streams[stream])
    shown = Progress(1)
    clock.now += 5
    shown.add(episode())
    shown.close()


@pytest.fixture
def bank(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The id of an env."""
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    yield "bank_env:mine/Bank-v0"


@pytest.mark.parametrize("wanted", [True, False, None])
def test_a_rollout_shows_it_if_asked(
    bank: str,
    wanted: bool | None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(progress, "_NOT_BEFORE", 0.0)
    rollout(bank, null(), ["train/0", "train/1"], group=2, workers=1, progress=wanted)
    out, err = capsys.readouterr()
    assert out == "" and ("4/4 episodes, 0% passed" in err) == (wanted is True)
