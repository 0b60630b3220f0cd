"""Whatever a model writes: no exception, never a success, and an observation in the space."""

import json
import random
from typing import Any

import gymnasium
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import agent_envs
from agent_envs import Action, ToolCall, ToolEnv
from agent_envs.plain import to_plain
from agent_envs.rollout import move_of
from agent_envs.testing.play import logged_errors

IDS = [env_id for env_id in agent_envs.ids() if env_id.startswith("agent/")]
IDS += ["bank_env:mine/Bank-v0", "planted_envs:planted/Ledger-v0"]
ENDLESS: dict[str, Any] = {"max_turns": 10**9, "max_calls": 10**9}


PLAIN = IDS[-2:]
"""Not `inline`, since `rollout` is to use threads for some; quick all the same."""


def is_quick(env_id: str, env: ToolEnv) -> bool:
    """Whether its steps take microseconds; the others get a part of the texts and values."""
    return env_id in PLAIN or bool(vars(type(env)).get("inline", False))


every_id = pytest.mark.parametrize("env_id", IDS)


def make(env_id: str, **kwargs: Any) -> ToolEnv:
    env = gymnasium.make(env_id, **ENDLESS, **kwargs).unwrapped
    assert isinstance(env, ToolEnv)
    env.reset(seed=1)
    return env


def survive(env: ToolEnv, turn: Any) -> dict[str, Any]:
    """Play a text, or native calls, and hold the outcome against every promise."""
    result = env.step(turn) if isinstance(turn, str) else env.act(turn)
    observation, reward, terminated, truncated, info = result
    assert observation in env.observation_space
    assert info["infrastructure_error"] is None
    assert reward <= 0.0 and not truncated
    for message in info["messages"]:
        json.dumps(message, ensure_ascii=False).encode()
        assert message["content"] in observation
    json.dumps(to_plain(info), allow_nan=False)
    if terminated:
        assert info["end_reason"] == "answer" and info["verdict"].passed is False
        env.reset()
    return info


PIECES = [
    *"{}[]()<>|\"'\\:,.+-*/%0123456789eE \n\t\0",
    *("<tool_call>", "</tool_call>", "<think>", "</think>", "```", "```json\n", "<tool_response>"),
    *(
        '{"name": ',
        '"arguments": ',
        "null",
        "true",
        "NaN",
        "Infinity",
        "1e999",
        "\\u0000",
        "\\ud800",
    ),
    *(
        "\ud800",
        "\udfff",
        "\u202e",
        "\ufeff",
        "\u2028",
        "é",
        "e\u0301",
        "中",
        "😀",
        "👨\u200d👩\u200d👧",
    ),
    *(
        "9" * 50,
        "x" * 3000,
        "(" * 300,
        "B",
        "68|",
        "__import__('os')",
        "; DROP TABLE t; --",
        "%s%n",
    ),
]


def random_text(rng: random.Random, names: list[str]) -> str:
    """Up to fifteen pieces, some of them the names of tools and parameters."""
    pieces = rng.choices([*PIECES, *names], k=rng.randrange(16))
    text = "".join(pieces)
    return f"<tool_call>{text}</tool_call>" if rng.random() < 0.3 else text


@every_id
def test_many_random_texts(env_id: str) -> None:
    env, rng = make(env_id), random.Random(env_id)
    names = [json.dumps(n) for tool in env.tools.values() for n in (tool.name, *tool.params)]
    errors = set()
    with logged_errors() as logged:
        for _ in range(10_000 if is_quick(env_id, env) else 200):
            info = survive(env, random_text(rng, names))
            errors |= {result.error for _, result in info["calls"]}
    assert logged == [] and "parse" in errors


# -- hostile JSON ----------------------------------------------------------------------------------

DEEP = 200_000
BODIES = {
    "nothing": "",
    "no JSON": "hello",
    "unfinished": '{"name": "',
    "two values": "{} {}",
    "trailing comma": '{"name": "x",}',
    "single quotes": "{'name': 'x', 'arguments': {}}",
    "comment": '{"name": "x" /* y */}',
    "byte order mark": "\ufeff{}",
    "array": "[]",
    "number": "68",
    "string": '"68"',
    "null": "null",
    "no name": '{"arguments": {}}',
    "name is null": '{"name": null, "arguments": {}}',
    "name is a number": '{"name": 7, "arguments": {}}',
    "name is an array": '{"name": [], "arguments": {}}',
    "name is empty": '{"name": "", "arguments": {}}',
    "name is a surrogate": '{"name": "\\ud800", "arguments": {}}',
    "name is a raw surrogate": '{"name": "\udc00", "arguments": {}}',
    "name is a NUL": '{"name": "\\u0000", "arguments": {}}',
    "name is a megabyte": json.dumps({"name": "x" * 10**6, "arguments": {}}),
    "name is an attribute": '{"name": "close", "arguments": {}}',
    "name is private": '{"name": "__class__", "arguments": {}}',
    "name stands twice": '{"name": "x", "name": "y", "arguments": {}}',
    "a key too many": '{"name": "x", "arguments": {}, "role": "system"}',
    "deep arrays": "[" * DEEP,
    "deep objects": '{"a":' * DEEP,
    "deep and closed": "[" * DEEP + "]" * DEEP,
    "5,000 digits": "9" * 5000,
    "a megabyte of blanks": " " * 10**6,
}
VALUES = {
    "null": "null",
    "true": "true",
    "a number": "-1",
    "a fraction": "0.1",
    "minus zero": "-0",
    "NaN": "NaN",
    "infinity": "-Infinity",
    "too large": "1e999",
    "5,000 digits": "9" * 5000,
    "300 digits": "9" * 300,
    "hexadecimal": "0x10",
    "a lone surrogate": '"\\ud800"',
    "two wrong surrogates": '"\\udc00\\ud800"',
    "a raw surrogate": '"\udc00"',
    "a pair of surrogates": '"\\ud83d\\ude00"',
    "a NUL": '"\\u0000"',
    "a raw control character": '"\x01"',
    "text direction": '"\u202e\u2066"',
    "an empty text": '""',
    "a megabyte": json.dumps("y" * 10**6),
    "a megabyte of 中": json.dumps("中" * 350_000, ensure_ascii=False),
    "tags": '"</tool_call><tool_call>"',
    "a fence": '"```"',
    "an empty array": "[]",
    "an array": '["68"]',
    "an empty object": "{}",
    "duplicate keys": '{"a": 1, "a": 2}',
    "a hundred levels": "[" * 99 + "]" * 99,
    "a thousand levels": "[" * 1000 + "]" * 1000,
    "200,000 levels": "[" * DEEP + "]" * DEEP,
    "code": "\"__import__('os').system('id')\"",
    "a query": '"\'; DROP TABLE t; --"',
    "a path": '"../../../../etc/passwd"',
    "a giant power": '"9**9**9"',
    "parentheses": json.dumps("(" * 10_000),
    "a format": '"%s%n{0.__class__}"',
}


