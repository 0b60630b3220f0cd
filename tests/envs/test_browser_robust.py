"""What breaks: renderers, browsers, hosts that are killed; and others notice nothing."""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agent_envs import BackendUnavailable, ToolCall
from agent_envs.envs.browser import chromium, engine
from agent_envs.envs.browser.session import Session
from tests.envs.browser_zoo import StillZoo, Visitor, Zoo
from tests.sandbox.leftovers import descendants

LONG: dict[str, Any] = {"max_turns": 10**6, "max_calls": 10**6}


@pytest.fixture
def two() -> Iterator[tuple[Visitor, Visitor]]:
    envs = [Zoo(patience=3.0, **LONG), Zoo(patience=3.0, **LONG)]
    for env in envs:
        env.reset(seed=1)
    one, other = map(Visitor, envs)
    one.do("read")
    other.do("goto", url="/form")
    other.do("fill", ref=other.number("Name", "textbox"), text="typed")
    yield one, other
    for env in envs:
        env.close()


def browser_of(visit: Visitor) -> chromium.Browser:
    browser = visit.env._now._browser
    assert browser is not None
    return browser


def inside(visit: Visitor, work: Callable[[Session], Any]) -> Any:
    """Do something on the engine's thread with a visitor's session."""
    session = visit.env._now._session
    assert session is not None

    async def run() -> Any:
        return await work(session)

    return engine.engine().call(run())


def processes(pattern: str) -> set[int]:
    """Our own processes of Chromium whose command line has a text."""
    found = set()
    for pid in descendants(os.getpid()):
        try:
            line = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
        if "chromium" in line and pattern in line:
            found.add(pid)
    return found


def kill(pids: set[int]) -> None:
    """End processes, some of which end with the others."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def same_as_before(other: Visitor) -> None:
    text = other.do("read")
    assert other.seen.title == "Form" and '"typed"' in text
    assert other.seen.notes == ()


def test_a_page_that_crashes(two: tuple[Visitor, Visitor]) -> None:
    one, other = two

    async def crash(session: Session) -> None:
        try:
            await session.shown.page.goto("chrome://crash", timeout=3000)
        except Exception:
            pass

    inside(one, crash)
    assert "crashed, and was closed" in one.do("read")
    assert one.do("goto", url="/second") and one.seen.title == "Second"
    same_as_before(other)


def test_killed_renderers(two: tuple[Visitor, Visitor]) -> None:
    one, _ = two
    kill(processes("--type=renderer"))
    time.sleep(0.3)
    assert "crashed, and was closed" in one.do("read")
    assert one.do("goto", url="/") and one.seen.title == "Zoo"


def test_a_killed_browser_is_not_noticed(two: tuple[Visitor, Visitor]) -> None:
    one, other = two
    before = one.do("read")
    kill(processes("--remote-debugging-pipe"))
    assert one.do("read") == before
    same_as_before(other)
    assert browser_of(one) is browser_of(other)


def test_a_call_that_kills_the_browser_costs_a_turn(two: tuple[Visitor, Visitor]) -> None:
    one, other = two

    seen: set[int] = set()

    def kill_twice() -> None:
        for _ in range(2):
            while not (pages := processes("--type=renderer") - seen):
                time.sleep(0.02)
            seen.update(pages)
            time.sleep(1.0)
            kill(processes("--remote-debugging-pipe"))

    one.do("goto", url="/loop")
    killer = threading.Thread(target=kill_twice)
    killer.start()
    text = one.attempt("click", ref=one.number("Loop"))
    killer.join()
    assert "the browser crashed in this call" in text and one.last.error == "failed"
    assert one.do("read") and one.seen.title == "Loop"
    same_as_before(other)


def test_a_browser_is_replaced_after_some_episodes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine.engine(), "recycled_after", 2)
    env = StillZoo(**LONG)
    visit, pids = Visitor(env), set()
    for seed in range(5):
        env.reset(seed=seed)
        visit.do("read")
        pids |= processes("--remote-debugging-pipe") - processes("--type")
    assert len(pids) >= 3
    env.close()


def test_an_episode_may_have_a_browser_of_its_own() -> None:
    envs = [Zoo(isolation="episode") for _ in range(2)]
    for env in envs:
        env.reset(seed=1)
        Visitor(env).do("read")
    one, two = (browser_of(Visitor(env)) for env in envs)
    assert one is not two
    for env in envs:
        env.close()
    assert one.dead and two.dead


def test_close_ends_a_running_call() -> None:
    env = Zoo(patience=60.0)
    env.reset(seed=1)
    visit = Visitor(env)
    visit.do("goto", url="/loop")
    call = threading.Thread(target=env.act, args=([ToolCall("click", {"ref": 1})],))
    call.start()
    time.sleep(0.5)
    began = time.monotonic()
    env.close()
    call.join(10)
    assert not call.is_alive() and time.monotonic() - began < 5


def test_inside_a_running_event_loop_and_from_many_threads() -> None:
    async def episode() -> str:
        env = StillZoo()
        env.reset(seed=1)
        text = Visitor(env).do("read")
        env.close()
        return text

    expected = asyncio.run(episode())
    found: list[str] = []

    def play() -> None:
        found.append(asyncio.run(episode()))

    threads = [threading.Thread(target=play) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [expected] * 6


def test_what_a_machine_lacks_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chromium, "find", lambda: "/usr/bin/true")
    env = StillZoo(isolation="episode")
    with pytest.raises(BackendUnavailable, match="Chromium does not start"):
        env.reset(seed=1)
    monkeypatch.undo()
    monkeypatch.setattr(chromium, "find_bubblewrap", lambda: None)
    with pytest.raises(BackendUnavailable, match="bubblewrap is not installed: pip install"):
        env.reset(seed=1)
    env.close()


_HOST = """
import json, os, sys, time
sys.path.insert(0, sys.argv[1])
from tests.envs.browser_zoo import StillZoo, Visitor
from tests.sandbox.leftovers import descendants
env = StillZoo()
env.reset(seed=1)
Visitor(env).do("read")
print(json.dumps(sorted(descendants(os.getpid()))), flush=True)
time.sleep(600)
"""


def test_nothing_is_left_of_a_killed_host() -> None:
    root = str(Path(__file__).parents[2])
    with subprocess.Popen(
        [sys.executable, "-c", _HOST, root], stdout=subprocess.PIPE, cwd=root, text=True
    ) as host:
        assert host.stdout is not None
        below = json.loads(host.stdout.readline())
        assert len(below) >= 4
        host.kill()
    deadline = time.monotonic() + 20
    while any(map(alive, below)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not [pid for pid in below if alive(pid)]


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False
