"""The tasks: six levels over five worlds, made here, with the proof that data decide them.

A problem belongs to a split by a hash of what makes it this problem; each split has databases of
its own. What cannot be decided by its databases is never a task: see `deciding`.
"""

import itertools
import json
from collections.abc import Iterator
from functools import cache
from random import Random
from typing import Any

from agent_envs.envs.sql import asking, changing, reading
from agent_envs.envs.sql.change import Changer
from agent_envs.envs.sql.deciding import LEAST, Accepted, Trusted, choose, undecided
from agent_envs.envs.sql.misleading import STYLES
from agent_envs.envs.sql.schemas import DIALECTS, World
from agent_envs.envs.sql.statements import split as split_script
from agent_envs.envs.sql.wording import DontFit, Draft, render
from agent_envs.envs.sql.worlds import WORLDS, database
from agent_envs.streams import derive
from agent_envs.task import Reads, Task, TaskSource
from agent_envs.verifiers.sql import Failed, Gold

COUNTS = {"train": 40, "heldout": 15, "adversarial": 12}
"""Tasks of a level."""
_SHARES = {"train": 60, "heldout": 20, "adversarial": 20}
VISIBLE, HIDDEN = 3, 8
"""Databases of a world and a split: to be seen, and to be graded on."""
_ATTEMPTS = 60
"""How often a family is asked for a world's problems."""
MOST_ATTEMPTS = 2000
"""The same where more are wanted than are shipped."""
_ABOUT = {
    "shop": "a shop, its customers and what they bought",
    "library": "a library, its books and who borrowed them",
    "clinic": "a clinic, its doctors and the visits of patients",
    "flights": "airlines, their flights and the bookings on them",
    "ledger": "a bank, its accounts and the entries on them",
}
_LOOK = "Look at it with list_tables, describe_table and query"
_ANSWER_QUERY = (
    "Your final answer is one SQL query, as text, in the dialect that list_tables names. It is run "
    "on this database and on others with the same tables and other rows. It must give exactly "
    "these columns: {}. {}"
)
_ANSWER_VALUE = "Your final answer is that value alone, and nothing else."
_ANSWER_CHANGE = (
    "Change the database with execute; every table is compared with how it should be, so leave "
    "everything else as it is. Say that you are done to finish: what is not committed then is lost."
)

Problem = tuple[str, str, dict[str, Any], Reads]
"""Family, prompt, data, and how the answer is read."""


class SQLTasks(TaskSource):
    """Level 0: a query on one table. 1: joins and groups. 2: nested queries, windows, sets, dates.
    3: a question for a value. 4: a change by one statement. 5: changes of several statements,
    transactions, migrations."""

    def load(self, split: str) -> Iterator[Task]:
        """All levels of a split; see `TaskSource.load`."""
        for text in _made(split):
            yield Task.from_dict(json.loads(text))

    def drawn(self, level: int) -> Iterator[Task]:
        """See `TaskSource.drawn`. Raises ValueError for a level that there is not."""
        if level not in range(len(STEPS)):
            raise ValueError(f"level={level}: from 0 to {len(STEPS) - 1}")
        return _level(level, "train", MOST_ATTEMPTS)


@cache
def _made(split: str) -> tuple[str, ...]:
    """The tasks of a split as JSON, so that every load gives objects of its own."""
    return tuple(json.dumps(task.to_dict()) for task in _make(split))


def _make(split: str) -> Iterator[Task]:
    for level in range(len(STEPS)):
        yield from itertools.islice(_level(level, split, _ATTEMPTS), COUNTS[split])


def _level(level: int, split: str, attempts: int) -> Iterator[Task]:
    for index, problem in enumerate(_draw(level, split, attempts)):
        family, prompt, data, reads = problem
        style = "plain"
        if split == "adversarial":
            style = [*STYLES][index % len(STYLES)]
            prompt = STYLES[style](prompt, Random(derive("sql style", prompt)))
        tags = (family, data["world"], style)
        yield Task(f"sql/{level}/{split}/{index:03}", split, prompt, data, level, tags, reads)


def _draw(level: int, split: str, attempts: int) -> Iterator[Problem]:
    """Problems of a level, families and worlds in turn; no prompt and no value twice."""
    taken: set[str] = set()
    families, step = STEPS[level]
    pairs = list(itertools.product(families, WORLDS.values()))
    Random(derive("sql order", level)).shuffle(pairs)
    for attempt in range(attempts):
        for family, world in pairs:
            key = ("sql", level, family.__name__, world.name, attempt)
            try:
                problem = step(family, world, Random(derive(*key)), split)
            except DontFit:
                continue
            marks = problem and {problem[1], *problem[2].get("marks", ())}
            if problem and not marks & taken:
                taken |= marks
                problem[2].pop("marks", None)
                yield problem


def _check_home(world: World, text: str, split: str) -> None:
    """Raise DontFit for what is another split's."""
    homes = [home for home, share in _SHARES.items() for _ in range(share)]
    if homes[derive("sql home", world.name, text) % len(homes)] != split:
        raise DontFit


def _seeds(split: str, kind: str) -> range:
    """The seeds of a split's databases; 0 is nobody's."""
    start = 1 + 100 * [*_SHARES].index(split) + (50 if kind == "hidden" else 0)
    return range(start, start + (HIDDEN if kind == "hidden" else VISIBLE))


@cache
def _trusted(world: str, seed: int, hostile: bool) -> Trusted:
    return Trusted(database(world, seed, hostile, "sqlite"))


