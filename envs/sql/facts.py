"""What a database holds, through SQLAlchemy's inspector: one way for both dialects."""

from typing import Any

from sqlalchemy import Engine, MetaData, inspect, select
from sqlalchemy.schema import Table

from agent_envs.envs.sql.variants import TableFacts


def facts_of(engine: Engine, schema: str | None = None) -> dict[str, TableFacts]:
    """Every table of a database with all its rows, as plain values."""
    metadata = MetaData()
    metadata.reflect(engine, schema=schema)
    found = inspect(engine)
    return {
        str(table.name): _facts(engine, table, found, schema) for table in metadata.sorted_tables
    }


def _facts(engine: Engine, table: Table, found: Any, schema: str | None) -> TableFacts:
    with engine.connect() as connection:
        rows = [[_plain(x) for x in row] for row in connection.execute(select(table))]
    unique = [tuple(found.get_pk_constraint(table.name, schema)["constrained_columns"])]
    unique += [tuple(u["column_names"]) for u in found.get_unique_constraints(table.name, schema)]
    references = {
        foreign["constrained_columns"][0]: (
            str(foreign["referred_table"]),
            (foreign["referred_columns"] or foreign["constrained_columns"])[0],
        )
        for foreign in found.get_foreign_keys(table.name, schema)
        if len(foreign["constrained_columns"]) == 1
    }
    optional = {str(column.name) for column in table.columns if column.nullable}
    names = [str(column.name) for column in table.columns]
    return TableFacts(names, rows, optional, [key for key in unique if key], references)


def _plain(value: Any) -> Any:
    """A value as JSON has it; what it has not, as text."""
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
