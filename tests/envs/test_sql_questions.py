"""Question files: 75 real questions on databases that nobody here made, in both dialects."""

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent_envs.envs.sql import boxes
from agent_envs.envs.sql.cluster import lacks
from agent_envs.envs.sql.deciding import Trusted, differs, undecided
from agent_envs.envs.sql.env import SQL
from agent_envs.envs.sql.mutants import distinct, dropped, mutants, ordered
from agent_envs.envs.sql.ordering import is_ordered, with_keys
from agent_envs.envs.sql.questions import Catalogue, expand
from agent_envs.envs.sql.server import close_servers
from agent_envs.envs.sql.tasks import gold_of
from agent_envs.envs.sql.variants import TableFacts, find_links, in_order, variant
from agent_envs.sandbox import probe_all
from agent_envs.task import Task
from agent_envs.turns import ToolCall

DATA = Path(__file__).parents[3] / "shared" / "data" / "sql"
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason=f"there is no {DATA}")
pytestmark = pytest.mark.skipif(
    not any(report.works for report in probe_all() if report.backend in ("namespace", "landlock")),
    reason="no sandbox for untrusted code works on this machine: see agent-envs doctor",
)
WRONG_GOLD = {
    "Which authors have written publications in both": "takes the domains of the author, not "
    "those of what he or she has written",
    "What is the ratio of the total number of publications to the total number of keywords": "asks "
    "for all domains, and two of the three accepted queries leave some out",
    "How does the ratio of authors to organizations differ": "one accepted query leaves out "
    "continents without authors, the other has them",
    "What are the titles of all publications ordered": "takes equal titles for one",
    "What are the names of the restaurants in Los Angeles": "takes equal names for one",
    "Which states border the state where lake ontario is": "gives an ocean for a state, where the "
    "table has one",
    "What is the ratio of Italian restaurants out of all": "leaves restaurants whose food is not "
    "known out of all",
    "What is the total number of citations received": "by name takes two of one name for one, "
    "where the other accepted queries do not",
}
"""Published gold that is not what the question asks, and why; it is what is graded all the same."""


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def env(request: pytest.FixtureRequest) -> Iterator[SQL]:
    """An env on all three databases."""
    if not DATA.is_dir():
        pytest.skip(f"there is no {DATA}")
    if request.param == "postgresql" and lacks():
        pytest.skip(lacks())
    with SQL(backend=request.param, tasks=str(DATA / "questions.jsonl"), database=DATA) as made:
        yield made
    close_servers()
    boxes.kept.close()


def catalogue(env: SQL) -> Catalogue:
    """Its tasks."""
    assert isinstance(env.tasks, Catalogue)
    return env.tasks


def grade(env: SQL, task: Task, answer: str) -> tuple[bool, bool]:
    """Whether an answer passes, and whether it looks right."""
    env.reset(seed=1, options={"task": task.id})
    verdict = env.finish(answer)
    assert verdict is not None
    return verdict.passed, bool(verdict.components["visible"])


def test_all_75_are_decided_and_gold_passes(env: SQL) -> None:
    tasks = [*catalogue(env)]
    assert len(tasks) == 75 and not catalogue(env).left_out
    step = 1 if env.dialect == "sqlite" else 5
    for number, task in enumerate(tasks):
        golds = task.data["gold"][env.dialect]
        if number % step == 0:
            for entry in golds:
                assert grade(env, task, entry["answer"])[0], (task, entry)
        assert len(task.data["hidden"]) >= 3


def test_those_whose_gold_is_wrong_are_named(env: SQL) -> None:
    for start in WRONG_GOLD:
        assert sum(task.prompt.startswith(start) for task in catalogue(env)) == 1, start


@needs_data
def test_wrong_variants_of_each_fail_wherever_data_can_tell() -> None:
    """A condition dropped, DISTINCT more or less, another order or limit: three of each question.
    Those that no hidden database tells are the same in effect on all data that were tried."""
    with SQL(tasks=str(DATA / "questions.jsonl"), database=DATA) as env:
        told, total = 0, 0
        for task in catalogue(env):
            file, data = task.data["file"], task.data
            seeds = [*data["hidden"], *([] if data["undecided"] else [None])]
            hidden = [Trusted(catalogue(env).database(file, n)) for n in seeds]
            golds = [gold_of(entry) for entry in data["gold"]["sqlite"]]
            for wrong in three(data["gold"]["sqlite"][0]["answer"]):
                tells = all(any(differs(gold, wrong, one) for one in hidden) for gold in golds)
                told, total = told + tells, total + 1
                if int(task.id[-3:]) % 4 == 0 or not tells:
                    assert grade(env, task, wrong)[0] == (not tells), (task, wrong)
        print(f"{told} of {total} variants are told")
        assert told > 0.4 * total


