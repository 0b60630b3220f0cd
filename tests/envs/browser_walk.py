"""Random tool calls that fit the page that is shown, and a law: a detour leaves no trace."""

import random
from typing import Any

from agent_envs import ToolCall, Verdict
from agent_envs.envs.browser.env import BrowserEnv
from agent_envs.envs.browser.reading import Line, Seen, read

WORDS = ("", "a", "Robin Hale", "12", "tea <b>", "é 中", "2026-06-03", "x" * 300)
KEYS = ("Enter", "Tab", "Escape", "ArrowDown", "End", "a")
EVERYWHERE: tuple[tuple[str, dict[str, Any]], ...] = (
    ("back", {}),
    ("forward", {}),
    ("goto", {"url": "/"}),
    ("tab", {"action": "new"}),
    ("tab", {"action": "switch", "number": 1}),
    ("tab", {"action": "close", "number": 1}),
    ("scroll", {"to": "down"}),
    ("wait", {}),
    ("click", {"ref": 10**9}),
)


def draw_call(seen: Seen, rng: random.Random) -> ToolCall:
    """A call on something that the page shows, or one that works anywhere."""
    numbered = [line for line in seen.lines if line.number]
    if not numbered or rng.random() < 0.25:
        name, arguments = rng.choice(EVERYWHERE)
        return ToolCall(name, dict(arguments))
    line = rng.choice(numbered)
    return ToolCall(*_on(line, seen, rng))


def _on(line: Line, seen: Seen, rng: random.Random) -> tuple[str, dict[str, Any]]:
    ref = {"ref": line.number}
    if rng.random() < 0.1:
        return "press", {"key": rng.choice(KEYS), **ref}
    if line.role in ("textbox", "searchbox", "spinbutton"):
        return "fill", {"text": rng.choice(WORDS), **ref}
    if line.role == "combobox":
        options = [x.name for x in _below(line, seen) if x.role == "option"]
        return "select", {"option": rng.choice([*options, "no such option"]), **ref}
    if line.role in ("checkbox", "radio"):
        return "check", {"on": rng.random() < 0.8, **ref}
    return "click", ref


def _below(line: Line, seen: Seen) -> list[Line]:
    following = seen.lines[seen.lines.index(line) + 1 :]
    end = next((i for i, x in enumerate(following) if x.depth <= line.depth), len(following))
    return list(following[:end])


def stroll(env: BrowserEnv, rng: random.Random, calls: int) -> list[tuple[ToolCall, str]]:
    """Some drawn calls, with what came of them."""
    found = []
    seen = read(env.call(ToolCall("read", {})).content)
    for _ in range(calls):
        call = draw_call(seen, rng)
        text = env.call(call).content
        found.append((call, text))
        if text.startswith("page: "):
            seen = read(text)
    return found


def check_detours(
    env: BrowserEnv, straight: BrowserEnv, task: str, seed: int, legs: int = 4
) -> Verdict | None:
    """Walk with detours that are rolled back, and the same without: nothing may differ."""
    rng = random.Random(seed)
    env.reset(seed=1, options={"task": task})
    straight.reset(seed=1, options={"task": task})
    for _ in range(legs):
        walked = stroll(env, rng, 2)
        again = [straight.call(ToolCall("read", {})).content]
        again += [straight.call(call).content for call, _ in walked]
        assert again[1:] == [text for _, text in walked]
        kept = env.snapshot()
        stroll(env, rng, rng.randrange(1, 4))
        env.rollback(kept)
    one, two = env.call(ToolCall("read", {})), straight.call(ToolCall("read", {}))
    assert one == two
    verdict = env.finish("done")
    assert verdict == straight.finish("done")
    return verdict
