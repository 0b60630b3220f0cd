"""Faults: rates that hold, kinds that do not know of each other, keyed by seed and index."""

import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any, get_args

import gymnasium
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_envs.fault import KINDS, FaultModel, FaultRate, corrupted
from agent_envs.streams import derive
from agent_envs.turns import Error, FaultKind, ToolCall

N = 20_000
MIXED: dict[FaultKind, float] = {
    "wrong": 0.2,
    "error": 0.05,
    "timeout": 0.1,
    "stale": 0.01,
    "truncated": 0.3,
}


def close(count: int, p: float, n: int = N) -> bool:
    """Whether a count of n tries is within five standard deviations."""
    return abs(count - n * p) <= 5 * math.sqrt(n * p * (1 - p)) + 1e-9


@pytest.mark.parametrize("rate", [0.0, 0.01, 0.3, 0.999, 1.0, 1, *({k: 0.2} for k in KINDS), MIXED])
def test_rates_hold_over_calls_and_over_episodes(rate: FaultRate) -> None:
    model = FaultModel(rate)
    wanted: Mapping[FaultKind, float] = rate if isinstance(rate, Mapping) else {"wrong": rate}
    for kinds in (
        Counter(model.pick(7, i) for i in range(N)),
        Counter(model.pick(derive(7, n), 0) for n in range(N)),
    ):
        for kind in KINDS:
            assert close(kinds[kind], wanted.get(kind, 0.0)), kind
        assert close(kinds[None], 1 - sum(wanted.values()))


def test_what_happens_to_a_call_says_nothing_of_the_next() -> None:
    model = FaultModel(MIXED)
    rates: dict[FaultKind | None, float] = {None: 1 - sum(MIXED.values())}
    rates.update(MIXED.items())
    for distance in (1, 2, 7):
        picked = [model.pick(3, i) for i in range(N + distance)]
        pairs = Counter(zip(picked[:N], picked[distance:], strict=True))
        for a, p in rates.items():
            for b, q in rates.items():
                assert close(pairs[a, b], p * q), (a, b)


def test_a_fault_hangs_on_seed_and_index_alone() -> None:
    model, other = FaultModel(MIXED), FaultModel(dict(reversed(MIXED.items())))
    forwards = [model.pick(5, i) for i in range(200)]
    assert forwards == [other.pick(5, i) for i in reversed(range(200))][::-1]
    assert forwards != [model.pick(6, i) for i in range(200)]


def test_more_kinds_leave_the_wrong_ones_where_they_are() -> None:
    alone, mixed = FaultModel(0.2), FaultModel(MIXED)
    for i in range(1000):
        assert (alone.pick(1, i) == "wrong") == (mixed.pick(1, i) == "wrong")


BAD: list[tuple[Any, str]] = [
    (-0.1, "'wrong' is -0.1; a number from 0 to 1"),
    (1.1, "'wrong' is 1.1"),
    (float("nan"), "'wrong' is nan"),
    (float("inf"), "'wrong' is inf"),
    (True, "'wrong' is True"),
    ("0.3", "'wrong' is '0.3'"),
    (None, "'wrong' is None"),
    ([0.3], r"'wrong' is \[0.3\]"),
    (1j, "'wrong' is 1j"),
    ({"wrong": None}, "'wrong' is None"),
    ({"error": -1}, "'error' is -1"),
    ({"eror": 0.1}, r"no fault kind \['eror'\]; there are \['wrong', 'error', 'timeout'"),
    ({"eror": 0.1, 3: 0.1, None: 0.1}, r"no fault kind \['eror', 3, None\]"),
    ({"wrong": 0.6, "error": 0.5}, "add up to 1.1, over 1"),
    (dict.fromkeys(KINDS, 0.21), "over 1"),
]


