"""The bridge for asyncio hosts: `await aio.run(env.step, text)`. There are no async twins.

    async def episode(env):
        observation, info = await aio.run(env.reset, seed=1)
        ...

Each call runs on a daemon thread of its own, as many at once as there are callers; an env has one
caller at a time. A cancelled `await` does not stop the call: `close()` on the env does.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, ParamSpec, TypeVar

from agent_envs.worker import Worker

P = ParamSpec("P")
T = TypeVar("T")

_idle: list[Worker] = []


async def run(call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """The result of `call(*args, **kwargs)`, without blocking the loop; its exceptions come too."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()
    worker = _idle.pop() if _idle else Worker()

    def done(result: T, error: BaseException | None) -> None:
        _idle.append(worker)
        if not loop.is_closed():
            loop.call_soon_threadsafe(_settle, future, result, error)

    worker.submit(partial(call, *args, **kwargs), done)
    return await future


def _settle(future: "asyncio.Future[Any]", result: Any, error: BaseException | None) -> None:
    if future.cancelled():
        return
    if error is None:
        future.set_result(result)
    elif isinstance(error, StopIteration):
        future.set_exception(RuntimeError("the call raised StopIteration"))
    else:
        future.set_exception(error)
