"""Result sets: the same, or not, in every way that somebody might get paid for."""

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_envs.verifiers.sql import Rows, Typed, canonical, same_rows


def rows(*given: tuple[Any, ...]) -> Rows:
    """A result of one row or more."""
    return Rows(len(given[0]), given)


def same(one: Rows, other: Rows, **how: Any) -> bool:
    """Whether they are the same, asked in both directions."""
    if "keys" not in how:
        assert bool(same_rows(one, other, **how)) == bool(same_rows(other, one, **how))
    return not same_rows(one, other, **how)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ((1,), ("1",)),
        ((1,), (1.0,)),
        ((1,), (True,)),
        ((0,), (False,)),
        ((0,), (None,)),
        (("",), (None,)),
        (("NULL",), (None,)),
        (("a",), ("A",)),
        (("a",), ("a ",)),
        (("é",), ("e\u0301",)),
        ((b"a",), ("a",)),
        ((1.0,), (1.0000001,)),
        ((float("nan"),), (None,)),
        (("2024-01-01",), (Typed("date", "2024-01-01"),)),
        ((Typed("time", "1"),), (Typed("interval", "1"),)),
        ((2**63,), (float(2**63),)),
        ((Decimal("NaN"),), (0,)),
    ],
)
def test_values_of_other_types_are_others(one: Any, other: Any) -> None:
    assert not same(rows(one), rows(other))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ((None,), (None,)),
        ((3,), (Decimal("3.00"),)),
        ((Decimal("1.10"),), (Decimal("1.1"),)),
        ((0.0,), (-0.0,)),
        ((float("nan"),), (float("nan"),)),
        ((float("inf"),), (float("inf"),)),
    ],
)
def test_equal_values(one: Any, other: Any) -> None:
    assert same(rows(one), rows(other))


def test_rows_are_a_multiset() -> None:
    gold = rows((1, "a"), (1, "a"), (2, "b"))
    assert same(gold, rows((2, "b"), (1, "a"), (1, "a")))
    assert not same(gold, rows((1, "a"), (2, "b"), (2, "b"))), "as many rows, others twice"
    assert not same(gold, rows((1, "a"), (2, "b"))), "DISTINCT"
    assert not same(gold, rows((1, "a"), (1, "a"), (2, "b"), (2, "b")))
    assert not same(gold, rows(("a", 1), ("a", 1), ("b", 2))), "columns the other way round"


def test_the_number_of_columns_counts_even_without_rows() -> None:
    assert same_rows(Rows(2, ()), Rows(1, ())) == "1 columns, not 2"
    assert same(Rows(1, ()), Rows(1, ()))
    assert not same(rows((1, 2)), rows((1, 2, 2)))


def test_order_counts_but_not_among_ties() -> None:
    gold, keys = rows((1,), (2,), (3,), (4,)), [(9,), (8,), (8,), (7,)]
    assert same(gold, rows((1,), (3,), (2,), (4,)), keys=keys)
    assert same_rows(gold, rows((2,), (1,), (3,), (4,)), keys=keys) == "rows 1 to 1 are others"
    assert not same(gold, rows((4,), (3,), (2,), (1,)), keys=keys)
    assert not same(gold, rows((1,), (2,), (2,), (4,)), keys=keys)
    assert same(gold, rows((4,), (3,), (2,), (1,)))


def test_a_tie_is_one_of_equal_type_too() -> None:
    gold, other = rows((1,), (2,)), rows((2,), (1,))
    assert not same(gold, other, keys=[(1,), ("1",)])
    assert same(gold, other, keys=[(None,), (None,)])


def test_tolerance_is_for_declared_floats_only() -> None:
    gold, off = rows(("a", 0.1), ("b", 2.0)), rows(("a", 0.1 + 1e-9), ("b", 2.0 - 1e-9))
    assert same(gold, off, floats=(1,))
    assert not same(gold, off)
    assert not same(rows((1.0, 2.0)), rows((1.0 + 1e-9, 2.0)), floats=(1,))
    assert same(rows((2.0,)), rows((2,)), floats=(0,)), "a float column takes any number"
    assert same(rows((0.5,)), rows((Decimal("0.5"),)), floats=(0,))
    for other in ("2.0", True, None, float("nan"), 2.01, b"2"):
        assert not same(rows((2.0,)), rows((other,)), floats=(0,))


def test_floats_are_matched_one_by_one() -> None:
    near = 1.0 + 9e-7
    assert same(rows((1.0, 5.0), (near, 1.0)), rows((near, 5.0), (1.0, 1.0)), floats=(0, 1))
    assert not same(rows((1.0, 5.0), (near, 1.0)), rows((near, 5.0), (1.0, 5.0)), floats=(0, 1))
    assert not same(rows((1.0,), (1.0,)), rows((1.0,), (3.0,)), floats=(0,))


VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 3), st.sampled_from([0.0, 1.0, 2.5, float("nan")]),
    st.sampled_from(["", "1", "a"]), st.sampled_from([b"", b"1"]), st.decimals(-2, 2, places=1),
)  # fmt: skip


@given(st.lists(st.tuples(VALUES, VALUES), min_size=1, max_size=8), st.randoms())
def test_shuffled_is_the_same_and_changed_is_not(given: list[Any], dice: Any) -> None:
    shuffled = given.copy()
    dice.shuffle(shuffled)
    assert same(rows(*given), rows(*shuffled))
    assert same(rows(*given), rows(*shuffled), floats=(0, 1))
    keys = [(i,) for i in range(len(given))]
    in_order = [*map(canonical, sum(given, ()))] == [*map(canonical, sum(shuffled, ()))]
    assert same(rows(*given), rows(*shuffled), keys=keys) == in_order
    changed = [*shuffled[:-1], (shuffled[-1][0], "changed")]
    assert not same(rows(*given), rows(*changed))
    assert not same(rows(*given), rows(*changed), floats=(0, 1))


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12), st.randoms())
def test_floats_in_any_order_within_the_tolerance(given: list[float], dice: Any) -> None:
    moved = [x * (1 + dice.choice([-1, 0, 1]) * 5e-7) for x in given]
    dice.shuffle(moved)
    assert same(rows(*((x,) for x in given)), rows(*((x,) for x in moved)), floats=(0,))
