"""An episode as the environment has it: the world, the calls so far, and a browser when needed.

The browser is opened by the first call that needs it, since most of what trainers do with a state
(keep it, go back to it, grade it) does not. So a state is one of three: a live session, a saved
one that nobody has looked at yet, or the beginning. After the loss of a whole browser all calls are
played again in another one; pages depend on nothing else, so nobody notices.
"""

import concurrent.futures
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from agent_envs.envs.browser.actions import perform
from agent_envs.envs.browser.capture import SavedPages, capture, restore
from agent_envs.envs.browser.chromium import Browser
from agent_envs.envs.browser.engine import Engine, engine
from agent_envs.envs.browser.session import BrowserLost, Session
from agent_envs.envs.browser.tab import absent
from agent_envs.envs.browser.world import World
from agent_envs.errors import BackendUnavailable, SnapshotUnsupported, ToolError

T = TypeVar("T")


@dataclass(frozen=True)
class Settings:
    """How an env browses: see `BrowserEnv`."""

    isolation: str
    patience: float
    budget: int


class Played(NamedTuple):
    """A list of calls that shares its past."""

    past: "Played | None"
    name: str
    arguments: dict[str, Any]


@dataclass(frozen=True)
class Saved:
    """A kept state of an episode; `pages` is None where the browser was not needed yet."""

    world: Any
    pages: SavedPages | None
    played: Played | None

    @property
    def nbytes(self) -> int:
        """About how many bytes it takes."""
        world = sum(len(part) for part in self.world if isinstance(part, bytes | str))
        return world + (self.pages.nbytes if self.pages else 0)


