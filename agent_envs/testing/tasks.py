"""The tasks: well formed, the same every time, and no split a copy of another."""

import json
import re
import unicodedata
from itertools import combinations

from agent_envs.env import ToolEnv
from agent_envs.plain import to_plain
from agent_envs.task import Task, check_unique
from agent_envs.testing.play import Subject, episode

_FEW = 10
"""Of fewer tasks nobody can say that their data are the same by design."""


def tasks_are_sound(subject: Subject) -> None:
    """Ids and prompts are unique over all splits, and `load` gives the same tasks every time."""
    env = subject.make()
    for split in env.tasks.splits:
        _check_there(env, split)
    tasks = list(env.tasks)
    check_unique(tasks)
    for task in tasks:
        try:
            json.dumps(task.to_dict())
        except TypeError as error:
            raise AssertionError(f"{task}: data needs a plain JSON form: {error}") from error
    for split in env.tasks.splits:
        assert _loaded(env, split) == _loaded(env, split), (
            f"load({split!r}) gives other tasks each time: derive them from their numbers"
        )
    env.close()


def _check_there(env: ToolEnv, split: str) -> None:
    """Each split that the source promises has tasks, and they say that they are of it."""
    source, problem = type(env.tasks).__name__, ""
    try:
        loaded = list(env.tasks.load(split))
    except Exception as error:
        problem = f"raises {error!r:.300}"
    else:
        strangers = [task for task in loaded if task.split != split]
        if strangers:
            problem = f"gives {strangers[0]}, a task of another split"
        elif not loaded:
            problem = "gives no task"
    assert not problem, (
        f"load({split!r}) of {source} {problem}. It must give tasks for each of "
        f"{env.tasks.splits}; where there are fewer splits, the class {source} says so: "
        'splits = ("train",)'
    )


def splits_are_disjoint(subject: Subject) -> None:
    """No task stands in two splits, not even spaced otherwise or under another prompt."""
    env = subject.make()
    splits = {split: env.tasks.split(split) for split in env.tasks.splits}
    seen: dict[str, Task] = {}
    for task in (task for tasks in splits.values() for task in tasks):
        other = seen.setdefault(_without_spaces(task.prompt), task)
        assert other.split == task.split, (
            f"{other.id!r} of {other.split} and {task.id!r} of {task.split} are one task: their "
            "prompts differ in white space alone. Make the splits from different problems"
        )
    for one, two in combinations(splits, 2):
        _check_data(one, _data(splits[one]), two, _data(splits[two]))
    env.close()


def _check_data(one: str, first: list[str], two: str, second: list[str]) -> None:
    """Data may be alike by chance, or where they are few; not nearly all of them."""
    if len(second) < _FEW or len(set(first)) < len(first) or len(set(second)) < len(second):
        return
    again = len(set(first) & set(second))
    assert again < 0.9 * len(second), (
        f"{again} of the {len(second)} tasks of {two} have the data of a task of {one}: they are "
        "the same tasks in other words. Make the splits from different problems"
    )


def _data(tasks: tuple[Task, ...]) -> list[str]:
    return [json.dumps(to_plain(task.data), sort_keys=True) for task in tasks]


def _without_spaces(text: str) -> str:
    """A prompt without what nobody sees: white space but for what parts two words."""
    if not text.isascii():
        text = "".join(c for c in text if unicodedata.category(c) != "Cf")
    return re.sub(r"(?<!\w) | (?!\w)", "", " ".join(text.split()))


def tasks_stay_as_they_are(subject: Subject) -> None:
    """No episode changes a task: all episodes share it."""
    env = subject.make()
    episode(env, 1, 5)
    for split in env.tasks.splits:
        now = [task.to_dict() for task in env.tasks.split(split)]
        assert now == _loaded(env, split), (
            f"an episode changed the data of a task in {split!r}, which all episodes share: copy "
            "in setup() what tools change"
        )
    env.close()


def _loaded(env: ToolEnv, split: str) -> list[object]:
    return [task.to_dict() for task in env.tasks.load(split)]
