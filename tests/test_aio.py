"""The asyncio bridge and its threads: many envs in one loop, failures, cancellation, exit."""

import asyncio
import contextvars
import gc
import logging
import subprocess
import sys
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import pytest

from agent_envs import ToolEnv, aio
from agent_envs.plain import to_plain
from agent_envs.worker import Worker

ROOT = Path(__file__).parents[1]
BANK = "bank_env:mine/Bank-v0"
PATIENCE = 30.0


@pytest.fixture(autouse=True, scope="module")
def _importable() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(Path(__file__).parent))
        yield


def bank() -> ToolEnv:
    """An env."""
    env = gymnasium.make(BANK, fault_rate=0.2).unwrapped
    assert isinstance(env, ToolEnv)
    return env


def moves(seed: int) -> list[str]:
    """What is done in an episode."""
    call = '<tool_call>{"name": "balance", "arguments": {"name": "ada"}}</tool_call>'
    return [call] * (seed % 4 + 1) + ["<tool_call>", "17"]


def play(seed: int) -> list[Any]:
    """An episode, played without asyncio."""
    env = bank()
    return [to_plain(env.reset(seed=seed)), *(to_plain(env.step(text)) for text in moves(seed))]


async def play_awaiting(seed: int) -> list[Any]:
    """The same episode in a loop."""
    env = await aio.run(bank)
    told = [to_plain(await aio.run(env.reset, seed=seed))]
    for text in moves(seed):
        told.append(to_plain(await aio.run(env.step, text)))
    await aio.run(env.close)
    return told


async def play_many(count: int) -> list[list[Any]]:
    """Many episodes at once."""
    return await asyncio.gather(*(play_awaiting(seed) for seed in range(count)))


def test_many_envs_in_one_loop() -> None:
    assert asyncio.run(play_many(40)) == [play(seed) for seed in range(40)]


def test_threads_are_used_again() -> None:
    asyncio.run(play_many(10))
    before = threading.active_count()
    for _ in range(5):  # a new loop each time
        asyncio.run(play_many(10))
    assert threading.active_count() <= before + 10

    async def one_by_one() -> set[int]:
        return {await aio.run(threading.get_ident) for _ in range(50)}

    assert len(asyncio.run(one_by_one())) == 1
    assert threading.get_ident() not in asyncio.run(one_by_one())


def test_the_loop_is_not_blocked() -> None:
    gate = threading.Event()

    async def both() -> str:
        waiting = asyncio.ensure_future(aio.run(gate.wait, PATIENCE))
        await aio.run(lambda: None)
        assert not waiting.done()
        gate.set()
        assert await waiting
        return "done"

    assert asyncio.run(both()) == "done"


class OwnError(Exception):
    pass


def fail(error: BaseException) -> None:
    """Raise it."""
    raise error


@pytest.mark.parametrize(
    "error", [OwnError("no"), ValueError("no"), asyncio.CancelledError("no"), TimeoutError("no")]
)
def test_exceptions_come_too(error: BaseException) -> None:
    async def go() -> None:
        with pytest.raises(type(error), match="no"):
            await aio.run(fail, error)
        assert await aio.run(lambda: 7) == 7

    asyncio.run(go())


def test_stop_iteration_cannot_come_as_itself() -> None:
    async def go() -> None:
        with pytest.raises(RuntimeError, match="the call raised StopIteration") as caught:
            await aio.run(next, iter(()))
        assert isinstance(caught.value.__cause__, StopIteration)

    asyncio.run(go())


def test_an_env_that_was_closed_says_so() -> None:
    async def go() -> None:
        env = bank()
        await aio.run(env.close)
        with pytest.raises(gymnasium.error.ClosedEnvironmentError, match="is closed"):
            await aio.run(env.reset)

    asyncio.run(go())


def test_outside_a_loop() -> None:
    run = aio.run(lambda: 1)
    with pytest.raises(RuntimeError, match="no running event loop"):
        run.send(None)


def test_a_cancelled_await_leaves_the_call_and_its_thread_alone() -> None:
    gate, ended, threads = threading.Event(), threading.Event(), []

    def slow() -> None:
        threads.append(threading.get_ident())
        gate.wait(PATIENCE)
        ended.set()

    async def go() -> int:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(aio.run(slow), 0.01)
        assert not ended.is_set()
        other = await aio.run(threading.get_ident)  # somebody else's thread meanwhile
        assert other not in threads
        gate.set()
        await aio.run(ended.wait, PATIENCE)
        return other

    asyncio.run(go())
    assert ended.is_set()


