"""The SQL tasks: decided by their data, disjoint, and the same in both dialects."""

import itertools
import re
from collections import Counter
from typing import Any

import pytest

from agent_envs.envs.sql.deciding import (
    LEAST,
    Accepted,
    Trusted,
    choose,
    differs,
    undecided,
)
from agent_envs.envs.sql.mutants import mutants
from agent_envs.envs.sql.statements import answered, first_word, one_query, split
from agent_envs.envs.sql.tasks import COUNTS, SQLTasks, gold_of
from agent_envs.envs.sql.worlds import WORLDS, database
from agent_envs.task import Task
from agent_envs.verifiers.sql import Failed, Gold, Rows

TASKS = SQLTasks()
READS = [task for task in TASKS if task.data["kind"] == "read"]


def trusted(task: Task, seed: int) -> Trusted:
    """A database of a task."""
    return Trusted(database(task.data["world"], seed, task.data["hostile"], "sqlite"))


def test_there_are_tasks_of_every_level_and_kind() -> None:
    for name, count in COUNTS.items():
        tasks = TASKS.split(name)
        assert Counter(t.level for t in tasks) == dict.fromkeys(range(6), count)
        assert {t.tags[1] for t in tasks} == set(WORLDS)
    families = {t.tags[0] for t in TASKS}
    assert len(families) >= 28
    assert {"batches", "widen", "summarise", "restructure", "uproot", "running"} <= families


def test_splits_share_neither_problems_nor_databases() -> None:
    for one, two in itertools.combinations(TASKS.splits, 2):
        texts = [{asked(t) for t in TASKS.split(s)} for s in (one, two)]
        assert not texts[0] & texts[1]
        seeds = [{n for t in TASKS.split(s) for n in _seeds(t)} for s in (one, two)]
        assert not seeds[0] & seeds[1]


def asked(task: Task) -> str:
    """A prompt without how it begins and ends."""
    return "\n".join(task.prompt.split("\n\n")[1:-1])


def _seeds(task: Task) -> list[int]:
    return [task.data["seed"], *task.data.get("hidden", [])]


def test_hidden_data_decide_every_read_task() -> None:
    seen_apart = 0
    for task in READS:
        (entry,) = task.data["gold"]["sqlite"]
        gold, seen = gold_of(entry), trusted(task, task.data["seed"])
        hidden = [trusted(task, seed) for seed in task.data["hidden"]]
        assert len(hidden) >= LEAST and task.data["seed"] not in task.data["hidden"]
        for one in [seen, *hidden]:
            assert not undecided(gold, one), task
        results = [one.ask(gold.sql) for one in [seen, *hidden]]
        assert all(result != results[0] for result in results[1:]), f"a constant passes {task}"
        seen_apart += len(set(map(repr, results))) == len(results)
    assert seen_apart > 0.9 * len(READS)


def test_wrong_variants_are_told_where_any_data_can() -> None:
    """Of all variants of all read tasks most are told; the others are the same query in effect."""
    told = total = 0
    for task in READS:
        (entry,) = task.data["gold"]["sqlite"]
        hidden = [trusted(task, seed) for seed in task.data["hidden"]]
        for wrong in mutants(entry["answer"]):
            total += 1
            told += any(differs(gold_of(entry), wrong, one) for one in hidden)
    print(f"{told} of {total} variants of {len(READS)} tasks are told")
    assert told > 0.6 * total


def test_gold_of_both_dialects_is_one_query() -> None:
    for task in READS:
        for dialect, entries in task.data["gold"].items():
            for entry in entries:
                assert one_query(entry["answer"]) == entry["answer"], (dialect, task)


def test_no_answer_stands_in_its_prompt() -> None:
    for task in TASKS:
        if task.data["kind"] == "question":
            assert task.data["answer"] not in task.prompt
    answers = Counter((t.split, t.data["answer"]) for t in TASKS if t.data["kind"] == "question")
    assert max(answers.values()) == 1, "an answer can be guessed"


def test_adversarial_data_are_hostile() -> None:
    for world in WORLDS:
        texts = str(database(world, 201, True, "sqlite").rows)
        assert "SELECT 42" in texts or "DROP TABLE" in texts or "100% off" in texts
        assert "DROP TABLE" not in str(database(world, 1, False, "sqlite").rows)


# -- the proof itself ------------------------------------------------------------------------------


def made(*rows: tuple[object, ...]) -> Trusted:
    """A database with one table."""
    from agent_envs.envs.sql.database import Database

    table: list[list[Any]] = [["id", "a", "b"], *map(list, rows)]
    script = "CREATE TABLE t (id INTEGER PRIMARY KEY, a INTEGER, b TEXT);"
    return Trusted(Database(script, {"t": table}))


DATA = made((1, 5, "10"), (2, 7, "9"), (3, 7, None), (4, None, "x"))


