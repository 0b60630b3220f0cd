"""Question files, on databases that somebody brings.

A line is `{"question": ..., "gold_sqlite": ..., "gold_postgres": ...}`: gold is a query or a list
of them, any of which will do; in one text several stand with semicolons between them, and `{a, b}`
is every choice of these columns (`{}` the same once more). `database` names the file that it is
about, `instructions` stand below the question, `ordered` says whether the order of rows counts: by
default it does where the words ask for one. `level` and `category` are kept.
"""

import itertools
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from agent_envs.envs.sql.backend import Backend
from agent_envs.envs.sql.database import Database
from agent_envs.envs.sql.deciding import LEAST, Accepted, Asked, choose, queries, undecided
from agent_envs.envs.sql.ordering import is_ordered, with_keys
from agent_envs.envs.sql.statements import split as split_script
from agent_envs.envs.sql.variants import find_links, in_order, variant
from agent_envs.plain import parse_json
from agent_envs.task import Task, TaskList
from agent_envs.verifiers.sql import Failed, Gold

SEEDS = range(1, 41)
"""Of the hidden databases that are tried."""
ENDS = {"sqlite": ("sqlite.sql", "sql"), "postgresql": ("postgres.sql", "postgresql.sql", "sql")}
_ASKS_FOR_ORDER = re.compile(
    r"\b(?:order(?:ed)?\b(?! to)|sort(?:ed)?|rank(?:ed)?|alphabetical|descending|ascending"
    r"|starting from|from (?:the )?(?:highest|largest|longest|best|lowest|smallest))",
    re.IGNORECASE,
)
_CHOICE = re.compile(r"\{([^{}]*)\}")
_ANSWER = (
    "Your final answer is one SQL query, as text, in the dialect that list_tables names. It is run "
    "on this database and on others with the same tables and other rows. Give the columns that are "
    "asked for and no others."
)


class File:
    """A database file: its script and tables, and other rows for them by seed."""

    def __init__(self, path: Path, backend: Backend) -> None:
        try:
            self.script = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            raise ValueError(
                f"{path} is no SQL script; of a database file SQLite makes one: "
                f"sqlite3 {path.name} .dump > {path.stem}.sql"
            ) from None
        self.tables = backend.facts(self.script)
        find_links(self.tables)
        self.key = repr([(name, t.columns, t.rows) for name, t in self.tables.items()])
        self.databases: dict[int | None, Database] = {}

    def database(self, seed: int | None) -> Database:
        """As it was brought, or a hidden one."""
        if seed not in self.databases:
            if seed is None:
                tables = {name: self.tables[name] for name in in_order(self.tables)}
                rows = {name: [t.columns, *t.rows] for name, t in tables.items()}
            else:
                rows = variant(self.tables, self.key, seed)
            self.databases[seed] = Database(self.script, rows)
        return self.databases[seed]


class Catalogue(TaskList):
    """The tasks of a question file with their databases.

    `left_out` says of the questions that no data can decide why that is so; `told` how many of the
    wrong variants of each the hidden databases tell from gold, and how many there are.
    """

    def __init__(self, tasks: list[Task], files: Mapping[str, File]) -> None:
        super().__init__(tasks)
        self.files = files
        self.left_out: dict[str, str] = {}
        self.told: dict[str, tuple[int, int]] = {}

    def database(self, name: str, seed: int | None) -> Database:
        """A database as it was brought, or a hidden one."""
        return self.files[name].database(seed)


def read_questions(
    path: str | PathLike[str], database: str | PathLike[str], split: str, backend: Backend
) -> Catalogue:
    """The questions of a file, on a database file in the backend's dialect or a folder of them.

    Warns of questions that cannot be decided. Raises ValueError for a file that is none, OSError
    where there is none."""
    lines = [*_lines(Path(path))]
    files = _files(Path(database), lines, backend)
    tasks, left_out, told = [], {}, {}
    for name, file in files.items():
        own = [(n, line) for n, line in lines if line.get("database", name) == name]
        accepted = {n: _accepted(line, backend.dialect, f"{path}:{n}") for n, line in own}
        asked = _asking(file, backend, accepted.values())
        for n, line in own:
            try:
                data, told[line["question"]] = _decide(accepted[n], line, asked)
            except ValueError as error:
                left_out[line["question"]] = str(error)
                continue
            data["file"] = name
            tasks.append(_task(f"{name}/{n:03}", split, line, data, backend.dialect))
    said = "; ".join(f"{question!r:.60}: {why}" for question, why in left_out.items())
    if not tasks:
        raise ValueError(f"{path}: no question is left: {said or 'there are none'}")
    if left_out:
        warnings.warn(f"{path}: left out of the questions: {said}", stacklevel=3)
    catalogue = Catalogue(tasks, files)
    catalogue.left_out, catalogue.told = left_out, told
    return catalogue


def is_question_file(path: str | PathLike[str]) -> bool:
    """Whether a file's first line is a question, and no task."""
    try:
        with open(path, encoding="utf-8") as file:
            first = parse_json(file.readline())
    except (OSError, ValueError):
        return False
    return isinstance(first, dict) and "question" in first and "prompt" not in first


