"""The loop: refills, invalid episodes, and a run that was killed and goes on."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from agent_envs.baselines import checkpoint
from agent_envs.baselines.credit import TurnValues
from agent_envs.baselines.grpo import Run, train
from agent_envs.baselines.record import Record
from agent_envs.baselines.settings import Args
from agent_envs.baselines.shaping import Shaping
from agent_envs.baselines.train import main
from agent_envs.envs.calculator.env import CalculatorChars
from agent_envs.errors import BackendUnavailable
from agent_envs.verdict import Verdict

Make = Callable[..., Args]


def numbers(out: Path) -> list[dict[str, float]]:
    """What was measured, times aside."""
    rows = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    return [{k: v for k, v in row.items() if not k.startswith("seconds")} for row in rows]


def weights(out: Path) -> dict[str, Any]:
    """The parts of the last checkpoint."""
    parts: dict[str, Any] = torch.load(out / checkpoint.NAME, weights_only=True)["parts"]
    return parts


def equal(one: Any, two: Any) -> bool:
    """Bit for bit, however nested."""
    if isinstance(one, torch.Tensor):
        return torch.equal(one, two)
    if isinstance(one, dict):
        return one.keys() == two.keys() and all(equal(one[k], two[k]) for k in one)
    if isinstance(one, list):
        return len(one) == len(two) and all(map(equal, one, two))
    return bool(one == two)


# -- resume ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changes",
    [
        {"draws": 2, "kl": 0.01},
        {"credit": "turn_values", "fault_rate": 0.3, "positions": "rope", "checkpoint_every": 2},
        {"warmup": 2, "decay": True, "blame": 0.2, "relative": True},
    ],
)
def test_a_run_that_stopped_goes_on_as_if_it_had_not(
    small: Make, tmp_path: Path, changes: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    train(small(**changes), whole, quiet=True)
    with monkeypatch.context() as patch:
        update = Run.update

        def stop(self: Run, number: int) -> dict[str, float]:
            if number == 4:
                raise KeyboardInterrupt
            return update(self, number)

        patch.setattr(Run, "update", stop)
        with pytest.raises(KeyboardInterrupt):
            train(small(**changes), broken, quiet=True)
    assert numbers(broken) == numbers(whole)[:4]
    train(small(**changes), broken, resume=True, quiet=True)
    assert numbers(broken) == numbers(whole)
    assert equal(weights(broken), weights(whole))


def test_a_killed_process_goes_on_as_if_it_had_not(small: Make, tmp_path: Path) -> None:
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    sets = ["width=32", "worksheets.steps=5", "demonstrations.steps=60", "tasks=2", "group=4"]
    sets += ["checkpoint_every=1", "evaluate_every=1", "updates=12", "worksheets.batch=8"]
    flags = [flag for change in sets for flag in ("--set", change)]
    command = ["workshop", *flags, "--out"]
    program = [sys.executable, "-m", "agent_envs.baselines.train"]
    process = subprocess.Popen([*program, *command, str(broken)], stderr=subprocess.DEVNULL)
    while not (broken / checkpoint.NAME).exists() and process.poll() is None:
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL, "it was done before it could be killed"
    assert len(numbers(broken)) < 13
    assert main([*command, str(whole)]) == main([*command, str(broken), "--resume"]) == 0
    assert len(numbers(whole)) == 13
    assert numbers(broken) == numbers(whole)
    assert equal(weights(broken), weights(whole))


def test_a_run_of_other_arguments_is_refused(small: Make, tmp_path: Path) -> None:
    train(small(updates=1), tmp_path, quiet=True)
    with pytest.raises(ValueError, match=r"seed was 0 and is 1"):
        train(small(updates=1, seed=1), tmp_path, resume=True, quiet=True)
    summary = train(small(updates=2), tmp_path, resume=True, quiet=True)
    assert summary["updates"] == 2


def test_a_checkpoint_is_written_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, args = torch.nn.Linear(2, 2), Args()
    checkpoint.save(tmp_path, args, {"model": model}, [{"update": 3}])
    before = (tmp_path / checkpoint.NAME).read_bytes()

    def fail(state: Any, file: Any) -> None:
        file.write(b"half")
        raise OSError("disk full")

    with monkeypatch.context() as patch:
        patch.setattr(torch, "save", fail)
        with pytest.raises(OSError, match="disk full"):
            checkpoint.save(tmp_path, args, {"model": model}, [{"update": 4}])
    assert (tmp_path / checkpoint.NAME).read_bytes() == before
    fresh = torch.nn.Linear(2, 2)
    assert checkpoint.load(tmp_path, args, {"model": fresh}) == [{"update": 3}]
    assert torch.equal(fresh.weight, model.weight)
    assert checkpoint.load(tmp_path / "nowhere", args, {"model": fresh}) == []


# -- dynamic sampling ------------------------------------------------------------------------------


def played_by(run: Run, passes: Callable[[int], int], episode: Callable[..., Record]) -> list[int]:
    """Replace what is played: group number n of an update passes `passes(n)` times. Returns a
    list that fills with the number of tasks of each draw."""
    draws: list[int] = []
    count = run.args.group

    def episodes(tasks: list[Any], update: int, draw: int) -> tuple[list[Record], TurnValues]:
        first = sum(draws)
        draws.append(len(tasks))
        records = [
            episode([([3], [], float(i < passes(first + g)))], name=f"{g}.{i}")
            for g in range(len(tasks))
            for i in range(count)
        ]
        return records, TurnValues(0)

    run.episodes = episodes  # type: ignore[method-assign, assignment]
    return draws


@pytest.fixture
def run(small: Make) -> Run:
    """A run that may draw three times, two groups of four."""
    return Run(small(draws=3))


def test_groups_that_teach_nothing_are_replaced(run: Run, episode: Callable[..., Record]) -> None:
    draws = played_by(run, lambda n: [4, 0, 1, 3][n], episode)
    kept, values = run.play(1)
    assert draws == [2, 2] and values["draws"] == 2 and values["groups"] == 2
    assert [record.reward for record, _ in kept] == [1, 0, 0, 0, 1, 1, 1, 0]
    assert [a for _, (a,) in kept[:4]] == pytest.approx([1, -1 / 3, -1 / 3, -1 / 3])
    assert values["episodes"] == 16 and values["reward"] == 8 / 16


def test_the_search_for_mixed_groups_has_an_end(run: Run, episode: Callable[..., Record]) -> None:
    draws = played_by(run, lambda n: 4 * (n % 2), episode)
    kept, values = run.play(1)
    assert kept == [] and draws == [2, 2, 2] and values["groups"] == 0
    before = run.model.weight.clone()
    assert "loss" not in run.update(1)
    assert torch.equal(before, run.model.weight), "nothing to learn from, nothing learned"


def test_draws_of_an_update_have_different_tasks(run: Run, episode: Callable[..., Record]) -> None:
    seen: list[str] = []
    draws = played_by(run, lambda n: 4, episode)
    inner = run.episodes

    def watch(tasks: Any, update: int, draw: int) -> Any:
        seen.extend(task.id for task in tasks)
        return inner(tasks, update, draw)

    run.episodes = watch  # type: ignore[method-assign]
    run.play(1)
    first = seen.copy()
    draws.clear()
    run.play(2)
    assert len(set(first)) == 6 and seen[6:] != first


def test_without_dynamic_sampling_every_group_is_learned_from(
    small: Make, episode: Callable[..., Record]
) -> None:
    run = Run(small(draws=1))
    played_by(run, lambda n: [4, 1][n], episode)
    kept, _ = run.play(1)
    assert [a for _, (a,) in kept] == pytest.approx([0] * 4 + [1, -1 / 3, -1 / 3, -1 / 3])


# -- real episodes ---------------------------------------------------------------------------------


def test_an_invalid_episode_is_neither_scored_nor_in_a_baseline(
    small: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every third grading breaks; the others pay 1, so that an invalid 0 would show."""
    graded = []

    def grade(self: CalculatorChars, answer: str | None) -> Verdict:
        graded.append(answer)
        if len(graded) % 3 == 0:
            raise BackendUnavailable("the grader is gone")
        return Verdict({"answer": 1.0}, self.weights, True)

    monkeypatch.setattr(CalculatorChars, "grade", grade)
    run = Run(small(draws=1, tasks=4, group=6))
    kept, values = run.play(1)
    assert values["invalid"] == values["ended/infrastructure"] * 24 == 8
    assert len(kept) == 16 and all(record.valid for record, _ in kept)
    assert values["reward"] == values["passed"] == 1
    assert all(advantage == 0 for _, turns in kept for advantage in turns)


