"""A faulty result: nobody can tell it from a sound one, and it does not give the truth away."""

import random
import re

from agent_envs.env import ToolEnv
from agent_envs.testing.play import Player, Subject
from agent_envs.turns import ToolCall, ToolResult


def faults_keep_the_form(subject: Subject) -> None:
    """`corrupt` is a pure function that keeps the form of a result and hides what it was."""
    env = subject.make(fault_rate={"wrong": 0.6, "truncated": 0.4}, max_turns=50)
    for seed in range(20):
        env.reset(seed=seed)
        rng, player = random.Random(seed), Player(env)
        for _ in range(8):
            if not env.ended:
                for call, result in player.move(rng)[4]["calls"]:
                    if call is not None and result.fault is not None:
                        _check(env, call, result)
    env.close()


def _check(env: ToolEnv, call: ToolCall, result: ToolResult) -> None:
    truth, shown = str(result.truth), result.content
    for u in (0.0, 0.3, 0.999):
        spoiled = [env.corrupt(result.fault or "wrong", call, truth, u) for _ in range(2)]
        assert type(spoiled[0]) is str, f"corrupt() gives a {type(spoiled[0]).__name__}, not a text"
        assert spoiled[0] == spoiled[1], "corrupt() must depend on its arguments alone"
    if result.fault == "wrong":
        assert not re.search(rf"(?<![\w.-]){re.escape(truth)}(?![\w.])", shown), (
            f"a wrong result gives the right one away: {shown!r:.80} for {truth!r:.80}"
        )
    odd = sorted(_kinds(shown) - _kinds(truth))
    assert not odd, (
        f"a {result.fault} result has {odd}, which the sound one has not, and so is told by its "
        f"form: {shown!r:.80} for {truth!r:.80}"
    )


def _kinds(text: str) -> set[str]:
    """What kinds of characters a text has: letters, digits, and every other one for itself."""
    return {"letters" if c.isalpha() else "digits" if c.isdigit() else c for c in text}
