"""ToolEnvs in Gymnasium's vectors: the same transcript in every mode, snapshots through `call`."""

import json
import pickle
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec
from gymnasium.vector import AutoresetMode

from agent_envs import ToolEnv
from agent_envs.plain import to_plain

# Python 3.12 and later warn of any fork in a process with threads, and numpy may have some.
pytestmark = pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")

SAY, BANK = "say_env:test/Say-v0", "bank_env:mine/Bank-v0"
CALCULATOR, CHARS = "agent/Calculator-v0", "agent/CalculatorChars-v0"
FAULTS = {"wrong": 0.2, "stale": 0.2, "error": 0.1, "truncated": 0.1}
MODES: dict[str, dict[str, Any]] = {
    "sync": {},
    "sync, no copy": {"copy": False},
    "async": {},
    "async, no copy": {"copy": False},
    "async, no shared memory": {"shared_memory": False},
    "async, spawn": {"context": "spawn"},
}


def call(name: str, /, **arguments: Any) -> str:
    return f"<tool_call>{json.dumps({'name': name, 'arguments': arguments})}</tool_call>"


SCRIPTS = {
    SAY: [
        call("say", text="naïve\n中文 😀\u2028"),
        call("say", text=""),
        call("say", text="\0\ud800 x"),
        call("all") + call("say", text="é" * 40_000),
        "",
        "<tool_call>{",
        "an answer\n",
        call("say", text="68"),
        call("nobody"),
        "<think>hm</think> 7",
        call("all"),
    ],
    BANK: [
        call("balance", name="ada"),
        call("transfer", source="ada", target="bob", amount=5),
        call("balance", name="ä\n"),
        "1234",
        call("balance", name="bob") + call("balance", name="cem"),
    ],
    CALCULATOR: [
        call("calculate", expression="12+13"),
        call("calculate", expression="1/0"),
        "99",
        call("calculate", expression="é") * 2,
        "",
    ],
    CHARS: ["B12+13|", "B1+|", "oops", "", "B9*9|", "é", "68|"],
}


@contextmanager
def vector(env_id: str, mode: str, autoreset: Any = AutoresetMode.NEXT_STEP, **kwargs: Any) -> Any:
    """Two envs in a vector."""
    envs: Any = gymnasium.make_vec(
        env_id,
        num_envs=2,
        vectorization_mode=mode.partition(",")[0],
        vector_kwargs={"autoreset_mode": autoreset, **MODES[mode]},
        **kwargs,
    )
    try:
        yield envs
    finally:
        envs.close()


def plain(infos: Any) -> Any:
    if isinstance(infos, dict):
        return {name: plain(value) for name, value in infos.items()}
    return to_plain(infos.tolist())


def heard(result: Any) -> Any:
    """A step's outcome as plain values."""
    texts, rewards, terminated, truncated, infos = result
    return tuple(texts), rewards.tolist(), terminated.tolist(), truncated.tolist(), plain(infos)


def transcript(env_id: str, mode: str, autoreset: AutoresetMode) -> list[Any]:
    """What two envs say to a script, each starting at another line of it."""
    script = SCRIPTS[env_id]
    with vector(env_id, mode, autoreset, fault_rate=FAULTS, max_turns=5) as envs:
        texts, infos = envs.reset(seed=3)
        out: list[Any] = [(tuple(texts), plain(infos))]
        for turn in range(12):
            result = envs.step(tuple(script[(turn + k * 3) % len(script)] for k in range(2)))
            assert tuple(result[0]) in envs.observation_space
            out.append(heard(result))
            ended = result[2] | result[3]
            if autoreset == AutoresetMode.DISABLED and ended.any():
                texts, infos = envs.reset(options={"reset_mask": ended})
                out.append((tuple(texts), plain(infos)))
        return out


@pytest.mark.parametrize("autoreset", AutoresetMode)
@pytest.mark.parametrize("env_id", SCRIPTS)
def test_the_same_transcript_in_every_mode(env_id: str, autoreset: AutoresetMode) -> None:
    expected = transcript(env_id, "sync", autoreset)
    steps = [step for step in expected if len(step) == 5]
    assert any(True in step[2] for step in steps), "an episode ended"
    assert any(step[4]["calls"] != [[], []] for step in steps if "calls" in step[4])
    for mode in MODES:
        if mode != "async, spawn" or env_id == SAY:
            assert transcript(env_id, mode, autoreset) == expected, mode


def test_the_script_says_what_is_hard_to_carry() -> None:
    said = "".join(t for step in transcript(SAY, "async", AutoresetMode.NEXT_STEP) for t in step[0])
    for text in ("naïve\n中文 😀", "<tool_response>\n\n</tool_response>", "Sag's", "é" * 9000):
        assert text in said
    assert "\ud800" not in said


def test_final_info_of_same_step_is_the_final_one() -> None:
    for mode in ("sync", "async"):
        with vector(SAY, mode, AutoresetMode.SAME_STEP) as envs:
            _, first = envs.reset(seed=1)
            envs.step((call("say", text="a"), call("say", text="b")))
            texts, rewards, terminated, _, infos = envs.step(("wrong", call("all")))
            assert terminated.tolist() == [True, False]
            final = infos["final_info"]
            assert final["task_id"][0] == first["task_id"][0] and final["turn"][0] == 2
            assert final["end_reason"][0] == "answer" and final["verdict"][0].passed is False
            assert (infos["turn"].tolist(), infos["verdict"].tolist()) == ([0, 2], [None, None])
            assert infos["end_reason"].tolist() == [None, None]
            assert "Sag's" in texts[0] and infos["final_obs"][0] == ""


