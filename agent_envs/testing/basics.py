"""Checks of one env at a time: Gymnasium's contract, info, seeds, limits, vectors."""

import json
import os
import pickle
import random
import subprocess
import sys
import warnings
from typing import Any

import gymnasium
import numpy as np
from gymnasium.envs.registration import EnvSpec
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env

from agent_envs.env import ToolEnv
from agent_envs.plain import to_plain
from agent_envs.testing.play import FAULTS, Player, Subject, draw_call, said
from agent_envs.turns import Malformed

INFO_KEYS = {
    "task_id",
    "turn",
    "calls",
    "reward_components",
    "messages",
    "verdict",
    "end_reason",
    "infrastructure_error",
}


def passes_gymnasiums_own_check(subject: Subject) -> None:
    """`gymnasium.utils.env_checker.check_env`, with its warnings taken seriously."""
    env = subject.make(fault_rate=FAULTS)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        check_env(env)
    assert not caught, f"check_env warns: {caught[0].message}"


def spec_survives_json_and_pickle(subject: Subject) -> None:
    """An env made from its spec, through JSON and pickle, is equal to the first."""
    env = subject.make(fault_rate=FAULTS, max_turns=9)
    if env.spec is None:
        return
    try:
        again = EnvSpec.from_json(env.spec.to_json())
    except (TypeError, ValueError) as error:
        raise AssertionError(f"spec.to_json: every argument needs a JSON form: {error}") from None
    assert again == env.spec, "EnvSpec.from_json(spec.to_json()) is another spec"
    assert pickle.loads(pickle.dumps(env.spec)) == env.spec, "the spec does not survive pickling"
    twin = gymnasium.make(again).unwrapped
    assert isinstance(twin, ToolEnv)
    first, second = _episode(env, 3), _episode(twin, 3)
    assert first == second, "an env made from the JSON of its spec plays otherwise"
    env.close()
    twin.close()


def info_has_its_form(subject: Subject) -> None:
    """The same keys on every step, fresh objects, JSON-able, components that sum to the reward."""
    env = subject.make(fault_rate=FAULTS)
    _, info = env.reset(seed=1)
    _check_info(env, info, 0.0)
    assert info["messages"][-1]["role"] == "user", "reset ends its messages with the user's prompt"
    rng, player = random.Random(1), Player(env, info)
    while not env.ended:
        observation, reward, terminated, truncated, info = player.move(rng)
        assert isinstance(observation, str) and env.observation_space.contains(observation)
        assert type(reward) is float, f"the reward is a {type(reward).__name__}, not a float"
        assert not (terminated and truncated), "terminated and truncated are both true"
        _check_info(env, info, reward)
        for message in info["messages"]:
            assert message["content"] in observation, "a message says what the observation does not"
        if not (terminated or truncated):
            assert info["verdict"] is None, "a verdict before the end"
            assert info["end_reason"] is None, "an end_reason before the end"
    assert info["end_reason"] in ("answer", "done", "max_turns"), info["end_reason"]
    snapshot = env.snapshot()
    before = to_plain(env.rollback(snapshot)[1])
    spoiled = env.rollback(snapshot)[1]
    spoiled["messages"].append("x")
    spoiled["reward_components"].clear()
    spoiled.clear()
    assert to_plain(env.rollback(snapshot)[1]) == before, "info shares objects between steps"
    env.close()


def _check_info(env: ToolEnv, info: dict[str, Any], reward: float) -> None:
    assert info.keys() == INFO_KEYS, f"info has {sorted(info)}, not {sorted(INFO_KEYS)}"
    parts = info["reward_components"]
    assert tuple(parts) == env.components, f"reward components {tuple(parts)}: {env.components}"
    assert abs(sum(parts.values()) - reward) < 1e-9, f"components {parts} do not sum to {reward}"
    assert info["infrastructure_error"] is None, info["infrastructure_error"]
    json.dumps(to_plain(info), allow_nan=False)
    json.dumps(info["messages"], ensure_ascii=False).encode()


def same_seed_same_bytes(subject: Subject) -> None:
    """The same seed and moves give the same episode, and so do all that follow it."""
    one, two = subject.make(fault_rate=FAULTS), subject.make(fault_rate=FAULTS)
    for env in (one, two):
        env.reset(seed=99)
    two.reset()
    assert _episode(one, 5, 3) == _episode(two, 5, 3), "the same seed gave another episode"
    one.close()
    two.close()