@pytest.mark.parametrize(("rate", "message"), BAD, ids=range(len(BAD)))
def test_bad_rates(rate: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        FaultModel(rate)


def test_rates_of_other_number_types() -> None:
    for rate in (np.float64(0.25), np.float32(0.25), Fraction(1, 4)):
        model = FaultModel(rate)  # type: ignore[arg-type]
        assert model.rates == {"wrong": 0.25} and type(model.to_plain()) is float
    assert FaultModel(dict.fromkeys(KINDS, 0.2)).rates == dict.fromkeys(KINDS, 0.2)


@given(st.dictionaries(st.sampled_from(KINDS), st.floats(0, 0.2)) | st.floats(0, 1))
def test_the_plain_form_makes_an_equal_model(rate: Any) -> None:
    model = FaultModel(rate)
    plain = json.loads(json.dumps(model.to_plain()))
    assert FaultModel(plain).rates == model.rates
    assert FaultModel(plain).to_plain() == plain


def test_the_plain_form_is_ones_own() -> None:
    model = FaultModel(MIXED)
    plain = model.to_plain()
    assert isinstance(plain, dict)
    plain["wrong"] = 9.0
    assert model.rates["wrong"] == 0.2
    assert FaultModel({"wrong": 0.5, "error": 0.0}).to_plain() == 0.5
    assert FaultModel({}).to_plain() == 0.0


def test_replacements() -> None:
    for kind in KINDS:
        result = FaultModel.replacement(kind)
        assert (result is not None) == (kind in ("error", "timeout"))
        if result:
            assert result.fault == kind and result.error in get_args(Error)
            result.content = "spoiled"
            again = FaultModel.replacement(kind)
            assert again and again.content != "spoiled"


@pytest.fixture(autouse=True, scope="module")
def _importable() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(Path(__file__).parent))
        yield


def bank(rate: FaultRate) -> Any:
    """A bank whose tools fail."""
    env = gymnasium.make("bank_env:mine/Bank-v0", fault_rate=rate)
    env.reset(seed=1)
    return env


TRANSFER = ToolCall("transfer", {"source": "ada", "target": "bob", "amount": 5})


@pytest.mark.parametrize("kind", ["error", "timeout"])
def test_a_call_that_a_fault_replaces_is_not_made(kind: FaultKind) -> None:
    env = bank({kind: 1.0})
    before = env.state
    result = env.call(TRANSFER)
    assert result.fault == kind and env.state == before


def test_a_call_whose_result_is_spoiled_is_made() -> None:
    env = bank({"truncated": 1.0})
    before = env.state
    result = env.call(TRANSFER)
    assert result.fault == "truncated" and result.error is None and env.state != before
    assert result.truth == "done" and result.content != "done"


def test_a_wrong_result_differs_in_a_digit_and_a_word_has_no_wrong_form() -> None:
    env = bank({"wrong": 1.0})
    result = env.call(ToolCall("balance", {"name": "ada"}))
    assert result.fault == "wrong" and result.truth is not None
    assert sum(a != b for a, b in zip(result.content, result.truth, strict=True)) == 1
    assert env.call(TRANSFER).fault is None, "nobody would take another word for `done`"


def test_a_stale_result_is_the_same_tools() -> None:
    env = bank({"stale": 1.0})
    assert env.call(ToolCall("balance", {"name": "ada"})).fault is None
    assert env.call(TRANSFER).fault is None, "the first of its tool"
    stale = env.call(ToolCall("balance", {"name": "bob"}))
    assert stale.fault == "stale" and stale.content != stale.truth


def test_a_call_that_fails_by_itself_is_left_alone() -> None:
    for kind in ("wrong", "stale", "truncated"):
        env = bank({kind: 1.0})
        result = env.call(ToolCall("balance", {"name": "zoe"}))
        assert (result.error, result.fault, result.truth) == ("failed", None, None)


def test_a_wrong_digit_is_no_leading_zero() -> None:
    for number in ("168", "10", "9", "a 250 b 31"):
        for step in range(500):
            wrong = corrupted("wrong", number, step / 500)
            assert wrong != number and len(wrong) == len(number)
            assert not re.search(r"\b0[0-9]", wrong)