def test_what_is_learned_from_was_sampled_by_these_weights(small: Make) -> None:
    run = Run(small(temperature=0.7, draws=1))
    run.imitate()
    for number in (1, 2, 3):
        assert run.update(number)["ratio_off"] <= 1e-5
    kept, _ = run.play(4)
    assert {v for r, _ in kept for v in r.row.versions} == {3, -1}


def test_turn_values_play_continuations(small: Make) -> None:
    run = Run(small(credit="turn_values", continuations=3, draws=1, fault_rate=0.3))
    run.imitate()
    records, values = run.episodes(run.train_tasks[:2], 1, 1)
    main = [r for r in records if r.parent is None]
    later = sum(len(r.rewards) - 1 for r in main)
    assert len(records) - len(main) == 3 * later > 0
    for record in main:
        advantages = values.advantages(record)
        assert len(advantages) == len(record.rewards)
        others = [r.reward for r in main if r.group_id == record.group_id and r is not record]
        assert sum(advantages) == pytest.approx(record.reward - sum(others) / len(others))


@pytest.mark.parametrize("credit", ["leave_one_out", "group_normalised", "turn_values"])
def test_what_is_rewarded_becomes_likelier(
    small: Make, monkeypatch: pytest.MonkeyPatch, credit: str
) -> None:
    """An untrained model, paid for answers that begin with a seven, learns to give them."""

    def grade(self: CalculatorChars, answer: str | None) -> Verdict:
        passed = answer is not None and answer.startswith("7")
        return Verdict({"answer": float(passed)}, self.weights, passed)

    monkeypatch.setattr(CalculatorChars, "grade", grade)
    run = Run(small(credit=credit, draws=2, group=8, learning_rate=3e-3))
    passed = [run.update(number)["passed"] for number in range(1, 21)]
    assert sum(passed[:3]) / 3 < 0.3 and sum(passed[-3:]) / 3 > 0.6, passed


