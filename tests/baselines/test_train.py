"""The command: presets, changes to them, what it prints and what it refuses."""

import json
import re
from pathlib import Path

import pytest

from agent_envs.baselines.presets import PRESETS
from agent_envs.baselines.train import configure, main

QUICK = (
    "updates=2 width=32 tasks=2 group=2 worksheets.steps=2 demonstrations.steps=2 shown=3".split()
)


def command(out: Path, *more: str) -> list[str]:
    return ["workshop", "--out", str(out), *more, *(f"--set={change}" for change in QUICK)]


def test_every_preset_is_one() -> None:
    for preset in PRESETS:
        assert configure(preset).updates == (50 if preset == "sql" else 40)


def test_the_published_setting() -> None:
    args = configure("workshop")
    assert (args.tasks, args.group, args.updates, args.learning_rate) == (8, 8, 40, 3e-4)
    assert (args.temperature, args.shown, args.demonstrations.steps) == (1.0, 30, 200)
    assert (args.layers, args.width, args.heads, args.positions) == (2, 128, 4, "learned")
    assert (args.clip_low, args.clip_high, args.draws, args.kl) == (0.2, 0.2, 1, 0.0)


def test_changes_take_the_type_of_what_they_change() -> None:
    args = configure("workshop", ["fault_rate=0.3", "seed=4", "positions=rope", "shown=5"])
    assert (args.fault_rate, args.seed, args.positions, args.shown) == (0.3, 4, "rope", 5)
    assert configure("workshop", ["worksheets.steps=7"]).worksheets.steps == 7
    assert configure("workshop").worksheets.steps == 300, "presets do not change"
    given = configure("browser", ["arguments.page_chars=900", "arguments.isolation=none"])
    assert given.arguments["page_chars"] == 900 and given.arguments["isolation"] == "none"
    assert configure("workshop").arguments == {}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("fault_rat=0.3", r"did you mean 'fault_rate'.* there are env, level,.* worksheets.steps"),
        ("worksheets=3", "no such argument"),
        ("seed.steps=3", "no such argument"),
        ("seed=many", "not of type int"),
        ("seed", "it is key=value"),
        ("credit=luck", "credit=.*leave_one_out"),
        ("fault_rate=2", "fault_rate"),
        ("tasks=0", "tasks"),
        ("group=1", "group"),
        ("temperature=0", "temperature"),
        ("device=abacus", "device"),
        ("env=agent/Nothing-v0", "Nothing"),
        ("env=agent/Calculator-v0", "no characters .*CalculatorChars"),
        ("level=99", "level"),
        ("shown=71", "shown"),
        ("renamed=2", "renamed=2.0: from 0 to 1"),
        ("blame=-1", "blame=-1.0: from 0 to 1"),
        ("warmup=-1", "warmup=-1: at least 0"),
        ("arguments=3", "no such argument"),
        ("arguments.max_cals=3", "takes no such argument"),
        ("arguments.fault_rate=0.1", "the trainer sets fault_rate itself"),
    ],
)
def test_nonsense_is_refused_with_a_reason(
    change: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command(tmp_path), "--set", change]) == 2
    said = capsys.readouterr().err
    assert said.startswith("agent-envs train: ")
    assert re.search(message, said), said


def test_a_preset_that_does_not_exist_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["workshp"]) == 2
    assert "workshop-best" in capsys.readouterr().err


def test_json_and_resume(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(command(tmp_path, "--json")) == 0
    said = capsys.readouterr().out
    summary = json.loads(said)
    assert said.count("\n") == 1
    for (
        key
    ) in "heldout_start heldout_end sampled_reward seconds_per_update episodes preset seed".split():
        assert key in summary
    assert main(command(tmp_path)) == 2
    assert "--resume" in capsys.readouterr().err
    assert main(command(tmp_path, "--resume")) == 0
    assert "heldout_end" in capsys.readouterr().out
