"""What can be done in a browser: one coroutine a tool, each on a session, and its `Action` form.

An action says what went wrong with a ToolError; what it brought about is seen by looking again.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import urljoin, urlsplit

from agent_envs.envs.browser.outline import Element, quoted
from agent_envs.envs.browser.session import MAX_TABS, Session, playwright_errors
from agent_envs.errors import ToolError

PATIENCE = 3000
"""Milliseconds that an element may take to become fit for what is done with it."""
MAX_TEXT = 50_000
MAX_ADDRESS = 2000
_REASONS = (
    ("intercepts pointer events", "something else lies over it"),
    ("element is not visible", "it is not visible"),
    ("element is not enabled", "it is disabled"),
    ("element is not editable", "it cannot be edited"),
    ("element is outside of the viewport", "it lies outside of the window"),
    ("element is not stable", "it does not stop moving"),
    ("did not find some options", "it has no such option"),
    ("did not find", "it has no such option"),
)
_NOT_FOUND = re.compile(r"No element matching|not attached|Unable to adopt|stale|aria-ref")
CLIPBOARD = re.compile(
    r"(Control|Meta|ControlOrMeta)\+(.*\+)?(Key)?[cvx]$|(Control|Shift)\+(.*\+)?(Insert|Delete)$"
    r"|^(Copy|Cut|Paste)$",
    re.IGNORECASE,
)
"""Keys that reach it: it would be shared with other episodes, and no rollback takes it back."""
_CONTROL = re.compile("[\x00-\x20\x7f]")


async def goto(session: Session, url: str) -> None:
    """Open an address of the site in the shown tab."""
    target = address(session, url)
    await _open(session, target)


async def click(session: Session, ref: int, dialog: str = "dismiss") -> None:
    """Click an element."""
    session.accepts_dialogs = dialog == "accept"
    await _on(session, ref, lambda element: element.click(timeout=PATIENCE))


async def fill(session: Session, ref: int, text: str) -> None:
    """Put text in a field, in place of what is in it; give a text file to a file field."""
    if len(text) > MAX_TEXT:
        raise ToolError(f"the text is too long: {len(text)} of at most {MAX_TEXT} characters")

    async def put(element: Any) -> None:
        if await _is_file_field(element):
            file = {"name": "upload.txt", "mimeType": "text/plain", "buffer": text.encode()}
            await element.set_input_files(file, timeout=PATIENCE)
            session.uploads = True
            session.note("the text was given to the field as a file called upload.txt")
            return
        await element.fill(text, timeout=PATIENCE)

    await _on(session, ref, put)


async def select(session: Session, ref: int, option: str | list[str]) -> None:
    """Choose an option of a list by what it says."""
    wanted = [option] if isinstance(option, str) else option

    async def choose(element: Any) -> None:
        said = await element.evaluate(
            "e => e.tagName == 'SELECT' ? [...e.options].map(o => o.label) : null", timeout=PATIENCE
        )
        if said is None:
            raise ToolError(f"[{ref}] is no list to select from; click it instead")
        missing = [w for w in wanted if w not in said]
        if missing or not wanted:
            there = ", ".join(map(quoted, said[:50]))
            raise ToolError(f"[{ref}] has no option {quoted(str(missing[:1]))}; there are {there}")
        await element.select_option(label=wanted, timeout=PATIENCE)

    await _on(session, ref, choose)


async def check(session: Session, ref: int, on: bool = True) -> None:
    """Tick a box or choose a radio button, or take the tick away."""
    await _on(session, ref, lambda element: element.set_checked(on, timeout=PATIENCE))


async def press(session: Session, key: str, ref: int = 0) -> None:
    """Press a key, on an element or wherever the focus is."""
    if not key or len(key) > 50:
        raise ToolError('a key is "Enter", "Escape", "ArrowDown", "a", "Control+a", ...')
    if CLIPBOARD.search(key):
        raise ToolError("there is no clipboard: fill puts text into a field")
    if ref:
        await _on(session, ref, lambda element: element.press(key, timeout=PATIENCE))
        return
    await _guarded(session, "", session.shown.page.keyboard.press(key))


async def scroll(session: Session, to: str) -> None:
    """Scroll the page."""
    where = {
        "down": "scrollBy(0, innerHeight)",
        "up": "scrollBy(0, -innerHeight)",
        "top": "scrollTo(0, 0)",
        "bottom": "scrollTo(0, document.documentElement.scrollHeight)",
    }[to]
    code = (
        f"{where}; [scrollY, document.documentElement.scrollHeight - innerHeight].map(Math.round)"
    )
    position = await _evaluated(session, code)
    if position is not None:
        session.note(f"scrolled to {position[0]} of {max(0, position[1])}")


async def back(session: Session) -> None:
    """Go back in the shown tab's history."""
    await _travel(session, -1)


async def forward(session: Session) -> None:
    """Go forward in the shown tab's history."""
    await _travel(session, 1)


async def tab(session: Session, action: str, number: int = 0) -> None:
    """Switch to a tab, close one, or open an empty one."""
    if action == "new":
        if len(session.tabs) >= MAX_TABS:
            raise ToolError(f"{MAX_TABS} tabs are open, and there can be no more")
        notes = [*session.notes]
        await session.new_tab()
        session.notes = notes
        return
    if not 1 <= number <= len(session.tabs):
        raise ToolError(f"there is no tab {number}; there are 1 to {len(session.tabs)}")
    chosen = session.tabs[number - 1]
    if action == "close":
        await _guarded(session, "", chosen.page.close())
    else:
        session.shown = chosen


