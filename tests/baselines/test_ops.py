"""What goes wrong in a run stays in its episode; what is measured is counted right."""

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from agent_envs.baselines.curriculum import Course, uncertain, uniform
from agent_envs.baselines.evaluate import RATES, evaluate, pass_at
from agent_envs.baselines.grpo import Run, train
from agent_envs.baselines.metrics import account
from agent_envs.baselines.record import Record
from agent_envs.baselines.settings import Args
from agent_envs.env import ToolEnv
from agent_envs.envs.calculator.env import CalculatorChars
from agent_envs.errors import BackendUnavailable
from agent_envs.policy import oracle
from agent_envs.task import Task
from agent_envs.trajectory import Trajectory
from agent_envs.verdict import Verdict

Make = Callable[..., Args]
Episode = Callable[..., Record]


class Troubled(CalculatorChars):
    """Breaks in three of ten episodes, in different ways, and hangs in some."""

    kind = "raise"
    freed = threading.Event()

    def grade(self, answer: str | None) -> Verdict:
        """As always, unless it breaks; what is left pays 1, so that an unscored 0 would show."""
        if self.rng("trouble").random() < 0.3:
            if self.kind == "hang":
                self.freed.wait(30)
            elif self.rng("which").random() < 0.5:
                raise BackendUnavailable("the grader is gone")
            else:
                raise RuntimeError("a bug")
        return Verdict({"answer": 1.0}, self.weights, True)


@pytest.fixture
def troubled(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Troubled]]:
    """Runs play in it."""

    def make(self: Run, fault_rate: float, count: int) -> list[ToolEnv]:
        return [Troubled(protocol="chars", max_turns=2) for _ in range(min(count, 8))]

    monkeypatch.setattr(Run, "_make", make)
    Troubled.freed.clear()
    yield Troubled
    Troubled.freed.set()


