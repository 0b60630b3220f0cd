"""The grader of final answers: what is right, what is not, and that nothing makes it fail."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_envs.task import Reads, Task
from agent_envs.verifiers.answer import VERSION, is_correct

TABLE: list[tuple[Reads, str, list[str], list[str | None]]] = [
    (
        "number",
        "68",
        ["68", " 68\n", "68.0", "+68", "068", "68.000"],
        [
            *(None, "", " ", "69", "-68", "680", "6 8", "68 69", "68 or 69", "68.5", "68,0", "68."),
            *("68e0", "6.8e1", "0x44", "68/1", "136/2", "23+45", "=68", "$68", "68%", "68 apples"),
            *(
                "The answer is 68",
                "**68**",
                '"68"',
                "[68]",
                '{"answer": 68}',
                "<answer>68</answer>",
            ),
            *(
                "６８",
                "٦٨",
                "68\0",
                "6\u200b8",
                "nan",
                "inf",
                "-inf",
                "True",
                "68_0",
                "sixty-eight",
            ),
        ],
    ),
    ("number", "-0.5", ["-0.5", "-00.50"], ["0.5", "-.5", "-0,5", "−0.5", "-1/2", "-0.05"]),
    ("number", "1234567", ["1234567", "1,234,567"], ["1,234567", "12,34,567", "1 234 567"]),
    ("number", "0", ["0", "-0", "0.0"], ["", "False", "None", "o", "O"]),
    (
        "number",
        "9007199254740993",
        ["9007199254740993"],
        ["9007199254740992", "9007199254740992.0"],
    ),
    ("exact", "Paris", ["Paris", " Paris\n"], ["paris", "Paris.", '"Paris"', "", None]),
    ("choice", "B", ["B", "b", "(B)", "B.", " `b` "], ["A", "BB", "B or C", "", None]),
    ("json", "1", ["1", " 1 "], ["1.0", "true", '"1"', "[1]", "2", "", None]),
    ("json", "true", ["true"], ["1", "1.0", "True", '"true"']),
    ("json", "0", ["0"], ["false", "0.0", "-0.0", "null", '""', "[]"]),
    ("json", "null", ["null"], ["0", "false", "None", '""']),
    (
        "json",
        '{"a": [1, {"b": 2}], "c": "x"}',
        ['{"c":"x","a":[1,{"b":2}]}'],
        [
            '{"a": [1, {"b": 2.0}], "c": "x"}',
            '{"a": [true, {"b": 2}], "c": "x"}',
            '{"a": [1, {"b": 2}, 3], "c": "x"}',
            '{"a": [1], "c": "x"}',
            '{"a": [1, {"b": 2}]}',
            '{"a": [1, {"b": 2}], "c": "x", "d": 1}',
            '{"a": [1, {"b": 2}], "a": [1, {"b": 2}], "c": "x"}',
            "[1, 2]",
            "NaN",
        ],
    ),
]


@pytest.mark.parametrize(("reads", "gold", "right", "wrong"), TABLE)
def test_right_and_wrong(
    reads: Reads, gold: str, right: list[str], wrong: list[str | None]
) -> None:
    task = Task("t", "train", "?", reads=reads)
    assert [a for a in right if not is_correct(task, a, gold)] == []
    assert [a for a in wrong if is_correct(task, a, gold)] == []


@pytest.mark.parametrize("reads", ["number", "exact", "choice", "json"])
@pytest.mark.parametrize(
    "answer",
    [
        "[" * 200_000,
        "[" * 200_000 + "]" * 200_000,
        "[" * 900 + '"\\u0041"' + "]" * 900,
        '{"a":' * 200_000,
        "9" * 5_000,
        "1." + "0" * 5_000,
        "1e999",
        "-1e999",
        "NaN",
        "Infinity",
        '"\\ud800"',
        "\ud800",
        "\x00",
        "68\x00",
        "x" * 1_000_000,
        "9" * 1_000_000,
        "1," * 500_000,
    ],
    ids=lambda answer: ascii(answer[:12]),
)
def test_hostile_answers_are_wrong(reads: Reads, answer: str) -> None:
    assert is_correct(Task("t", "train", "?", reads=reads), answer, "68") is False


@given(st.text(), st.sampled_from(["number", "exact", "choice", "json"]), st.integers())
def test_any_text_is_judged(answer: str, reads: Reads, gold: int) -> None:
    task = Task("t", "train", "?", reads=reads)
    assert is_correct(task, answer, f"{gold}") in (True, False)
    assert is_correct(task, f"{gold}", f"{gold}") is True
    assert is_correct(task, f"{gold + 1}", f"{gold}") is False


def test_answers_that_are_no_text_are_wrong() -> None:
    task = Task("t", "train", "?", reads="number")
    for answer in (68, 68.0, True, b"68", ["68"]):
        assert is_correct(task, answer, "68") is False  # type: ignore[arg-type]


def test_a_broken_gold_answer_is_an_error_whatever_the_answer() -> None:
    task = Task("t", "train", "?", reads="number")
    for answer in ("1/3", "68", None):
        with pytest.raises(ValueError, match="not a number"):
            is_correct(task, answer, "1/3")


def test_it_has_a_version() -> None:
    assert isinstance(VERSION, str)
