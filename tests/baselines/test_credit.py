"""Advantages, against numbers worked out by hand."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_envs.baselines.credit import (
    TurnValues,
    blamed,
    group_normalised,
    groups,
    is_mixed,
    judge,
    leave_one_out,
    states,
)
from agent_envs.baselines.record import Record
from agent_envs.baselines.settings import Args
from agent_envs.task import Task
from agent_envs.trajectory import Trajectory
from agent_envs.turns import Action, Turn

Episode = Callable[..., Record]


def test_leave_one_out() -> None:
    assert leave_one_out([1, 0, 0, 0]) == pytest.approx([1, -1 / 3, -1 / 3, -1 / 3])
    assert leave_one_out([1, 0.5]) == [0.5, -0.5]


def test_group_normalised() -> None:
    # mean 0.25, unbiased standard deviation sqrt((0.75^2 + 3 x 0.25^2) / 3) = 0.5
    expected = [0.75 / 0.5001] + [-0.25 / 0.5001] * 3
    assert group_normalised([1, 0, 0, 0]) == pytest.approx(expected)
    assert group_normalised([0.3] * 8) == [0] * 8


def test_failures_count_in_proportion() -> None:
    assert blamed([0.75, -0.25, 0.0, -0.5], 0.2) == pytest.approx([0.75, -0.05, 0, -0.1])
    assert blamed([0.75, -0.25], 1.0) == [0.75, -0.25]
    assert blamed([0.75, -0.25], 0.0) == [0.75, 0]


@pytest.mark.parametrize(("credit", "first"), [("leave_one_out", 1), ("turn_values", 0)])
def test_a_group_is_judged_turn_by_turn_and_its_failures_in_proportion(
    episode: Episode, credit: str, first: int
) -> None:
    """Both came through the same first turn."""
    group = [
        episode([([3], [9], 0.0), ([4], [], 1.0)], name="0.0"),
        episode([([3], [9], 0.0), ([5], [], 0.0)], name="0.1"),
    ]
    values = TurnValues(1)
    for record in group:
        values.add(record)
    whole, weak = (judge(group, values, Args(credit=credit, blame=b)) for b in (1.0, 0.25))
    assert whole == [[first, 1], [-first, -1]]
    assert weak == [[first, 1], [-0.25 * first, -0.25]]


@given(st.lists(st.floats(-10, 10), min_size=2, max_size=9))
def test_leave_one_out_is_the_mean_difference_times_g_over_g_minus_1(rewards: list[float]) -> None:
    mean, count = sum(rewards) / len(rewards), len(rewards)
    wanted = [count / (count - 1) * (reward - mean) for reward in rewards]
    assert leave_one_out(rewards) == pytest.approx(wanted, abs=1e-9)


def test_a_mixed_group_is_kept_and_an_even_one_dropped() -> None:
    assert is_mixed([1, 0, 0, 0])
    assert not is_mixed([0.3] * 8)
    assert not is_mixed([0.1 + 0.2] * 8)
    assert not is_mixed([False] * 4)
    assert is_mixed([True, True, True, False])


def test_groups_leave_out_invalid_episodes_branches_and_the_lonely(episode: Episode) -> None:
    played = [
        episode([([3], [], 1.0)], name="0.0"),
        episode([([3], [], 0.0)], name="0.1", valid=False, end_reason="infrastructure"),
        episode([([3], [], 0.0)], name="0.2"),
        episode([([3], [], 0.0)], name="0.2/0.0", group_id="0", parent=("0.2", 0)),
        episode([([3], [], 1.0)], name="1.0"),
        episode([([3], [], 1.0)], name="1.1", valid=False, end_reason="policy_error"),
    ]
    assert [[r.episode_id for r in group] for group in groups(played)] == [["0.0", "0.2"]]


# -- turn values on a tree that was drawn by hand ------------------------------------------------
#
# Four episodes of one group start in s0. Three write 3 and hear 8, which is s1; one writes 4 and
# hears 9, which is s2. From each of s1 and s2 two continuations were played.
#
#   0.0: s0 -3-> s1 -> 1        s1/0 -> 1      0.3: s0 -4-> s2 -> 0     s2/0 -> 0
#   0.1: s0 -3-> s1 -> 1        s1/1 -> 0                               s2/1 -> 1
#   0.2: s0 -3-> s1 -> 0


@pytest.fixture
def tree(episode: Episode) -> tuple[TurnValues, list[Record]]:
    main = [
        episode([([3], [8], 0.0), ([5], [], 1.0)], name="0.0"),
        episode([([3], [8], 0.0), ([5], [], 1.0)], name="0.1"),
        episode([([3], [8], 0.0), ([6], [], 0.0)], name="0.2"),
        episode([([4], [9], 0.0), ([6], [], 0.0)], name="0.3"),
    ]
    values = TurnValues(2)
    for record in main:
        values.add(record)
    for name, middle, reward in (
        ("0.0/1.0", (3, 8), 1.0),
        ("0.0/1.1", (3, 8), 0.0),
        ("0.3/1.0", (4, 9), 0.0),
        ("0.3/1.1", (4, 9), 1.0),
    ):
        parent = (name.partition("/")[0], 1)
        values.add(episode([([7], [], reward)], name=name, prompt=(1, 2, *middle), parent=parent))
    return values, main


def test_turn_values_on_a_tree(tree: tuple[TurnValues, list[Record]]) -> None:
    values, main = tree
    s0, s1 = states(main[0])
    s2 = states(main[3])[1]
    assert values.value(s1, "nobody") == pytest.approx(3 / 5)
    assert values.value(s1, "0.0") == pytest.approx(2 / 4)  # 1, 0 of the others; 1, 0 played
    assert values.value(s1, "0.2") == pytest.approx(3 / 4)
    assert values.value(s2, "0.3") == pytest.approx(1 / 2)
    assert values.value(s0, "0.0") == pytest.approx(1 / 3)
    assert values.value(s0, "0.3") == pytest.approx(2 / 3)
    assert values.advantages(main[0]) == pytest.approx([1 / 2 - 1 / 3, 1 - 1 / 2])
    assert values.advantages(main[2]) == pytest.approx([3 / 4 - 2 / 3, 0 - 3 / 4])
    assert values.advantages(main[3]) == pytest.approx([1 / 2 - 2 / 3, 0 - 1 / 2])


def test_an_episodes_turns_sum_up_to_its_leave_one_out_advantage(
    tree: tuple[TurnValues, list[Record]],
) -> None:
    values, main = tree
    wanted = leave_one_out([record.reward for record in main])
    assert [sum(values.advantages(record)) for record in main] == pytest.approx(wanted)


def test_a_reward_in_mid_episode_is_credited_to_its_turn(episode: Episode) -> None:
    values = TurnValues(1)
    one = episode([([3], [8], 0.25), ([5], [], 0.0)], name="0.0")
    two = episode([([4], [9], 0.0), ([5], [], 0.0)], name="0.1")
    for record in (
        one,
        two,
        episode([([7], [], 0.0)], name="0.0/1.0", prompt=(1, 2, 3, 8), parent=("0.0", 1)),
        episode([([7], [], 0.0)], name="0.1/1.0", prompt=(1, 2, 4, 9), parent=("0.1", 1)),
    ):
        values.add(record)
    start, middle = states(one)
    assert values.value(start, "0.1") == 0.25 and values.value(middle, "nobody") == 0
    assert values.advantages(one) == [0.25, 0.0]
    assert values.advantages(two) == [-0.25, 0.0]


def test_turns_between_known_values_share_their_credit(episode: Episode) -> None:
    values = TurnValues(0)
    one = episode([([3], [8], 0.0), ([5], [9], 0.5), ([6], [], 0.5)], name="0.0")
    values.add(one)
    values.add(episode([([4], [], 0.0)], name="0.1"))
    assert values.advantages(one) == [1.0, 1.0, 1.0]


def test_states_of_two_groups_are_two_even_with_the_same_tokens(episode: Episode) -> None:
    values = TurnValues(3)
    one, two = (episode([([3], [8], 0.0), ([5], [], 1.0)], name=f"{i}.0") for i in range(2))
    values.add(two)
    assert [values.value(state, "nobody") for state in states(one)] == [None, None]


def test_the_first_turn_needs_no_continuations() -> None:
    turn = Turn(Action("B1+1|"), "2|", 0.0, {})
    task = Task("t", "train", "1+1=")
    for turns, plan in ((3, [(1, 5), (2, 5)]), (1, []), (0, [])):
        trajectory = Trajectory("0.0", "0", task, 0, [], turns=[turn] * turns)
        assert TurnValues(5).plan(trajectory) == plan