def test_a_call_may_outlive_its_loop(caplog: pytest.LogCaptureFixture) -> None:
    gates = [threading.Event() for _ in range(8)]

    async def leave() -> None:
        for gate in gates:
            asyncio.ensure_future(aio.run(gate.wait, PATIENCE))
        await asyncio.sleep(0)

    before = threading.active_count()
    asyncio.run(leave())
    for gate in gates:
        gate.set()
    for _ in range(20):  # threads whose loop has gone are as good as new
        assert len(asyncio.run(play_many(8))) == 8
    assert threading.active_count() <= before + 16
    assert caplog.records == []


def test_context_variables_are_seen() -> None:
    name: contextvars.ContextVar[str] = contextvars.ContextVar("name")

    async def one(value: str) -> str:
        name.set(value)
        await asyncio.sleep(0)
        return await aio.run(name.get)

    async def go() -> list[str]:
        return await asyncio.gather(*(one(str(i)) for i in range(5)))

    assert asyncio.run(go()) == ["0", "1", "2", "3", "4"]


class Thing:
    def touch(self) -> None:
        """Do nothing."""


def test_an_idle_thread_keeps_nothing_alive() -> None:
    thing = Thing()
    gone = weakref.ref(thing)

    asyncio.run(aio.run(thing.touch))
    del thing
    for _ in range(1000):
        gc.collect()
        if gone() is None:
            break
    assert gone() is None


# -- workers --------------------------------------------------------------------------------------


def test_a_worker_does_one_job_after_the_other() -> None:
    done: list[Any] = []
    through = threading.Event()
    worker = Worker()
    for i in range(100):
        worker.submit(lambda i=i: i, lambda result, error: done.append((result, error)))  # type: ignore[misc]
    worker.submit(lambda: fail(SystemExit(3)), lambda result, error: done.append((result, error)))
    worker.submit(lambda: None, lambda result, error: through.set())
    worker.close()
    assert through.wait(PATIENCE)
    assert done[:100] == [(i, None) for i in range(100)]
    assert done[100][0] is None and isinstance(done[100][1], SystemExit)


def test_a_worker_outlives_a_caller_that_fails(caplog: pytest.LogCaptureFixture) -> None:
    through = threading.Event()
    worker = Worker()
    worker.submit(lambda: 1, lambda result, error: fail(OwnError("the caller's")))
    worker.submit(lambda: 2, lambda result, error: through.set())
    worker.close()
    assert through.wait(PATIENCE)
    [record] = caplog.records
    assert record.levelno == logging.ERROR and "nobody could be told" in record.message


def test_a_closed_worker_ends() -> None:
    before = set(threading.enumerate())
    worker = Worker()
    [thread] = set(threading.enumerate()) - before
    worker.close()
    thread.join(PATIENCE)
    assert not thread.is_alive() and thread.daemon


# -- exit and fork --------------------------------------------------------------------------------


def run_python(code: str) -> subprocess.CompletedProcess[str]:
    """Run code in a fresh interpreter at the root of the checkout, which must end by itself."""
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_interpreter_exits_while_a_job_hangs() -> None:
    result = run_python(
        "import asyncio, threading\n"
        "from agent_envs import aio\n"
        "async def main():\n"
        "    try:\n"
        "        await asyncio.wait_for(aio.run(threading.Event().wait), 0.05)\n"
        "    except TimeoutError:\n"
        "        print('gave up')\n"
        "asyncio.run(main())\n"
    )
    assert (result.returncode, result.stdout, result.stderr) == (0, "gave up\n", "")


@pytest.mark.skipif(sys.platform == "win32", reason="no fork")
def test_a_forked_child_makes_threads_of_its_own() -> None:
    result = run_python(
        "import asyncio, os\n"
        "from agent_envs import aio\n"
        "async def main():\n"
        "    return await aio.run(lambda: 'ran')\n"
        "print(asyncio.run(main()), flush=True)\n"
        "if os.fork() == 0:\n"
        "    print(asyncio.run(asyncio.wait_for(main(), 20)), flush=True)\n"
        "    os._exit(0)\n"
        "assert os.wait()[1] == 0\n"
    )
    assert (result.returncode, result.stdout, result.stderr) == (0, "ran\nran\n", "")
