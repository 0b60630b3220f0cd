"""The whole difference of two databases."""

from dataclasses import replace

from agent_envs.verifiers.sql import State, Table, differences

CITY = Table({"id": "INTEGER", "name": "TEXT"}, ((1, "Rome"), (2, "Oslo")), ("PRIMARY KEY (id)",))
BEFORE = State({"city": CITY, "log": Table({"x": "INTEGER"}, ())})


def changed(**parts: object) -> State:
    """The state with another city table."""
    return State({**BEFORE.tables, "city": replace(CITY, **parts)})  # type: ignore[arg-type]


def test_the_same() -> None:
    assert differences(BEFORE, BEFORE) == []
    assert differences(BEFORE, changed(rows=CITY.rows[::-1])) == []
    turned = Table({"name": "TEXT", "id": "INTEGER"}, (("Oslo", 2), ("Rome", 1)), CITY.constraints)
    assert differences(BEFORE, State({**BEFORE.tables, "city": turned})) == []


def test_every_row_counts() -> None:
    one_less = ["city: 1 rows are missing, 0 are too many"]
    assert differences(BEFORE, changed(rows=CITY.rows[:1])) == one_less
    for other in ((2, "oslo"), (2, None), ("2", "Oslo"), (2.0, "Oslo"), (3, "Oslo")):
        found = differences(BEFORE, changed(rows=(CITY.rows[0], other)))
        assert found == ["city: 1 rows are missing, 1 are too many"]
    twice = changed(rows=(*CITY.rows, CITY.rows[0]))
    assert differences(BEFORE, twice) == ["city: 0 rows are missing, 1 are too many"]


def test_a_row_anywhere_else_counts() -> None:
    log = replace(BEFORE.tables["log"], rows=((1,),))
    assert differences(BEFORE, State({**BEFORE.tables, "log": log})) == [
        "log: 0 rows are missing, 1 are too many"
    ]


def test_the_schema_counts() -> None:
    assert differences(BEFORE, changed(constraints=())) == ["city: no PRIMARY KEY (id)"]
    more = changed(constraints=(*CITY.constraints, "UNIQUE (name)"))
    assert differences(BEFORE, more) == ["city: also UNIQUE (name)"]
    other = changed(columns={"id": "INTEGER", "name": "TEXT NOT NULL"})
    assert differences(BEFORE, other) == ["city: name is declared TEXT NOT NULL, not TEXT"]
    wide = changed(columns={"id": "INTEGER", "title": "TEXT"})
    assert differences(BEFORE, wide) == [
        "city: the column name is missing",
        "city: there is another column, title",
    ]


def test_other_objects_count() -> None:
    with_view = State(BEFORE.tables, ("view v",))
    assert differences(BEFORE, with_view) == ["there is another object, view v"]
    assert differences(with_view, BEFORE) == ["the object view v is missing"]
    less = State({"city": CITY})
    assert differences(BEFORE, less) == ["the table log is missing"]
    assert differences(less, BEFORE) == ["there is another table, log"]
