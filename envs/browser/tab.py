"""One tab: a page, what is going on in it, and the numbers of what it shows."""

import asyncio
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from agent_envs.envs.browser.outline import EDITOR_ROLE, Element, Numbered
from agent_envs.envs.browser.trail import Trail
from agent_envs.errors import ToolError

if TYPE_CHECKING:
    from agent_envs.envs.browser.session import Session

_FRAME_EVENTS = {
    "Page.frameRequestedNavigation": "_asked",
    "Page.frameStartedLoading": "_started",
    "Page.frameStoppedLoading": "_stopped",
    "Page.frameDetached": "_stopped",
    "Page.frameNavigated": "_navigated",
    "Page.windowOpen": "_opens_window",
    "Network.requestWillBeSent": "_sends",
    "Network.loadingFinished": "_done",
    "Network.loadingFailed": "_failed",
}


_PREPARE = """role => {
  const own = `[role="${role}"]`, does = 'a[href],button,input,select,textarea,summary';
  const may = e => e.hasAttribute('contenteditable') || e.ownerDocument.designMode == 'on';
  const edited = e => may(e) && e.isContentEditable && (e.localName == 'body' ||
    !(e.parentElement && e.parentElement.isContentEditable));
  let editors = 0, changes = 0;
  const walk = root => {
    for (const e of root.querySelectorAll(own)) {
      if (edited(e)) continue;
      e.removeAttribute('role');
      changes++;
    }
    for (const e of root.querySelectorAll('*')) {
      if (e.shadowRoot) walk(e.shadowRoot);
      if (e.localName == 'iframe' && e.contentDocument) walk(e.contentDocument);
      if (!edited(e)) continue;
      editors++;
      if (e.hasAttribute('role') || e.matches(does)) continue;
      e.setAttribute('role', role);
      changes++;
    }
  };
  try { walk(document); } catch {}
  return [`${document.title}`, editors, changes];
}"""
"""Playwright does not tell of an element that can be edited and has no role: it is given one."""
_COLLECT_AFTER = 4
"""Documents, which Chromium would keep for a long time: some megabytes each."""


