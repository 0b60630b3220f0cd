"""Browser contexts, each with an empty page. One is kept ready, since making one takes longer than
all else that an episode's beginning waits for."""

import asyncio
import contextlib
from typing import Any, NamedTuple

VIEWPORT = {"width": 1280, "height": 720}
_PAUSE = 0.2
_OPTIONS: dict[str, Any] = {
    "accept_downloads": False,
    "service_workers": "block",
    "viewport": VIEWPORT,
}


class Opened(NamedTuple):
    """A context that nobody has used, and its page."""

    context: Any
    page: Any


class Contexts:
    """The contexts of a browser. Everything runs on the engine's thread."""

    def __init__(self, playwright_browser: Any) -> None:
        self.pw = playwright_browser
        self._ready: asyncio.Task[Opened | None] | None = None

    async def take(self) -> Opened:
        """One for an episode."""
        ready, self._ready = self._ready, None
        opened = await ready if ready else None
        return opened or await self._open()

    async def stored(self, headers: dict[str, str], storage: dict[str, Any]) -> Any:
        """A context without a page whose sites have stored something, as Playwright has it."""
        return await self.pw.new_context(
            extra_http_headers=headers, storage_state=storage, **_OPTIONS
        )

    async def end(self, context: Any) -> None:
        """Free one that is no longer used, when the episode that may follow it has begun."""
        await asyncio.sleep(_PAUSE)
        await context.close()

    def keep_one_ready(self) -> None:
        """Make one for whoever comes next, unless there is one."""
        if self._ready is None:
            self._ready = asyncio.get_running_loop().create_task(self._spare())

    def forget(self) -> None:
        """Stop making one: the browser ends, and all its contexts with it."""
        if self._ready is not None:
            self._ready.cancel()

    async def _open(self) -> Opened:
        context = await self.pw.new_context(**_OPTIONS)
        return Opened(context, await context.new_page())

    async def _spare(self) -> Opened | None:
        """One to be kept; None where it could not be made, or has crashed since."""
        with contextlib.suppress(Exception):
            opened = await self._open()
            opened.page.on("crash", lambda _: self._give_up(opened))
            return opened
        return None

    def _give_up(self, opened: Opened) -> None:
        if self._ready is not None and self._ready.done() and self._ready.result() is opened:
            self._ready = None
