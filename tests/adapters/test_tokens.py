"""Texts as numbers: the wrapper's window, its snapshots, and Gymnasium's machinery over it."""

from functools import partial
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box
from gymnasium.utils.env_checker import check_env
from gymnasium.wrappers import DtypeObservation, FlattenObservation

from agent_envs import ids
from agent_envs.adapters.tokens import PAD, Ids, Letters, Tokenized

CHARS = "agent/CalculatorChars-v0"
ALPHABET = Letters("0123456789+-=|?BC")


def tokenized(turn: int = 8, window: int = 48, **kwargs: Any) -> Tokenized:
    """The calculator of single characters."""
    return Tokenized(gymnasium.make(CHARS, **kwargs), ALPHABET, turn=turn, window=window)


def spelled(text: str, turn: int = 8) -> Ids:
    """An action."""
    said = ALPHABET.encode(text)
    return np.array(said + [PAD] * (turn - len(said)))


def read(observation: Ids) -> str:
    """The text in a window."""
    return ALPHABET.decode([int(i) for i in observation if i != PAD])


def test_an_episode_is_the_same_as_in_text() -> None:
    for seed in range(5):
        text, numbers = gymnasium.make(CHARS, fault_rate=0.5), tokenized(fault_rate=0.5)
        said = text.reset(seed=seed)[0]
        assert read(numbers.reset(seed=seed)[0]) == said[-48:]
        for turn in ("B12+34|", "B12", "B1+|", "46|"):
            observation, *outcome = text.step(turn)
            said += turn + observation
            window, *other = numbers.step(spelled(turn))
            assert other[:3] == outcome[:3]
            assert read(window) == said[-48:]


def test_the_window_holds_the_end_of_the_conversation() -> None:
    env = tokenized(window=20)
    first = read(env.reset(seed=1)[0])
    observation = env.step(spelled("B12+34|"))[0]
    assert read(observation) == (first + "B12+34|46|")[-20:]
    assert observation.shape == (20,) and observation in env.observation_space


def test_an_action_ends_at_its_first_pad() -> None:
    env = tokenized()
    env.reset(seed=1)
    action = spelled("B1+1|")
    action[6:] = ALPHABET.encode("99")
    assert read(env.step(action)[0]).endswith("B1+1|2|")


def test_other_characters_are_one_id_and_call_nothing() -> None:
    assert ALPHABET.encode("1é") == [ALPHABET.encode("1")[0], 1]
    env = tokenized()
    env.reset(seed=1)
    _, _, _, _, info = env.step(np.full(8, 1))
    assert info["calls"][0][1].error == "parse"
    with pytest.raises(ValueError, match="twice"):
        Letters("aba")
    with pytest.raises(ValueError, match="at least 1"):
        tokenized(turn=0)


def test_rollback_brings_the_window_back() -> None:
    env = tokenized(fault_rate=0.5, max_turns=16)
    env.reset(seed=3)
    env.step(spelled("B12+34|"))
    branch = env.snapshot()
    rest = [env.step(spelled(f"B{n}+1|"))[0] for n in range(4)]
    end = env.snapshot()
    for _ in range(2):
        env.rollback(branch)
        again = [env.step(spelled(f"B{n}+1|"))[0] for n in range(4)]
        assert np.array_equal(np.stack(rest), np.stack(again))
        assert np.array_equal(env.rollback([end, branch])[0], rest[-1])
    env.release(branch)
    with pytest.raises(RuntimeError, match="released"):
        env.rollback(branch)


def test_as_a_box_it_is_one_hot_floats() -> None:
    env = DtypeObservation(FlattenObservation(tokenized(window=16)), np.float32)
    observation, _ = env.reset(seed=1)
    assert isinstance(env.observation_space, Box)
    assert observation.shape == (16 * ALPHABET.size,) and observation.sum() == 16
    assert observation in env.observation_space


@pytest.mark.filterwarnings("ignore:.*")
def test_gymnasiums_own_check() -> None:
    check_env(tokenized(), skip_render_check=True)


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_vectors(mode: str) -> None:
    wrap = partial(Tokenized, codec=ALPHABET, turn=8, window=48)
    envs: Any = gymnasium.make_vec(
        f"agent_envs:{CHARS}", num_envs=2, vectorization_mode=mode, wrappers=(wrap,)
    )
    try:
        observations, _ = envs.reset(seed=[1, 2])
        for row, seed in zip(observations, (1, 2), strict=True):
            assert np.array_equal(row, tokenized().reset(seed=seed)[0])
        actions = np.stack([spelled("B1+1|"), spelled("B2+2|")])
        observations = envs.step(actions)[0]
        assert [read(row)[-2:] for row in observations] == ["2|", "4|"]
    finally:
        envs.close()


def test_the_whole_of_ascii_is_the_default() -> None:
    for env_id in ids():
        if env_id.startswith("agent/Calculator"):
            env = Tokenized(gymnasium.make(env_id))
            assert env.reset(seed=1)[0].shape == (256,)
            env.close()
