"""The demo's part on a database: a query that looks right and is not, and a change undone."""

from typing import Any

from agent_envs.cli import page
from agent_envs.cli.common import make, printable
from agent_envs.cli.page import Say
from agent_envs.env import ToolEnv
from agent_envs.errors import BackendUnavailable
from agent_envs.task import Task
from agent_envs.turns import ToolCall

ENV_ID = "agent/SQL-v0"
SHOWN = 6
"""Lines of a result that are shown."""


def querying(say: Say) -> dict[str, Any] | None:
    """An episode that reads, answered by its own rows and by a query; and one that changes data."""
    page.heading(say, "5. A database that can be branched")
    try:
        env = make(ENV_ID, split="heldout")
    except (BackendUnavailable, ModuleNotFoundError) as error:
        page.prose(say, f"Left out: {error}")
        return None
    try:
        return {"reading": _reading(say, env), "changing": _changing(say, env)}
    except BackendUnavailable as error:
        page.prose(say, f"Left out: {error}")
        return None
    finally:
        env.close()


def _reading(say: Say, env: ToolEnv) -> dict[str, bool]:
    """The rows that the agent sees, as constants: right here, and wrong everywhere else."""
    page.prose(
        say,
        "The answer to this task is a query. It is run on a pristine copy and on hidden databases "
        "with other rows, so the rows that one sees are worth nothing as an answer.",
    )
    task = next(t for t in env.tasks.split("heldout", 0) if t.tags[0] == "distinct")
    gold: str = task.data["gold"]["sqlite"][0]["answer"]
    page.task(say, task)
    env.reset(seed=1, options={"task": task})
    rows = _run(say, env, "query", gold).split("\n")[2:-1]
    column = " UNION ALL ".join(f"SELECT '{row.strip()}'" for row in rows)
    constants = _finish(say, env, task, f"SELECT * FROM ({column})")
    return {"constants": constants, "query": _finish(say, env, task, gold)}


def _changing(say: Say, env: ToolEnv) -> dict[str, bool]:
    """A change that goes too far, rolled back, and made as it should be."""
    page.prose(
        say,
        "Here the database itself is graded: every table, row by row. A snapshot keeps it with "
        "open transactions and temporary tables.",
    )
    task = next(t for t in env.tasks.split("heldout", 4) if t.tags[0] == "remove")
    script: str = task.data["script"]["sqlite"]
    page.task(say, task)
    env.reset(seed=1, options={"task": task})
    start = env.snapshot()
    _run(say, env, "execute", script.partition(" WHERE ")[0])
    careless = bool((verdict := env.finish("done")) and verdict.passed)
    page.answered(say, "done", verdict)
    page.rule(say, "rollback")
    env.rollback(start)
    _run(say, env, "execute", script)
    verdict = env.finish("done")
    page.answered(say, "done", verdict)
    return {"careless": careless, "careful": bool(verdict and verdict.passed)}


def _run(say: Say, env: ToolEnv, tool: str, sql: str) -> str:
    """One call, and the beginning of what it gives."""
    result = env.call(ToolCall(tool, {"sql": sql}))
    say(f"    {tool}: {printable(sql):.86}")
    lines = result.content.split("\n")
    for line in lines[:SHOWN] + (["..."] if len(lines) > SHOWN else []):
        say(f"      {printable(line):.90}")
    return result.content


def _finish(say: Say, env: ToolEnv, task: Task, answer: str) -> bool:
    """Whether an answer passes, in an episode of its own."""
    env.reset(seed=1, options={"task": task})
    verdict = env.finish(answer)
    page.answered(say, f"{answer[:36]}...", verdict)
    return bool(verdict and verdict.passed)
