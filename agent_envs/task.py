"""Tasks, and deterministic collections of them."""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from os import PathLike
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

from agent_envs.plain import parse_json

SPLITS = ("train", "heldout", "adversarial")

Reads: TypeAlias = Literal["exact", "number", "json", "choice"]

_NUMBER = re.compile(r"[+-]?(?:[0-9]{1,400}|[0-9]{1,3}(?:,[0-9]{3}){1,100})(?:\.[0-9]{1,400})?")
_AROUND_CHOICE = " \t\r\n\"'`()[]."


@dataclass(slots=True, frozen=True)
class Task:
    """One problem. `prompt` is what the policy reads; `data` is private: gold, seeds, hidden tests.

    `reads` says how a final answer is read, see `read`. Every field has a plain JSON form, as long
    as `data` has one.
    """

    id: str
    split: str
    prompt: str
    data: Any = None
    level: int = 0
    tags: tuple[str, ...] = ()
    reads: Reads = "exact"

    def __post_init__(self) -> None:
        if self.reads not in get_args(Reads):
            raise ValueError(f"task {self.id!r}: reads={self.reads!r}; one of {get_args(Reads)}")
        if "\0" in self.prompt:
            raise ValueError(f"task {self.id!r}: its prompt holds a NUL character")

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
                return Fraction(text.replace(",", ""))
            case "json":
                return parse_json(answer)
            case "choice":
                return answer.strip(_AROUND_CHOICE).casefold()

    def to_dict(self, *, private: bool = True) -> dict[str, Any]:
        """The JSON form; with `private=False` without `data`, as logs have it."""
        out = asdict(self) | {"tags": list(self.tags)}
        if not private:
            del out["data"]
        return out

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Task":
        """The inverse of `to_dict`. Unknown keys and missing ones are a ValueError."""
        try:
            return cls(**{**data, "tags": tuple(data.get("tags", ()))})
        except TypeError as error:
            raise ValueError(f"not a task: {error}; got the keys {sorted(data)}") from None


class TaskSource:
    """A deterministic collection of tasks. A subclass writes `load`; everything else follows.

    Ids are unique over all splits, and so are prompts: a policy sees nothing else of a task.
    """

    splits: tuple[str, ...] = SPLITS
    version = "1"

    def __init__(self) -> None:
        self._loaded: dict[str, tuple[Task, ...]] = {}
        self._chosen: dict[tuple[str, int | None], tuple[Task, ...]] = {}
        self._by_id: dict[str, Task] = {}

    def load(self, split: str) -> Iterable[Task]:
        """All tasks of a split, the same ones in the same order every time."""
        raise NotImplementedError

    def split(self, split: str, level: int | None = None) -> tuple[Task, ...]:
        """The tasks of a split, of one level or of all. KeyError where there are none."""
        chosen = self._chosen.get((split, level))
        if chosen is None:
            if split not in self.splits:
                raise KeyError(f"no split {split!r}; there are {list(self.splits)}")
            loaded = self._all(split)
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
            self._by_id = {task.id: task for task in self}
        try:
            return self._by_id[task_id]
        except KeyError:
            raise KeyError(f"no task {task_id!r} in {type(self).__name__}") from None

    def _all(self, split: str) -> tuple[Task, ...]:
        if split not in self._loaded:
            self._loaded[split] = tuple(self.load(split))
        return self._loaded[split]

    def digest(self) -> str:
        """A hash of every task of every split, private data included."""
        sha = hashlib.sha256()
        for task in self:
            sha.update(json.dumps(task.to_dict(), sort_keys=True, default=repr).encode())
        return sha.hexdigest()[:16]


class TaskList(TaskSource):
    """Tasks that somebody hands over: a list of them, or of dicts, or a JSON Lines file."""

    def __init__(self, tasks: Iterable[Task | Mapping[str, Any]]) -> None:
        super().__init__()
        made = [t if isinstance(t, Task) else Task.from_dict(t) for t in tasks]
        if not made:
            raise ValueError("an empty list of tasks")
        self.splits = tuple(dict.fromkeys(t.split for t in made))
        self._loaded = {s: tuple(t for t in made if t.split == s) for s in self.splits}
        check_unique(made)

    def load(self, split: str) -> Iterable[Task]:
        """What was handed over for this split."""
        return self._loaded[split]


TasksLike: TypeAlias = TaskSource | str | PathLike[str] | Sequence[Task | Mapping[str, Any]]


def as_source(tasks: TasksLike) -> TaskSource:
    """A source from whatever `make(..., tasks=...)` takes: a source, a `.jsonl` path, a list."""
    if isinstance(tasks, TaskSource):
        return tasks
    if isinstance(tasks, str | PathLike):
        return TaskList(_read_jsonl(Path(tasks)))
    return TaskList(tasks)


def _read_jsonl(path: Path) -> list[dict[str, Any]]:
    rows = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if line.strip():
            try:
                rows.append(json.loads(line))
            except ValueError as error:
                raise ValueError(f"{path}:{number}: not JSON: {error}") from None
    return rows


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
