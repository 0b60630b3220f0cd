"""`agent-envs demo`."""

import importlib
from typing import Any

import pytest

from agent_envs.cli import demo
from agent_envs.cli.workshop import workshop


def test_the_tour_and_its_figures(cli: Any) -> None:
    ran = cli("demo", "--json", "--no-training")
    assert ran.code == 0
    told, text = ran.json, ran.err
    assert list(told) == [name for name in demo.PARTS if name != "workshop"]

    for episode in told["episodes"]:
        assert episode["passed"] and episode["faults"] > 0
        assert episode["task"] in text

    branches = told["branches"]
    assert branches["same_again"] and branches["only_noise_changed"]
    assert branches["passed"] == {"believed": False, "asked_twice": True, "reseeded": True}

    players = told["players"]
    assert players.pop("oracle") == {"reliable": 1.0, "lying": 1.0}
    believes = players.pop("believes its tool")
    assert believes["reliable"] == 1.0 and 0.5 < believes["lying"] < 0.9
    assert all(rates == {"reliable": 0.0, "lying": 0.0} for rates in players.values())
    assert f"{believes['lying']:.1%}" in text

    assert "\x1b" not in text, "no colours where there is no terminal"
    assert "NO" not in text.split(), "a promise was broken before the reader's eyes"
    assert max(map(len, text.splitlines())) <= 100


def test_what_is_shown_really_happens(capsys: Any) -> None:
    said: list[str] = []
    demo.branches(said.append)
    assert capsys.readouterr().out == ""
    calls = [line for line in said if "calculate(" in line]
    spoiled, again, *_ = [line for line in calls if "<- injected: wrong" in line]
    assert spoiled == again
    assert sum("passed, reward 1" in line for line in said) == 2
    assert sum("failed, reward 0" in line for line in said) == 1
    assert sum("-- rollback" in line for line in said) == 2


def test_the_training_part_without_torch_says_what_to_install(monkeypatch: Any) -> None:
    def gone(name: str) -> Any:
        raise ModuleNotFoundError("No module named 'torch'", name="torch")

    monkeypatch.setattr(importlib, "import_module", gone)
    said: list[str] = []
    assert workshop(said.append) is None
    text = " ".join(" ".join(said).split())
    assert "it needs torch" in text and "pip install" in text


def test_the_training_part_shows_its_own_figures(monkeypatch: Any) -> None:
    pytest.importorskip("torch", reason="the trainer needs torch: pip install '.[train]'")
    trainer = importlib.import_module("agent_envs.baselines.train")
    small = ("updates=1", "tasks=2", "group=2", "width=16", "worksheets.steps=2")
    args = trainer.configure("workshop", (*small, "demonstrations.steps=2"))
    monkeypatch.setattr(trainer, "configure", lambda preset: args)
    said: list[str] = []
    told = workshop(said.append)
    text = "\n".join(said)
    assert told is not None and f"{told['heldout_end']:.0%}" in text
    assert "77% published" in text and "2 sums x 2 episodes" in " ".join(text.split())