def _lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip():
            continue
        try:
            found = parse_json(line)
        except ValueError as error:
            raise ValueError(f"{path}:{number}: {error}") from None
        if not isinstance(found, dict) or not isinstance(found.get("question"), str):
            raise ValueError(f'{path}:{number}: no {{"question": ..., "gold_sqlite": ...}}')
        yield number, found


def _files(place: Path, lines: list[tuple[int, Any]], backend: Backend) -> dict[str, File]:
    """The database files by name."""
    if place.is_file():
        return {place.name.partition(".")[0]: File(place, backend)}
    if not place.is_dir():
        raise ValueError(f"database={str(place)!r}: there is no such file or folder")
    names = dict.fromkeys(str(line.get("database")) for _, line in lines)
    out = {}
    for name in names:
        paths = [place / f"{name}.{end}" for end in ENDS[backend.dialect]]
        found = next((path for path in paths if path.is_file()), None)
        if found is None:
            raise ValueError(f"{place}: no {paths[0].name} in it")
        out[name] = File(found, backend)
    return out


def _asking(
    file: File, backend: Backend, accepted: Iterable[list[Accepted]]
) -> Callable[[int | None], Asked]:
    """The databases of a file, each asked for all questions at once when it is first wanted."""
    wanted = list(dict.fromkeys(sql for one in accepted for sql in queries(one)))
    known: dict[int | None, Asked] = {}

    def ask(seed: int | None) -> Asked:
        if seed not in known:
            known[seed] = backend.trusted(file.database(seed), wanted)
        return known[seed]

    return ask


def _decide(
    accepted: list[Accepted], line: Mapping[str, Any], ask: Callable[[int | None], Asked]
) -> tuple[dict[str, Any], tuple[int, int]]:
    """The private data of a task. Raises ValueError where no data decide it."""
    seen = ask(None)
    for one in accepted:
        result = seen.ask(one.gold.sql)
        if isinstance(result, Failed):
            raise ValueError(f"gold fails: {result.why}: {one.gold.sql:.100}")
    hidden, variants, told = choose(accepted, seen, ((seed, ask(seed)) for seed in SEEDS))
    if len(hidden) < LEAST:
        whys = {undecided(one.keyed, ask(SEEDS[0])) for one in accepted} - {""}
        raise ValueError(f"no data decide it ({'; '.join(whys) or 'all give the same'})")
    open_on_seen = any(undecided(one.keyed, seen) for one in accepted)
    return {"hidden": hidden, "undecided": int(open_on_seen)} | {
        "gold": [
            {"sql": a.gold.sql, "keys": a.gold.keys, "floats": None, "answer": a.answer}
            for a in accepted
        ]
    }, (told, variants)


def _task(id: str, split: str, line: Mapping[str, Any], data: dict[str, Any], dialect: str) -> Task:
    parts = [line["question"], line.get("instructions") or "", _ANSWER]
    prompt = "\n\n".join(part for part in parts if part)
    data = {**data, "kind": "read", "gold": {dialect: data["gold"]}}
    tags = (str(line.get("database", data["file"])), str(line.get("category", "")))
    return Task(id, split, prompt, data, int(line.get("level", 0)), tags)


def _accepted(line: Mapping[str, Any], dialect: str, where: str) -> list[Accepted]:
    """Every gold query of a line. Raises ValueError where there is none for the dialect."""
    names = ("gold_sqlite",) if dialect == "sqlite" else ("gold_postgresql", "gold_postgres")
    given = next((line[name] for name in names if line.get(name)), None)
    if given is None:
        raise ValueError(f"{where}: no {names[-1]}")
    texts = [given] if isinstance(given, str) else list(given)
    golds = [q for text in texts for one in split_script(text) for q in expand(one)]
    asked = f"{line['question']} {line.get('instructions') or ''}"
    wants = line.get("ordered", bool(_ASKS_FOR_ORDER.search(asked)))
    return [_one(" ".join(sql.split()), bool(wants), where) for sql in dict.fromkeys(golds)]


def _one(sql: str, wants_order: bool, where: str) -> Accepted:
    """One gold query, with its order's keys where these count, or decide a LIMIT."""
    plain = Gold(sql)
    if not is_ordered(sql):
        return Accepted(plain, plain, sql)
    try:
        keyed = Gold(*with_keys(sql))
    except ValueError as error:
        raise ValueError(f'{where}: {error}; say "ordered": false, or simplify it: {sql}') from None
    if wants_order:
        return Accepted(keyed, keyed, sql)
    limited = re.search(r"\bLIMIT\b", sql, re.IGNORECASE)
    return Accepted(plain, keyed if limited else plain, sql)


def expand(sql: str) -> Iterator[str]:
    """A query for every choice of its alternative columns."""
    found = next((f for f in _CHOICE.finditer(sql) if f[1].strip()), None)
    if found is None:
        yield sql
        return
    columns = [column.strip() for column in found[1].split(",")]
    for count in range(1, len(columns) + 1):
        for chosen in itertools.combinations(columns, count):
            text = ", ".join(chosen)
            yield re.sub(r"\{\s*\}", text, sql.replace(found[0], text, 1))
