"""A thousand episodes in browsers: nothing stays, memory is flat, and every state comes back.

Counts are those of `make soak`; `make test` runs a fiftieth.
"""

import gc
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from agent_envs import ToolCall
from agent_envs.envs.browser import engine, sites
from agent_envs.envs.browser.env import BrowserEnv
from agent_envs.envs.browser.miniwob.gold import PAGES
from agent_envs.policy import oracle
from agent_envs.rollout import rollout
from tests.envs.browser_walk import check_detours, stroll
from tests.envs.browser_zoo import Visitor, Zoo
from tests.envs.test_browser_robust import kill, processes
from tests.sandbox.leftovers import alive, descendants, descriptors, wait_until

ROOT = Path(__file__).parents[2]
LONG: dict[str, Any] = {"max_turns": 10**6, "max_calls": 10**6}
MEGABYTE = 1 << 20


def resident(pids: set[int]) -> int:
    """Bytes of memory of some processes, what they share counted in parts."""
    total = 0
    for pid in pids:
        try:
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        total += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return total * 1024


def episode(env: BrowserEnv, seed: int) -> None:
    """A few calls, a branch, and an end."""
    env.reset(seed=seed)
    rng = random.Random(seed)
    stroll(env, rng, 2)
    kept = env.snapshot()
    stroll(env, rng, 2)
    env.rollback(kept)
    env.call(ToolCall("read", {}))
    env.release(kept)
    env.finish("done")


def contexts() -> int:
    """How many browser contexts there are in this process."""
    return sum(len(browser.pw.contexts) for browser in engine.engine().browsers)


@pytest.mark.soak(1000)
def test_episodes_leave_nothing_and_memory_is_flat(rounds: int) -> None:
    gc.collect()
    env = BrowserEnv(**LONG)
    episode(env, 0)
    others = contexts() - 1  # of tests before this one, in the same process
    for seed in range(min(rounds, 30)):
        episode(env, seed)
    env.reset(seed=0)
    gc.collect()
    opened, memory = len(descriptors()), resident({os.getpid()})
    pids = len(descendants(os.getpid()))
    for seed in range(rounds):
        episode(env, 1000 + seed)
    env.close()
    gc.collect()
    assert wait_until(lambda: contexts() <= max(others, 0))
    assert wait_until(lambda: len(descriptors()) <= opened + 2)
    assert wait_until(lambda: len(descendants(os.getpid())) <= pids)
    grown = resident({os.getpid()}) - memory
    assert grown < 30 * MEGABYTE, f"{grown / MEGABYTE:.1f} MB more after {rounds} episodes"


@pytest.mark.soak(250)
def test_detours_leave_no_trace(rounds: int) -> None:
    pair = BrowserEnv(**LONG), BrowserEnv(**LONG)
    tasks = [t.id for t in pair[0].tasks if t.data["site"] in sites.names()]
    rng = random.Random(7)
    for _ in range(rounds):
        check_detours(*pair, rng.choice(tasks), rng.randrange(2**30))
    for env in pair:
        env.close()


@pytest.mark.soak(500)
def test_gold_passes_in_the_browser(rounds: int) -> None:
    env = BrowserEnv()
    tasks = list(env.tasks)
    random.Random(3).shuffle(tasks)
    for trajectory in rollout([env], oracle(BrowserEnv, env.tasks), tasks[:rounds], progress=False):
        assert trajectory.verdict and trajectory.verdict.passed, trajectory.task.id
    env.close()


@pytest.mark.soak(200)
def test_miniwob_gold_passes_and_pages_load(rounds: int) -> None:
    pytest.importorskip("miniwob")
    env = BrowserEnv(tasks="miniwob", **LONG)
    tasks = list(env.tasks)
    random.Random(4).shuffle(tasks)
    gold = [t for t in tasks if t.data["page"] in PAGES][:rounds]
    for trajectory in rollout([env], oracle(BrowserEnv, env.tasks), gold, progress=False):
        assert trajectory.verdict and trajectory.verdict.passed, trajectory.task.id
    for task in tasks[:rounds]:
        env.reset(seed=1, options={"task": task})
        visit = Visitor(env)
        visit.do("read")
        assert visit.seen.lines and not visit.seen.notes, task.id
    env.close()


_HOST = """
import sys, time
sys.path.insert(0, sys.argv[1])
from tests.envs.browser_zoo import Visitor, Zoo
from tests.envs.test_browser_robust import kill, processes
envs = [Zoo() for _ in range(3)]
for env in envs:
    env.reset(seed=1)
    Visitor(env).do("read")
print("up", flush=True)
time.sleep(600)
"""


@pytest.mark.soak(50)
def test_after_a_kill_of_the_host_no_chromium_is_left(rounds: int) -> None:
    for _ in range(rounds):
        with subprocess.Popen(
            [sys.executable, "-c", _HOST, str(ROOT)], stdout=subprocess.PIPE, cwd=ROOT
        ) as host:
            assert host.stdout is not None and host.stdout.readline() == b"up\n"
            below = descendants(host.pid)
            host.send_signal(signal.SIGKILL)
        assert wait_until(lambda: not any(map(alive, below)))  # noqa: B023


@pytest.mark.soak(100)
def test_crashes_are_survived(rounds: int) -> None:
    env = Zoo(patience=3.0, **LONG)
    env.reset(seed=1)
    visit = Visitor(env)
    for n in range(rounds):
        visit.do("goto", url="/second")
        kill(processes("--type=renderer" if n % 2 else "--remote-debugging-pipe"))
        time.sleep(0.2)
        visit.do("read")
        assert visit.do("goto", url="/") and visit.seen.title == "Zoo"
    env.close()