async def wait(session: Session) -> None:
    """Let the page do what it does by itself."""
    if session.world.scripted and not session.world.timed:
        await asyncio.sleep(0.5)


async def read(session: Session, part: int = 1) -> None:
    """Nothing but looking; `part` says where."""


ACTIONS: dict[str, Callable[..., Awaitable[None]]] = {
    "goto": goto,
    "click": click,
    "fill": fill,
    "select": select,
    "check": check,
    "press": press,
    "scroll": scroll,
    "back": back,
    "forward": forward,
    "tab": tab,
    "wait": wait,
    "read": read,
}


async def perform(session: Session, name: str, arguments: dict[str, Any]) -> str:
    """One call from beginning to end: act, come to rest, look, and say what is seen.

    Raises ToolError for what did not work, BrowserLost where there is no browser any more."""
    session.accepts_dialogs = False
    for one in session.tabs:
        one.dialogs = 0
    try:
        with playwright_errors(session):
            await ACTIONS[name](session, **arguments)
    except TimeoutError:
        await session.replace(session.shown)
    except ToolError:
        await session.look()
        raise
    await session.look()
    return session.describe(arguments.get("part", 1))


def address(session: Session, url: str) -> str:
    """The real address that a model's address means. Raises ToolError for what is not the site's.

    This keeps a model from losing its way; what keeps a page in is that nothing else is there."""
    world = session.world
    if len(url) > MAX_ADDRESS or _CONTROL.search(url) or not url:
        raise ToolError(f"not an address: {quoted(url)[:200]}")
    shown = session.told(session.shown.page.url)
    base = shown if shown.startswith("http://") else f"http://{world.name}/"
    try:
        if not re.match(r"[A-Za-z][A-Za-z0-9+.-]*:|[/?#.]", url) and "." in url.partition("/")[0]:
            url = f"http://{url}"
        parts = urlsplit(url if "://" in url else urljoin(base, url))
        is_ours = parts.scheme == "http" and parts.netloc in (world.name, f"{world.name}:80")
    except ValueError:
        is_ours = False
    if not is_ours:
        raise ToolError(f"only http://{world.name}/ can be reached, not {quoted(url)[:200]}")
    return parts._replace(netloc=session.origin.name).geturl()


async def _open(session: Session, target: str) -> None:
    page = session.shown.page
    for attempt in (1, 2):
        try:
            await page.goto(target, wait_until="commit", timeout=session.patience * 1e3)
            return
        except Exception as error:
            if "interrupted by another navigation" in str(error) and attempt == 1:
                continue
            if _is_timeout(error):
                session.note("the site did not answer in time")
                return
            with playwright_errors(session):
                raise


async def _travel(session: Session, by: int) -> None:
    """Visit the page before or after this one again; see `trail`."""
    tab = session.shown
    place = tab.trail.target(by)
    if place is None:
        raise ToolError(f"there is no page {'before' if by < 0 else 'after'} this one")
    if place != tab.trail.at + by:
        session.note("a page that was the answer to a form is passed over")
    entry = tab.trail.known_as(place) if session.world.scripted else None
    if entry is not None:
        await _guarded(session, "", tab.ask("Page.navigateToHistoryEntry", entryId=entry))
        return
    tab.trail.expect(place)
    await _open(session, tab.trail.stops[place].url)


async def _on(session: Session, ref: int, act: Callable[[Any], Awaitable[Any]]) -> None:
    """Do something with a numbered element."""
    locator, element = session.shown.find(ref)
    if "disabled" in element.states:
        raise ToolError(f"[{ref}] is disabled")
    await _guarded(session, _name(ref, element), act(locator))


async def _guarded(session: Session, what: str, act: Awaitable[Any]) -> None:
    """Wait for something of Playwright's, and say in plain words what it says."""
    tab = session.shown
    try:
        await act
        await tab.ask("Runtime.evaluate", expression="0")  # so that what it set off has begun
    except (ToolError, TimeoutError):
        raise
    except Exception as error:
        with playwright_errors(session):
            if tab.page.is_closed() or tab.crashed or not _is_playwright(error):
                raise
            if _is_timeout(error):
                await tab.ask("Runtime.evaluate", expression="0")
            raise ToolError(_in_words(session, what, str(error))) from error


async def _evaluated(session: Session, code: str) -> Any:
    tab = session.shown
    try:
        return await tab.evaluate(code)
    except TimeoutError:
        raise
    except Exception as error:
        with playwright_errors(session):
            raise error


async def _is_file_field(element: Any) -> bool:
    return bool(await element.evaluate("e => e.type == 'file'", timeout=PATIENCE))


def _name(ref: int, element: Element) -> str:
    return f"[{ref}] {element.role} {quoted(element.name)}: "


def _in_words(session: Session, what: str, error: str) -> str:
    for sign, words in _REASONS:
        if sign in error:
            return f"{what}{words}"
    if _NOT_FOUND.search(error.split("\n")[0]):
        return f"{what}it is gone; read() shows what there is"
    first = error.split("\n")[0].partition(": ")
    return session.told(f"{what}{(first[2] or first[0])[:200]}")


def _is_playwright(error: Exception) -> bool:
    return type(error).__module__.startswith("playwright")


def _is_timeout(error: Exception) -> bool:
    return _is_playwright(error) and type(error).__name__ == "TimeoutError"