def three(sql: str) -> list[str]:
    """One wrong variant of each kind that a query has; others where it has not."""
    kinds = (dropped(sql), distinct(sql), ordered(sql))
    first = [next(kind, None) for kind in kinds]
    found = [text for text in first if text is not None]
    more = [text for text in mutants(sql) if text not in found]
    return (found + more)[:3]


@needs_data
def test_a_single_file_takes_its_own_questions() -> None:
    file = str(DATA / "geography.sqlite.sql")
    with SQL(tasks=str(DATA / "questions.jsonl"), database=file) as env:
        assert len([*env.tasks]) == 25
        env.reset(seed=1)
        listed = env.call(ToolCall("list_tables", {})).content
        assert "border_info" in listed and "restaurant" not in listed
        fork = env.fork()
        assert fork.call(ToolCall("list_tables", {})).content == listed
        fork.close()


def write(folder: Path, *lines: dict[str, Any]) -> dict[str, str]:
    """A small database with questions."""
    rows = ", ".join(f"({i}, 'n{i % 4}', {i * 7 % 10})" for i in range(1, 13))
    script = (
        "CREATE TABLE pet (id INTEGER PRIMARY KEY, name TEXT NOT NULL, age INTEGER);\n"
        f"INSERT INTO pet VALUES {rows};"
    )
    (folder / "zoo.sql").write_text(script)
    (folder / "q.jsonl").write_text("\n".join(map(json.dumps, lines)))
    return {"tasks": str(folder / "q.jsonl"), "database": str(folder / "zoo.sql")}


def test_a_file_of_ones_own(tmp_path: Path) -> None:
    made = write(
        tmp_path,
        {"question": "Who is over 4?", "gold_sqlite": "SELECT name FROM pet WHERE age > 4"},
        {
            "question": "Names and ages, sorted by age",
            "gold_sqlite": ["SELECT name, age FROM pet WHERE age IS NOT NULL ORDER BY age"],
            "level": 2,
        },
    )
    with SQL(**made, split="heldout") as env:  # type: ignore[arg-type]
        one, two = env.tasks.split("heldout")
        assert (one.level, two.level) == (0, 2)
        assert grade(env, one, "SELECT name FROM pet WHERE age >= 5") == (True, True)
        assert grade(env, one, "SELECT DISTINCT name FROM pet WHERE age > 4") == (False, False)
        ordered_by_both = "SELECT name, age FROM pet WHERE age IS NOT NULL ORDER BY age, id DESC"
        assert grade(env, two, ordered_by_both)[0]
        assert not grade(env, two, "SELECT name, age FROM pet WHERE age IS NOT NULL")[0]


@pytest.mark.filterwarnings("ignore:.*left out of the questions")
def test_what_cannot_be_decided_is_left_out_or_refused(tmp_path: Path) -> None:
    sound = {"question": "?", "gold_sqlite": "SELECT name FROM pet WHERE age > 4"}
    for line, why in (
        ({"gold_sqlite": "SELECT nope FROM pet"}, "gold fails: no such column"),
        ({"gold_sqlite": "SELECT name FROM pet WHERE age > 999"}, "no data decide it"),
        ({"gold_sqlite": "SELECT 1"}, "all give the same"),
        ({"gold_sqlite": "SELECT name FROM pet LIMIT 2"}, "no data decide it"),
    ):
        made = write(tmp_path, sound, {"question": "other", **line})
        with SQL(**made) as env:  # type: ignore[arg-type]
            assert why in catalogue(env).left_out["other"]
    for lines, why in (
        ([{"question": "?"}], "no gold_sqlite"),
        ([{"gold_sqlite": "SELECT 1"}], "no {"),
        ([], "no question is left: there are none"),
        ([{"question": "?", "gold_sqlite": "SELECT nope FROM pet"}], "gold fails: no such column"),
    ):
        with pytest.raises(ValueError, match=re.escape(why)):
            SQL(**write(tmp_path, *lines))  # type: ignore[arg-type]
    write(tmp_path, sound)
    with pytest.raises(ValueError, match="say database="):
        SQL(tasks=str(tmp_path / "q.jsonl"))
    (tmp_path / "zoo.sql").write_bytes(b"SQLite format 3\0\xf2")
    with pytest.raises(ValueError, match=re.escape("sqlite3 zoo.sql .dump")):
        SQL(tasks=str(tmp_path / "q.jsonl"), database=str(tmp_path / "zoo.sql"))
    (tmp_path / "zoo.sql").write_text("CREATE TABEL x (y);")
    with pytest.raises(ValueError, match="script fails"):
        SQL(tasks=str(tmp_path / "q.jsonl"), database=str(tmp_path / "zoo.sql"))
    shutil.rmtree(tmp_path)
    with pytest.raises((ValueError, OSError)):
        SQL(tasks=str(tmp_path / "q.jsonl"), database=str(tmp_path / "zoo.sql"))


