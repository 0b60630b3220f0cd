"""The PostgreSQL backend, put together."""

from collections.abc import Iterable

from sqlalchemy import create_engine
from sqlalchemy.pool import StaticPool

from agent_envs.envs.sql.backend import Kind
from agent_envs.envs.sql.database import Database
from agent_envs.envs.sql.deciding import Known
from agent_envs.envs.sql.facts import facts_of
from agent_envs.envs.sql.pggrading import PostgreSQLEngine
from agent_envs.envs.sql.pgsession import PostgreSQLSession
from agent_envs.envs.sql.server import server
from agent_envs.envs.sql.variants import TableFacts


class PostgreSQL:
    """The PostgreSQL backend: a private server, or the one at `url`."""

    dialect = "postgresql"
    volatile = frozenset({"clock", "random", "transaction ids", "process ids"})

    def __init__(self, url: str | None, seconds: float) -> None:
        self.url, self.seconds = url, seconds
        server(url)
        self.engine = PostgreSQLEngine(url, seconds)

    def start(self, database: Database, kind: Kind) -> PostgreSQLSession:
        """See `Backend`."""
        return PostgreSQLSession(server(self.url), database, kind, self.seconds)

    def facts(self, script: str) -> dict[str, TableFacts]:
        """See `Backend`."""
        owner, database = server(self.url), Database(script)
        copy = owner.copy(owner.template(database), "f")
        owner.open_to(copy, "CURRENT_USER")
        connection = owner.connect(copy)
        engine = create_engine(
            "postgresql+psycopg://", creator=lambda: connection, poolclass=StaticPool
        )
        try:
            return facts_of(engine, "public")
        finally:
            engine.dispose()
            connection.close()
            owner.drop("DATABASE", copy)

    def trusted(self, database: Database, wanted: Iterable[str]) -> Known:
        """See `Backend`: all at once, in the grader's place."""
        return Known(self.engine.many(wanted, database))