@pytest.mark.parametrize("kind", ["raise", "hang"])
def test_a_run_survives_its_environments(
    kind: str,
    troubled: type[Troubled],
    small: Make,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setattr(troubled, "kind", kind)
    args = small(group=6, tasks=2, step_deadline=1.5, updates=1, shown=1, teacher="oracle")
    with Run(args, tmp_path) as run:
        kept, values = run.play(1)
        run.learn(kept)
    assert 0 < values["invalid"] == values["ended/infrastructure"] * 12 < 12
    assert values["reward"] == values["passed"] == 1, "an unscorable episode counts as nothing"
    assert kept and all(record.valid for record, _ in kept)
    assert len(kept) == 12 - values["invalid"]
    assert all(advantage == 0 for _, turns in kept for advantage in turns)


def test_an_evaluation_counts_what_could_not_be_scored(troubled: type[Troubled]) -> None:
    envs: list[ToolEnv] = [Troubled(protocol="chars") for _ in range(4)]
    tasks = envs[0].tasks.split("heldout", 0)
    found = evaluate(oracle(Troubled, envs[0].tasks), envs, tasks)
    assert 0 < found["invalid"] < len(tasks)
    assert found["success"] == 1.0
    assert found["ended/infrastructure"] == found["invalid"] / len(tasks)


def test_an_evaluation_under_faults() -> None:
    env = CalculatorChars(protocol="chars", fault_rate=0.5)
    tasks = env.tasks.split("heldout", 0)
    found = evaluate(oracle(env), [env], tasks, repeats=3)
    assert found["success"] == found["recovered"] == found["pass@3"] == 1.0
    assert 0.3 < found["faulted"] < 0.7 and found["calls"] == 1.0 and found["turns"] == 2.0
    assert found["malformed"] == found["invalid"] == 0 and found["ended/answer"] == 1.0


def test_pass_at_k() -> None:
    def episode(task: str, passed: bool) -> Trajectory:
        verdict = Verdict({"answer": float(passed)}, {"answer": 1.0}, passed)
        return Trajectory("0.0", "0", Task(task, "heldout", "?"), 0, [], verdict=verdict)

    played = [episode("a", i < 1) for i in range(4)] + [episode("b", False) for _ in range(4)]
    assert pass_at(played, 1) == pytest.approx((1 / 4 + 0) / 2)
    assert pass_at(played, 2) == pytest.approx((1 - 3 / 6) / 2)
    assert pass_at(played, 4) == pytest.approx(1 / 2)
    assert pass_at(played, 5) == 0.0


def test_an_examination_at_the_end(small: Make, tmp_path: Path) -> None:
    summary = train(small(updates=1, examination=2, evaluate_every=5), tmp_path, quiet=True)
    last = json.loads((tmp_path / "metrics.jsonl").read_text().splitlines()[-1])
    for rate in RATES:
        assert summary[f"exam_faults_{rate:.0%}/success"] == last[f"exam_faults_{rate:.0%}/success"]
    assert last["exam_sampled/pass@1"] <= last["exam_sampled/pass@2"]
    assert "exam_adversarial/success" in summary
    assert last["exam_adversarial/invalid"] > 0, "some of its text the workshop cannot read"
    assert last["exam_faults_50%/faulted"] > last["exam_faults_0%/faulted"] == 0
    assert (tmp_path / "robustness.png").read_bytes().startswith(b"\x89PNG")
    shares = summary["shares"]
    assert sum(shares.values()) == pytest.approx(1, abs=0.01)
    assert set(shares) == {"policy", "environments", "learning", "waiting"}


def test_masked_episodes_count_in_their_group_and_are_not_learned_from(
    small: Make, monkeypatch: pytest.MonkeyPatch, episode: Episode
) -> None:
    args = small(draws=1, tasks=1)
    args.shaping.mask = True
    run = Run(args)
    records = [episode([([3], [], float(i < 2))], name=f"0.{i}", cut=i == 0) for i in range(4)]
    monkeypatch.setattr(run, "episodes", lambda *a: (records, None))
    kept, _ = run.play(1)
    assert [r.episode_id for r, _ in kept] == ["0.1", "0.2", "0.3"]
    assert kept[0][1] == pytest.approx([2 / 3])


# -- curricula -------------------------------------------------------------------------------------


def test_uncertain_tasks_come_first() -> None:
    import random

    tasks = [Task(name, "train", name) for name in ("easy", "hard", "even", "new")]
    met = {"easy": [30, 30], "hard": [0, 30], "even": [15, 30]}
    rng, firsts = random.Random(0), []
    for _ in range(400):
        order = uncertain(tasks, met, rng)
        assert sorted(t.id for t in order) == ["easy", "even", "hard", "new"]
        firsts.append(order[0].id)
    assert min(firsts.count("even"), firsts.count("new")) > 5 * firsts.count("hard")
    assert len({t.id for t in uniform(tasks, met, rng)}) == 4


def last_first(tasks: Any, met: Any, rng: Any) -> Any:
    """A curriculum of one's own."""
    return list(tasks)[::-1]


def test_a_course_counts_and_comes_back(episode: Episode) -> None:
    course = Course("uncertain")
    course.add([episode([([3], [], 1.0)]), episode([([3], [], 0.0)])])
    course.add([episode([([3], [], 1.0)], valid=False), episode([([3], [], 1.0)], parent=("0", 1))])
    assert course.met == {"t": [1, 2]}
    again = Course(f"{__name__}:last_first")
    again.load_state_dict(json.loads(json.dumps(course.state_dict())))
    order: Any = again.order
    assert again.met == course.met and order([1, 2], {}, None) == [2, 1]
    with pytest.raises(ValueError, match="no such module:function"):
        Course("nonsense")


def test_a_run_draws_by_its_curriculum(small: Make) -> None:
    run = Run(small(draws=1, tasks=2, curriculum=f"{__name__}:last_first"))
    kept, _ = run.play(1)
    wanted = {task.id for task in run.train_tasks[-2:]}
    assert {record.task.id for record, _ in kept} == wanted == set(run.course.met)


def test_account_of_nothing_is_nothing() -> None:
    assert account([])["episodes"] == 0


def test_logging_elsewhere_needs_its_package(small: Make, tmp_path: Path) -> None:
    with pytest.raises(ModuleNotFoundError, match="wandb"):
        train(small(updates=0, wandb="project"), tmp_path, quiet=True)


def test_another_tokenizer_is_refused_when_a_run_goes_on(small: Make, tmp_path: Path) -> None:
    train(small(updates=1), tmp_path, quiet=True)
    state = torch.load(tmp_path / "checkpoint.pt", weights_only=True)
    state["parts"]["tokenizer"] = "another"
    torch.save(state, tmp_path / "checkpoint.pt")
    with pytest.raises(ValueError, match="the tokenizer is another one"):
        train(small(updates=1), tmp_path, quiet=True, resume=True)
