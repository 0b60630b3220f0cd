"""Tasks, and deterministic collections of them."""

import copy
import hashlib
import itertools
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from fractions import Fraction
from os import PathLike
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

from agent_envs.errors import near, whole
from agent_envs.plain import has_lone_surrogate, parse_json, to_plain

SPLITS = ("train", "heldout", "adversarial")

Reads: TypeAlias = Literal["exact", "number", "json", "choice"]

_READS = get_args(Reads)
_NUMBER = re.compile(r"[+-]?(?:[0-9]{1,400}|[0-9]{1,3}(?:,[0-9]{3}){1,100})(?:\.[0-9]{1,400})?")
_AROUND_CHOICE = " \t\r\n\"'`()[]."


@dataclass(slots=True, frozen=True)
class Task:
    """One problem. `prompt` is what the policy reads; `data` is private: gold, seeds, hidden tests.

    `reads` says how a final answer is read, see `read`. Every field has a plain JSON form, as long
    as `data` has one. Raises ValueError for a field that cannot be.
    """

    id: str
    split: str
    prompt: str
    data: Any = None
    level: int = 0
    tags: tuple[str, ...] = ()
    reads: Reads = "exact"

    def __post_init__(self) -> None:
        for name in ("id", "split", "prompt"):
            _check_text(f"task {self.id!r:.80}: its {name}", getattr(self, name))
        if type(self.level) is not int:
            raise ValueError(f"task {self.id!r}: level={self.level!r}; a whole number")
        if not isinstance(self.tags, tuple) or not all(isinstance(x, str) for x in self.tags):
            raise ValueError(f"task {self.id!r}: tags={self.tags!r}; a tuple of strings")
        if self.reads not in _READS:
            raise ValueError(f"task {self.id!r}: reads={self.reads!r}; one of {_READS}")

    def __repr__(self) -> str:
        """Without the prompt and the private data: a repr ends up in logs."""
        return f"Task({self.id!r}, split={self.split!r}, level={self.level})"

    def read(self, answer: str) -> Any:
        """The value that an answer stands for, for comparison with the gold one.

        `exact` strips white space; `number` gives a Fraction from a plain decimal number (thousands
        commas allowed); `json` gives the parsed value; `choice` ignores case and what people put
        around a choice. Raises ValueError where the text is no such thing.
        """
        match self.reads:
            case "exact":
                return answer.strip()
            case "number":
                text = answer.strip()
                if not _NUMBER.fullmatch(text):
                    raise ValueError("not a number")
                digits = text.replace(",", "")
                return Fraction(digits if "." in digits else int(digits))  # the latter is quick
            case "json":
                return parse_json(answer)
            case "choice":
                choice = answer.strip(_AROUND_CHOICE).casefold()
                if not choice:
                    raise ValueError("no choice")
                return choice

    def to_dict(self, *, private: bool = True) -> dict[str, Any]:
        """The JSON form, whose `data` is a copy; with `private=False` without `data`, for logs."""
        out = {f.name: getattr(self, f.name) for f in fields(self)} | {"tags": list(self.tags)}
        del out["data"]
        return out | {"data": copy.deepcopy(self.data)} if private else out

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Task":
        """The inverse of `to_dict`. Raises ValueError for what is no task, naming what is wrong."""
        if not isinstance(data, Mapping):
            raise ValueError(f"not a task but a {type(data).__name__}; a task is an object")
        tags = data.get("tags", ())
        try:
            return cls(**{**data, "tags": tuple(tags) if isinstance(tags, list) else tags})
        except TypeError as error:
            raise ValueError(
                f"not a task: {error}; got the keys {sorted(map(str, data))}"
            ) from None


