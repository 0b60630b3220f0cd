"""Care on a server that is somebody's: whose objects are whose, and what a role could reach."""

import hashlib
import re
from typing import Any

import psycopg
from psycopg import conninfo, sql

from agent_envs.errors import BackendUnavailable

PREFIX = "agent_envs_"
_OBJECT = re.compile(rf"{PREFIX}([0-9a-f]{{12}})_\w+")
_CLASS = 0x6A65_6E76
"""The first half of an advisory lock's key; the run is the second."""

Connection = psycopg.Connection[Any]


def address_of(url: str) -> dict[str, Any]:
    """The parts of a URL. Raises ValueError for what is none."""
    try:
        found = conninfo.conninfo_to_dict(url)
    except psycopg.ProgrammingError as error:
        raise ValueError(f"url: {error}") from None
    return {name: value for name, value in found.items() if value is not None}


def _number(run: str) -> int:
    digest = hashlib.sha256(run.encode()).digest()
    return int.from_bytes(digest[:4], "big") >> 1


def take_lock(connection: Connection, run: str) -> None:
    """Hold a run's lock as long as this connection lives."""
    connection.execute(f"SELECT pg_advisory_lock({_CLASS}, {_number(run)})".encode())


def is_alive(connection: Connection, run: str) -> bool:
    """Whether somebody holds a run's lock, in whatever database of the server."""
    held = connection.execute(
        f"SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND classid = {_CLASS} "
        f"AND objid = {_number(run)} AND objsubid = 2".encode()
    )
    return held.fetchone() is not None


def objects(connection: Connection) -> list[tuple[str, str, str]]:
    """Kind, name and run of every database and role that is of some run, databases first."""
    found = connection.execute(
        "SELECT 'DATABASE', datname FROM pg_database UNION ALL SELECT 'ROLE', rolname FROM pg_roles"
    ).fetchall()
    named = [(kind, name, _OBJECT.fullmatch(name)) for kind, name in found]
    return sorted((kind, name, match[1]) for kind, name, match in named if match)


def dropping(kind: str, name: str) -> sql.Composed:
    """The statement that drops a database, with the sessions in it, or a role."""
    assert _OBJECT.fullmatch(name), f"{name} is not ours to drop"
    force = " WITH (FORCE)" if kind == "DATABASE" else ""
    return sql.SQL("DROP {} IF EXISTS {}{}").format(
        sql.SQL(kind), sql.Identifier(name), sql.SQL(force)
    )


def sweep(connection: Connection) -> None:
    """Drop what runs have left that are no more."""
    runs = {run for _, _, run in objects(connection)}
    for run in sorted(runs):
        if not is_alive(connection, run):
            drop_run(connection, run)


def drop_run(connection: Connection, run: str) -> None:
    """Drop everything of a run; what another role owns stays."""
    for kind, name, owner in objects(connection):
        if owner == run:
            try:
                connection.execute(dropping(kind, name))
            except psycopg.errors.InsufficientPrivilege:
                continue


def check_may(connection: Connection) -> None:
    """Raise BackendUnavailable where the user of the URL cannot make databases and roles."""
    row = connection.execute(
        "SELECT rolsuper OR (rolcreatedb AND rolcreaterole), rolname FROM pg_roles "
        "WHERE rolname = current_user"
    ).fetchone()
    if row is None or not row[0]:
        name = quote(row[1] if row else "me")
        raise BackendUnavailable(
            "the user of the url must be able to make databases and roles. An administrator would "
            f"run: ALTER ROLE {name} CREATEDB CREATEROLE;"
        )


def check_closed(connection: Connection, own: str) -> None:
    """Raise BackendUnavailable where any role could connect to databases that are not of this run;
    says what an administrator would run."""
    found = connection.execute(
        "SELECT datname FROM pg_database WHERE datallowconn "
        "AND has_database_privilege('public', oid, 'CONNECT') ORDER BY datname"
    ).fetchall()
    others = [name for (name,) in found if not name.startswith(own)]
    if others:
        statements = " ".join(
            f"REVOKE CONNECT ON DATABASE {quote(name)} FROM PUBLIC;" for name in others
        )
        raise BackendUnavailable(
            "a model's role could connect to other databases of this server, so it is not used. "
            f"An administrator would run: {statements} (and GRANT CONNECT ON DATABASE ... TO "
            "those roles that need it)"
        )


def quote(name: str) -> str:
    """An identifier."""
    return '"' + name.replace('"', '""') + '"'
