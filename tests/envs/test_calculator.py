"""The calculator: its tasks, its lies, its oracle, its cheats, and both ids played through."""

import hashlib
import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import gymnasium
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import agent_envs
from agent_envs.env import ToolEnv
from agent_envs.envs.calculator.cheats import CHARS, HERMES
from agent_envs.envs.calculator.env import Calculator, CalculatorChars
from agent_envs.envs.calculator.evaluate import evaluate, render
from agent_envs.envs.calculator.tasks import CalculatorTasks, CharsTasks
from agent_envs.task import Task, TaskSource, check_unique
from agent_envs.turns import Message, Move, ToolCall

IDS = ["agent/Calculator-v0", "agent/CalculatorChars-v0"]
SOURCES = [CalculatorTasks(), CharsTasks()]
NUMBER = r"[0-9]+(?:\.[0-9]+)?"
CANONICAL = re.compile(r"(?!-0$)-?(?:0|[1-9][0-9]*)(?:\.[0-9]*[1-9])?")
CALL = ToolCall("calculate", {"expression": "23+45"})

sources = pytest.mark.parametrize("source", SOURCES, ids=["words", "chars"])
every_id = pytest.mark.parametrize("env_id", IDS)


def numbers(text: str) -> list[int]:
    """The whole numbers of a text, in order."""
    return [int(n) for n in re.findall("[0-9]+", text)]


# -- tasks ---------------------------------------------------------------------------------------


@sources
def test_counts(source: TaskSource) -> None:
    levels = 5 if type(source) is CalculatorTasks else 2
    for split, first, others in [("train", 70, 400), ("heldout", 30, 100), ("adversarial", 30, 30)]:
        counted = Counter(task.level for task in source.split(split))
        assert counted == {0: first, **dict.fromkeys(range(1, levels), others)}


@sources
def test_more_training_tasks_have_other_numbers_than_any_that_are_shipped(
    source: TaskSource,
) -> None:
    shipped = source.split("train", 0)
    more = source.more(len(shipped) + 200, 0)
    found = more.split("train", 0)
    assert found[: len(shipped)] == shipped and len(found) == len(shipped) + 200
    assert more.split("heldout") == source.split("heldout", 0)
    asked = Counter(tuple(sorted(numbers(t.data["calls"][0]))) for t in found)
    held = {tuple(sorted(numbers(t.data["calls"][0]))) for t in source.split("heldout", 0)}
    assert max(asked.values()) == 1 and not held & set(asked)
    assert all(evaluate(t.data["calls"][0]) == Fraction(t.data["answer"]) for t in found)
    with pytest.raises(ValueError, match=r"level=9: from 0 to \d"):
        source.more(1, 9)


def test_all_sums_of_two_numbers_are_some_thousands() -> None:
    """What can be made has an end, and is said to have one."""
    assert 3900 < len(CalculatorTasks().more(9999, 0).split("train", 0)) < 4095


@sources
def test_splits_are_disjoint(source: TaskSource) -> None:
    check_unique(source)
    calls = [tuple(sorted(re.findall(NUMBER, " ".join(t.data["calls"])))) for t in source]
    assert len(set(calls)) == len(calls)


@sources
def test_tasks_have_a_json_form(source: TaskSource) -> None:
    for task in source:
        assert task.reads == "number"
        assert Task.from_dict(json.loads(json.dumps(task.to_dict()))) == task


@sources
def test_gold_answers_are_canonical_and_stand_in_no_prompt(source: TaskSource) -> None:
    for task in source:
        answer = task.data["answer"]
        assert CANONICAL.fullmatch(answer)
        assert answer.lstrip("-") not in re.findall(NUMBER, task.prompt)
        assert answer == render(evaluate(task.data["calls"][-1]))


