"""This package, in the same places as its peers, and the parts of a turn one by one."""

import importlib
import json
from collections.abc import Callable
from typing import cast

import gymnasium

from agent_envs import FaultModel, ToolCall, ToolEnv

Measure = Callable[[int], int]

SUMS = [f"{10 + 7 * i % 90}+{10 + 11 * i % 90}" for i in range(100)]


def make(env_id: str) -> ToolEnv:
    """An env whose episodes have at most five turns, as those of SkyRL-Gym."""
    return cast(ToolEnv, gymnasium.make(env_id, max_turns=5))


def chars(expression: str) -> str:
    """A turn that calls the calculator, in the protocol `chars`."""
    return f"B{expression}|"


def hermes(expression: str) -> str:
    """The same in the protocol `hermes`."""
    call = {"name": "calculate", "arguments": {"expression": expression}}
    return f"<tool_call>{json.dumps(call)}</tool_call>"


def steps(env: ToolEnv, write: Callable[[str], str], end: str, calls: int = 4) -> Measure:
    """Episodes of a reset, so many calls and the right answer; a unit is a step."""
    turns = [[write(e) for e in SUMS[i : i + calls]] for i in range(0, len(SUMS), calls)]

    def run(count: int) -> int:
        episodes = -(-count // (calls + 1))
        for i in range(episodes):
            env.reset()
            for text in turns[i % len(turns)]:
                env.step(text)
            env.step(env.task.data["answer"] + end)
        return (calls + 1) * episodes

    run(1)
    verdict = env.finish()
    if not (verdict and verdict.passed and env.turn == calls + 1):
        raise RuntimeError(f"an episode of {calls} calls and the right answer does not pass")
    return run


def snapshots(env: ToolEnv, call: ToolCall) -> Measure:
    """After two calls: snapshot, rollback, release; a unit is all three."""
    env.reset(seed=0)
    for _ in range(2):
        if env.call(call).error:
            raise RuntimeError(f"{call} does not work any more: adapt this file")

    def run(count: int) -> int:
        for _ in range(count):
            snapshot = env.snapshot()
            env.rollback(snapshot)
            env.release(snapshot)
        return count

    return run


def resets(env: ToolEnv) -> Measure:
    """Resets with a seed; a unit is one."""

    def run(count: int) -> int:
        for seed in range(count):
            env.reset(seed=seed)
        return count

    return run


def episodes(env: ToolEnv) -> Measure:
    """A reset and the right answer, graded; a unit is both."""

    def run(count: int) -> int:
        for seed in range(count):
            env.reset(seed=seed)
            env.step(env.task.data["answer"])
        return count

    return run


def repeat(call: Callable[[int], object]) -> Measure:
    """`call` with 0, 1, 2, ...; a unit is one call."""

    def run(count: int) -> int:
        for i in range(count):
            call(i)
        return count

    return run


def four_turns(env: ToolEnv, turns: list[str]) -> Measure:
    """A reset and four turns with a call; a unit is all of it."""

    def run(count: int) -> int:
        for i in range(count):
            env.reset()
            for text in turns[4 * i % 100 : 4 * i % 100 + 4]:
                env.step(text)
        return count

    return run


def parts(env_id: str, write: Callable[[str], str]) -> dict[str, Measure]:
    """What an episode is made of, through public names only; a unit is one of each."""
    env = make(env_id)
    env.reset(seed=0)
    turns, protocol, tool = [write(e) for e in SUMS], env.protocol, env.tools["calculate"]
    call = ToolCall("calculate", {"expression": SUMS[0]})
    results = [env.call(call)]
    return {
        "reset": repeat(lambda i: env.reset()),
        "reset and four turns": four_turns(env, turns),
        "parse": repeat(lambda i: protocol.parse(turns[i % 100])),
        "check": repeat(lambda i: tool.problem(call.arguments)),
        "run": repeat(lambda i: tool.fn(env, SUMS[i % 100])),
        "observation": repeat(lambda i: protocol.say([call], results)),
        "messages": repeat(lambda i: protocol.messages([call], results)),
    }


def measures() -> dict[str, Measure]:
    """All of them, by name."""
    importlib.import_module("bank_env")
    calculate = ToolCall("calculate", {"expression": "23+45"})
    transfer = ToolCall("transfer", {"source": "ada", "target": "bob", "amount": 100})
    by_chars = parts("agent/CalculatorChars-v0", chars)
    by_hermes = parts("agent/Calculator-v0", hermes)
    faults = FaultModel(0.3)
    return {
        "chars steps": steps(make("agent/CalculatorChars-v0"), chars, "|"),
        "chars steps, two turns": steps(make("agent/CalculatorChars-v0"), chars, "|", calls=1),
        "hermes steps": steps(make("agent/Calculator-v0"), hermes, ""),
        "calculator snapshots": snapshots(make("agent/Calculator-v0"), calculate),
        "bank snapshots": snapshots(make("mine/Bank-v0"), transfer),
        "resets": resets(make("agent/Calculator-v0")),
        "episodes": episodes(make("agent/Calculator-v0")),
        "fault draw": repeat(lambda i: faults.pick(7, i)),
        "nothing": repeat(lambda i: None),
        **{f"chars: {name}": measure for name, measure in by_chars.items()},
        **{f"hermes: {name}": measure for name, measure in by_hermes.items()},
    }


MEASURES = measures()