def test_the_rate_of_updates_rises_and_falls(small: Make) -> None:
    rates = []
    with Run(small(updates=5, learning_rate=6e-3, warmup=2, decay=True)) as run:
        for number in range(1, 6):
            run.update(number)
            rates.append(run.optimizer.param_groups[0]["lr"])
    assert rates == pytest.approx([3e-3, 6e-3, 4.5e-3, 3e-3, 1.5e-3])


def test_relative_steps_are_in_proportion_to_what_they_change(small: Make) -> None:
    lengths = Shaping(overlong=-1.0, limit=16, soft=14)  # so that there is something to learn
    with Run(small(relative=True, learning_rate=6e-3, shaping=lengths)) as run:
        before = [weight.detach().clone() for weight in run.likelihood.parameters()]
        assert run.update(1)["grad_norm"] > 0
        after = list(run.likelihood.parameters())
    sizes = [max(1e-3, float(weight.square().mean().sqrt())) for weight in before]
    steps = [float((b - a).detach().abs().max()) for a, b in zip(before, after, strict=True)]
    assert steps == pytest.approx([6e-3 * size for size in sizes], rel=0.02)
    assert max(sizes) / min(sizes) > 100


def test_what_a_run_leaves_behind(small: Make, tmp_path: Path) -> None:
    summary = train(small(evaluate_every=2, seed=3), tmp_path, quiet=True)
    rows = numbers(tmp_path)
    assert [row["update"] for row in rows] == [0, 1, 2, 3, 4]
    assert [row["update"] for row in rows if "heldout/success" in row] == [0, 2, 4]
    assert summary["heldout_start"] == rows[0]["heldout/success"]
    assert summary["heldout_end"] == rows[4]["heldout/success"]
    assert summary["episodes"] == 4 * 8 and summary["seed"] == 3
    assert summary["sampled_reward"] == pytest.approx(sum(r["reward"] for r in rows[1:]) / 4)
    assert json.loads((tmp_path / "summary.json").read_text()) == summary
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")
    assert list((tmp_path / "tensorboard").glob("events*"))
    made_by = json.loads((tmp_path / "provenance.json").read_text())
    assert made_by["args"]["seed"] == 3
    assert made_by["env"]["id"] == "agent/CalculatorChars-v0"
    assert set(made_by["trainer"]["hashes"]) >= {"grpo.py", "policy.py", "transformer.py"}


def test_held_out_tasks_are_played_greedily_and_sampled(
    small: Callable[..., Args], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Run(small(temperature=0.7), tmp_path) as run:
        asked: list[float] = []
        ready = run.ready

        def noting(temperature: float) -> Any:
            asked.append(temperature)
            return ready(temperature)

        monkeypatch.setattr(run, "ready", noting)
        found = run.evaluate(0)
    assert asked == [0.0, 0.0, 0.7]
    assert {"heldout/success", "heldout_faults/pass@4", "heldout_sampled/pass@4"} <= found.keys()
    assert found["heldout/faulted"] == found["heldout_sampled/faulted"] == 0