class TaskSource:
    """A deterministic collection of tasks. A subclass writes `load`; everything else follows.

    Ids are unique over all splits, and so are prompts: a policy sees nothing else of a task. What
    breaks this is a ValueError as soon as a split is loaded beside another, or a task looked up.
    """

    splits: tuple[str, ...] = SPLITS
    version = "1"

    def __init__(self) -> None:
        self._loaded: dict[str, tuple[Task, ...]] = {}
        self._chosen: dict[tuple[str, int | None], tuple[Task, ...]] = {}
        self._by_id: dict[str, Task] = {}
        self._digest = ""
        self._plain: list[dict[str, Any]] = []

    def load(self, split: str) -> Iterable[Task]:
        """All tasks of a split, the same ones in the same order every time."""
        raise NotImplementedError

    def drawn(self, level: int) -> Iterator[Task]:
        """Training tasks of a level, as many as can be made, those of `load` first. Raises
        ValueError where no others are made."""
        raise ValueError(f"{type(self).__name__} makes no tasks but those it has")

    def more(self, count: int, level: int = 0) -> "TaskList":
        """Up to `count` training tasks of a level, with the level's other splits as they are.

        Raises ValueError where only those are made that there are already.
        """
        made = itertools.islice(self.drawn(level), whole("count", count, 1))
        others = [name for name in self.splits if name != "train"]
        return TaskList([*made, *(t for name in others for t in self.split(name, level))])

    def split(self, split: str, level: int | None = None) -> tuple[Task, ...]:
        """The tasks of a split, of one level or of all. KeyError where there are none, ValueError
        for a level that is no whole number."""
        if level is not None and type(level) is not int:
            level = whole("level", level)
        if not isinstance(split, str):
            raise KeyError(f"no split {split!r}; there are {list(self.splits)}")
        chosen = self._chosen.get((split, level))
        if chosen is None:
            loaded = self._all(split)
            if not loaded:
                raise KeyError(f"the split {split!r} is empty")
            chosen = tuple(t for t in loaded if level is None or t.level == level)
            if not chosen:
                levels = sorted({t.level for t in loaded})
                raise KeyError(f"split {split!r} has no task of level {level}; levels: {levels}")
            self._chosen[split, level] = chosen
        return chosen

    def __iter__(self) -> Iterator[Task]:
        for name in self.splits:
            yield from self._all(name)

    def __getitem__(self, task_id: str) -> Task:
        if not self._by_id:
            self._by_id = {task.id: task for task in self}  # all at once: other threads may look
        try:
            return self._by_id[task_id]
        except KeyError:
            raise KeyError(self._unknown(task_id)) from None

    def _unknown(self, task_id: str) -> str:
        example = next(iter(self._by_id), "")
        hint = near(str(task_id), self._by_id) or f"; an id looks like {example!r}"
        return f"no task {task_id!r} in {type(self).__name__}{hint}"

    def _all(self, split: str) -> tuple[Task, ...]:
        if split not in self._loaded:
            if split not in self.splits:
                raise KeyError(f"no split {split!r}; there are {list(self.splits)}")
            loaded = tuple(self.load(split))
            for task in loaded:
                if task.split != split:
                    raise ValueError(f"load({split!r}) gave {task}, a task of another split")
            others = [
                t for name, tasks in self._loaded.copy().items() if name != split for t in tasks
            ]
            check_unique([*others, *loaded])
            self._loaded[split] = loaded
        return self._loaded[split]

    def to_plain(self) -> list[dict[str, Any]]:
        """All tasks in JSON form. It is made once, for all environments that share this source, and
        not to be changed."""
        if not self._plain:
            self._plain = [to_plain(task.to_dict()) for task in self]
        return self._plain

    def digest(self) -> str:
        """A hash of every task of every split, private data included.

        Raises TypeError where `data` holds something whose `repr` is another in every process.
        """
        if not self._digest:
            sha = hashlib.sha256()
            for task in self:
                everything = task.to_dict(private=False) | {"data": task.data}
                sha.update(json.dumps(to_plain(everything, _stable), sort_keys=True).encode())
            self._digest = sha.hexdigest()[:16]
        return self._digest


