"""The coding part of `demo`: a bug, a wrong repair that is undone, and the right one."""

from typing import Any

from agent_envs.cli import page
from agent_envs.cli.common import make, printable
from agent_envs.cli.page import Say
from agent_envs.env import ToolEnv
from agent_envs.errors import BackendUnavailable
from agent_envs.task import Task
from agent_envs.turns import ToolCall

ENV_ID = "agent/Code-v0"
LEVEL = 2
"""Repair a function."""
_WIDTH = 92


def coding(say: Say) -> dict[str, Any] | None:
    """One episode with a branch; None where no sandbox works."""
    page.heading(say, "4. Code: a bug, a wrong repair, a rollback, the right one")
    page.prose(
        say,
        f"{ENV_ID}: an interpreter and files in a sandbox. run_tests runs the visible tests, and "
        "the verdict comes from hidden ones, both in sandboxes that the agent never had.",
    )
    env = make(ENV_ID, split="heldout", level=LEVEL)
    try:
        return _episode(say, env, env.tasks.split("heldout", LEVEL)[0])
    except BackendUnavailable as error:
        page.prose(say, f"Left out: {error}")
        return None
    finally:
        env.close()


def _episode(say: Say, env: ToolEnv, task: Task) -> dict[str, Any]:
    env.reset(seed=0, options={"task": task})
    page.task(say, task)
    start = _use(say, env, "read_file", path="solution.py")
    failing = _use(say, env, "run_tests")
    page.rule(say, "snapshot")
    kept = env.snapshot()
    wrong = _write_and_test(say, env, _wrong_repair(task, start))
    page.rule(say, "rollback")
    env.rollback(kept)
    same = _use(say, env, "read_file", path="solution.py") == start
    page.remark(say, f"the file is as it was before the wrong repair: {page.yes(same)}")
    right = _write_and_test(say, env, task.data["solution"]["solution.py"])
    verdict = env.finish("Repaired.")
    page.answered(say, "Repaired.", verdict)
    passed = bool(verdict and verdict.passed)
    told = {"failing": failing, "wrong": wrong, "right": right}
    heads = {name: report.partition("\n")[0] for name, report in told.items()}
    return {"task": task.id, **heads, "undone": same, "passed": passed}


def _wrong_repair(task: Task, start: str) -> str:
    """A solution with another bug than the one at the start."""
    sources = [mutant["solution.py"] for mutant in task.data["mutants"]]
    return str(next(source for source in sources if source != start))


def _write_and_test(say: Say, env: ToolEnv, source: str) -> str:
    _use(say, env, "write_file", path="solution.py", content=source)
    return _use(say, env, "run_tests")


def _use(say: Say, env: ToolEnv, tool: str, **arguments: str) -> str:
    """Call a tool; the call and what it says are shown line by line."""
    said = env.call(ToolCall(tool, arguments)).content
    given = ", ".join(f"{name}={value!r}" for name, value in arguments.items() if name == "path")
    say(f"    {tool}({given})")
    for line in (arguments.get("content") or said).splitlines():
        say(f"      {printable(line)}"[:_WIDTH].rstrip())
    return said