def test_alternative_columns() -> None:
    sql = "SELECT {a, b}, count(*) FROM t GROUP BY {}"
    assert [*expand(sql)] == [
        "SELECT a, count(*) FROM t GROUP BY a",
        "SELECT b, count(*) FROM t GROUP BY b",
        "SELECT a, b, count(*) FROM t GROUP BY a, b",
    ]
    assert [*expand("SELECT 1")] == ["SELECT 1"]


@pytest.mark.parametrize(
    ("sql", "keyed"),
    [
        ("SELECT a, b AS c FROM t ORDER BY c DESC, a",
         "SELECT a, b AS c, b, a FROM t ORDER BY c DESC, a"),
        ("SELECT a FROM t ORDER BY 1", "SELECT a, a FROM t ORDER BY 1"),
        ("SELECT a FROM t ORDER BY f(a, b) DESC NULLS LAST LIMIT 3",
         "SELECT a, f(a, b) FROM t ORDER BY f(a, b) DESC NULLS LAST LIMIT 3"),
        ("SELECT (SELECT x FROM u ORDER BY y) AS z FROM t ORDER BY a",
         "SELECT (SELECT x FROM u ORDER BY y) AS z, a FROM t ORDER BY a"),
    ],
)  # fmt: skip
def test_the_keys_of_an_order(sql: str, keyed: str) -> None:
    assert is_ordered(sql)
    assert with_keys(sql)[0].replace("  ", " ") == keyed


def test_orders_that_are_none() -> None:
    assert not is_ordered("SELECT sum(a) OVER (ORDER BY b) FROM t")
    assert not is_ordered("SELECT * FROM (SELECT a FROM t ORDER BY a) AS x")
    with pytest.raises(ValueError, match="cannot be read|can be read"):
        with_keys("SELECT a FROM t UNION SELECT a FROM u ORDER BY a")


def test_other_rows_are_of_the_same_kind() -> None:
    tables = {
        "sale": TableFacts(
            ["shop_id", "n", "note"],
            [[1, 5, None], [2, 6, "x"], [2, 9, "y"], [3, 1, "z"]],
            {"note"},
            [],
        ),
        "shop": TableFacts(["id", "name"], [[1, "a"], [2, "b"], [3, "c"]], set(), [("id",)]),
    }
    find_links(tables)
    assert tables["sale"].references == {"shop_id": ("shop", "id")}
    assert in_order(tables) == ["shop", "sale"]
    first = variant(tables, "k", 1)
    assert first == variant(tables, "k", 1) != variant(tables, "k", 2)
    for seed in range(20):
        made = variant(tables, "k", seed)
        ids = [row[0] for row in made["shop"][1:]]
        assert len(set(ids)) == len(ids) >= 3
        assert {row[0] for row in made["sale"][1:]} <= set(ids)
        assert all(row[1] is not None for row in made["sale"][1:])


def test_undecided_is_said_of_the_one_that_is_seen(tmp_path: Path) -> None:
    made = write(
        tmp_path, {"question": "?", "gold_sqlite": "SELECT max(id) FROM pet WHERE name = 'n1'"}
    )
    with SQL(**made) as env:  # type: ignore[arg-type]
        (task,) = env.tasks
        seen = Trusted(catalogue(env).database("zoo", None))
        assert task.data["undecided"] == bool(
            undecided(gold_of(task.data["gold"]["sqlite"][0]), seen)
        )
