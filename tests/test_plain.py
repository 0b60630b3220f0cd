"""Strict JSON in, plain JSON out."""

import enum
import json
import math
import sys
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_envs.plain import MAX_DEPTH, has_lone_surrogate, parse_json, read_json, to_plain
from agent_envs.turns import Malformed, ToolCall
from agent_envs.verdict import Verdict

finite = st.floats(allow_nan=False, allow_infinity=False)
json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | finite | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def same(a: Any, b: Any) -> bool:
    """Equality that tells 1 from 1.0 and from true."""
    return repr(a) == repr(b)


@given(json_values, st.booleans(), st.sampled_from([None, 1]), st.sampled_from(["", " ", "\r\n\t"]))
def test_json_is_read(value: Any, ascii_only: bool, indent: int | None, blank: str) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
    assert same(parse_json(blank + text + blank), value)
    assert read_json(f"{text}{blank}!") == (value, len(text + blank))


@given(st.text() | json_values.map(json.dumps) | st.text('[]{}",:0123456789.eE+-\\u dtrfalsn'))
def test_what_is_read_is_json(text: str) -> None:
    try:
        value = parse_json(text)
    except ValueError as error:
        assert 0 < len(str(error)) <= 300
        str(error).encode()
        return
    assert same(value, json.loads(text))
    json.dumps(value, allow_nan=False, ensure_ascii=False).encode()


REFUSED = [
    ("", "Expecting value at the end of the text"),
    ("nul", "Expecting value at 'nul'"),
    ("{'a': 1}", "Expecting property name"),
    ("1 2", "something more after the JSON, at '2'"),
    ("[]" + "x" * 10**6, f"something more after the JSON, at '{'x' * 20}'"),
    ("\ufeff1", "Expecting value at '\\ufeff1'"),
    ("NaN", "NaN is not JSON"),
    ("[Infinity]", "Infinity is not JSON"),
    ("-Infinity", "-Infinity is not JSON"),
    ("1e999", "the number 1e999 is too large"),
    ("-1e999", "the number -1e999 is too large"),
    ("1" * 400 + ".0", f"the number {'1' * 20} is too large"),
    ("9" * 5000, f"the number {'9' * 20}... has over 4,000 digits"),
    ("-" + "9" * 10**6, "has over 4,000 digits"),
    ('{"a": 1, "a": 1}', "the key 'a' stands twice"),
    ('[{"b": {"a": 1, "c": 2, "\\u0061": 3}}]', "the key 'a' stands twice"),
    ('{"' + "k" * 10**6 + '": 1, "' + "k" * 10**6 + '": 1}', f"the key '{'k' * 20}' stands twice"),
    ('"\\ud800"', "a lone surrogate"),
    ('"\\udc00\\ud800"', "a lone surrogate"),
    ('{"\\ud800": 1}', "a lone surrogate"),
    ('"\ud800"', "a lone surrogate"),
    ("[" * 200_000, ""),
    ("[" * 200_000 + "]" * 200_000, "nested over 100 levels deep"),
    ('{"a":' * 200_000, ""),
    ('{"a":' * 101 + "1" + "}" * 101, "nested over 100 levels deep"),
    ("[" * 101 + "]" * 101, "nested over 100 levels deep"),
    ('"a\nb"', "Invalid control character at '\\nb\"'"),
    ('"\0"', "Invalid control character"),
    ("01", "something more after the JSON, at '1'"),
    ("+1", "Expecting value at '+1'"),
    (".5", "Expecting value at '.5'"),
    ("0x10", "something more after the JSON, at 'x10'"),
    ("\u0661", "Expecting value"),
]


@pytest.mark.parametrize(("text", "message"), REFUSED, ids=range(len(REFUSED)))
def test_what_is_no_json_is_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError) as caught:
        parse_json(text)
    assert type(caught.value) is ValueError
    assert message in str(caught.value) and len(str(caught.value)) <= 300


def test_what_is_just_allowed() -> None:
    assert parse_json("9" * 4000) == int("9" * 4000)
    assert parse_json("1e308") == 1e308 and parse_json("1e-999") == 0.0
    assert parse_json('"\\ud83d\\ude42\\u0000"') == "🙂\0"
    assert parse_json('{"a": {"a": 1}, "A": 2}') == {"a": {"a": 1}, "A": 2}
    deepest = "[" * MAX_DEPTH + "]" * MAX_DEPTH
    assert json.dumps(parse_json(deepest)) == deepest
    assert parse_json(f"[{','.join(['[]'] * 1000)}]") == [[]] * 1000


@pytest.mark.parametrize("escape", ["", '"\\u0041"', '"é"'])
def test_depth_is_a_value_error_wherever_the_interpreter_gives_up(escape: str) -> None:
    for depth in [*range(MAX_DEPTH + 1, 130), *range(300, 1100), 10_000]:
        with pytest.raises(ValueError, match="levels deep"):
            parse_json("[" * depth + escape + "]" * depth)


def test_depth_is_a_value_error_deep_down_the_stack() -> None:
    def down(levels: int) -> str:
        if levels:
            return down(levels - 1)
        try:
            parse_json("[" * 200 + "]" * 200)
        except ValueError as error:
            return str(error)
        return ""

    assert "levels deep" in down(sys.getrecursionlimit() - _stack_depth() - 100)