class TaskList(TaskSource):
    """Tasks that somebody hands over: a list of them, or of dicts as `Task.to_dict` gives them.

    Raises ValueError where there are none, for what is no task, and for tasks that are not unique.
    """

    def __init__(self, tasks: Iterable[Task | Mapping[str, Any]]) -> None:
        super().__init__()
        self._tasks = [t if isinstance(t, Task) else Task.from_dict(t) for t in tasks]
        if not self._tasks:
            raise ValueError("an empty list of tasks")
        check_unique(self._tasks)
        self.splits = tuple(dict.fromkeys(t.split for t in self._tasks))

    def load(self, split: str) -> Iterable[Task]:
        """What was handed over for this split."""
        return [task for task in self._tasks if task.split == split]


TasksLike: TypeAlias = TaskSource | str | PathLike[str] | Sequence[Task | Mapping[str, Any]]


def as_source(tasks: TasksLike) -> TaskSource:
    """A source from whatever `make(..., tasks=...)` takes: a source, a `.jsonl` path, a list.

    Raises ValueError for anything else, FileNotFoundError for a path where no file is."""
    if isinstance(tasks, TaskSource):
        return tasks
    if isinstance(tasks, str | PathLike):
        return TaskList(_read_jsonl(task_file(tasks)))
    if isinstance(tasks, bytes | Mapping) or not isinstance(tasks, Iterable):
        raise ValueError(
            f"tasks={tasks!r:.80}: a TaskSource, the path of a file, or a list of tasks"
        )
    return TaskList(tasks)


def task_file(tasks: str | PathLike[str], names: Sequence[str] = ()) -> Path:
    """The path of a file of tasks. Raises FileNotFoundError where there is no file, saying what
    `tasks` may be: `names` are those that an env takes in place of a path."""
    path = Path(tasks)
    if os.path.exists(path) and not path.is_dir():  # which takes any text, a task's JSON too
        return path
    hint = near(str(tasks), [*names, *_files_beside(path)])
    named = "".join(f"{name!r}, " for name in names)
    raise FileNotFoundError(
        f"tasks={str(tasks)!r:.200}: no such file{hint}; {named}the path of a .jsonl file, or a "
        "list of tasks"
    )


def _files_beside(path: Path) -> list[str]:
    """The files in the folder of a path that may be wrong, as paths."""
    try:
        return [str(path.with_name(x.name)) for x in path.parent.iterdir() if x.is_file()]
    except (OSError, ValueError):
        return []


def _read_jsonl(path: Path) -> list[Task]:
    tasks = []
    for number, line in enumerate(path.read_bytes().split(b"\n"), 1):
        if line.strip():
            try:
                tasks.append(Task.from_dict(parse_json(line.decode())))
            except ValueError as error:
                raise ValueError(f"{path}:{number}: {error}") from None
    return tasks


def _check_text(what: str, text: Any) -> None:
    if not isinstance(text, str):
        raise ValueError(f"{what} is {text!r:.80}; a string")
    if "\0" in text or not text.isascii() and has_lone_surrogate(text):
        raise ValueError(f"{what} holds a NUL character or a lone surrogate")


def _stable(value: Any) -> str:
    text = repr(value)
    if " at 0x" in text:
        raise TypeError(f"a task's data holds a {type(value).__name__}; keep plain values there")
    return text


def check_unique(tasks: Iterable[Task]) -> None:
    """Raise ValueError where two tasks share an id or a prompt."""
    ids: set[str] = set()
    prompts: dict[str, str] = {}
    for task in tasks:
        if task.id in ids:
            raise ValueError(f"two tasks have the id {task.id!r}")
        ids.add(task.id)
        other = prompts.setdefault(task.prompt, task.id)
        if other != task.id:
            raise ValueError(f"tasks {other!r} and {task.id!r} have the same prompt")
