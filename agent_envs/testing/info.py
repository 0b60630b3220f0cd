"""What every step returns: its form, and that the caller may do with it what he likes."""

import json
import random
from typing import Any

from agent_envs.env import ToolEnv
from agent_envs.plain import to_plain
from agent_envs.testing.play import FAULTS, Player, Subject, draw_call, explain, logged_errors
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


def info_has_its_form(subject: Subject) -> None:
    """The same keys on every step, fresh objects, JSON-able, components that sum to the reward."""
    env = subject.make(fault_rate=FAULTS)
    for seed in range(5):
        _, info = env.reset(seed=seed)
        _check_info(env, info, 0.0)
        assert info["messages"][-1]["role"] == "user", "reset ends its messages with the prompt"
        rng, player = random.Random(seed), Player(env)
        while not env.ended:
            _check_step(env, player.move(rng))
    env.close()


def _check_step(env: ToolEnv, result: Any) -> None:
    observation, reward, terminated, truncated, info = result
    assert isinstance(observation, str), f"an observation is a {type(observation).__name__}"
    assert env.observation_space.contains(observation), f"not in the space: {observation!r:.80}"
    assert type(reward) is float, f"the reward is a {type(reward).__name__}, not a float"
    assert not (terminated and truncated), "terminated and truncated are both true"
    _check_info(env, info, reward)
    for message in info["messages"]:
        assert message["content"] in observation, "a message says what the observation does not"
    verdict, reason = info["verdict"], info["end_reason"]
    if not (terminated or truncated):
        assert verdict is None, "a verdict before the end"
        assert reason is None, "an end_reason before the end"
        return
    assert reason in ("answer", "done", "max_turns"), f"end_reason {reason!r}"
    assert verdict.weights == env.weights, (
        f"grade() weighs by {verdict.weights}, the env by {env.weights}: give the verdict "
        "self.weights, else its total is not what was paid"
    )


def _check_info(env: ToolEnv, info: dict[str, Any], reward: float) -> None:
    assert info.keys() == INFO_KEYS, f"info has {sorted(info)}, not {sorted(INFO_KEYS)}"
    failed = info["infrastructure_error"]
    assert failed is None, (
        f"an episode broke: {explain(env, failed or '')}. A bug of the env, or something is down"
    )
    parts = info["reward_components"]
    assert tuple(parts) == env.components, f"reward components {tuple(parts)}: {env.components}"
    assert abs(sum(parts.values()) - reward) < 1e-9, f"components {parts} do not sum to {reward}"
    try:
        json.dumps(to_plain(info), allow_nan=False)
        json.dumps(info["messages"], ensure_ascii=False).encode()
    except (TypeError, ValueError) as error:
        raise AssertionError(f"info has no JSON form: {error}") from error


def tools_meet_no_bugs(subject: Subject) -> None:
    """No call that fits its schema makes a tool raise anything but ToolError and TimeoutError."""
    env = subject.make(max_turns=20)
    with logged_errors() as errors:
        for seed in range(10 if subject.quick else 4):
            env.reset(seed=seed)
            rng, player = random.Random(seed), Player(env)
            while not (env.ended or errors):
                player.move(rng)
            assert not errors, f"a bug in the env: {explain(env, errors[0])}"
    env.close()


def info_is_the_callers(subject: Subject) -> None:
    """What a caller does to an info dict, and to all that is in it, shows nowhere else."""
    env = subject.make(max_turns=8)
    rng = random.Random(1)
    info = env.reset(seed=1)[1]
    while True:
        snapshot = env.snapshot()
        before = to_plain(env.rollback(snapshot)[1])
        for spoiled in (info, env.rollback(snapshot)[1]):
            _spoil(spoiled)
        after = to_plain(env.rollback(snapshot)[1])
        assert after == before, "info shares objects between steps: make them anew each time"
        if env.ended:
            break
        calls = env.tools and env.turn % 2 == 0
        info = env.act([draw_call(env, rng)] if calls else Malformed("made up"))[4]
    env.close()


def _spoil(info: dict[str, Any]) -> None:
    """Change everything in an info dict that can be changed."""
    for call, result in info["calls"]:
        if call is not None:
            call.name = "spoiled"
            call.arguments.clear()
        result.content, result.error, result.truth = "spoiled", "limit", "spoiled"
    if info["verdict"] is not None:
        info["verdict"].passed = not info["verdict"].passed
        info["verdict"].components["spoiled"] = 9.0
        info["verdict"].weights.clear()
    for message in info["messages"]:
        message["content"] = "spoiled"
    for shared in (info["messages"], info["reward_components"], info["calls"], info):
        shared.clear()
