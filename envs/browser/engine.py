"""The browsers of this process: Playwright on a thread of its own, used from any other.

One engine a process, started when it is first needed and again in a process that was forked off.
Environments lease a browser for as long as they live; a shared one is replaced after some
hundreds of episodes, or when it has died, and ends when its last lease does.
"""

import asyncio
import atexit
import concurrent.futures
import contextlib
import logging
import os
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from agent_envs.envs.browser.chromium import Browser, launch
from agent_envs.errors import BackendUnavailable

RECYCLED_AFTER = 300
"""How many episodes a shared browser serves."""

logger = logging.getLogger("agent_envs")
T = TypeVar("T")


class Engine:
    """A thread with an event loop, Playwright's driver, and browsers."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.loop = asyncio.new_event_loop()
        self.recycled_after = RECYCLED_AFTER
        self.browsers: list[Browser] = []
        self._driver: Any = None
        self._starting = asyncio.Lock()
        self._thread = threading.Thread(target=self._run, name="agent-envs browser", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()

    def call(
        self, work: Coroutine[Any, Any, T], watch: Callable[[Any], None] = lambda running: None
    ) -> T:
        """Run a coroutine on the engine's thread; what interrupts the caller ends it too.

        `watch` is handed the future while it runs, and None after."""
        future = asyncio.run_coroutine_threadsafe(work, self.loop)
        watch(future)
        try:
            return future.result()
        except concurrent.futures.CancelledError:
            raise BackendUnavailable("the browser was closed") from None
        except BaseException:
            future.cancel()
            raise
        finally:
            watch(None)

    # -- on the engine's thread --------------------------------------------------------------------

    async def lease(self, isolation: str, own: bool) -> Browser:
        """A browser that works: a shared one, or with `own` a new one.

        Raises BackendUnavailable where none can be had."""
        async with self._starting:
            for browser in self.browsers:
                if not own and browser.takes(isolation, self.recycled_after):
                    return browser.leased()
            browser = await self._launch(isolation)
            browser.own = own
            self.browsers.append(browser)
            return browser.leased()

    async def give_back(self, browser: Browser) -> None:
        """End a lease; a browser that nobody will use any more is closed."""
        browser.leases -= 1
        for one in [*self.browsers]:
            used_up = one.own or one.dead or one.served >= self.recycled_after
            if not one.leases and used_up:
                self.browsers.remove(one)
                await one.close()

    async def _launch(self, isolation: str) -> Browser:
        for last in (False, True):
            if self._driver is None:
                self._driver = await _start_driver()
            try:
                return await launch(self._driver, isolation)
            except BackendUnavailable:
                if last or any(not browser.dead for browser in self.browsers):
                    raise
            await self._stop_driver()  # its temporary folder may be gone
        raise AssertionError("unreachable")

    async def _stop_driver(self) -> None:
        driver, self._driver = self._driver, None
        for browser in self.browsers:
            await browser.close()
        self.browsers.clear()
        if driver is not None:
            with contextlib.suppress(Exception):
                await driver.stop()

    # -- the end -----------------------------------------------------------------------------------

    def close(self) -> None:
        """End all browsers and the thread."""
        if not self._thread.is_alive():
            return
        with contextlib.suppress(Exception):
            asyncio.run_coroutine_threadsafe(self._stop_driver(), self.loop).result(10)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(10)
        if not self._thread.is_alive():
            self.loop.close()


async def _start_driver() -> Any:
    try:
        from playwright.async_api import async_playwright
    except ImportError as error:
        raise BackendUnavailable(
            "agent/Browser-v0 needs Playwright: pip install 'agent-envs[browser]'"
        ) from error
    try:
        return await async_playwright().start()
    except Exception as error:
        raise BackendUnavailable(f"Playwright's driver does not start: {error}") from error


_engine: Engine | None = None
_lock = threading.Lock()
_orphans: list[Engine] = []
"""Engines of the process that this one was forked off: kept, since collecting one would end it."""


def engine() -> Engine:
    """This process's engine."""
    global _engine
    with _lock:
        if _engine is not None and _engine.pid != os.getpid():
            _orphans.append(_engine)
            _engine = None
        if _engine is None:
            _engine = Engine()
        return _engine


def close_browsers() -> None:
    """End all browsers of this process; the next environment starts new ones."""
    global _engine
    with _lock:
        ours, _engine = _engine, None
    if ours is not None and ours.pid == os.getpid():
        ours.close()
    elif ours is not None:
        _orphans.append(ours)


def _unlock_in_child() -> None:
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_unlock_in_child)
atexit.register(close_browsers)
