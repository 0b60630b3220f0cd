"""What PostgreSQL's catalogues say of the tables, and the whole state of a database."""

import contextlib
from typing import Any

from agent_envs.envs.sql import wire
from agent_envs.envs.sql.database import quoted
from agent_envs.envs.sql.server import Connection
from agent_envs.verifiers.sql import Failed, State, Table, Value

MOST_ROWS, MOST_BYTES = 1_000_000, 256 << 20
"""Of a table that is compared."""
TABLES = """
SELECT relname, (SELECT count(*) FROM pg_catalog.pg_attribute WHERE attrelid = c.oid AND attnum > 0
                 AND NOT attisdropped)
FROM pg_catalog.pg_class AS c
WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p', 'v') ORDER BY relname
"""
COLUMNS = """
SELECT attname, upper(pg_catalog.format_type(atttypid, atttypmod))
       || CASE WHEN attnotnull THEN ' NOT NULL' ELSE '' END
       || coalesce(' DEFAULT ' || pg_catalog.pg_get_expr(adbin, adrelid), '')
       || CASE WHEN attidentity <> '' OR attgenerated <> '' THEN ' GENERATED' ELSE '' END
FROM pg_catalog.pg_attribute
LEFT JOIN pg_catalog.pg_attrdef ON adrelid = attrelid AND adnum = attnum
WHERE attrelid = ('public.' || quote_ident({0}))::regclass AND attnum > 0 AND NOT attisdropped
ORDER BY attnum
"""
CONSTRAINTS = """
SELECT pg_catalog.pg_get_constraintdef(oid) FROM pg_catalog.pg_constraint
WHERE conrelid = ('public.' || quote_ident({0}))::regclass AND contype <> 'n'
UNION ALL
SELECT regexp_replace(pg_catalog.pg_get_indexdef(indexrelid), ' INDEX .*? ON .*? USING', ' INDEX')
FROM pg_catalog.pg_index
WHERE indrelid = ('public.' || quote_ident({0}))::regclass
  AND NOT EXISTS (SELECT 1 FROM pg_catalog.pg_constraint WHERE conindid = indexrelid)
ORDER BY 1
"""
OTHERS = """
SELECT CASE relkind WHEN 'v' THEN 'view ' WHEN 'm' THEN 'view ' WHEN 'S' THEN 'sequence '
       ELSE 'relation ' END || relname
FROM pg_catalog.pg_class
WHERE relnamespace = 'public'::regnamespace AND relkind NOT IN ('r', 'p', 'i', 'I')
UNION ALL SELECT 'function ' || proname FROM pg_catalog.pg_proc
WHERE pronamespace = 'public'::regnamespace
UNION ALL SELECT 'trigger ' || tgname FROM pg_catalog.pg_trigger WHERE NOT tgisinternal
UNION ALL SELECT 'rule ' || rulename FROM pg_catalog.pg_rewrite WHERE rulename <> '_RETURN'
UNION ALL SELECT 'policy ' || polname FROM pg_catalog.pg_policy
UNION ALL SELECT 'row security of ' || relname FROM pg_catalog.pg_class WHERE relrowsecurity
UNION ALL SELECT 'schema ' || nspname FROM pg_catalog.pg_namespace
WHERE nspname <> 'public' AND nspname <> 'information_schema' AND nspname NOT LIKE 'pg\\_%'
UNION ALL SELECT 'inheritance of ' || inhrelid::regclass::text FROM pg_catalog.pg_inherits
UNION ALL SELECT 'large object ' || oid::text FROM pg_catalog.pg_largeobject_metadata
ORDER BY 1
"""
OWN = """
SELECT relname FROM pg_catalog.pg_class
WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p') ORDER BY relname
"""


def literal(text: str) -> str:
    """A text as SQL writes it."""
    return "'" + text.replace("'", "''") + "'"


def read(connection: Connection, seconds: float) -> State | Failed:
    """Every table with its rows, and what else there is, as this connection's role sees it.

    One that changed what it may see itself gets a Failed. Raises `wire.Lost`."""
    with contextlib.suppress(_Unreadable):
        tables = {
            str(name): _table(connection, str(name), seconds)
            for (name,) in _ask(connection, OWN, seconds)
        }
        return State(tables, tuple(str(x) for (x,) in _ask(connection, OTHERS, seconds)))
    return Failed("a table cannot be read")


class _Unreadable(Exception):
    pass


def _ask(connection: Connection, statement: str, seconds: float) -> tuple[tuple[Value, ...], ...]:
    limits: dict[str, Any] = {"most": MOST_ROWS, "size": MOST_BYTES, "cut": 1 << 30}
    result = wire.ask(connection, statement, 10 * seconds, **limits)
    if result.error or result.timeout or result.count > len(result.rows) or not result.whole:
        raise _Unreadable
    return result.rows


def _table(connection: Connection, name: str, seconds: float) -> Table:
    columns, constraints = (
        _ask(connection, text.format(literal(name)), seconds) for text in (COLUMNS, CONSTRAINTS)
    )
    rows = _ask(connection, f"SELECT * FROM ONLY public.{quoted(name)}", seconds)
    declared = {str(column): str(words) for column, words in columns}
    return Table(declared, rows, tuple(str(row[0]) for row in constraints))
