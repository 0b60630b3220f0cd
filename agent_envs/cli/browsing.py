"""The demo's episode in a browser, where one can be had: a task, a rollback, and a screenshot."""

import tempfile
import warnings
from pathlib import Path
from typing import Any

from agent_envs.cli import page
from agent_envs.cli.common import Failed, make, note
from agent_envs.cli.page import Say
from agent_envs.env import ToolEnv
from agent_envs.errors import BackendUnavailable
from agent_envs.policy import oracle
from agent_envs.registry import ids
from agent_envs.rollout import rollout
from agent_envs.turns import ToolCall, ToolResult

ENV_ID = "agent/Browser-v0"


def browser(say: Say) -> dict[str, Any]:
    """An episode on a web site, graded by the site's own state; left out where there is none."""
    page.heading(say, "6. A browser: real sites, a rollback, and a screenshot")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return _shown(say)
    except (BackendUnavailable, Failed) as error:
        note(f"no browser here: {error}")
        page.remark(say, "left out: agent-envs doctor says what is missing")
        return {"left_out": str(error)}


def _shown(say: Say) -> dict[str, Any]:
    if ENV_ID not in ids():
        raise Failed(f"{ENV_ID} is not installed")
    env = make(ENV_ID, split="heldout", render_mode="rgb_array")
    try:
        return _played(say, env)
    finally:
        env.close()


def _played(say: Say, env: ToolEnv) -> dict[str, Any]:
    """The way to a task's end; then back to the start, where nothing of it has happened."""
    task = env.tasks.split("heldout")[0]
    env.reset(seed=1, options={"task": task.id})
    page.task(say, task)
    look = ToolCall("read", {})
    first = env.call(look)
    page.called(say, look, _short(first))
    kept = env.snapshot()
    picture = _saved(env)
    played = rollout([env], oracle(type(env), env.tasks), [task], progress=False)[0]
    for turn in played.turns:
        for call, result in turn.info["calls"]:
            page.called(say, call, _short(result))
    page.answered(say, played.turns[-1].action.text, played.verdict)
    page.rule(say, "rollback: the site is as it was, and so is the page")
    env.rollback(kept)
    same = env.call(look).content == first.content
    page.remark(say, f"the same page, byte for byte: {page.yes(same)}")
    page.remark(say, f"a screenshot of it: {picture}")
    passed = bool(played.verdict and played.verdict.passed)
    return {"task": task.id, "passed": passed, "same_again": same, "screenshot": picture}


def _short(result: ToolResult) -> ToolResult:
    """Of a page that a result shows, its name and how long it is."""
    lines = result.content.split("\n")
    size = f" ({len(lines)} lines)" if len(lines) > 1 else ""
    return ToolResult(lines[0] + size, result.error)


def _saved(env: ToolEnv) -> str | None:
    """The path of a PNG of the page; None where pictures cannot be made."""
    try:
        from PIL import Image
    except ImportError:
        return None
    folder = Path(tempfile.mkdtemp(prefix="browser-demo-"))
    path = folder / "browser.png"
    array: Any = env.render()
    Image.fromarray(array).save(path)
    return str(path)
