"""The code tasks: how many, how they are kept apart, and that their tests tell right from wrong."""

import ast
import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from agent_envs.envs.code.misleading import STYLES
from agent_envs.envs.code.problems.form import MUTANTS, VISIBLE, Dice, fill, mutated
from agent_envs.envs.code.problems.repairs import Place, choices, filled
from agent_envs.envs.code.tasks import COUNTS, HARDER, PACKAGES, PROGRAMS, SMALL, CodeTasks
from agent_envs.task import Task, check_unique
from agent_envs.verifiers.unit_tests import verify

TASKS = CodeTasks()
ALL = list(TASKS)
FUNCTIONS = [task for task in ALL if task.data["kind"] == "cases"]
PACKAGED = [task for task in ALL if task.data["kind"] == "package"]


def outcomes(source: str, name: str, tests: list[dict[str, str]]) -> list[bool]:
    """Which cases a function of ours gets right."""
    scope: dict[str, Any] = {"__name__": "solution"}
    exec(compile(source, "solution.py", "exec"), scope)
    out = []
    for test in tests:
        found: Any = None
        try:
            found = scope[name](*ast.literal_eval(test["args"]))
        except Exception as error:
            out.append(type(error).__name__ == test.get("raises"))
            continue
        wanted = ast.literal_eval(test.get("returns", "'an exception'"))
        out.append(found == wanted and type(found) is type(wanted))
    return out


def test_counts() -> None:
    for split, count in COUNTS.items():
        found = Counter(task.level for task in TASKS.split(split))
        assert found == dict.fromkeys(range(5), count)
    assert COUNTS["train"] >= 30 and COUNTS["heldout"] >= 10


def test_ids_and_prompts_are_unique() -> None:
    check_unique(ALL)


def test_every_template_is_used_in_training() -> None:
    used = {(task.level, task.tags[0]) for task in TASKS.split("train")}
    for level, makers in enumerate([SMALL, HARDER, SMALL + HARDER, PROGRAMS, PACKAGES]):
        assert {(level, maker.__name__) for maker in makers} <= used


def test_no_problem_is_in_two_splits() -> None:
    """Apart from names and inputs: those of a problem may be drawn anew."""
    home: dict[tuple[str, str], str] = {}
    for task in ALL:
        name = task.data["entry_point"] or "-"
        if task in PACKAGED:
            whole = str([test["must"] for test in task.data["hidden"]])
        else:
            whole = task.data["solution"]["solution.py"].replace(name, "f")
        key = (task.tags[0], whole)
        assert home.setdefault(key, task.split) == task.split, task
    assert len(home) == len(ALL)


def test_tasks_have_a_json_form() -> None:
    for task in ALL:
        assert Task.from_dict(json.loads(json.dumps(task.to_dict()))) == task


