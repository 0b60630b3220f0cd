"""UnicodeText in environments: checkers, wrappers, and every vector and autoreset mode."""

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces, wrappers
from gymnasium.utils.env_checker import check_env
from gymnasium.utils.env_match import check_environments_match
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import vector as vector_wrappers

from agent_envs.space import LiveTexts, UnicodeText

# Python 3.12 and later warn of any fork in a process with threads, and numpy may have some.
pytestmark = pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")

ECHO = "text_env:test/Echo-v0"
NOTE = "text_env:test/Note-v0"


@pytest.fixture(autouse=True, scope="module")
def _importable() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(Path(__file__).parent))
        yield


def test_the_advice_for_flattening_works() -> None:
    def tokenize(text: str) -> Any:
        return np.frombuffer(text.encode().ljust(64, b"\0"), dtype=np.uint8).astype(np.int64)

    with pytest.raises(NotImplementedError, match="TransformObservation"):
        wrappers.FlattenObservation(gymnasium.make(ECHO))
    numeric = wrappers.TransformObservation(
        gymnasium.make(ECHO), tokenize, spaces.MultiDiscrete([256] * 64)
    )
    flat = wrappers.FlattenObservation(numeric)
    assert flat.reset(seed=1)[0] in flat.observation_space


def test_checkers() -> None:
    check_env(gymnasium.make(ECHO, disable_env_checker=True).unwrapped)
    check_env(gymnasium.make(NOTE, disable_env_checker=True).unwrapped)
    check_environments_match(gymnasium.make(ECHO), gymnasium.make(ECHO), num_steps=20)


@pytest.mark.parametrize("padding, first", [("reset", None), ("zero", ""), ("-\n", "-\n")])
def test_frame_stack_and_delay(padding: str, first: str | None) -> None:
    env = wrappers.FrameStackObservation(gymnasium.make(ECHO), 2, padding_type=padding)
    start, _ = env.reset(seed=1)
    assert start[0] == (start[1] if first is None else first)
    assert env.step("é\n")[0] == (start[1], "é\n") and start in env.observation_space
    delayed = wrappers.DelayObservation(gymnasium.make(ECHO), 1)
    assert [delayed.reset(seed=1)[0], delayed.step("é")[0]] == ["", start[1]]


SCRIPT = [
    ("", "plain"),
    ("naïve\n中文 😀", "tab\tand\r\nlines"),
    ("é" * 32, "end!"),
    ("x" * 64, "after"),
    ("both?", "both!"),
    ("", "\u2028\n"),
    ("a", ""),
]


def plain(infos: Any) -> Any:
    return {k: plain(v) for k, v in infos.items()} if isinstance(infos, dict) else infos.tolist()


def play(mode: str, autoreset: AutoresetMode, **kwargs: Any) -> list[Any]:
    """What two environments say to `SCRIPT`, everything that the vector gives as plain values."""
    kwargs["autoreset_mode"] = autoreset
    envs = gymnasium.make_vec(ECHO, num_envs=2, vectorization_mode=mode, vector_kwargs=kwargs)
    try:
        texts, infos = envs.reset(seed=3)
        transcript: list[Any] = [(tuple(texts), plain(infos))]
        for actions in SCRIPT:
            texts, rewards, ended, cut, infos = envs.step(actions)
            assert tuple(texts) in envs.observation_space
            flags = (rewards.tolist(), ended.tolist(), cut.tolist())
            transcript.append((tuple(texts), flags, plain(infos)))
            done = ended | cut
            if autoreset == AutoresetMode.DISABLED and done.any():
                texts, infos = envs.reset(options={"reset_mask": done})
                transcript.append((tuple(texts), plain(infos)))
        return transcript
    finally:
        envs.close()


@pytest.mark.parametrize("autoreset", AutoresetMode)
def test_the_same_transcript_in_every_vector_mode(autoreset: AutoresetMode) -> None:
    expected = play("sync", autoreset)
    said = [step[0] for step in expected]
    assert all(actions in said for actions in SCRIPT[:2] + SCRIPT[-1:])
    finals = [step[-1].get("final_obs") for step in expected]
    assert ([None, "end!"] in finals) is (autoreset == AutoresetMode.SAME_STEP)
    assert play("sync", autoreset, copy=False) == expected
    assert play("async", autoreset) == expected
    assert play("async", autoreset, copy=False) == expected
    assert play("async", autoreset, shared_memory=False) == expected
    assert play("async", autoreset, context="spawn") == expected


def test_without_a_copy_the_vector_hands_out_live_texts() -> None:
    envs = gymnasium.make_vec(
        ECHO, num_envs=2, vectorization_mode="async", vector_kwargs={"copy": False}
    )
    try:
        live, _ = envs.reset(seed=1)
        kept = copy.deepcopy(live)
        assert type(live) is LiveTexts and live == kept and type(kept) is tuple
        envs.step(("é\n", ""))
        assert live == ("é\n", "") and kept[0].startswith("épisode")
        envs.step(live)
        assert live == ("é\n", "")
    finally:
        envs.close()


@pytest.mark.parametrize("kwargs", [{}, {"copy": False}, {"shared_memory": False}], ids=str)
def test_text_inside_other_spaces(kwargs: dict[str, Any]) -> None:
    envs = gymnasium.make_vec(NOTE, num_envs=2, vectorization_mode="async", vector_kwargs=kwargs)
    try:
        start, _ = envs.reset(seed=1)
        assert copy.deepcopy(start)["note"] == ("néu\n", "néu\n")
        told = {"note": ("中文中", ""), "number": np.array([3, 4])}
        said = copy.deepcopy(envs.step(told)[0])
        assert said["note"] == told["note"] and said["pair"][0] == ("中文", "")
        assert said["pair"][1].tolist() == [3, 4] and said in envs.observation_space
    finally:
        envs.close()


def test_vector_wrappers_transform_texts() -> None:
    envs = gymnasium.make_vec(ECHO, num_envs=2, vectorization_mode="async")
    loud = vector_wrappers.VectorizeTransformObservation(
        envs, wrappers.TransformObservation, func=str.upper, observation_space=UnicodeText(64)
    )
    try:
        loud.reset(seed=1)
        assert loud.step(("é\n", ""))[0] == ("É\n", "")
    finally:
        loud.close()


def test_vectors_refuse_limits_that_differ() -> None:
    limits = [{"max_bytes": 64}, {"max_bytes": 32}]
    makers = [lambda kwargs=kwargs: gymnasium.make(ECHO, **kwargs) for kwargs in limits]
    for mode in ("same", "different"):
        with pytest.raises(RuntimeError, match="observation space"):
            SyncVectorEnv(makers, observation_mode=mode)


@pytest.mark.filterwarnings("ignore::UserWarning")  # the vector reports its worker's end in three
def test_a_text_outside_the_space_is_an_error_and_never_a_blank() -> None:
    envs = gymnasium.make_vec(ECHO, num_envs=1, vectorization_mode="async", dirty=True)
    try:
        envs.reset(seed=1)
        with pytest.raises(ValueError, match="clean"):
            envs.step(("a",))
    finally:
        envs.close()
