"""The SQL environment: a real database that can be branched, graded by what the answer does."""

import os
from os import PathLike
from typing import Any, NamedTuple

from agent_envs.env import ToolEnv
from agent_envs.envs.sql.backend import Backend, Kind, Ran, Session
from agent_envs.envs.sql.cheats import CHEATS
from agent_envs.envs.sql.database import Database
from agent_envs.envs.sql.engine import CachedEngine
from agent_envs.envs.sql.layout import counted, table
from agent_envs.envs.sql.needed import need
from agent_envs.envs.sql.questions import Catalogue, is_question_file, read_questions
from agent_envs.envs.sql.spoiled import spoiled
from agent_envs.envs.sql.sqlite import SQLite, SQLiteSession
from agent_envs.envs.sql.statements import LONGEST, READS, first_word, one_query, split
from agent_envs.envs.sql.tasks import SQLTasks, gold_of
from agent_envs.envs.sql.worlds import database as world_database
from agent_envs.errors import SnapshotUnsupported, ToolError, near, seconds_of
from agent_envs.sandbox import BACKENDS
from agent_envs.task import Task, TasksLike, task_file
from agent_envs.tool import tool
from agent_envs.turns import FaultKind, Message, Move, ToolCall
from agent_envs.verdict import Verdict
from agent_envs.verifiers.sql import (
    VERSION,
    Report,
    verify_change,
    verify_query,
    verify_value,
)

LONGEST_NAME = 200
"""Characters of a table's name."""
NAMES = {"sqlite": "SQLite", "postgresql": "PostgreSQL"}
_TELLS = READS | {"EXPLAIN", "PRAGMA", "TABLE", "SHOW"}
"""What `query` runs."""


class Saved(NamedTuple):
    """A kept state: of which database, and which one."""

    session: Session
    state: Any