class Tab:
    """A page of a session. All of it runs on the engine's thread."""

    def __init__(self, session: "Session", page: Any) -> None:
        self.session, self.page = session, page
        self.cdp: Any = None
        self.title = ""
        self.editors = 0
        """How many elements there are that are edited in place."""
        self.elements: list[Numbered] = []
        """What was shown last."""
        self.attaching: asyncio.Future[None]
        self.crashed = False
        self.fate = ""
        """Why it was closed, where the page is to blame."""
        self.dialogs = 0
        """How many there were in the running call."""
        self.trail = Trail()
        self._numbers: dict[str, int] = {}
        self._refs: dict[int, str] = {}
        self._main = ""
        self._loading: set[str] = set()
        self._due: set[str] = set()
        self._requests: dict[str, tuple[str, str]] = {}
        """What was sent and not yet answered: method, and the document that it is for."""
        self._loader = ("", "GET")
        self._documents = 0

    async def attach(self) -> None:
        """Listen to what happens in the page."""
        self.cdp = await self.page.context.new_cdp_session(self.page)
        for event, handler in _FRAME_EVENTS.items():
            self.cdp.on(event, getattr(self, handler))
        tree, *_ = await asyncio.gather(
            self.cdp.send("Page.getFrameTree"),
            self.cdp.send("Page.enable"),
            self.cdp.send("Network.enable"),
        )
        self._main = tree["frameTree"]["frame"]["id"]
        await self.page.wait_for_load_state(timeout=self.session.patience * 1e3)

    # -- events ------------------------------------------------------------------------------------

    def _asked(self, event: dict[str, Any]) -> None:
        if event.get("disposition", "currentTab") == "currentTab":
            self._due.add(event["frameId"])
            self.session.moved()

    def _started(self, event: dict[str, Any]) -> None:
        self._due.discard(event["frameId"])
        self._loading.add(event["frameId"])
        self.session.moved()

    def _stopped(self, event: dict[str, Any]) -> None:
        self._due.discard(event["frameId"])
        self._loading.discard(event["frameId"])
        self.session.changed.set()

    def _navigated(self, event: dict[str, Any]) -> None:
        frame = event["frame"]
        self._due.discard(frame["id"])
        if frame["id"] == self._main:
            self._forget_but(frame["loaderId"])
            if "unreachableUrl" in frame:
                self.session.note(f"{frame['unreachableUrl']} could not be loaded")
        self.session.moved()

    def _forget_but(self, loader: str) -> None:
        """A new document is shown: what the one before was waiting for may never come."""
        self._documents += 1
        if self._documents % _COLLECT_AFTER == 0:
            self.session.browser.later(self.cdp.send("HeapProfiler.collectGarbage"))
        method, _ = self._requests.get(loader, ("GET", ""))
        self._loader = (loader, method)
        self._requests = {k: pair for k, pair in self._requests.items() if pair[1] == loader}
        self._loading &= {self._main}
        self._due.clear()

    def _opens_window(self, event: dict[str, Any]) -> None:
        self.session.expect_tab()

    def _sends(self, event: dict[str, Any]) -> None:
        self._requests[event["requestId"]] = (event["request"]["method"], event["loaderId"])
        self.session.moved()

    def _done(self, event: dict[str, Any]) -> None:
        # The method of a document is asked for when it is shown, which is before its end.
        self._requests.pop(event["requestId"], None)
        self.session.changed.set()

    def _failed(self, event: dict[str, Any]) -> None:
        self._requests.pop(event["requestId"], None)
        reason = event.get("errorText", "")
        if event.get("type") == "Document" and reason not in ("", "net::ERR_ABORTED"):
            self.session.note(f"the network says {reason}")
        self.session.changed.set()

    @property
    def is_quiet(self) -> bool:
        """Whether nothing is under way."""
        return not (self._loading or self._due or self._requests)

    def forget_traffic(self) -> None:
        """Count nothing any more as under way: what never ends must not be waited for twice."""
        self._loading.clear()
        self._due.clear()
        self._requests.clear()

    # -- what is shown -----------------------------------------------------------------------------

    def show(self, elements: list[Element], first: int) -> int:
        """Number the elements: known ones as before, others from `first` on; the next number."""
        numbers: dict[str, int] = {}
        for element in elements:
            if element.ref:
                numbers[element.ref] = self._numbers.get(element.ref) or first
                first = max(first, numbers[element.ref] + 1)
        return self._set(elements, numbers, first)

    def show_again(self, elements: list[Element], numbers: Iterator[int]) -> None:
        """Number the elements as they were in another life of the page."""
        self._set(elements, {e.ref: next(numbers) for e in elements if e.ref}, 0)

    def _set(self, elements: list[Element], numbers: dict[str, int], following: int) -> int:
        self._numbers = numbers
        self._refs = {number: ref for ref, number in numbers.items()}
        self.elements = [Numbered(numbers.get(e.ref, 0), e) for e in elements]
        return following

    def find(self, number: int) -> tuple[Any, Element]:
        """A numbered element, to act on. Raises ToolError where it is not on the page."""
        ref = self._refs.get(number)
        if ref is None:
            raise ToolError(absent(number))
        element = next(e for n, e in self.elements if n == number)
        return self.page.locator(f"aria-ref={ref}"), element

    # -- asking the page ---------------------------------------------------------------------------

    async def ask(self, command: str, **parameters: Any) -> Any:
        """A command of the DevTools protocol, with a deadline. Raises TimeoutError."""
        try:
            async with asyncio.timeout(self.session.patience):
                return await self.cdp.send(command, parameters)
        except Exception:
            if self.crashed:
                raise TimeoutError("the page has crashed") from None
            raise

    async def evaluate(self, expression: str, frame: str = "") -> Any:
        """The value of a script, in a world of its own: the page can neither see nor change it."""
        world = await self.ask("Page.createIsolatedWorld", frameId=frame or self._main)
        context = world["executionContextId"]
        got = await self.ask(
            "Runtime.evaluate", expression=expression, contextId=context, returnByValue=True
        )
        return got["result"].get("value")

    async def prepare(self) -> bool:
        """Keep the title up to date, and the roles of editors; whether one has changed."""
        code = script(_PREPARE, EDITOR_ROLE)
        got = await self.ask("Runtime.evaluate", expression=code, returnByValue=True)
        self.title, self.editors, changes = got["result"].get("value", ("", 0, 0))
        return bool(changes)

    async def follow(self) -> None:
        """Bring the trail up to date."""
        try:
            got = await self.ask("Page.getNavigationHistory")
        except Exception as error:
            if "Not attached to an active page" not in str(error):
                raise
            await asyncio.sleep(0.01)  # one document takes the place of another
            await self.follow()
            return
        document, method = self._loader
        self.trail.update(got["entries"], got["currentIndex"], method, document)

    async def frames(self) -> list[tuple[str, str]]:
        """Identity and address of all frames, the main one first."""
        tree = (await self.ask("Page.getFrameTree"))["frameTree"]
        return [(frame["id"], frame["url"]) for frame in _walk(tree)]


def _walk(tree: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield tree["frame"]
    for child in tree.get("childFrames", ()):
        yield from _walk(child)


def absent(number: int) -> str:
    """What is said of a number that is not on the page."""
    return (
        f"there is no [{number}] on the page that is shown: numbers are of one page, and of one "
        "element; read() shows which there are"
    )


def script(function: str, argument: Any) -> str:
    """A call of a JavaScript function with a JSON argument."""
    return f"({function})({json.dumps(argument)})"
