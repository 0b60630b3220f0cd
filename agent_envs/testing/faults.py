"""A faulty result: nobody can tell it from a sound one, and it does not give the truth away."""

import random
import re
from collections import defaultdict
from collections.abc import Iterator

from agent_envs.env import ToolEnv
from agent_envs.testing.play import Player, Subject
from agent_envs.turns import ToolCall, ToolResult


def faults_keep_the_form(subject: Subject) -> None:
    """`corrupt` is a pure function that keeps the form of a result and hides what it was."""
    sound: defaultdict[str, set[str]] = defaultdict(set)
    env = subject.make(max_turns=50)
    for call, result in _results(env):
        sound[call.name] |= _kinds(result.content)
    env.close()
    env = subject.make(fault_rate={"wrong": 0.6, "truncated": 0.4}, max_turns=50)
    for call, result in _results(env):
        if result.fault is not None:
            _check(env, call, result, sound[call.name])
    env.close()


def _results(env: ToolEnv) -> Iterator[tuple[ToolCall, ToolResult]]:
    """What comes of the calls that work out, in some drawn episodes."""
    for seed in range(20):
        env.reset(seed=seed)
        rng, player = random.Random(seed), Player(env)
        for _ in range(8):
            if not env.ended:
                info = player.move(rng)[4]
                failed = info["infrastructure_error"]
                assert failed is None, f"corrupt() or a tool broke an episode: {failed}"
                yield from (pair for pair in info["calls"] if pair[0] and pair[1].error is None)


def _check(env: ToolEnv, call: ToolCall, result: ToolResult, sound: set[str]) -> None:
    truth, shown = str(result.truth), result.content
    for u in (0.0, 0.3, 0.999):
        spoiled = [env.corrupt(result.fault or "wrong", call, truth, u) for _ in range(2)]
        assert type(spoiled[0]) is str, f"corrupt() gives a {type(spoiled[0]).__name__}, not a text"
        assert spoiled[0] == spoiled[1], "corrupt() must depend on its arguments alone"
    if result.fault == "wrong":
        assert not re.search(rf"(?<![\w.-]){re.escape(truth)}(?![\w.])", shown), (
            f"a wrong result gives the right one away: {shown!r:.80} for {truth!r:.80}"
        )
    odd = sorted(_kinds(shown) - _kinds(truth) - sound)
    assert not odd, (
        f"a {result.fault} result has {odd}, which no sound one of {call.name} had, and so is told "
        f"by its form: {shown!r:.80} for {truth!r:.80}"
    )


def _kinds(text: str) -> set[str]:
    """What kinds of characters a text has: letters, digits, and every other one for itself."""
    return {"letters" if c.isalpha() else "digits" if c.isdigit() else c for c in text}