@sources
def test_no_answer_can_be_guessed(source: TaskSource) -> None:
    tasks = list(source)
    for level in {task.level for task in tasks}:
        for split in source.splits:
            answers = [t.data["answer"] for t in source.split(split, level)]
            assert len(set(answers)) == len(answers)
        if level > 0:
            answers = [t.data["answer"] for t in tasks if t.level == level]
            assert len(set(answers)) == len(answers) > 500
            assert all(abs(Fraction(answer)) >= 100 for answer in answers)
            sizes = sorted(abs(Fraction(answer)) for answer in answers)
            assert sizes[len(sizes) * 9 // 10] - sizes[len(sizes) // 10] > 1000


def test_level_0_is_a_fixed_set_of_two_digit_sums() -> None:
    words, chars = SOURCES
    for split in ("train", "heldout"):
        sums = [t.data["calls"] for t in words.split(split, 0)]
        assert sums == [t.data["calls"] for t in chars.split(split, 0)]
        for task, ((expression,), bare) in zip(
            words.split(split, 0), zip(sums, chars.split(split, 0), strict=True), strict=True
        ):
            a, b = numbers(expression)
            assert 10 <= a <= 99 and 10 <= b <= 99 and expression == f"{a}+{b}"
            assert task.data["answer"] == bare.data["answer"] == f"{a + b}"
            assert numbers(task.prompt) == [a, b]
            assert bare.prompt == f"{expression}="
    pairs = [frozenset(numbers(t.data["calls"][0])) for t in words if t.level == 0]
    assert len(set(pairs)) == 130


def test_level_0_never_changes() -> None:
    sums = " ".join(t.data["calls"][0] for t in SOURCES[0] if t.level == 0)
    assert sums.startswith("67+90 82+91 88+30 23+43 89+15")
    assert hashlib.sha256(sums.encode()).hexdigest()[:16] == "f2dfef879d7bb8c2"


def test_the_tasks_are_those_of_their_version() -> None:
    """They are published: whoever changes one raises the source's version, and these digests."""
    assert [(source.version, source.digest()) for source in SOURCES] == [
        ("1", "e50a656ffef404d2"),
        ("1", "c7043fa7e5f40ef7"),
    ]


@sources
def test_a_fresh_process_makes_the_same_tasks(source: TaskSource) -> None:
    name = type(source).__name__
    code = f"from agent_envs.envs.calculator.tasks import {name}; print({name}().digest())"
    environment = {**os.environ, "PYTHONHASHSEED": "7"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == source.digest()


def exact(expression: str) -> Fraction:
    """Python's own value of an expression of ours."""
    value: Fraction = eval(re.sub(NUMBER, r'Fraction("\g<0>")', expression), {"Fraction": Fraction})
    return Fraction(value)


@sources
def test_gold_answers_are_pythons_own(source: TaskSource) -> None:
    for task in source:
        assert [render(evaluate(c)) for c in task.data["calls"]] == [
            render(exact(c)) if exact(c).denominator > 1 else str(exact(c))
            for c in task.data["calls"]
        ]
        assert Fraction(task.data["answer"]) == exact(task.data["calls"][-1])


def test_expressions_stand_in_their_prompts() -> None:
    for level in (1, 2):
        for task in SOURCES[0].split("train", level):
            assert f"Work out {task.data['calls'][0]}." in task.prompt


STORIES: dict[str, Callable[..., Fraction | int]] = {
    "A theatre": lambda rows, seats, balcony, price: (rows * seats + balcony) * price,
    "A bakery": lambda trays, rolls, size, price: trays * rolls // size * price,
    "A van": lambda daily, days, home, litres, per, cents: (
        Fraction((daily * days + home) * litres, per) * cents
    ),
    "people give": lambda people, each, lamps: Fraction(3 * people * each, 4) - lamps,
    "A shop": lambda jars, cost, broken, more: (jars - broken) * (cost + more) - jars * cost,
    "A meadow": lambda long, wide, gate, metre, price: (2 * (long + wide) - gate) * metre + price,
    "An account": lambda start, percent, out, again: (
        (start * (1 + Fraction(percent, 100)) - out) * (1 + Fraction(again, 100))
    ),
    "Let A": lambda a, b, c, d, times, less: (
        (a * b - c * d) * times if a * b > c * d else a * b + c * d - less
    ),
    "chairs": lambda n, north, bringing, south, percent, fee: (
        n * south * (1 + Fraction(percent, 100))
        if n * north + bringing > n * south
        else n * (north + fee) + bringing
    ),
    "The old press": lambda a, b, broken, d, e, more: (
        a * b - broken + d * e + more * (a if a * b - broken > d * e else d)
    ),
    "Start with": lambda start, rounds, bound, less, times, more: rounds_of(
        start, rounds, bound, less, times, more
    ),
}


def rounds_of(value: int, rounds: int, bound: int, less: int, times: int, more: int) -> int:
    """What "Start with" ends with."""
    for _ in range(rounds):
        value = value - less if value > bound else value * times + more
    return value


def stories(level: int) -> Iterator[tuple[str, Task]]:
    """The plainly put stories of a level, and those with large numbers, with what they are of."""
    tasks = SOURCES[0].split("train", level) + SOURCES[0].split("heldout", level)
    large = tuple(t for t in SOURCES[0].split("adversarial", level) if "large" in t.tags)
    for task in tasks + large:
        (kind,) = [kind for kind in STORIES if kind in task.prompt]
        yield kind, task


@pytest.mark.parametrize("level", [3, 4])
def test_stories_are_solved_as_they_are_told(level: int) -> None:
    kinds = Counter[str]()
    for kind, task in stories(level):
        kinds[kind] += 1
        assert Fraction(task.data["answer"]) == STORIES[kind](*numbers(task.prompt)), task.prompt
        assert len(task.data["calls"]) >= 3
    assert len(kinds) == (7 if level == 3 else 4)
    assert min(kinds.values()) > 30


def test_choices_go_both_ways() -> None:
    ways: dict[str, Counter[bool]] = {}
    for kind, task in stories(4):
        n = numbers(task.prompt)
        greater = {
            "Let A": lambda n: n[0] * n[1] > n[2] * n[3],
            "chairs": lambda n: n[0] * n[1] + n[2] > n[0] * n[3],
            "The old press": lambda n: n[0] * n[1] - n[2] > n[3] * n[4],
            "Start with": lambda n: n[0] > n[2],
        }[kind](n)
        ways.setdefault(kind, Counter())[greater] += 1
    for counted in ways.values():
        assert 0.25 < counted[True] / counted.total() < 0.75


def test_adversarial_tasks_are_of_every_style() -> None:
    for source in SOURCES:
        for level in {task.level for task in source}:
            tasks = source.split("adversarial", level)
            styles = {task.tags[1] for task in tasks}
            assert styles >= {"distract", "order", "spacing", "wording", "large"}
            assert ("negative" in styles) == (level < 3)
            for task in tasks:
                if task.tags[1] == "large":
                    assert numbers(task.data["calls"][0])[0] > 10**12
                if task.tags[1] == "spacing":
                    assert re.search(r"\s\s|\n|\t", task.prompt)


# -- corrupt -------------------------------------------------------------------------------------

RESULTS = st.one_of(
    st.integers(-(10**20), 10**20),
    st.integers(-12, 12),
    st.fractions(max_denominator=10**4),
    st.decimals(allow_nan=False, allow_infinity=False, places=3, min_value=-99, max_value=99).map(
        Fraction
    ),
).map(lambda value: render(int(value) if value == int(value) else value))
CHANCE = st.floats(0, 1, exclude_max=True)
ENV = Calculator()


def places(text: str) -> int:
    """How many decimals a number is written with."""
    return len(text.partition(".")[2])


@given(RESULTS, CHANCE)
@example("0", 0.0)
@example("1", 0.0)
@example("-1", 0.999)
@example("9.9", 0.6)
@example("-0.1", 0.0)
def test_a_wrong_result_looks_like_a_sound_one(truth: str, u: float) -> None:
    wrong = ENV.corrupt("wrong", CALL, truth, u)
    assert CANONICAL.fullmatch(wrong)
    assert places(wrong) == places(truth)
    assert wrong == "0" or (wrong[0] == "-") == (truth[0] == "-")
    assert 1 <= abs(Fraction(wrong) - Fraction(truth)) * 10 ** places(truth) <= 9


@given(RESULTS, CHANCE)
@example("-0.5", 0.0)
@example("-7", 0.0)
@example("0.05", 0.9)
@example("100", 0.9)
def test_a_truncated_result_is_a_number_too(truth: str, u: float) -> None:
    short = ENV.corrupt("truncated", CALL, truth, u)
    assert CANONICAL.fullmatch(short)
    assert truth.startswith(short)
    if short == truth:
        assert not any(CANONICAL.fullmatch(truth[:n]) for n in range(1, len(truth)))
    else:
        assert Fraction(short) != Fraction(truth)


@pytest.mark.parametrize(
    ("kind", "truth", "seen"),
    [
        ("wrong", "68", {str(n) for n in range(59, 78)} - {"68"}),
        ("wrong", "3", {str(n) for n in range(13)} - {"3"}),
        ("wrong", "-1", {str(n) for n in range(-10, 1)} - {"-1"}),
        ("wrong", "0", {str(n) for n in range(1, 10)}),
        ("wrong", "0.9", {f"0.{n}" for n in range(1, 9)} | {f"1.{n}" for n in range(1, 9)}),
        ("truncated", "-12.05", {"-1", "-12"}),
        ("truncated", "0.5", {"0"}),
        ("truncated", "-0.5", {"-0.5"}),
        ("truncated", "7", {"7"}),
    ],
)
def test_every_lie_can_be_told(kind: str, truth: str, seen: set[str]) -> None:
    assert {ENV.corrupt(kind, CALL, truth, i / 1000) for i in range(1000)} == seen


@given(st.text(), CHANCE)
def test_what_is_no_result_is_left_alone(text: str, u: float) -> None:
    if not CANONICAL.fullmatch(text):
        assert ENV.corrupt("wrong", CALL, text, u) == text
        assert ENV.corrupt("truncated", CALL, text, u) == text


# -- played --------------------------------------------------------------------------------------

Player = Callable[[Task, list[Message]], str | Move]


def play(env: ToolEnv, task: Task, player: Player, seed: int = 1) -> tuple[float, dict[str, Any]]:
    """The sum of rewards and the last info of an episode; text goes to step, moves to act."""
    _, info = env.reset(seed=seed, options={"task": task})
    messages: list[Message] = list(info["messages"])
    total = 0.0
    while not env.ended:
        move = player(task, messages)
        _, reward, _, _, info = env.step(move) if isinstance(move, str) else env.act(move)
        total += reward
        messages += [{"role": "assistant", "content": str(move)}, *info["messages"]]
    return total, info


def made(env_id: str, **arguments: Any) -> Calculator:
    """An env of one of our ids."""
    env = gymnasium.make(env_id, **arguments)
    assert isinstance(env, Calculator)
    return env


@every_id
@pytest.mark.parametrize("rate", [0.0, {"wrong": 0.3, "error": 0.2, "truncated": 0.2}])
def test_the_oracle_solves_every_task(env_id: str, rate: Any) -> None:
    env = made(env_id, fault_rate=rate)
    end = "|" if env.protocol.name == "chars" else ""

    def oracle(task: Task, messages: list[Message]) -> str | Move:
        move = env.oracle(task, messages)
        return move + end if isinstance(move, str) else move

    for task in env.tasks:
        total, info = play(env, task, oracle)
        assert total == 1.0, task
        assert info["verdict"].passed
        assert info["verdict"].components == {"answer": 1.0, "calls": len(task.data["calls"])}


@every_id
@pytest.mark.parametrize("cheat", sorted(HERMES))
def test_no_cheat_is_paid(env_id: str, cheat: str) -> None:
    env = made(env_id)
    for task in env.tasks:
        total, info = play(env, task, lambda task, messages: env.cheats[cheat](messages))
        assert total == 0.0, task
        assert not info["verdict"].passed
        assert info["end_reason"] == "answer"


def test_cheats_with_the_right_number_do_have_it() -> None:
    """A test of the cheats: these are no straw men, they get as far as the right value."""
    for env in (Calculator(level=1), CalculatorChars(level=0, protocol="chars")):
        for task in env.tasks.split("heldout", env.level):
            _, info = env.reset(options={"task": task})
            messages = [*info["messages"]]
            call = env.cheats["json"](messages)
            messages += [{"role": "assistant", "content": call}, *env.step(call)[4]["messages"]]
            answers = {name: cheat(messages) for name, cheat in env.cheats.items()}
            gold = task.data["answer"]
            assert gold in answers["json"]
            assert gold in answers["hedge"]
            wide = answers["unicode_digits"].translate(str.maketrans("－", "-")).removesuffix("|")
            assert Fraction(wide) == Fraction(gold)
            assert exact(answers["unsolved"].removesuffix("|")) == Fraction(gold)


@every_id
def test_faults_are_not_seen_in_the_form(env_id: str) -> None:
    env = made(env_id, fault_rate={"wrong": 0.4, "truncated": 0.3, "stale": 0.2})
    faulty = 0
    for seed, task in enumerate(env.tasks):
        total, info = play(env, task, lambda task, messages: env.cheats["by_form"](messages), seed)
        assert total == 0.0
        env.reset(seed=seed, options={"task": task})
        for expression in task.data["calls"][:3]:
            result = env.call(ToolCall("calculate", {"expression": expression}))
            faulty += result.fault is not None
            assert CANONICAL.fullmatch(result.content)
            assert result.content != result.truth
    assert faulty > 300


def test_the_readme_example() -> None:
    env = made("agent/Calculator-v0")
    call = '<tool_call>{"name": "calculate", "arguments": {"expression": "23+45"}}</tool_call>'
    env.reset(seed=7)
    observation, reward, terminated, truncated, info = env.step(call)
    assert observation == "<tool_response>\n68\n</tool_response>"
    assert (reward, terminated, truncated) == (0.0, False, False)
    assert info["reward_components"] == {"answer": 0.0, "calls": 0.0}


def test_the_workshops_dialogue() -> None:
    env = made("agent/CalculatorChars-v0", level=0)
    task = env.tasks.split("train", 0)[0]
    observation, _ = env.reset(options={"task": task})
    assert observation == task.prompt == f"{task.data['calls'][0]}="
    answer = f"{task.data['answer']}|"
    assert env.step(f"B{task.prompt[:-1]}|")[0] == answer
    assert env.step("B1/0|")[0] == "?|"
    assert env.step(answer)[1:3] == (1.0, True)
    assert (env.max_turns, env.protocol.name) == (4, "chars")


def test_errors_of_the_model_are_told_to_it() -> None:
    env = made("agent/Calculator-v0")
    env.reset(seed=1)
    result = env.call(ToolCall("calculate", {"expression": "1/0"}))
    assert (result.content, result.error) == ("error: division by zero", "failed")
    assert env.call(ToolCall("calculate", {"expression": 1})).error == "bad_arguments"
    assert env.call(ToolCall("compute", {})).error == "unknown_tool"
    verdict = env.finish("68 or 69")
    assert verdict is not None
    assert (verdict.passed, verdict.total, verdict.components["calls"]) == (False, 0.0, 3.0)


def test_calls_are_counted_and_can_be_priced() -> None:
    class Priced(Calculator):
        weights = {"answer": 1.0, "calls": -0.01}

    env = Priced(fault_rate={"error": 1.0})
    env.reset(seed=1)
    for _ in range(5):
        env.call(CALL)
    verdict = env.finish(env.task.data["answer"])
    assert verdict is not None
    assert verdict.passed and verdict.total == pytest.approx(0.95)


def test_no_answer_scores_nothing() -> None:
    env = made("agent/CalculatorChars-v0")
    _, info = env.reset(seed=1)
    for turn in range(4):
        _, reward, terminated, truncated, info = env.step("B1+1|")
        assert (reward, terminated, truncated) == (0.0, False, turn == 3)
    assert info["end_reason"] == "max_turns"
    assert not info["verdict"].passed


def test_tasks_of_ones_own() -> None:
    env = Calculator(tasks=[{"id": "x", "split": "train", "prompt": "6*7?", "reads": "number",
                             "data": {"answer": "42"}}])  # fmt: skip
    env.reset(seed=1)
    assert env.oracle(env.task, []) == "42"
    verdict = env.finish("42.0")
    assert verdict is not None and verdict.passed


def test_it_is_registered_and_loaded_only_when_made() -> None:
    code = (
        "import sys, agent_envs\n"
        "print(*agent_envs.ids(), 'agent_envs.envs.calculator.env' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    *ids, loaded = done.stdout.split()
    assert set(IDS) <= set(ids) and loaded == "False"
    assert set(IDS) <= set(agent_envs.ids())


def test_what_the_classes_declare() -> None:
    for kind, cheats in [(Calculator, HERMES), (CalculatorChars, CHARS)]:
        assert vars(kind)["inline"] is True
        assert kind.cheats is cheats
        assert kind.components == ("answer", "calls")
        assert kind.state_is_data and not kind.volatile
