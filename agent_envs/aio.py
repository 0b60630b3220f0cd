"""The bridge for asyncio hosts: `await aio.run(env.step, text)`. There are no async twins.

    async def episode(env):
        observation, info = await aio.run(env.reset, seed=1)
        ...

Each call runs on a daemon thread of its own, as many at once as there are callers; an env has one
caller at a time. A cancelled `await` does not stop the call: `close()` on the env does.
"""

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from typing import Any, ParamSpec, TypeVar

from agent_envs.worker import Worker

P = ParamSpec("P")
T = TypeVar("T")

_idle: list[Worker] = []

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_idle.clear)  # threads stay behind in the parent


async def run(call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """The result of `call(*args, **kwargs)`, without blocking the loop; its exceptions come too.

    The call sees the caller's context variables.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()
    worker = _take()

    def done(result: T, error: BaseException | None) -> None:
        _idle.append(worker)
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(_settle, future, result, error)

    worker.submit(partial(copy_context().run, call, *args, **kwargs), done)
    return await future


def _take() -> Worker:
    try:
        return _idle.pop()
    except IndexError:
        return Worker()


def _settle(future: "asyncio.Future[Any]", result: Any, error: BaseException | None) -> None:
    if future.cancelled():
        return
    if error is None:
        future.set_result(result)
    elif isinstance(error, StopIteration):
        inside = RuntimeError("the call raised StopIteration")
        inside.__cause__ = error
        future.set_exception(inside)
    else:
        future.set_exception(error)