def test_a_fresh_process_makes_the_same_tasks() -> None:
    code = "from agent_envs.envs.code.tasks import CodeTasks; print(CodeTasks().digest())"
    environment = {**os.environ, "PYTHONHASHSEED": "7"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == TASKS.digest()


def test_hidden_tests_are_others_than_the_visible_ones() -> None:
    for task in ALL:
        shown = [json.dumps(test) for test in task.data["visible"]]
        hidden = [json.dumps(test) for test in task.data["hidden"]]
        assert set(hidden) - set(shown), task
        if task not in PACKAGED:
            assert len(shown) == VISIBLE and len(hidden) >= 10
            assert not any(test in task.prompt for test in set(hidden) - set(shown))


WORKED = (
    ("code/0/train/000", "digest([-5, 3, -14, -20, -2, 4, 54, 43, 22]) == 48"),
    ("code/0/train/002", "from_digits(176) == 4"),
    ("code/1/train/000", "calculate('8 # (0 - 9 - 6 # 0) + 6') == -64"),
    ("code/1/train/001", "nested_total('<<19,1,23>,14>') == -29"),
    ("code/3/train/001", "4 5\nF5\nF2\nF3\nF\nF\nF5\nF\nF\nL5\n\nOutput:\n\n0 4 W\nsum 4"),
)
"""Examples that were worked out by hand from their texts, not by a solution."""


@pytest.mark.parametrize(("task_id", "example"), WORKED)
def test_examples_are_what_their_texts_say(task_id: str, example: str) -> None:
    assert example in TASKS[task_id].prompt


def test_no_constant_result_is_right() -> None:
    for task in FUNCTIONS:
        found = Counter(
            json.dumps([t.get("returns"), t.get("raises")]) for t in task.data["hidden"]
        )
        assert max(found.values()) < len(task.data["hidden"]), task


def test_solutions_pass_and_mutants_fail_directly() -> None:
    for task in FUNCTIONS:
        data, name = task.data, task.data["entry_point"]
        solution = data["solution"]["solution.py"]
        assert all(outcomes(solution, name, data["visible"] + data["hidden"])), task
        assert len(data["mutants"]) >= MUTANTS
        for mutant in data["mutants"]:
            assert not all(outcomes(mutant["solution.py"], name, data["hidden"])), task


def test_a_visible_test_shows_the_bug() -> None:
    repairs = [task for task in ALL if task.level == 2]
    for task in repairs:
        start, name = task.data["files"]["solution.py"], task.data["entry_point"]
        assert not all(outcomes(start, name, task.data["visible"])), task
        assert task.data["solution"]["solution.py"] not in (start, task.data["mutants"])


def test_programs_say_what_their_examples_say() -> None:
    for task in TASKS.split("heldout", 3):
        for test in task.data["visible"]:
            done = subprocess.run(
                [sys.executable, "-c", task.data["solution"]["solution.py"]],
                input=test["stdin"], capture_output=True, text=True, check=True,
            )  # fmt: skip
            assert done.stdout == test["stdout"], task
            assert test["stdin"] in task.prompt


def test_packages_ask_for_every_place() -> None:
    for task in PACKAGED:
        musts = Counter(test["must"] for test in task.data["hidden"])
        assert 2 <= musts["fail_to_pass"] <= 3 and musts["pass_to_pass"] >= 3
        for test in task.data["visible"] + task.data["hidden"]:
            assert test["names"] and test["source"].count("def test_") == len(test["names"])
        assert not {t["path"] for t in task.data["hidden"]} & task.data["files"].keys()
        assert len(task.data["mutants"]) >= MUTANTS


def test_adversarial_tasks_mislead_and_nothing_more() -> None:
    styles = Counter(task.tags[1] for task in TASKS.split("adversarial"))
    assert styles.keys() == STYLES.keys()
    for task in ALL:
        assert (task.tags[1] == "plain") is (task.split != "adversarial")
    planted = [t for t in TASKS.split("adversarial") if t.tags[1] in ("conftest", "sitecustomize")]
    assert all(f"{task.tags[1]}.py" in task.data["files"] for task in planted)


def test_a_change_must_be_one() -> None:
    assert mutated("a + b", ("+", "-")) == ("a - b",)
    for change in (("c", "d"), ("a", "a")):
        with pytest.raises(ValueError, match="stands"):
            mutated("a + b", change)
    with pytest.raises(ValueError, match="stands 2 times"):
        mutated("a + a", ("a", "b"))


def test_a_place_must_be_once_in_its_file() -> None:
    place = Place("x", "p/m.py", "one", "two", "", "")
    package = filled("p", "", {"p/m.py": "one one"}, (place,))
    with pytest.raises(ValueError, match="x is not once"):
        package.broken(("x",))
    assert fill("<a><b><c>", a=1, b="<c>", c=2) == "122"


def test_every_choice_of_places_makes_a_package() -> None:
    for maker in PACKAGES:
        for broken in choices(maker(Dice(1))):
            package = maker(Dice(str(broken)))
            files = package.broken(broken)
            for path, text in files.items():
                compile(text, path, "exec")
            assert files != package.broken(())


RUNNER = """
import importlib.util, sys
sys.path.insert(0, "")
for path in sys.argv[1:]:
    spec = importlib.util.spec_from_file_location("test", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for name in [name for name in vars(module) if name.startswith("test_")]:
        try:
            vars(module)[name]()
        except Exception:
            print(path, name)
"""


@pytest.mark.parametrize("maker", PACKAGES)
def test_a_broken_place_fails_its_own_tests_and_no_others(maker: Any, tmp_path: Path) -> None:
    package = maker(Dice(7))
    for place in ((), *((place.name,) for place in package.places)):
        folder = tmp_path / "-".join(("tree", *place))
        tests = package.tests(place, "visible") + package.tests(place, "hidden")
        sources = {test["path"]: test["source"] for test in tests}
        for path, text in (package.broken(place) | sources).items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text)
        done = subprocess.run(
            [sys.executable, "-c", RUNNER, *sources],
            cwd=folder, capture_output=True, text=True, check=True,
        )  # fmt: skip
        due = [f"{t['path']} {n}" for t in tests for n in t["names"] if t["must"] == "fail_to_pass"]
        assert done.stdout.splitlines() == due, place


def check(task: Task) -> None:
    """The verifier's own word on a task: its start, its solution, its mutants."""
    data = task.data
    solved = data["files"] | data["solution"]
    for tests in ("visible", "hidden"):
        report = verify(data, solved, tests=tests)
        assert report.passed, (task, [r for r in report.results if not r.passed])
    start = verify(data, data["files"], tests="visible")
    assert not start.passed, task
    assert [r.name for r in start.results if r.passed] == data["passing"], task
    for mutant in data["mutants"]:
        assert not verify(data, data["files"] | mutant).passed, task
    if task in PACKAGED:
        must = {f"{t['path']}::{n}": t["must"] for t in data["hidden"] for n in t["names"]}
        for result in verify(data, data["files"]).results:
            assert result.passed is (must[result.name] == "pass_to_pass"), (task, result)


@pytest.mark.soak(len(ALL))
def test_every_task_is_sound(rounds: int) -> None:
    step = len(ALL) // rounds
    for task in ALL[::step][:rounds]:
        check(task)


@pytest.mark.parametrize("level", [0, 2, 4])
def test_more_tasks_begin_with_those_that_are_shipped(level: int) -> None:
    shipped = TASKS.split("train", level)
    more = TASKS.more(len(shipped) + 6, level).split("train", level)
    assert more[: len(shipped)] == shipped and len(more) == len(shipped) + 6
    with pytest.raises(ValueError, match="level=7: one of 0, 1, 3, 2, 4"):
        TASKS.more(5, 7)
