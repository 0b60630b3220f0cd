"""An episode in a browser: its context, its tabs, when a page is at rest, and what is seen."""

import asyncio
import contextlib
from typing import Any

from agent_envs.envs.browser.chromium import Browser
from agent_envs.envs.browser.front import SECRET, Origin
from agent_envs.envs.browser.outline import line_of, observation, parts_of, quoted, read_tree
from agent_envs.envs.browser.tab import Tab
from agent_envs.envs.browser.world import World
from agent_envs.errors import ToolError

MAX_TABS = 5
MAX_DIALOGS = 20
"""In one call; a page that opens more is closed."""
TICK = 500
"""Milliseconds that pass with each call where time stands still between calls."""
NOON = 1767614400000
"""When the clock of such pages starts: 2026-01-05 12:00 UTC, in milliseconds."""
_ROUNDS = 4
_REST = 3.0
"""Seconds that a page may take to come to rest before it is shown as it is."""
_GRACE = 1.0


class BrowserLost(Exception):
    """The whole browser has ended."""


class Session:
    """A browser context of its own. Everything runs on the engine's thread.

    `patience` is how long, in seconds, a page may be silent before it is given up, `budget` how
    many characters of a page are shown at once.
    """

    def __init__(self, browser: Browser, world: World, patience: float, budget: int) -> None:
        self.browser, self.world = browser, world
        self.patience, self.budget = patience, budget
        self.origin = Origin(world.respond)
        self.context: Any = None
        self._empty: Tab | None = None
        """The tab that came with the context, as long as nobody has asked for one."""
        self.tabs: list[Tab] = []
        self.shown: Tab
        self.notes: list[str] = []
        self.next_number = 1
        self.accepts_dialogs = False
        self.uploads = False
        """Whether a file was chosen somewhere, which no script can do again."""
        self.changed = asyncio.Event()
        self._activity = 0
        self._tabs_due = 0
        self._tasks: set[asyncio.Task[None]] = set()

    # -- its life ----------------------------------------------------------------------------------

    async def open(self, storage: dict[str, Any] | None = None) -> None:
        """Make the context; `storage` is what its pages have stored, as Playwright has it."""
        self.browser.front.origins[self.origin.name] = self.origin
        if storage is None:
            cookies = [self._cookie(*pair) for pair in self.world.cookies().items()]
            storage = {"cookies": cookies, "origins": []}
        headers, contexts = {SECRET: self.origin.secret}, self.browser.contexts
        if self.world.timed or storage["origins"]:
            self.context = await contexts.stored(headers, storage)
        else:
            self.context, page = await contexts.take()
            self._on_page(page)
            await asyncio.gather(
                self.context.set_extra_http_headers(headers),
                self.context.add_cookies(storage["cookies"]),
            )
            self._empty = self.tabs[0]
        self.context.on("page", self._on_page)
        if self.world.timed:
            await self.context.clock.install(time=NOON)
            await self.context.clock.pause_at(NOON + 1000)

    def _cookie(self, name: str, value: str) -> dict[str, Any]:
        return {
            "name": name, "value": value, "domain": self.origin.name, "path": "/", "expires": -1,
            "httpOnly": True, "secure": False, "sameSite": "Strict",
        }  # fmt: skip

    async def start(self) -> None:
        """The first page, as an episode begins."""
        await self.open()
        tab = await self.new_tab()
        with playwright_errors(self):
            await tab.page.goto(self.real("/"), wait_until="commit", timeout=self.patience * 1e3)
        await self.rest()
        await tab.follow()
        self.notes.clear()

    def close(self) -> None:
        """Free everything; the browser does its part of it in its own time."""
        self.browser.front.origins.pop(self.origin.name, None)
        for task in self._tasks:
            task.cancel()
        if self.context is not None:
            self.browser.later(self.browser.contexts.end(self.context))

    # -- addresses ---------------------------------------------------------------------------------

    def real(self, path: str) -> str:
        """The address of a path of the site."""
        return f"http://{self.origin.name}{path}"

    def told(self, text: str) -> str:
        """A text as the model reads it: with the stable name of the site."""
        return text.replace(self.origin.name, self.world.name)

    # -- events ------------------------------------------------------------------------------------

    def note(self, text: str) -> None:
        """Something that the model is to be told, once."""
        text = " ".join(self.told(text).split())[:500]
        if len(self.notes) < MAX_DIALOGS and text not in self.notes[-1:]:
            self.notes.append(text)

    def moved(self) -> None:
        """Something began: what is seen may be old."""
        self._activity += 1
        self.changed.set()

    def expect_tab(self) -> None:
        """A page has asked for a window, which comes later."""
        self._tabs_due += 1
        self.moved()

    def _on_page(self, page: Any) -> None:
        self._tabs_due = max(0, self._tabs_due - 1)
        self.moved()
        if len(self.tabs) >= MAX_TABS:
            self.note(f"a new tab was not opened: {MAX_TABS} are open")
            self._do(page.close())
            return
        tab = Tab(self, page)
        if self.tabs:
            self.note("a new tab opened, and is shown")
        self.tabs.append(tab)
        self.shown = tab
        page.on("dialog", lambda dialog: self._do(self._on_dialog(tab, dialog)))
        page.on("crash", lambda _: self._on_crash(tab))
        page.on("close", lambda _: self._on_close(tab))
        page.on("download", lambda d: self.note(f"the file {d.suggested_filename!r} is not kept"))
        page.on("filechooser", lambda _: self.note("to give a file, fill its field with the text"))
        tab.attaching = self._do(tab.attach())

    def _on_crash(self, tab: Tab) -> None:
        tab.crashed = True
        self._do(tab.page.close())  # ends what waits for it; `look` gives the tab another page
        self.moved()

    def _on_close(self, tab: Tab) -> None:
        if tab in self.tabs and not tab.crashed:
            index = self.tabs.index(tab)
            self.tabs.remove(tab)
            if tab is self.shown and self.tabs:
                self.shown = self.tabs[max(0, index - 1)]
            self.note(f"the page {tab.page.url} {tab.fate}" if tab.fate else "a tab was closed")
        self.moved()

    async def _on_dialog(self, tab: Tab, dialog: Any) -> None:
        """Answer a dialog as the call said; a page that never stops opening them is closed."""
        tab.dialogs += 1
        accept = self.accepts_dialogs or dialog.type in ("alert", "beforeunload")
        said = "OK" if accept else 'Cancel (dialog="accept" says OK)'
        self.note(f"{dialog.type} {quoted(dialog.message)} was answered with {said}")
        if tab.dialogs > MAX_DIALOGS:
            tab.fate = "opened dialogs without end, and was closed"
            await tab.page.close()
            return
        await (dialog.accept(dialog.default_value) if accept else dialog.dismiss())

    def _do(self, work: Any) -> "asyncio.Task[None]":
        """Run something beside the call; `rest` waits for it."""

        async def quietly() -> None:
            with contextlib.suppress(Exception):
                await work

        task = asyncio.get_running_loop().create_task(quietly())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(lambda _: self.changed.set())
        return task

    # -- tabs --------------------------------------------------------------------------------------

    async def new_tab(self) -> Tab:
        """An empty tab, which is then the shown one."""
        tab, self._empty = self._empty, None
        if tab is None:
            page = await self.context.new_page()
            tab = next(t for t in self.tabs if t.page is page)
        await tab.attaching
        return tab

    async def replace(self, tab: Tab) -> None:
        """Give a page up: an empty tab takes its place."""
        if tab not in self.tabs:
            return
        why = "crashed" if tab.crashed else "did not answer"
        self.note(f"the page {tab.page.url} {why}, and was closed; the tab is empty now")
        index, shown = self.tabs.index(tab), self.shown
        self.tabs.remove(tab)
        with contextlib.suppress(Exception):
            async with asyncio.timeout(self.patience):
                await tab.page.close()
        notes = [*self.notes]
        fresh = await self.new_tab()
        self.notes = notes
        self.tabs.remove(fresh)
        self.tabs.insert(index, fresh)
        self.shown = fresh if shown is tab else shown

    # -- seeing ------------------------------------------------------------------------------------

    async def rest(self) -> None:
        """Wait until nothing is under way, for a while."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _REST
        while self._tasks or self._tabs_due or not all(tab.is_quiet for tab in self.tabs):
            self.changed.clear()
            try:
                async with asyncio.timeout_at(deadline):
                    await self.changed.wait()
            except TimeoutError:
                for tab in self.tabs:
                    tab.forget_traffic()
                self._tabs_due = 0
                return

    async def look(self) -> None:
        """Bring what is known of the shown page up to date."""
        snapshot: str | None = None
        for _ in range(_ROUNDS):
            await self.rest()
            with playwright_errors(self):
                if not self.tabs:
                    await self.new_tab()
                if crashed := [tab for tab in self.tabs if tab.crashed]:
                    for tab in crashed:
                        await self.replace(tab)
                    continue
                tab, before = self.shown, self._activity
                snapshot = await self.snapshot(tab)
                if snapshot is not None and before == self._activity:
                    break
        self.next_number = self.shown.show(read_tree(snapshot or ""), self.next_number)
        if not self.browser.own:
            self.browser.contexts.keep_one_ready()

    async def snapshot(self, tab: Tab) -> str | None:
        """The page's accessibility tree; None where it has to be looked at again."""
        try:
            if self.world.timed:
                async with asyncio.timeout(self.patience):
                    await self.context.clock.run_for(TICK)
            snapshot, changed, _ = await asyncio.gather(
                self._tree(tab), tab.prepare(), tab.follow()
            )
            return await self._tree(tab) if changed else snapshot
        except TimeoutError:
            pass
        except Exception as error:
            if type(error).__name__ != "TimeoutError":
                raise
        await self.replace(tab)
        return None

    async def _tree(self, tab: Tab) -> str:
        return str(await tab.page.aria_snapshot(mode="ai", timeout=self.patience * 1e3))

    def describe(self, part: int = 1) -> str:
        """The observation. Raises ToolError for a part that is not there."""
        tab = self.shown
        lines = (line_of(number, element) for number, element in tab.elements)
        parts = parts_of(lines, self.budget)
        if not 1 <= part <= len(parts):
            raise ToolError(f"there is no part {part}; the page has {len(parts)}")
        tabs = [(n, t.title, t is tab) for n, t in enumerate(self.tabs, 1)]
        notes, self.notes = self.notes, []
        return self.told(observation(tab.title, tab.page.url, tabs, notes, parts, part))


@contextlib.contextmanager
def playwright_errors(session: Session) -> Any:
    """Playwright's errors as ours: BrowserLost where that is so; what a page does is told later."""
    try:
        yield
    except (ToolError, BrowserLost, TimeoutError):
        raise
    except Exception as error:
        if not type(error).__module__.startswith("playwright"):
            raise
        if session.browser.dead or not session.browser.pw.is_connected():
            raise BrowserLost from error
        session.moved()
