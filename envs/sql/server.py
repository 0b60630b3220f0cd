"""A PostgreSQL server as this run uses it: databases and roles of its own names, and no others.

Everything is called `agent_envs_<run>_...`. On a server that is not ours nothing else is touched: a
run holds an advisory lock as long as it lives, and only runs whose lock is free are swept.
"""

import atexit
import contextlib
import os
import queue
import secrets
import threading
from collections import OrderedDict
from typing import Any

import psycopg

from agent_envs.envs.sql import care
from agent_envs.envs.sql.cluster import Cluster
from agent_envs.envs.sql.database import Database
from agent_envs.envs.sql.filling import fill
from agent_envs.errors import BackendUnavailable

MOST_TEMPLATES = 24
"""Databases that are kept to copy from; more are made again when they are wanted."""
GROUPS = {"query": "reader", "change": "writer", "migrate": "owner"}
"""The role that a role for statements of each kind is a member of."""
Connection = psycopg.Connection[Any]


class Server:
    """One run on a server: its administrator's connection, groups, templates, and what it drops.

    Any number of environments of a process share it; calls may come from any thread. Raises
    BackendUnavailable.
    """

    def __init__(self, address: dict[str, Any], cluster: Cluster | None = None) -> None:
        self.cluster = cluster
        self.address = {"connect_timeout": 10, **address}
        self.maintenance = self.address.pop("dbname", "postgres")
        self.run = secrets.token_hex(6)
        self.lock = threading.RLock()
        self.numbers = iter(range(1, 10**9))
        self.templates: OrderedDict[str, str] = OrderedDict()
        self.to_drop: queue.SimpleQueue[tuple[str, str] | threading.Event | None]
        self.to_drop = queue.SimpleQueue()
        self.connections: set[Connection] = set()
        self.admin = self.connect(self.maintenance)
        self.version: int = self.admin.info.server_version
        try:
            self._begin()
        except BaseException:
            self.admin.close()
            raise
        self.janitor = threading.Thread(target=self._drop_all, name="agent-envs-sql", daemon=True)
        self.janitor.start()

    @property
    def ours(self) -> bool:
        """Whether nobody else is on the server."""
        return self.cluster is not None

    def name(self, kind: str) -> str:
        """A new name for a database or a role."""
        return f"{care.PREFIX}{self.run}_{kind}{next(self.numbers)}"

    def group(self, kind: str) -> str:
        """The name of a group role."""
        return f"{care.PREFIX}{self.run}_{GROUPS[kind]}"

    def _begin(self) -> None:
        care.take_lock(self.admin, self.run)
        if self.ours:
            for database in ("postgres", "template1"):
                self._do(f"REVOKE ALL ON DATABASE {database} FROM PUBLIC")
        else:
            care.sweep(self.admin)
            care.check_may(self.admin)
        care.check_closed(self.admin, f"{care.PREFIX}{self.run}_")
        for kind in GROUPS:
            self._do(f"CREATE ROLE {self.group(kind)} NOLOGIN")
            self._do(f"GRANT {self.group(kind)} TO CURRENT_USER")

    # -- connections -------------------------------------------------------------------------------

    def connect(self, database: str, **who: Any) -> Connection:
        """A connection of the administrator's, or of a role with a password."""
        try:
            made = psycopg.connect(**self.address | who, dbname=database, autocommit=True)
        except psycopg.OperationalError as error:
            raise self.down(error) from None
        with self.lock:
            self.connections = {one for one in self.connections if not one.closed} | {made}
        return made

    def forget(self) -> None:
        """In a fork of this process: no word on the parent's connections, whatever is freed."""
        nowhere = os.open(os.devnull, os.O_RDWR)
        for connection in self.connections:
            if not connection.closed:
                os.dup2(nowhere, connection.fileno())
        os.close(nowhere)
        if self.cluster is not None:
            self.cluster.forget()

    def down(self, error: BaseException | str) -> BackendUnavailable:
        """What to raise where the server does not answer."""
        said = " ".join(str(error).split())[:300]
        if self.ours:
            return BackendUnavailable(f"the private PostgreSQL server is gone: {said}")
        return BackendUnavailable(f"the PostgreSQL server does not answer: {said}; is it up?")

    def answers(self) -> bool:
        """Whether the server is up, as far as can be told."""
        with self.lock:
            try:
                self.admin.execute("SELECT 1")
            except psycopg.Error:
                return False
            return True

    def _do(self, statement: str) -> None:
        """A statement of the administrator's. Raises BackendUnavailable."""
        with self.lock:
            try:
                self.admin.execute(statement.encode())
            except psycopg.OperationalError as error:
                raise self.down(error) from None
            except psycopg.Error as error:
                raise BackendUnavailable(f"PostgreSQL refuses {statement:.80}: {error}") from None

    # -- databases ---------------------------------------------------------------------------------

    def copy(self, source: str, kind: str) -> str:
        """A copy that nobody can connect to. No session may be open in the source."""
        name = self.name(kind)
        fast = " STRATEGY file_copy" if self.ours and self.version >= 150000 else ""
        self._do(f"CREATE DATABASE {name} TEMPLATE {source}{fast} ALLOW_CONNECTIONS false")
        return name

    def open_to(self, name: str, role: str) -> None:
        """Let a role connect to a database, and nobody else."""
        self._do(
            f"REVOKE ALL ON DATABASE {name} FROM PUBLIC; GRANT CONNECT ON DATABASE {name} TO "
            f"{role}; ALTER DATABASE {name} ALLOW_CONNECTIONS true"
        )

    def end_sessions(self, name: str) -> None:
        """End every session in a database, and wait until they are gone."""
        left = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = %s"
        with self.lock:
            try:
                while (self.admin.execute(left, (name,)).fetchone() or (0,))[0]:
                    pass
            except psycopg.Error as error:
                raise self.down(error) from None

    def template(self, database: Database) -> str:
        """The name of a database to copy from."""
        with self.lock:
            known = self.templates.get(database.key)
            if known is not None:
                self.templates.move_to_end(database.key)
                return known
            name = self._make(database)
            self.templates[database.key] = name
            while len(self.templates) > MOST_TEMPLATES:
                self.drop("DATABASE", self.templates.popitem(last=False)[1])
            return name

    def _make(self, database: Database) -> str:
        """A new database from a script, closed in the end. Raises ValueError where that fails."""
        name = self.name("t")
        self._do(
            f"CREATE DATABASE {name} TEMPLATE template0 ENCODING 'UTF8' LC_COLLATE 'C' LC_CTYPE 'C'"
        )
        self._do(f"REVOKE ALL ON DATABASE {name} FROM PUBLIC")
        groups = [self.group(kind) for kind in GROUPS]
        try:
            with contextlib.closing(self.connect(name)) as connection:
                fill(connection, database, groups, ours=self.ours)
        except psycopg.Error as error:
            self.drop("DATABASE", name)
            raise ValueError(f"the database's script fails: {error}") from None
        self._do(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
        self.end_sessions(name)
        return name

    # -- roles -------------------------------------------------------------------------------------

    def role(self, kind: str) -> tuple[str, str]:
        """A throw-away role and its password."""
        name, password = self.name("r"), secrets.token_hex(16)
        self._do(
            f"CREATE ROLE {name} LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE CONNECTION LIMIT 3 "
            f"PASSWORD '{password}' IN ROLE {self.group(kind)}"
        )
        if not self.ours:  # no superuser: only a member may end a role's sessions
            self._do(f"GRANT {name} TO CURRENT_USER")
        return name, password

    # -- dropping, off the path --------------------------------------------------------------------

    def drop(self, kind: str, *names: str) -> None:
        """Drop databases (`kind` is DATABASE) or roles (ROLE), soon."""
        for name in names:
            self.to_drop.put((kind, name))

    def drain(self) -> None:
        """Wait until all that was to be dropped is."""
        done = threading.Event()
        self.to_drop.put(done)
        while not done.wait(0.1) and self.janitor.is_alive():
            pass

    def _drop_all(self) -> None:
        """The janitor's thread: it has a connection of its own, and outlives a server's end."""
        connection: Connection | None = None
        while (item := self.to_drop.get()) is not None:
            if isinstance(item, threading.Event):
                item.set()
                continue
            with contextlib.suppress(psycopg.Error, BackendUnavailable):
                if connection is None or connection.closed:
                    connection = self.connect(self.maintenance)
                connection.execute(care.dropping(*item))
        if connection is not None:
            connection.close()

    def close(self) -> None:
        """End the run: drop all that is of it, or stop the server that is ours."""
        if not self.ours:
            self.drain()
            with contextlib.suppress(psycopg.Error):
                care.drop_run(self.admin, self.run)
        self.to_drop.put(None)
        self.janitor.join(10)
        self.admin.close()
        if self.cluster is not None:
            self.cluster.stop()


_servers: dict[str | None, Server] = {}
_lock = threading.Lock()


def server(url: str | None) -> Server:
    """This process's run on a server: the one at `url`, or a private one. Raises
    BackendUnavailable."""
    with _lock:
        known = _servers.get(url)
        if known is not None and (known.answers() if known.ours else not known.admin.closed):
            return known
        if known is not None:
            with contextlib.suppress(Exception):
                known.close()
        if url is None:
            cluster = Cluster()
            _servers[url] = Server(cluster.address, cluster)
        else:
            _servers[url] = Server(care.address_of(url))
        return _servers[url]


def close_servers() -> None:
    """End all runs of this process, and its private server."""
    with _lock:
        for one in _servers.values():
            one.close()
        _servers.clear()


def _forget() -> None:
    """In a fork of this process: everything is the parent's."""
    global _lock
    _lock = threading.Lock()
    for one in _servers.values():
        one.forget()
    _servers.clear()


atexit.register(close_servers)
os.register_at_fork(after_in_child=_forget)
