"""The verifier with a real engine: SQLite in the grader's own sandboxes."""

from collections.abc import Iterator

import pytest

from agent_envs.envs.sql.boxes import kept
from agent_envs.envs.sql.database import Database
from agent_envs.envs.sql.grading import SQLiteEngine
from agent_envs.sandbox import probe_all
from agent_envs.task import Task
from agent_envs.verifiers.sql import (
    Failed,
    Gold,
    verify_change,
    verify_query,
    verify_value,
)

pytestmark = pytest.mark.skipif(
    not any(report.works for report in probe_all() if report.backend in ("namespace", "landlock")),
    reason="no sandbox for untrusted code works on this machine: see agent-envs doctor",
)
SCRIPT = "CREATE TABLE t (id INTEGER PRIMARY KEY, a INTEGER, b TEXT CHECK (b <> ''));"
COLUMNS = ["id", "a", "b"]
SEEN = Database(SCRIPT, {"t": [COLUMNS, [1, 5, "x"], [2, 7, "y"], [3, 7, "y"]]})
OTHERS = [
    Database(SCRIPT, {"t": [COLUMNS, [1, 8, "x"], [2, 8, "z"], [3, 1, "y"]]}),
    Database(SCRIPT, {"t": [COLUMNS, [4, 6, "y"], [5, 6, "y"], [6, 9, "w"]]}),
    Database(SCRIPT, {"t": [COLUMNS, [4, 7, "y"], [5, 7, "y"], [6, 7, "x"]]}),
]
ALL = [SEEN, *OTHERS]
GOLD = Gold("SELECT b FROM t WHERE a > 5")
ORDERED = Gold("SELECT id, a, a FROM t ORDER BY a DESC", keys=1)


@pytest.fixture(scope="module")
def engine() -> Iterator[SQLiteEngine]:
    """The grader's engine."""
    yield SQLiteEngine("auto", 1.0)
    kept.close()


@pytest.mark.parametrize(
    "query",
    [
        "SELECT b FROM t WHERE a > 5",
        "select t.b as something_else from t where not a <= 5 order by id desc",
        "WITH big AS (SELECT * FROM t WHERE a >= 6) SELECT b FROM big",
    ],
)
def test_what_gives_the_same_everywhere_passes(engine: SQLiteEngine, query: str) -> None:
    report = verify_query(engine, query, [GOLD], ALL)
    assert report.passed and report.visible and not report.why


@pytest.mark.parametrize(
    ("query", "visible"),
    [
        ("SELECT 'y' FROM t WHERE id > 1", True),  # S1: right where one can look
        ("SELECT b FROM t WHERE a = 7", True),
        ("VALUES ('y'), ('y')", True),
        ("SELECT DISTINCT b FROM t WHERE a > 5", False),  # S2
        ("SELECT b, b FROM t WHERE a > 5", False),
        ("SELECT b FROM t WHERE 0", False),  # S3
        ("SELECT nothing FROM t", False),
        ("SELECT CAST(a AS TEXT) FROM t WHERE a > 5", False),  # S8
        ("DELETE FROM t RETURNING b", False),  # S4
        ("SELECT b FROM gold.t", False),
        ("SELECT name FROM pragma_database_list", False),
        ("SELECT load_extension('x')", False),
        ("SELECT b FROM t, (WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) "
         "SELECT count(*) FROM r)", False),  # S6
        ("SELECT b FROM t WHERE a > 5; SELECT 1", False),
    ],
)  # fmt: skip
def test_hacks_do_not(engine: SQLiteEngine, query: str, visible: bool) -> None:
    report = verify_query(engine, query, [GOLD], ALL)
    assert not report.passed and report.visible == visible and report.why


def test_order_where_it_counts(engine: SQLiteEngine) -> None:
    for query, passes in (
        ("SELECT id, a FROM t ORDER BY a DESC, id", True),
        ("SELECT id, a FROM t ORDER BY a DESC, id DESC", True),
        ("SELECT id, a FROM t ORDER BY a", False),
        ("SELECT id, a FROM t ORDER BY id DESC", False),
    ):
        assert verify_query(engine, query, [ORDERED], ALL).passed == passes, query


def test_alternatives_are_not_mixed(engine: SQLiteEngine) -> None:
    """Right by one gold on one database, and by another on the next, is right by none."""
    golds = [Gold("SELECT max(a) FROM t"), Gold("SELECT min(a) FROM t")]
    mixed = "SELECT CASE WHEN min(id) = 1 THEN max(a) ELSE min(a) END FROM t"
    for gold in golds:
        assert verify_query(engine, gold.sql, golds, ALL).passed
    assert not verify_query(engine, mixed, golds, ALL).passed