@pytest.mark.parametrize(
    ("gold", "why"),
    [
        (Gold("SELECT a FROM t WHERE a > 9"), "no rows"),
        (Gold("SELECT max(a) FROM t WHERE a > 9"), "nothing but nulls"),
        (Gold("SELECT a FROM nowhere"), "it fails: no such table"),
        (Gold("SELECT id, a, a FROM t ORDER BY a", 1), "a column with nulls"),
        (Gold("SELECT id, b FROM t WHERE b IS NOT NULL ORDER BY b", 1), "numbers kept as text"),
        (Gold("SELECT id, a FROM t WHERE a > 0 ORDER BY a DESC LIMIT 1", 1), "through a tie"),
        (Gold("SELECT id FROM t LIMIT 2"), "no order that is known"),
        (Gold("SELECT id, a FROM t WHERE a > 0 ORDER BY a DESC LIMIT 2", 1), ""),
        (Gold("SELECT id, a FROM t WHERE a > 0 ORDER BY a DESC LIMIT 9", 1), ""),
        (Gold("SELECT a FROM t"), ""),
    ],
)
def test_what_cannot_decide_is_found(gold: Gold, why: str) -> None:
    found = undecided(gold, DATA)
    assert (why in found) if why else not found


def test_databases_are_chosen_that_tell() -> None:
    gold = Gold("SELECT id FROM t WHERE a >= 7")
    same = made((1, 5, "x"), (2, 7, "y"), (3, 7, "z"), (4, None, "w"))
    tells = made((1, 7, "x"), (2, 8, "y"), (3, 8, "z"))
    blind = [made((n, 9, "x"), (n + 1, 9, "y")) for n in (5, 6, 7)]
    candidates = [(0, same), (1, blind[0]), (2, blind[1]), (3, tells), (4, blind[2])]
    chosen, variants, told = choose([Accepted(gold, gold, gold.sql)], DATA, candidates)
    assert chosen[0] == 3 and 0 not in chosen, "what is as the one that is seen is no use"
    assert (variants, told) == (3, 1), mutants(gold.sql)


def test_trusted_databases_only_read() -> None:
    for sql in ("DELETE FROM t", "ATTACH 'x' AS y", "PRAGMA query_only = OFF"):
        assert isinstance(DATA.ask(sql), Failed)
    endless = "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT max(n) FROM r"
    assert isinstance(DATA.ask(endless), Failed)
    assert DATA.ask("SELECT count(*) FROM t") == Rows(1, ((4,),))


@pytest.mark.parametrize(
    ("sql", "variant"),
    [
        ("SELECT a FROM t WHERE a > 1 AND b = 2", "SELECT a FROM t WHERE b = 2 "),
        ("SELECT a FROM t WHERE a BETWEEN 1 AND 2", "SELECT a FROM t "),
        ("SELECT a FROM t WHERE b = 'x AND y'", "SELECT a FROM t "),
        ("SELECT DISTINCT a FROM t", "SELECT a FROM t"),
        ("SELECT a FROM t", "SELECT DISTINCT a FROM t"),
        ("SELECT count(DISTINCT a) FROM t", "SELECT count(a) FROM t"),
        ("SELECT a FROM t ORDER BY a DESC", "SELECT a FROM t ORDER BY a ASC"),
        ("SELECT a FROM t ORDER BY a, b LIMIT 3", "SELECT a FROM t ORDER BY a DESC, b LIMIT 3"),
        ("SELECT a FROM t ORDER BY a LIMIT 3", "SELECT a FROM t ORDER BY a LIMIT 4 "),
        ("SELECT a FROM t WHERE a > 3", "SELECT a FROM t WHERE a >= 3"),
        ("SELECT a FROM t GROUP BY a HAVING count(*) > 1", "SELECT a FROM t GROUP BY a "),
        ("SELECT a FROM t LEFT JOIN u ON x = y", "SELECT a FROM t JOIN u ON x = y"),
        ("SELECT a FROM t UNION SELECT a FROM u", "SELECT a FROM t UNION ALL SELECT a FROM u"),
    ],
)
def test_variants(sql: str, variant: str) -> None:
    found = mutants(sql)
    assert variant in found, found
    assert sql not in found and len(set(found)) == len(found)


# -- reading SQL -----------------------------------------------------------------------------------


def test_scripts_are_split_where_statements_end() -> None:
    script = "SELECT ';'; -- one; two\n/* ; */ SELECT \"a;b\" ;; SELECT $x$ ; $x$;\n-- last"
    assert split(script) == ["SELECT ';'", '-- one; two\n/* ; */ SELECT "a;b"', "SELECT $x$ ; $x$"]
    assert split("") == split(" ;; -- nothing") == []
    assert first_word("-- x\n /* y */ select 1") == "SELECT"
    assert first_word("") == "" and first_word("(SELECT 1)") == "("


def test_answers_are_one_query() -> None:
    assert answered("```sql\nSELECT 1\n```") == "SELECT 1"
    assert one_query("SELECT 1;") == "SELECT 1"
    for text, why in (
        ("", "0 statements"),
        ("SELECT 1; SELECT 2", "2 statements"),
        ("DELETE FROM t", "begins with one of"),
        ("SELECT " + "x" * 30_000, "at most"),
    ):
        with pytest.raises(ValueError, match=re.escape(why)):
            one_query(text)


@pytest.mark.parametrize("level", [0, 3, 5])
def test_more_tasks_begin_with_those_that_are_shipped(level: int) -> None:
    shipped = TASKS.split("train", level)
    more = TASKS.more(len(shipped) + 6, level).split("train", level)
    assert more[: len(shipped)] == shipped and len(more) == len(shipped) + 6
    with pytest.raises(ValueError, match="level=7: from 0 to 5"):
        TASKS.more(5, 7)