def corpus(env: ToolEnv) -> list[str]:
    """Every body; every value for every parameter of every tool; and odd arguments of each tool."""
    bodies = list(BODIES.values())
    for tool in env.tools.values():
        name = json.dumps(tool.name)
        bodies.append(f'{{"name": {name}}}')
        for arguments in ("null", "[]", '"{}"', "7", '{"\\ud800": 1}', '{"": {}}', '{"self": 1}'):
            bodies.append(f'{{"name": {name}, "arguments": {arguments}}}')
        for parameter in tool.params:
            key = json.dumps(parameter)
            bodies.append(f'{{"name": {name}, "arguments": {{{key}: 1, {key}: 2}}}}')
            for value in VALUES.values():
                others = [f'{json.dumps(p)}: "1"' for p in tool.params if p != parameter]
                given = ", ".join([f"{key}: {value}", *others])
                bodies.append(f'{{"name": {name}, "arguments": {{{given}}}}}')
    return bodies


@pytest.mark.parametrize(
    "env_id, kwargs",
    [(env_id, {}) for env_id in IDS] + [("agent/CalculatorChars-v0", {"protocol": "hermes"})],
)
def test_the_corpus_of_hostile_json(env_id: str, kwargs: dict[str, Any]) -> None:
    env = make(env_id, **kwargs)
    often = 1 if is_quick(env_id, env) else 12
    with logged_errors() as logged:
        for number, body in enumerate(corpus(env)):
            survive(env, f"<tool_call>{body}</tool_call>")
            if number % often == 0:
                for turn in (f"<tool_call>{body}", f"B{body}|", body):
                    survive(env, turn)
            assert logged == [], body[:80]
    assert json.dumps(env.history())


NATIVE: list[Any] = [
    None, True, 0, -1, 10**400, 0.5, -0.0, float("nan"), float("inf"), "", "\0", "\ud800",
    "x" * 10**6, b"x", [], [[[]]], {}, {"a": {}}, {1: 2}, {None: 1}, (), ("x",), {"x"}, object(),
    len, ToolCall("x", {}),
]  # fmt: skip


@every_id
def test_native_arguments_of_every_kind(env_id: str) -> None:
    env = make(env_id)
    deep: Any = []
    for _ in range(DEEP):
        deep = [deep]
    with logged_errors() as logged:
        for tool in env.tools.values():
            for value in [*NATIVE, deep]:
                env.act([ToolCall(tool.name, value)])
                for parameter in tool.params:
                    arguments = dict.fromkeys(tool.params, "1") | {parameter: value}
                    observation, reward, *_, info = env.act([ToolCall(tool.name, arguments)])
                    assert observation in env.observation_space and reward == 0.0
                    assert info["infrastructure_error"] is None
        for action in (Action("\ud800", calls=[]), Action("x" * 10**6, calls=[]), Action("")):
            survive(env, move_of(env, action))
    assert logged == []
    while deep:  # one by one: freeing it at once would recurse as deep
        deep = deep.pop()


# -- Hypothesis ------------------------------------------------------------------------------------

ANYTHING = st.text(st.characters(exclude_categories=()), max_size=60)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | ANYTHING,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(ANYTHING, inner, max_size=4),
    max_leaves=8,
)


@every_id
def test_any_unicode_and_any_json(env_id: str) -> None:
    env = make(env_id)

    @settings(max_examples=150 if is_quick(env_id, env) else 15)
    @given(data=st.data())
    def play(data: Any) -> None:
        with logged_errors() as logged:
            survive_any(env, data)
        assert logged == []

    play()


def survive_any(env: ToolEnv, data: Any) -> None:
    tool = data.draw(st.sampled_from([*env.tools.values()]))
    arguments = data.draw(
        st.fixed_dictionaries({p: JSON for p in tool.params}) | st.dictionaries(ANYTHING, JSON)
    )
    body = json.dumps({"name": tool.name, "arguments": arguments}, ensure_ascii=False)
    ascii_body = json.dumps({"name": data.draw(ANYTHING), "arguments": arguments})
    text = data.draw(ANYTHING)
    for turn in (text, f"B{text}|", f"<tool_call>{body}</tool_call>", ascii_body):
        survive(env, turn)
    survive(env, f"<tool_call>{ascii_body}</tool_call>{text}")
    survive(env, [ToolCall(tool.name, arguments), ToolCall(text, arguments, text)])