def _stack_depth() -> int:
    depth, frame = 0, sys._getframe()
    while frame.f_back is not None:
        depth, frame = depth + 1, frame.f_back
    return depth


def test_reading_out_of_a_longer_text() -> None:
    text = '<a> {"b": 1} \n</a>\ud800'
    assert read_json(text, 3) == ({"b": 1}, text.index("</a>"))
    with pytest.raises(ValueError, match="Expecting value at '</a>"):
        read_json(text, text.index("</a>"))


@given(json_values)
def test_lone_surrogates_are_found(value: Any) -> None:
    assert not has_lone_surrogate(value)
    for spoiled in (["\udc80", value], {"\ud800": value}, [[value, {"a": "x\udfffy"}]]):
        assert has_lone_surrogate(spoiled)


class Color(enum.IntEnum):
    RED = 1


@dataclass
class Point:
    x: int
    more: list[Any] = field(default_factory=list)


@dataclass(slots=True, frozen=True)
class Slotted:
    pair: tuple[int, int]


class Itself:
    def to_dict(self) -> dict[str, Any]:
        return {"own": (1,)}


INF, NAN = float("inf"), float("nan")

PLAIN: list[tuple[Any, Any]] = [
    (None, None),
    (True, True),
    (1, 1),
    (1.5, 1.5),
    ("\ud800", "\ud800"),
    ((1, (2,)), [1, [2]]),
    ({"a": {1: None}}, {"a": {"1": None}}),
    ({3, 1, 2}, [1, 2, 3]),
    (frozenset("cab"), ["a", "b", "c"]),
    ({"x", 1, None}, ["x", 1, None]),
    (INF, "inf"),
    (-INF, "-inf"),
    (NAN, "nan"),
    (np.float64(1.5), 1.5),
    (np.float32(0.5), 0.5),
    (np.float64("nan"), "nan"),
    (np.float64("-inf"), "-inf"),
    (np.float32("inf"), "inf"),
    (np.int64(3), 3),
    (np.bool_(True), True),
    (np.array([[1, 2], [3, 4]]), [[1, 2], [3, 4]]),
    (np.array([1.0, np.nan, np.inf]), [1.0, "nan", "inf"]),
    (np.array(5), 5),
    (10**4000, hex(10**4000)),
    (-(10**4000), hex(-(10**4000))),
    (10**3900, 10**3900),
    (Color.RED, 1),
    (Point(1, [Slotted((1, 2))]), {"x": 1, "more": [{"pair": [1, 2]}]}),
    (Malformed("r"), {"reason": "r"}),
    (ToolCall("f", {"x": (NAN,)}), {"name": "f", "arguments": {"x": ["nan"]}, "id": ""}),
    (Itself(), {"own": [1]}),
    (
        Verdict({"a": 1.0}, {"a": 2.0}, True),
        {
            "components": {"a": 1.0},
            "weights": {"a": 2.0},
            "passed": True,
            "version": "1",
            "total": 2.0,
        },
    ),
]


@pytest.mark.parametrize(("value", "plain"), PLAIN, ids=range(len(PLAIN)))
def test_plain_forms(value: Any, plain: Any) -> None:
    found = to_plain(value)
    assert same(found, plain)
    json.dumps(found, allow_nan=False)


@pytest.mark.parametrize(
    "value", [object(), b"bytes", 1j, lambda: 0, Point, {"a": [object()]}, {1: 0, "1": 0}]
)
def test_what_has_no_plain_form(value: Any) -> None:
    with pytest.raises(TypeError, match="no JSON form|to_dict"):
        to_plain(value)


def test_a_default_speaks_for_the_rest() -> None:
    assert to_plain([b"x", {"a": 1j}, 1], lambda x: type(x).__name__) == [
        "bytes",
        {"a": "complex"},
        1,
    ]


def test_depth_and_circles_end() -> None:
    circle: list[Any] = []
    circle.append(circle)
    ring = Point(1)
    ring.more.append({"ring": ring})
    deep: Any = 0
    for _ in range(100_000):
        deep = [deep]
    for value in (circle, ring, deep):
        text = json.dumps(to_plain(value))
        assert text.count("nested over 100 levels deep") == 1
    fits: Any = 0
    for _ in range(MAX_DEPTH):
        fits = [fits]
    assert to_plain(fits) == fits


anything: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text()
    | st.floats().map(np.float64) | st.floats(width=32).map(np.float32)
    | st.integers(-(2**63), 2**63 - 1).map(np.int64) | st.builds(Malformed, st.text())
    | st.lists(st.floats(), max_size=3).map(np.array) | st.frozensets(st.text(), max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.lists(inner, max_size=3).map(tuple)
    | st.dictionaries(st.text(), inner, max_size=3) | st.builds(Point, st.integers(), inner),
    max_leaves=8,
)  # fmt: skip


@given(anything)
def test_plain_is_plain_for_good(value: Any) -> None:
    plain = to_plain(value)
    text = json.dumps(plain, allow_nan=False)
    assert same(json.loads(text), plain)
    assert same(to_plain(plain), plain)


@given(finite)
def test_numbers_stay_exact(number: float) -> None:
    assert to_plain(number) == number
    assert math.copysign(1, to_plain(number)) == math.copysign(1, number)
    assert type(to_plain(np.float64(number))) is float
