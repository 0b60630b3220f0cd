"""Texts and arguments that no schema foresees: never an exception, never a success."""

import json
import random
from typing import Any

from agent_envs.env import ToolEnv
from agent_envs.plain import to_plain
from agent_envs.testing.earnings import GOLD
from agent_envs.testing.play import Subject, explain, logged_errors
from agent_envs.turns import ToolCall

_PIECES = (
    "<tool_call>", "</tool_call>", "<think>", "</think>", "```", "|", "B", "{", "}", '"name"',
    '"arguments"', ":", ",", "[", "]", "\\ud800", "\\u0000", "null", "NaN", "1e999", "-", "9" * 40,
    " ", "\n", "\x00", "\ud800", "\u202e", "é", "中", "😀", "'", '"', "\\", "%s", "{{}}", "${x}",
)  # fmt: skip

_VALUES: tuple[Any, ...] = (
    "", " ", "\x00", "\ud800", "\u202e" * 3, "x" * 1_000_000, "(" * 10_000, "9" * 5_000, "-0",
    "1e999", "nan", "__import__('os').system('id')", "'; DROP TABLE t; --", "../../etc/passwd",
    0, -1, 10**400, 1.5, float("inf"), float("nan"), True, None, [], {}, [[[[]]]], {"a": {"b": []}},
)  # fmt: skip


_ANSWERS = (
    "²", "٣", "１２", "½", "0x10", "1e5", "1_0", "-", "+", ".", "nan", "inf", "None", "null",
    "true", "[]", "{}", '""', "[" * 5_000, "9" * 5_000, "x" * 1_000_000, "\\", "%s", "\ud800",
    "\x00", " ",
)  # fmt: skip


def survives_hostile_texts(subject: Subject) -> None:
    """Random texts, odd answers, and JSON that breaks parsers, as turns of every kind."""
    env = subject.make(max_turns=10**9, max_calls=10**9)
    env.reset(seed=1)
    rng = random.Random(1)
    texts = [
        "".join(rng.choices(_PIECES, k=rng.randrange(12)))
        for _ in range(500 if subject.quick else 100)
    ]
    texts += [f"<tool_call>{body}</tool_call>" for body in _bodies(env)]
    texts += [body + "|" for body in _bodies(env)]
    with logged_errors() as errors:
        for text in texts:
            _survive(env, text)
            assert not errors, f"the turn {text[:80]!r} met a bug: {errors[0]}"
        for text in _ANSWERS:
            _survive(env, text, answer=True)
    env.close()


def survives_hostile_arguments(subject: Subject) -> None:
    """Values of every kind for every parameter of every tool, past the protocol."""
    env = subject.make(max_turns=10**9, max_calls=10**9)
    env.reset(seed=1)
    rng = random.Random(2)
    with logged_errors() as errors:
        for tool in env.tools.values():
            for value in _VALUES:
                for _ in range(2):
                    arguments = {name: rng.choice(_VALUES) for name in tool.params}
                    if tool.params:
                        arguments[rng.choice(list(tool.params))] = value
                    _survive(env, ToolCall(tool.name, arguments))
                    shown = str(arguments)[:80]
                    assert not errors, f"{tool.name}({shown}) met a bug: {errors[0]}"
    for name in ("", "\ud800", "step", "__init__", "x" * 1_000_000):
        _survive(env, ToolCall(name, {}))
    env.close()


def _survive(env: ToolEnv, turn: str | ToolCall, *, answer: bool = False) -> None:
    """One hostile turn: an observation in the space, no success; a new episode after its end."""
    if isinstance(turn, ToolCall):
        result = env.act([turn])
    else:
        result = env.act(turn) if answer else env.step(turn)
    observation, reward, terminated, truncated, info = result
    shown = repr(turn)[:80]
    assert env.observation_space.contains(observation), f"{shown}: observation not in the space"
    failed = info["infrastructure_error"]
    assert failed is None, (
        f"{shown} broke the episode: {explain(env, failed or '')}; a bug in grade() or a tool?"
    )
    json.dumps(info["messages"], ensure_ascii=False).encode()
    to_plain(info)
    if terminated or truncated:
        assert not info["verdict"].passed, f"the turn {shown} passed the task"
        assert reward < GOLD, f"the turn {shown} is paid {reward:g}, as much as solving the task"
        env.reset()


def _bodies(env: ToolEnv) -> list[str]:
    """JSON bodies of a tool call that are wrong in one way each."""
    bodies = [
        "", "{", "[]", "null", '"x"', "1" * 5_000, "1e999", "NaN", "[" * 200_000, '{"a":' * 50_000,
        '{"name": null, "arguments": {}}', '{"name": [], "arguments": 1}', '{"arguments": {}}',
        '{"name": "\\ud800", "arguments": {}}', '{"name": "x", "name": "y", "arguments": {}}',
    ]  # fmt: skip
    for tool in env.tools.values():
        name = json.dumps(tool.name)
        bodies += [f'{{"name": {name}}}', f'{{"name": {name}, "arguments": "{{}}"}}']
        for parameter in tool.params:
            key = json.dumps(parameter)
            for value in ('"\\ud800"', "1e999", "NaN", "1" * 5_000, "[" * 900 + "]" * 900, "null"):
                bodies.append(f'{{"name": {name}, "arguments": {{{key}: {value}}}}}')
            bodies.append(f'{{"name": {name}, "arguments": {{{key}: {json.dumps("y" * 10**6)}}}}}')
    return bodies