def _begin(world: World, rng: Random, split: str, kind: str) -> tuple[dict[str, Any], Trusted]:
    seed, hostile = rng.choice(_seeds(split, "visible")), split == "adversarial"
    data = {"kind": kind, "world": world.name, "seed": seed, "hostile": hostile}
    return data, _trusted(world.name, seed, hostile)


def _intro(world: World) -> str:
    return f"The database is about {_ABOUT[world.name]}. {_LOOK}"


# -- read ------------------------------------------------------------------------------------------


def _read(family: reading.Family, world: World, rng: Random, split: str) -> Problem | None:
    """A read task, with the hidden databases that decide it."""
    draft = family(world, rng)
    _check_home(world, draft.text, split)
    data, seen = _begin(world, rng, split, "read")
    data["gold"] = {dialect: [golden(draft, dialect)] for dialect in DIALECTS}
    entry = data["gold"]["sqlite"][0]
    gold = gold_of(entry)
    if undecided(gold, seen) or len(getattr(seen.ask(gold.sql), "rows", ())) > 60:
        return None
    hidden = ((n, _trusted(world.name, n, data["hostile"])) for n in _seeds(split, "hidden"))
    data["hidden"], variants, told = choose([Accepted(gold, gold, entry["answer"])], seen, hidden)
    if len(data["hidden"]) < LEAST or told < min(2, variants - 1):
        return None
    columns = "; ".join(draft.outputs)
    ask = _ANSWER_QUERY.format(columns, _in_order(draft))
    return draft.family, f"{_intro(world)}.\n\n{draft.text}\n\n{ask}", data, "exact"


def golden(draft: Draft, dialect: str) -> dict[str, Any]:
    """The gold query of a draft: with its order's keys behind the columns, and as an answer."""
    order = [key.desc() if down else key.asc() for key, down, _ in draft.order]
    keyed = draft.query.add_columns(*(key for key, _, _ in draft.order)).order_by(*order)
    plain = draft.query.order_by(*order)
    if draft.limit is not None:
        keyed, plain = keyed.limit(draft.limit), plain.limit(draft.limit)
    return {
        "sql": render(keyed, dialect) if draft.order else render(draft.query, dialect),
        "keys": len(draft.order) or None,
        "floats": list(draft.floats),
        "answer": render(plain, dialect) if draft.order else render(draft.query, dialect),
    }


def _in_order(draft: Draft) -> str:
    if not draft.order:
        return "The order of the rows is free."
    keys = [f"{words} {'descending' if down else 'ascending'}" for _, down, words in draft.order]
    return f"Sort the rows by {', then by '.join(keys)}."


def gold_of(entry: dict[str, Any]) -> Gold:
    """A gold query from a task's data."""
    floats = entry["floats"]
    return Gold(entry["sql"], entry["keys"], None if floats is None else tuple(floats))


# -- question --------------------------------------------------------------------------------------


def _ask(family: asking.Asker, world: World, rng: Random, split: str) -> Problem | None:
    """A question whose value is no easy guess, and has no rival."""
    question = family(world, rng)
    _check_home(world, question.text, split)
    data, seen = _begin(world, rng, split, "question")
    result = seen.ask(render(question.query, "sqlite"))
    if isinstance(result, Failed) or not result.rows or result.rows[0][0] is None:
        return None
    if len(result.rows) == 2 and result.rows[0][-1] == result.rows[1][-1]:
        return None
    answer = str(result.rows[0][0])
    if question.reads == "number" and len(answer.lstrip("-")) < 3:
        return None
    prompt = f"{_intro(world)}.\n\n{question.text}\n\n{_ANSWER_VALUE}"
    if answer in prompt or answer != answer.strip():
        return None
    data |= {"answer": answer, "how": {d: render(question.query, d) for d in DIALECTS}}
    data["marks"] = [answer]
    return question.family, prompt, data, question.reads


# -- change ----------------------------------------------------------------------------------------


def _change(family: Changer, world: World, rng: Random, split: str) -> Problem | None:
    """A change that can be made, and that is not nothing."""
    data, seen = _begin(world, rng, split, "change")
    change = family(world, rng, seen)
    _check_home(world, change.text, split)
    if not _changes(data, change.scripts["sqlite"]):
        return None
    data |= {"script": change.scripts, "migrates": change.migrates}
    prompt = f"{_intro(world)}.\n\n{change.text}\n\n{_ANSWER_CHANGE}"
    return change.family, prompt, data, "exact"


def _changes(data: dict[str, Any], script: str) -> bool:
    """Whether statements work, each of them, and together change between 1 and 40 rows, or the
    schema."""
    connection = database(data["world"], data["seed"], data["hostile"], "sqlite").connect()
    connection.execute("PRAGMA foreign_keys=ON")
    before, version = connection.total_changes, _version(connection)
    try:
        for statement in split_script(script):
            connection.execute(statement)
    except connection.Error:
        return False
    else:
        changed = connection.total_changes - before
        return 1 <= changed <= 40 or _version(connection) != version
    finally:
        connection.close()


def _version(connection: Any) -> int:
    return int(connection.execute("PRAGMA schema_version").fetchone()[0])


STEPS: tuple[tuple[tuple[Any, ...], Any], ...] = (
    *((families, _read) for families in reading.LEVELS),
    (asking.ASKERS, _ask),
    *((families, _change) for families in changing.CHANGERS),
)
"""By level: the families of its problems, and what makes a problem of one."""