BRANCHING = [(mode, autoreset) for mode in MODES for autoreset in AutoresetMode]
BRANCHING = [b for b in BRANCHING if b[0] != "async, spawn" or b[1] == AutoresetMode.NEXT_STEP]


@pytest.mark.parametrize("mode, autoreset", BRANCHING)
def test_snapshots_through_call(mode: str, autoreset: AutoresetMode) -> None:
    with vector(SAY, mode, autoreset, fault_rate=FAULTS, max_turns=50) as envs:
        envs.reset(seed=5)
        envs.step((call("say", text="é"), call("say", text="b")))
        kept = envs.call("snapshot")
        assert [s.turn for s in kept] == [1, 1] and kept[0].owner != kept[1].owner
        assert kept[0].env_id == "test/Say-v0"
        detour = [(call("say", text=t), call("all")) for t in ("12", "34", "")]
        first = [heard(envs.step(turn)) for turn in detour]
        words = envs.call("rollback", kept)
        assert [info["turn"] for _, info in words] == [1, 1]
        assert [heard(envs.step(turn)) for turn in detour] == first
        envs.call("rollback", pickle.loads(pickle.dumps(kept[::-1])), seed=9)
        other = [heard(envs.step(turn)) for turn in detour]
        envs.call("rollback", kept, seed=9)
        assert [heard(envs.step(turn)) for turn in detour] == other != first
        envs.call("release", *kept)
        history = envs.call("history")
        assert [len(h["moves"]) for h in history] == [5, 5]


@pytest.mark.parametrize(
    "mode, autoreset",
    [
        ("sync", AutoresetMode.SAME_STEP),
        ("async", AutoresetMode.SAME_STEP),
        ("async", AutoresetMode.DISABLED),
    ],
)
def test_back_from_an_episode_that_ended(mode: str, autoreset: AutoresetMode) -> None:
    with vector(SAY, mode, autoreset) as envs:
        _, start = envs.reset(seed=5)
        kept = envs.call("snapshot")
        assert envs.step(("wrong", "wrong"))[2].all()
        envs.call("rollback", kept)
        _, _, _, _, infos = envs.step((call("say", text="x"), call("all")))
        assert infos["turn"].tolist() == [1, 1]
        assert infos["task_id"].tolist() == start["task_id"].tolist()


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_a_refusal_that_is_marked_leaves_the_vector_alive(mode: str) -> None:
    with vector(SAY, mode) as envs:
        envs.reset(seed=5)
        envs.step((call("say", text="shy"), call("say", text="bold")))
        marked, kept = envs.call("snapshot", on_refusal="mark")
        assert (marked.refused, kept.refused) == ("a shy state", None)
        assert envs.step((call("all"), call("all")))[4]["turn"].tolist() == [2, 2]


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_arguments_of_make_vec_hold_through_autoresets(mode: str) -> None:
    with vector(SAY, mode, split="heldout", max_turns=2, tool_docs=False) as envs:
        texts, infos = envs.reset(seed=1, options={"split": "train"})
        assert all(task.startswith("train/") for task in infos["task_id"])
        assert all(text.startswith("Sag's: train") for text in texts)
        seen = []
        for _ in range(9):
            *_, truncated, infos = envs.step(("<think>", "<think>"))
            seen += [t for t, turn in zip(infos["task_id"], infos["turn"], strict=True) if not turn]
            assert truncated.tolist() == [turn == 2 for turn in infos["turn"]]
        assert len(seen) == 6 and all(task.startswith("heldout/") for task in seen)
        assert len(set(seen)) > 1


@pytest.mark.parametrize("env_id", SCRIPTS)
def test_a_spec_makes_an_equal_env_and_travels(env_id: str) -> None:
    env = gymnasium.make(env_id, fault_rate=FAULTS, split="heldout", max_turns=3).unwrapped
    assert isinstance(env, ToolEnv) and env.spec is not None
    wired = EnvSpec.from_json(env.spec.to_json())
    assert wired == env.spec == pickle.loads(pickle.dumps(env.spec))
    twin = gymnasium.make(wired).unwrapped
    assert isinstance(twin, ToolEnv) and twin.spec == env.spec
    assert play(env, 7, env_id) == play(twin, 7, env_id)
    vectors: Any = gymnasium.make_vec(env.spec, num_envs=2)
    assert {env.tasks[t].split for t in vectors.reset(seed=7)[1]["task_id"]} == {"heldout"}
    vectors.close()


def play(env: ToolEnv, seed: int, env_id: str) -> list[Any]:
    return list(playing(env, seed, env_id))


def playing(env: ToolEnv, seed: int, env_id: str) -> Iterator[Any]:
    yield env.reset(seed=seed)
    for text in SCRIPTS[env_id] * 2:
        yield to_plain(list(env.step(text)))
        if env.ended:
            yield env.reset()


@pytest.mark.parametrize("env_id", SCRIPTS)
def test_interleaved_envs_leave_each_other_and_the_global_generators_alone(env_id: str) -> None:
    def make() -> ToolEnv:
        env = gymnasium.make(env_id, fault_rate=FAULTS).unwrapped
        assert isinstance(env, ToolEnv)
        return env

    before = random.getstate(), str(np.random.get_state())
    alone = [play(make(), seed, env_id) for seed in (1, 2, 3)]
    turns = zip(*(playing(make(), seed, env_id) for seed in (1, 2, 3)), strict=False)
    together = [list(column) for column in zip(*turns, strict=True)]
    shortest = min(len(one) for one in alone)
    assert together == [one[:shortest] for one in alone]
    assert (random.getstate(), str(np.random.get_state())) == before