class Browsing:
    """One episode. Used by one caller at a time, from any thread but the engine's."""

    def __init__(self, world: World, settings: Settings) -> None:
        """Raises BackendUnavailable where no browser can be had."""
        self.world, self.settings = world, settings
        self._engine: Engine = engine()
        self._start = world.save()
        self._browser: Browser | None = None
        self._session: Session | None = None
        self._pages: SavedPages | None = None
        """The saved state that the session is to come out of."""
        self._played: Played | None = None
        self._running: concurrent.futures.Future[Any] | None = None
        self._closed = False
        self._call(self._lease())

    # -- what an env does --------------------------------------------------------------------------

    def perform(self, name: str, arguments: dict[str, Any]) -> str:
        """A call, and what is seen after it. Raises ToolError for what did not work."""
        if self._session is None and "ref" in arguments:
            self._check_number(arguments["ref"])
        text: str = self._call(
            self._with_browser(lambda session: self._perform(session, name, arguments))
        )
        return text

    def save(self) -> Saved:
        """The state. Raises SnapshotUnsupported where a page does not answer."""
        pages = self._pages
        if self._session is not None:
            try:
                pages = self._call(self._with_browser(capture))
            except TimeoutError:
                raise SnapshotUnsupported("a page that does not answer: its state") from None
        return Saved(self.world.save(), pages, self._played)

    def load(self, saved: Saved) -> None:
        """Go back to a state. The browser follows when it is needed; at once where pages run
        scripts, since their state may not come back: then it raises SnapshotUnsupported."""
        self._call(self._leave())
        self.world.load(saved.world)
        self._pages, self._played = saved.pages, saved.played
        if saved.pages is not None and self.world.scripted:
            self._call(self._with_browser(_nothing))

    @property
    def was_opened(self) -> bool:
        """Whether a page was ever looked at in this episode."""
        return self._session is not None or self._pages is not None or self._played is not None

    def screenshot(self) -> bytes:
        """The shown page as a PNG."""
        picture: bytes = self._call(self._with_browser(_picture))
        return picture

    def ask(self, expression: str) -> Any:
        """The value of a script in the shown page's own world: for graders of timed worlds."""

        async def evaluate(session: Session) -> Any:
            got = await session.shown.ask(
                "Runtime.evaluate", expression=expression, returnByValue=True
            )
            return got["result"].get("value")

        return self._call(self._with_browser(evaluate))

    def close(self) -> None:
        """Free everything; from another thread it ends a running call."""
        self._closed = True
        running = self._running
        if running is not None:
            running.cancel()
        try:
            self._engine.call(self._end())
        finally:
            self.world.close()

    # -- on the engine's thread --------------------------------------------------------------------

    async def _perform(self, session: Session, name: str, arguments: dict[str, Any]) -> str:
        try:
            text = await perform(session, name, arguments)
        except ToolError:
            self._played = Played(self._played, name, arguments)
            raise
        self._played = Played(self._played, name, arguments)
        return text

    async def _with_browser(self, work: Callable[[Session], Awaitable[T]]) -> T:
        """Do something in the session; once more in another browser if this one ends meanwhile."""
        for _ in range(2):
            try:
                return await work(await self._ready())
            except BrowserLost:
                await self._move()
        raise ToolError("the browser crashed in this call; everything is as it was before it")

    async def _ready(self) -> Session:
        """The live session, brought about if need be."""
        if self._session is not None and not self._session.browser.dead:
            return self._session
        if self._session is not None:
            raise BrowserLost
        if self._pages is not None and not self._pages.lost and not self.world.timed:
            if await self._restored(self._pages):
                return self._live()
            await self._leave()
        return await self._replayed()

    async def _restored(self, pages: SavedPages) -> bool:
        self._session = self._new_session()
        try:
            return await restore(self._session, pages)
        except TimeoutError:
            return False

    async def _replayed(self) -> Session:
        """The state that the calls lead to from the beginning."""
        wanted, expected = self.world.save(), self._pages
        if self._played is not None:
            self.world.load(self._start)
        self._session = session = self._new_session()
        await session.start()
        for step in _in_order(self._played):
            try:
                await perform(session, step.name, step.arguments)
            except ToolError:
                pass
        if expected is not None and not await _is_like(session, expected):
            await self._leave()
            self.world.load(wanted)
            raise SnapshotUnsupported(
                "a page whose state lives in its scripts, and is another when played again"
            )
        return self._live()

    def _live(self) -> Session:
        assert self._session is not None
        self._pages = None
        return self._session

    def _new_session(self) -> Session:
        assert self._browser is not None
        settings = self.settings
        return Session(self._browser, self.world, settings.patience, settings.budget)

    async def _lease(self) -> None:
        isolation = self.settings.isolation
        self._browser = await self._engine.lease(isolation, own=isolation == "episode")

    async def _leave(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            session.close()

    async def _move(self) -> None:
        """To another browser, after the end of this one."""
        await self._end()
        await self._lease()

    async def _end(self) -> None:
        await self._leave()
        browser, self._browser = self._browser, None
        if browser is not None:
            await self._engine.give_back(browser)

    # -- between -----------------------------------------------------------------------------------

    def _call(self, work: Any) -> Any:
        if self._closed:
            work.close()
            raise BackendUnavailable("the browser was closed")
        return self._engine.call(work, self._watch)

    def _watch(self, running: "concurrent.futures.Future[Any] | None") -> None:
        self._running = running

    def _check_number(self, number: int) -> None:
        """Spare a browser what cannot be: a number that no page has shown."""
        tabs: Sequence[Any] = self._pages.tabs if self._pages else ()
        shown = tabs[self._pages.shown].numbers if self._pages else ()
        if number and number not in shown:
            raise ToolError(absent(number))


def _in_order(played: Played | None) -> Iterator[Played]:
    links: list[Played] = []
    while played is not None:
        links.append(played)
        played = played.past
    return iter(links[::-1])


async def _nothing(session: Session) -> None:
    """Only so that the session is there."""


async def _picture(session: Session) -> bytes:
    picture: bytes = await session.shown.page.screenshot(timeout=session.patience * 1e3)
    return picture


async def _is_like(session: Session, expected: SavedPages) -> bool:
    now = await capture(session)
    one, two = (
        [(t.title, t.url, t.elements, t.numbers) for t in pages.tabs] for pages in (now, expected)
    )
    return one == two and now.shown == expected.shown