class SQL(ToolEnv):
    """Questions to a database and changes of it. Queries are graded by what they give on hidden
    databases, changes by the whole state that they leave.

    `visible` is whether an answer looks right on the database that the agent saw, at weight 0.
    """

    tasks = SQLTasks()
    weights = {"solved": 1.0, "visible": 0.0}
    state_is_data = False
    cheats = CHEATS
    verifier = "agent_envs.verifiers.sql"

    def __init__(
        self,
        *,
        backend: str = "sqlite",
        url: str | None = None,
        database: str | PathLike[str] | None = None,
        query_seconds: float = 2.0,
        sandbox: str = "auto",
        split: str = "train",
        tasks: TasksLike | None = None,
        **arguments: Any,
    ) -> None:
        """`backend`: "sqlite", embedded, or "postgresql", a private server that is started for
        this process, or the one at `url`. `tasks`: also a `.jsonl` file of questions, on the
        `database` of an SQL file in the backend's dialect (or of a folder of them); all of it is
        then of `split`. `query_seconds`: how long a statement may take. `sandbox`: which one SQLite
        runs in. The others are as in `ToolEnv`. Raises ValueError for what does not fit together,
        BackendUnavailable, with what to do, where there is no such server."""
        if backend not in list(NAMES):
            raise ValueError(f"no backend {backend!r}; there are {', '.join(NAMES)}")
        if url is not None and backend != "postgresql":
            raise ValueError('url="postgresql://..." goes with backend="postgresql"')
        if not isinstance(url, str | None):
            raise ValueError(f'url={url!r}: text such as "postgresql://user@host/name", or None')
        if not isinstance(database, str | PathLike | None):
            raise ValueError(f"database={database!r}: the path of an SQL file, or of a folder")
        seconds = seconds_of("query_seconds", query_seconds)
        if database is not None and not isinstance(tasks, str | PathLike | Catalogue):
            raise ValueError('database="file.sql" goes with tasks="questions.jsonl"')
        self.dialect = backend
        self._backend = _backend(backend, url, seconds, sandbox)
        self._grader = CachedEngine(self._backend.engine, backend)
        self.volatile = self._backend.volatile
        self._session: Session | None = None
        if isinstance(tasks, str | PathLike) and database is None and is_question_file(tasks):
            raise ValueError(f'{tasks} holds questions: say database="file.sql" too')
        if isinstance(tasks, str | PathLike) and database is not None:
            tasks = read_questions(task_file(tasks), database, split, self._backend)
        super().__init__(split=split, tasks=tasks, **arguments)

    # -- tools -------------------------------------------------------------------------------------

    @tool
    def list_tables(self) -> str:
        """List the tables with how many columns and rows they have, and the dialect of SQL."""
        found = self._open.tables()
        text = table(("table", "columns", "rows"), found, counted(len(found), len(found), True))
        return f"{NAMES[self.dialect]} database\n{text}"

    @tool
    def describe_table(self, name: str) -> str:
        """Describe a table: its columns, keys, references and checks.

        Args:
            name: One of those that list_tables gives.
        """
        found = self._open.describe(name) if len(name) <= LONGEST_NAME else None
        if found is None:
            raise ToolError(f"there is no table {name[:80]!r}: see list_tables")
        many = counted(len(found.columns), len(found.columns), True).replace("row", "column")
        return "\n".join([table(("column", "type"), found.columns, many), *found.constraints])

    @tool
    def query(self, sql: str) -> str:
        """Run one query that only reads, and show its first rows.

        Args:
            sql: A SELECT, or another statement that tells something.
        """
        statements = _statements(sql)
        if len(statements) != 1:
            raise ToolError(f"{len(statements)} statements; query runs one at a time")
        word = first_word(statements[0])
        if word not in _TELLS:
            raise ToolError(f"query only reads, and {word[:20]} does not; see execute")
        return self._said(self._open.run("query", statements), 1)

    @tool
    def execute(self, sql: str) -> str:
        """Run statements that change the database, one after the other, up to the first that fails.

        Each takes effect at once, unless BEGIN opened a transaction; COMMIT or ROLLBACK ends it. A
        transaction may stay open from call to call. Only in tasks that ask for a change.

        Args:
            sql: One statement or several, with semicolons between them.
        """
        kind = _kind(self.task)
        if kind == "query":
            raise ToolError("this task changes nothing: there is no execute, only query")
        statements = _statements(sql)
        if not statements:
            raise ToolError("no statement")
        return self._said(self._open.run(kind, statements), len(statements))

    def _said(self, ran: Ran, count: int) -> str:
        """What statements came to. Raises TimeoutError or ToolError for one that failed."""
        parts = []
        for done in ran.done:
            if done.names:
                many = counted(len(done.rows), done.count, done.whole)
                parts.append(table(done.names, done.rows, many))
            else:
                parts.append(f"rows changed: {done.changed}")
        text = "\n".join(parts)
        if ran.error or ran.timeout:
            done_before = f" (statements done before it: {len(ran.done)})" if count > 1 else ""
            still = "; a transaction is open" if ran.in_transaction else ""
            if ran.timeout:
                raise TimeoutError(f"a statement may take {self._backend.seconds:g} s{done_before}")
            raise ToolError(f"{_short(ran.error)}{done_before}{still}")
        return f"{text}\na transaction is open" if ran.in_transaction else text

    # -- grading -----------------------------------------------------------------------------------

    def grade(self, answer: str | None) -> Verdict:
        """By the kind of task: a query, a value, or the state as it was committed."""
        report = self._report(answer)
        components = {"solved": float(report.passed), "visible": float(report.visible)}
        return Verdict(components, self.weights, report.passed, VERSION)

    def _report(self, answer: str | None) -> Report:
        data = self.task.data
        if data["kind"] == "change":
            found = self._open.state()
            start = self._database(self.task, None)
            return verify_change(self._grader, data["script"][self.dialect], start, found)
        if data["kind"] == "question":
            return verify_value(self.task, answer, data["answer"])
        if answer is None:
            return Report(False, False, "no answer")
        try:
            query = one_query(answer)
        except ValueError as error:
            return Report(False, False, str(error))
        golds = [gold_of(entry) for entry in data["gold"][self.dialect]]
        hidden = [self._database(self.task, seed) for seed in data["hidden"]]
        databases = [self._database(self.task, None), *hidden]
        return verify_query(self._grader, query, golds, databases, data.get("undecided", 0))

    def _database(self, task: Task, hidden: int | None) -> Database:
        """A task's database as it was at the start, or a hidden one."""
        data = task.data
        if "world" in data:
            seed = data["seed"] if hidden is None else hidden
            return world_database(data["world"], seed, data["hostile"], self.dialect)
        if not isinstance(self.tasks, Catalogue):
            raise ValueError(
                f"task {task.id!r} is about a database that this env does not have: make it with "
                'tasks="questions.jsonl", database="file.sql"'
            )
        return self.tasks.database(data["file"], hidden)

    def corrupt(self, kind: FaultKind, call: ToolCall, content: str, u: float) -> str:
        """Another digit or letter in a row, or fewer rows than there are."""
        return spoiled(kind, content, u)

    @staticmethod
    def oracle(task: Task, messages: list[Message]) -> Move:
        """Look at the tables, which names the dialect; then make the change, or answer."""
        heard = [m["content"] for m in messages if m["role"] == "tool"]
        dialect = next((d for d, name in NAMES.items() if any(name in x for x in heard)), None)
        if dialect is None:
            return [ToolCall("list_tables", {})]
        data = task.data
        match data["kind"]:
            case "question":
                return str(data["answer"])
            case "read":
                return str(data["gold"][dialect][0]["answer"])
        if any(x.startswith("rows changed: ") for x in heard):
            return "done"
        return [ToolCall("execute", {"sql": f"BEGIN;\n{data['script'][dialect]};\nCOMMIT"})]

    # -- state -------------------------------------------------------------------------------------

    @property
    def _open(self) -> Session:
        assert self._session is not None, "reset() comes first"
        return self._session

    def setup(self, task: Task) -> None:
        """A fresh copy of the task's database."""
        self._session = self._backend.start(self._database(task, None), _kind(task))

    def serialized(self) -> bytes:
        """What is committed in the live database, as the bytes of an SQLite file. Ends an open
        transaction. Raises SnapshotUnsupported on another backend."""
        if not isinstance(self._open, SQLiteSession):
            raise SnapshotUnsupported("only SQLite has a portable form; elsewhere pg_dump is")
        return self._open.serialized()

    def save(self) -> Saved:
        """See `ToolEnv`; what the backend cannot capture it names."""
        return Saved(self._open, self._open.save())

    def load(self, saved: Saved) -> None:
        """Go back to a state, maybe of an earlier episode's database."""
        if saved.session is not self._session:
            self.teardown()
            self._session = saved.session
        saved.session.load(saved.state)

    def drop(self, saved: Saved) -> None:
        """Give up a state, and its database with the last one of it."""
        session = saved.session
        if not self.closed:  # else a call may be running in it: teardown ends all at once
            session.drop(saved.state)
        if session is not self._session:
            self._part(session)

    def teardown(self) -> None:
        """Leave the database; it goes unless a state is kept of it. On close a call ends."""
        session, self._session = self._session, None
        if session is not None:
            self._part(session)

    def _part(self, session: Session) -> None:
        if self.closed:
            session.close()
        elif not session.kept:
            session.leave()

    def _plain_argument(self, name: str, value: Any) -> Any:
        is_path = name == "database" and value is not None
        return os.fspath(value) if is_path else super()._plain_argument(name, value)


def _backend(name: str, url: str | None, seconds: float, sandbox: str) -> Backend:
    if name == "sqlite":
        if sandbox not in ("auto", *BACKENDS):
            hint = near(str(sandbox), BACKENDS)
            raise ValueError(f"no sandbox {sandbox!r}{hint}; there are auto, {', '.join(BACKENDS)}")
        return SQLite(sandbox, seconds)
    need("psycopg")
    from agent_envs.envs.sql.postgresql import PostgreSQL

    return PostgreSQL(url, seconds)


def _kind(task: Task) -> Kind:
    if task.data["kind"] != "change":
        return "query"
    return "migrate" if task.data["migrates"] else "change"


def _statements(sql: str) -> list[str]:
    """The statements of a text. Raises ToolError for one that is none."""
    if len(sql) > LONGEST:
        raise ToolError(f"at most {LONGEST:,} characters; there are {len(sql):,}")
    try:
        sql.encode()
    except UnicodeEncodeError:
        raise ToolError("a lone surrogate, which is no character") from None
    if "\0" in sql:
        raise ToolError("a NUL character")
    return split(sql)


def _short(error: str) -> str:
    """The engine's own words, on one line."""
    text = " ".join(error.split())
    return text if len(text) <= 300 else text[:297] + "..."
