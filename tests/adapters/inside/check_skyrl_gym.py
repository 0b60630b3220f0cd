"""SkyRL-Gym: made, driven and measured through its own registry."""

from typing import Any

import pytest
import skyrl_gym as theirs
from omegaconf import DictConfig

from agent_envs.adapters import skyrl_gym
from agent_envs.errors import BackendUnavailable
from tests.adapters.direct import BANK, CALCULATOR, ERRORS, NOISE, TASKS, as_text, play

IDS = [CALCULATOR, BANK]
NAMES = {CALCULATOR: "calculator", BANK: "bank"}


@pytest.fixture(scope="module", autouse=True)
def registered() -> None:
    """Both ids, noisy."""
    for env_id, name in NAMES.items():
        skyrl_gym.register_env(name, env_id, fault_rate=NOISE)


def made(env_id: str, **extras: Any) -> Any:
    """An env as SkyRL's generator makes it, from a row."""
    return theirs.make(NAMES[env_id], env_config=DictConfig({}), extras=extras)


@pytest.mark.parametrize("seed", [3, 4])
@pytest.mark.parametrize("env_id", IDS)
def test_a_group_is_the_same_as_by_hand(env_id: str, seed: int) -> None:
    played = play(env_id, seed, ERRORS, fault_rate=NOISE)
    for _ in range(2):
        env = made(env_id, task=TASKS[env_id], seed=seed, max_turns=3, reward_spec={})
        opening, _ = env.init([{"role": "user", "content": "ignored"}])
        assert opening == played.opening
        total = 0.0
        for move, observation in zip(played.moves, played.observations, strict=True):
            out = env.step(as_text(move))
            said = [] if out["done"] else [{"role": "user", "content": observation}]
            assert out["observations"] == said
            total += out["reward"]
        assert out["done"] and total == played.reward
        assert out["metadata"]["end_reason"] == "answer"
        assert env.get_metrics()["passed"] == played.passed
        assert env.turns == len(played.moves)
        env.close()


def test_metrics_are_averaged_by_skyrl() -> None:
    metrics = []
    for seed in range(3):
        env = made(CALCULATOR, task=TASKS[CALCULATOR], seed=seed)
        env.init([])
        env.step("I do not know.")
        metrics.append(env.get_metrics())
    assert type(env).aggregate_metrics(metrics)["passed"] == 0.0
    assert env.get_metrics()["turns"] == 1


def test_rows_start_episodes_and_others_are_refused() -> None:
    rows = skyrl_gym.rows(BANK, n=2, name="bank")
    assert {row["env_class"] for row in rows} == {"bank"}
    env = made(BANK, **rows[1])
    assert env.init(rows[1]["prompt"])[0] == rows[1]["prompt"]
    with pytest.raises(ValueError, match="rows"):
        made(BANK, prompt=[])


def test_branches_start_in_mid_episode() -> None:
    played = play(BANK, 3, fault_rate=NOISE)
    text_env = made(BANK, task=TASKS[BANK], seed=3)
    text_env.init([])
    text_env.step(as_text(played.moves[0]))
    branch = text_env.env.snapshot()
    rest = [text_env.step(as_text(move)) for move in played.moves[1:]]
    text_env.env.rollback(branch)
    assert [text_env.step(as_text(move)) for move in played.moves[1:]] == rest


def test_an_environment_that_fails_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    env = made(BANK, task=TASKS[BANK], seed=3)
    env.init([])

    def down(*_: Any) -> None:
        raise BackendUnavailable("start the daemon")

    monkeypatch.setattr(env.env, "grade", down)
    with pytest.raises(BackendUnavailable, match="start the daemon"):
        env.step("0")