def test_floats_are_found_where_gold_has_some(engine: SQLiteEngine) -> None:
    gold = Gold("SELECT avg(a) FROM t")
    assert verify_query(engine, "SELECT sum(a) * 1.0 / count(*) FROM t", [gold], ALL).passed
    assert verify_query(engine, "SELECT sum(a) / 3 + 1e-12 FROM t WHERE 0", [gold], ALL).why
    exact = Gold("SELECT avg(a) FROM t", floats=())
    assert not verify_query(engine, "SELECT avg(a) + 1e-9 FROM t", [exact], ALL).passed
    assert verify_query(engine, "SELECT avg(a) + 1e-9 FROM t", [gold], ALL).passed


def test_a_gold_that_decides_nothing_is_a_fault_of_the_task(engine: SQLiteEngine) -> None:
    with pytest.raises(ValueError, match="gives nothing, which decides nothing"):
        verify_query(engine, "SELECT 1 WHERE 0", [Gold("SELECT 1 WHERE 0")], ALL)
    with pytest.raises(ValueError, match="the gold query fails: no such table"):
        verify_query(engine, "SELECT 1", [Gold("SELECT 1 FROM nowhere")], ALL)
    empty_here = Gold("SELECT id FROM t WHERE id > 3")
    assert verify_query(engine, empty_here.sql, [empty_here], [SEEN, *OTHERS[1:]], 1).passed


def test_nothing_of_one_query_is_there_for_the_next(engine: SQLiteEngine) -> None:
    before = engine.ask("SELECT count(*), sum(a) FROM t", ALL)
    engine.ask("WITH RECURSIVE r(n) AS (SELECT 1 UNION SELECT n + 1 FROM r) SELECT * FROM r", ALL)
    assert engine.ask("SELECT count(*), sum(a) FROM t", ALL) == before
    assert engine.ask("SELECT random()", [SEEN]) == engine.ask("SELECT random()", [SEEN])


def test_too_many_rows_are_none(engine: SQLiteEngine) -> None:
    many = "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r LIMIT 30000) "
    (found,) = engine.ask(f"{many} SELECT n FROM r", [SEEN])
    assert isinstance(found, Failed) and "more than 20,000 rows" in found.why


@pytest.mark.parametrize(
    ("script", "passes"),
    [
        ("UPDATE t SET a = 0 WHERE id = 1", True),
        ("BEGIN; UPDATE t SET a = 0 WHERE id = 1; COMMIT", True),
        ("UPDATE t SET a = 1 WHERE id = 1; UPDATE t SET a = 0 WHERE a = 1", True),
        ("UPDATE t SET a = 0", False),
        ("UPDATE t SET a = '0' WHERE id = 1; UPDATE t SET b = 'w' WHERE id = 2", False),
        ("UPDATE t SET a = 0.5 WHERE id = 1", False),
        ("UPDATE t SET a = 0 WHERE id = 1; CREATE TABLE more (x)", False),
        ("UPDATE t SET a = 0 WHERE id = 1; CREATE INDEX i ON t (a)", False),
        ("UPDATE t SET a = 0 WHERE id = 1; ALTER TABLE t ADD COLUMN c", False),
        ("ALTER TABLE t RENAME TO u; CREATE TABLE t (id INTEGER PRIMARY KEY, a INTEGER, b TEXT); "
         "INSERT INTO t SELECT id, iif(id = 1, 0, a), b FROM u; DROP TABLE u", False),
        ("SELECT 1", False),
    ],
)  # fmt: skip
def test_changes_are_compared_in_whole(engine: SQLiteEngine, script: str, passes: bool) -> None:
    found = engine.after(script, SEEN)
    report = verify_change(engine, "UPDATE t SET a = 0 WHERE id = 1", SEEN, found)
    assert report.passed == passes
    assert bool(report.why) != passes


def test_a_state_that_cannot_be_read_is_none(engine: SQLiteEngine) -> None:
    assert not verify_change(engine, "DELETE FROM t", SEEN, Failed("gone")).passed
    with pytest.raises(ValueError, match="gold statements fail: CHECK constraint"):
        verify_change(engine, "UPDATE t SET b = ''", SEEN, engine.after("SELECT 1", SEEN))


@pytest.mark.parametrize(
    ("reads", "gold", "answer", "passes"),
    [
        ("number", "395", "395", True),
        ("number", "395", " 395.0 ", True),
        ("number", "1395", "1,395", True),
        ("number", "395", "395 apples", False),
        ("number", "395", "396", False),
        ("number", "395", "395 or 396", False),
        ("number", "0", "", False),
        ("exact", "Ada Lang", "Ada Lang\n", True),
        ("exact", "Ada Lang", "ada lang", False),
        ("exact", "1", "1.0", False),
        ("json", "true", "1", False),
        ("json", "[1]", "[1]", True),
    ],
)
def test_values(reads: str, gold: str, answer: str, passes: bool) -> None:
    task = Task("t", "train", "?", reads=reads)  # type: ignore[arg-type]
    assert verify_value(task, answer, gold).passed == passes
    assert not verify_value(task, None, gold).passed
