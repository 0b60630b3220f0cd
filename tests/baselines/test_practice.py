"""More training tasks than an environment ships."""

import gymnasium
import pytest

from agent_envs.baselines import practice
from agent_envs.baselines.grpo import Run
from agent_envs.baselines.train import configure, main
from agent_envs.env import ToolEnv
from agent_envs.policy import oracle
from agent_envs.rollout import rollout
from agent_envs.task import Task, TaskSource

COUNT = 100


def made(env: str, level: int = 0, count: int = COUNT) -> TaskSource:
    found = practice.more(env, level, count, {})
    assert found is not None
    return found


@pytest.mark.parametrize("preset", ["calculator", "code", "sql"])
def test_practice_is_more_of_the_same_and_never_held_out(preset: str) -> None:
    sets = ["practice=0", "worksheets.steps=0", "width=32", "layers=1", "shown=2", "examination=2"]
    with Run(configure(preset, sets)) as run:
        own, env = run.tasks, run.args.env
    source = made(env)
    tasks = source.split("train", 0)
    assert len(tasks) == len({task.prompt for task in tasks}) == COUNT
    others = [task for split in ("heldout", "adversarial") for task in own[split]]
    assert not {t.prompt for t in tasks} & {t.prompt for t in others}
    for split in ("heldout", "adversarial"):
        assert list(source.split(split, 0)) == own[split], "what is held out stays what it is"
    gained = {task.prompt for task in tasks} - {task.prompt for task in own["train"]}
    assert len(gained) >= 20 and {t.tags[0] for t in tasks} == {t.tags[0] for t in own["train"]}
    assert source.digest() == made(env).digest()


@pytest.mark.parametrize("env", ["agent/Calculator-v0", "agent/Code-v0", "agent/SQL-v0"])
def test_practice_can_be_solved(env: str) -> None:
    tasks = made(env).split("train", 0)[-3:]
    with gymnasium.make(env, tasks=made(env)) as player:
        assert isinstance(player, ToolEnv)
        trajectories = rollout(player, oracle(player), tasks, progress=False)
    assert [t.verdict is not None and t.verdict.passed for t in trajectories] == [True] * 3


def test_practice_that_cannot_be_made_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert practice.more("agent/SQL-v0", 0, 0, {}) is None
    assert main(["workshop", "--set", "practice=50", "--set", "level=9", "--out", "never"]) == 2
    assert "level=9: from 0 to 1; practice=0" in capsys.readouterr().err
    own = [Task("a", "train", "1+1", {"answer": "2"}).to_dict()]
    with pytest.raises(ValueError, match="practice=9: TaskList makes no tasks but those it has"):
        practice.more("agent/Calculator-v0", 0, 9, {"tasks": own})