def same_bytes_in_another_process(subject: Subject) -> None:
    """A fresh interpreter with another hash seed plays the same episode."""
    env = subject.make(fault_rate=FAULTS)
    if env.spec is None or not isinstance(env.spec.entry_point, str):
        return
    here = _episode(env, 5, 2)
    environment = os.environ | {"PYTHONHASHSEED": "12345", "PYTHONPATH": os.pathsep.join(sys.path)}
    script = "from agent_envs.testing.basics import _there; _there()"
    ran = subprocess.run(
        [sys.executable, "-c", script],
        input=env.spec.to_json(),
        env=environment,
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, f"the env cannot be made in another process: {ran.stderr[-800:]}"
    assert json.loads(ran.stdout) == json.loads(json.dumps(here)), (
        "another process plays otherwise: something depends on hash(), id(), the clock or the system"
    )
    env.close()


def _there() -> None:
    env = gymnasium.make(EnvSpec.from_json(sys.stdin.read())).unwrapped
    assert isinstance(env, ToolEnv)
    print(json.dumps(_episode(env, 5, 2)))


def seed_moves_only_noise(subject: Subject) -> None:
    """With a task given, another seed opens the same; without, seeds spread over the tasks."""
    env = subject.make()
    pool = env.tasks.split(env.split, env.level)
    task = pool[len(pool) // 2]
    openings = {env.reset(seed=s, options={"task": task.id})[0] for s in range(5)}
    assert len(openings) == 1, "the seed changes the prompt of a given task"
    if len(pool) > 10:
        drawn = {env.reset(seed=s)[1]["task_id"] for s in range(20)}
        assert len(drawn) > 3, "seeds 0 to 19 draw three tasks or fewer"
        series = [env.reset(seed=1 if i == 0 else None)[1]["task_id"] for i in range(20)]
        assert len(set(series)) > 3, "reset() without a seed hardly changes the task"
    env.close()


def leaves_global_random_state_alone(subject: Subject) -> None:
    """`random` and `numpy.random` are the trainer's."""
    before = (random.getstate(), pickle.dumps(np.random.get_state()))
    env = subject.make(fault_rate=FAULTS)
    _episode(env, 11)
    env.close()
    after = (random.getstate(), pickle.dumps(np.random.get_state()))
    assert before == after, "an episode drew from the global generator: use env.rng(stream)"


def interleaved_envs_do_not_disturb(subject: Subject) -> None:
    """Two envs stepped in turns say what each says alone."""
    alone = [_episode(subject.make(fault_rate=FAULTS), seed) for seed in (21, 22)]
    envs = [subject.make(fault_rate=FAULTS) for _ in range(2)]
    players, together = [], []
    for env, seed in zip(envs, (21, 22), strict=True):
        observation, info = env.reset(seed=seed)
        players.append((Player(env, info), random.Random(seed)))
        together.append([observation])
    while not all(env.ended for env in envs):
        for (player, rng), out in zip(players, together, strict=True):
            if not player.env.ended:
                out.append(said(player.move(rng)))
    for env in envs:
        env.close()
    assert together == alone, "two envs in one process disturb each other: shared state in a class?"


def limits_hold(subject: Subject) -> None:
    """`max_turns` truncates with a grade, `max_calls` refuses calls, the end is final."""
    env = subject.make(max_turns=3, max_calls=1)
    env.reset(seed=1)
    rng = random.Random(1)
    if env.tools:
        env.act([draw_call(env, rng)])
        if not env.ended:
            result = env.act([draw_call(env, rng)])[4]["calls"][0][1]
            assert result.error == "limit", "a call over max_calls ran"
    while not env.ended:
        _, _, terminated, truncated, info = env.act(Malformed("made up"))
    assert truncated and not terminated and info["end_reason"] == "max_turns", "turn limit"
    assert info["verdict"] is not None, "an episode that ends by max_turns is graded"
    assert env.finish("late") == info["verdict"], "finish after the end gives that verdict"
    try:
        env.step("more")
    except ResetNeeded:
        env.close()
        return
    raise AssertionError("a step after the end must raise ResetNeeded")


def vectors_agree(subject: Subject) -> None:
    """Sync and async vectors, with snapshots through `call`, give the same transcript."""
    spec = subject.make().spec
    if spec is None or not isinstance(spec.entry_point, str):
        return
    one, two = (_vector(spec, mode) for mode in ("sync", "async"))
    assert one == two, "sync and async vectors say different things"


def _vector(spec: EnvSpec, mode: str) -> list[Any]:
    vector: Any = gymnasium.make_vec(spec, num_envs=2, vectorization_mode=mode, fault_rate=FAULTS)
    try:
        out = [str(tuple(vector.reset(seed=4)[0]))]
        snapshots = vector.call("snapshot")
        for texts in (("<think>", "\u00e9|"), ("B1+1|", "an answer")):
            out.append(str(tuple(vector.step(texts)[0])))
        vector.call("rollback", snapshots)
        out.append(str(tuple(vector.step(("", "\u4e2d\n"))[0])))
        return out
    finally:
        vector.close()


def _episode(env: ToolEnv, seed: int, episodes: int = 1) -> list[Any]:
    out: list[Any] = []
    for number in range(episodes):
        observation, info = env.reset(seed=None if number else seed)
        out.append(observation)
        rng, player = random.Random(seed + number), Player(env, info)
        while not env.ended:
            out.append(said(player.move(rng)))
    return out
