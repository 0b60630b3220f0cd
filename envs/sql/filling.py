"""What is in a PostgreSQL database of ours, and who may do what with it."""

from collections.abc import Iterator, Sequence
from typing import Any

import psycopg
from psycopg import sql

from agent_envs.envs.sql.database import Database, quoted
from agent_envs.envs.sql.statements import split

REFUSED = (
    "^(pg_sleep|pg_sleep_for|pg_sleep_until|lo_.*|loread|lowrite|pg_(try_)?advisory_.*|pg_notify|"
    "pg_export_snapshot|set_config|pg_logical_emit_message|pg_cancel_backend|"
    "pg_terminate_backend|(query|table|cursor|schema|database)_to_.*)$"
)
"""Functions that no task needs; where the server is ours they are out of reach."""

Connection = psycopg.Connection[Any]


def fill(connection: Connection, database: Database, groups: Sequence[str], *, ours: bool) -> None:
    """Make a database's tables and rows, and say who may do what: the `groups` are those that read,
    that write, and that own."""
    for statement in split(database.script):
        connection.execute(statement.encode())
    connection.execute("SET search_path = public")
    if database.rows is not None:
        for table in reversed([*database.rows]):
            connection.execute(f"DELETE FROM {quoted(table)}".encode())
        load(connection, database)
    for grant in _grants(connection, groups, ours):
        connection.execute(grant)


def _grants(
    connection: Connection, groups: Sequence[str], ours: bool
) -> Iterator[sql.Composed | bytes]:
    """What the groups may do in a database, and what nobody may."""
    reader, writer, owner = groups
    yield b"REVOKE ALL ON SCHEMA public FROM PUBLIC"
    for role in (reader, writer, owner):
        yield f"GRANT USAGE ON SCHEMA public TO {role}".encode()
    yield f"GRANT CREATE ON SCHEMA public TO {owner}".encode()
    found = connection.execute(
        "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace "
        "AND relkind IN ('r', 'p')"
    ).fetchall()
    for (table,) in found:
        yield sql.SQL("ALTER TABLE public.{} OWNER TO {}").format(
            sql.Identifier(table), sql.Identifier(owner)
        )
    yield f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {reader}, {writer}".encode()
    yield f"GRANT INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {writer}".encode()
    yield f"GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO {writer}".encode()
    if ours:
        yield b"REVOKE USAGE ON LANGUAGE plpgsql, sql FROM PUBLIC"
        yield from _revoked(connection)


def load(connection: Connection, database: Database) -> None:
    """Copy a database's rows into its tables, which are empty."""
    for table, (columns, *rows) in (database.rows or {}).items():
        names = ", ".join(map(quoted, columns))
        with connection.cursor().copy(
            f"COPY {quoted(table)} ({names}) FROM STDIN".encode()
        ) as copy:
            for row in rows:
                copy.write_row(row)


def _revoked(connection: Connection) -> Sequence[bytes]:
    found = connection.execute(
        "SELECT oid::regprocedure::text FROM pg_proc WHERE pronamespace = "
        "'pg_catalog'::regnamespace AND prokind = 'f' AND proname ~ %s",
        (REFUSED,),
    ).fetchall()
    return [f"REVOKE ALL ON FUNCTION {function} FROM PUBLIC".encode() for (function,) in found]
