"""The browser environment: a real Chromium, sites with real state, and tools as a person has."""

import re
from io import BytesIO
from os import PathLike
from typing import Any, Literal

import numpy as np

from agent_envs.env import ToolEnv
from agent_envs.envs.browser import sites
from agent_envs.envs.browser.browsing import Browsing, Saved, Settings
from agent_envs.envs.browser.chromium import ISOLATIONS
from agent_envs.envs.browser.miniwob import gold
from agent_envs.envs.browser.miniwob.tasks import MiniWoBTasks
from agent_envs.envs.browser.miniwob.world import RESULT, PageWorld, raw_reward
from agent_envs.envs.browser.sites import oracle
from agent_envs.envs.browser.sites.cheats import CHEATS
from agent_envs.envs.browser.sites.source import SiteTasks
from agent_envs.envs.browser.world import SiteWorld, World
from agent_envs.errors import BackendUnavailable, seconds_of, whole
from agent_envs.fault import corrupted
from agent_envs.task import Task, TasksLike, TaskSource, task_file
from agent_envs.tool import tool
from agent_envs.turns import FaultKind, Message, Move, ToolCall
from agent_envs.verdict import Verdict
from agent_envs.verifiers.browser import VERSION, judge


class BrowserEnv(ToolEnv):
    """Tasks on web sites, done with a browser. What the site's database holds in the end is graded,
    and the answer where the task asks for one; never what a page shows.
    """

    metadata = {"render_modes": ["ansi", "rgb_array"], "render_fps": 1}
    tasks: TaskSource = SiteTasks()
    weights = {"solved": 1.0, "page": 1.0, "state": 0.0, "events": 0.0, "answer": 0.0}
    cheats = CHEATS
    verifier = "agent_envs.verifiers.browser"

    def __init__(
        self,
        *,
        isolation: str = "shared",
        page_chars: int = 8000,
        patience: float = 10.0,
        tasks: TasksLike | None = None,
        **arguments: Any,
    ) -> None:
        """`tasks`: also "miniwob", the pages of MiniWoB++, which grade themselves: their own raw
        reward is then the component `page`, and `passed` is whether it is 1. `isolation`: "shared"
        is one browser for many episodes, each in a context of its own; "episode" gives each a
        browser; "container" is one as "shared" is, in a container of the image that
        AGENT_ENVS_BROWSER_IMAGE names, for machines without Chromium; "none" takes the wall around
        the browser away. `page_chars`: how much of a page is shown at once. `patience`: after how
        many seconds a page that does not answer is given up. The others are as in `ToolEnv`. Raises
        ValueError for what cannot be."""
        if isolation not in ISOLATIONS:
            raise ValueError(f"isolation={isolation!r}: one of {', '.join(ISOLATIONS)}")
        page_chars = whole("page_chars", page_chars, 500)
        self._settings = Settings(isolation, seconds_of("patience", patience), page_chars)
        self._browsing: Browsing | None = None
        self._browsing_for: Task
        if isinstance(tasks, str) and tasks == "miniwob":
            self.tasks, tasks = MiniWoBTasks(), None
        elif isinstance(tasks, str | PathLike):
            tasks = task_file(tasks, ["miniwob"])
        super().__init__(tasks=tasks, **arguments)

    # -- tools -------------------------------------------------------------------------------------

    @tool
    def goto(self, url: str) -> str:
        """Open an address of the site, such as "/" or "http://shop.test/cart".

        Args:
            url: On this site; others cannot be reached.
        """
        return self._do("goto", url=url)

    @tool
    def click(self, ref: int, dialog: Literal["dismiss", "accept"] = "dismiss") -> str:
        """Click the element [ref].

        Args:
            ref: Its number on the page.
            dialog: How a dialog that asks back is answered: Cancel, or OK.
        """
        return self._do("click", ref=ref, dialog=dialog)

    @tool
    def fill(self, ref: int, text: str) -> str:
        """Put text into the field [ref], in place of what it holds.

        Args:
            ref: Its number on the page.
            text: What it is to hold; for a field that takes a file, the content of a text file.
        """
        return self._do("fill", ref=ref, text=text)

    @tool
    def select(self, ref: int, option: str | list[str]) -> str:
        """Choose an option of the list [ref].

        Args:
            ref: Its number on the page.
            option: What the option says; several where the list takes several.
        """
        return self._do("select", ref=ref, option=option)

    @tool
    def check(self, ref: int, on: bool = True) -> str:
        """Tick the box [ref], or choose the radio button.

        Args:
            ref: Its number on the page.
            on: False takes the tick away.
        """
        return self._do("check", ref=ref, on=on)

    @tool
    def press(self, key: str, ref: int = 0) -> str:
        """Press a key, such as "Enter", "Escape", "ArrowDown", "a" or "Control+a".

        Args:
            key: Its name.
            ref: The element that gets it; 0 is the one that has the focus.
        """
        return self._do("press", key=key, ref=ref)

    @tool
    def scroll(self, to: Literal["down", "up", "top", "bottom"]) -> str:
        """Scroll the page by a window's height, or to its ends.

        Args:
            to: Where to.
        """
        return self._do("scroll", to=to)

    @tool
    def back(self) -> str:
        """Go back to the page before this one."""
        return self._do("back")

    @tool
    def forward(self) -> str:
        """Undo going back."""
        return self._do("forward")

    @tool
    def tab(self, action: Literal["switch", "close", "new"], number: int = 0) -> str:
        """Switch to another tab, close one, or open an empty one.

        Args:
            action: What to do.
            number: The tab's, from 1; a new tab needs none.
        """
        return self._do("tab", action=action, number=number)

    @tool
    def read(self, part: int = 1) -> str:
        """Show the page as it is. A long page has parts.

        Args:
            part: Which one, from 1.
        """
        return self._do("read", part=part)

    @tool
    def wait(self) -> str:
        """Wait a moment for what the page does by itself."""
        return self._do("wait")

    def _do(self, name: str, **arguments: Any) -> str:
        try:
            return self._now.perform(name, arguments)
        finally:
            if self._now.world.timed and self._raw() is not None:
                self.end()

    def _raw(self) -> float | None:
        """What a page that grades itself says of its end; None before it."""
        return raw_reward(self._now.ask(RESULT)) if self._now.was_opened else None

    # -- grading -----------------------------------------------------------------------------------

    def grade(self, answer: str | None) -> Verdict:
        """Whether the site's state, its events and the answer are what the task asks for.

        A page that grades itself has said so in the call that ended the episode."""
        components = dict.fromkeys(self.weights, 0.0)
        if self._now.world.timed:
            raw = self._raw() or 0.0
            return Verdict(components | {"page": raw}, self.weights, raw == 1.0, VERSION)
        nonce, final = self._now.world.save()
        report = judge(lambda: sites.check(dict(self.task.data), nonce, final, answer))
        components |= {"solved": float(report.passed), **report.components}
        return Verdict(components, self.weights, report.passed, VERSION)

    def corrupt(self, kind: FaultKind, call: ToolCall, content: str, u: float) -> str:
        """Another digit in what the page says, or fewer of its lines; numbers of elements stay."""
        head, gap, body = content.partition("\n\n")
        lines = body.split("\n")
        if kind == "truncated":
            if len(lines) < 2:
                return content
            return "\n".join([f"{head}\n", *lines[: 1 + int(u * (len(lines) - 1))]])
        places = [i for i, line in enumerate(lines) if re.search(r"\d", _said(line))]
        if not places:
            return content
        place = places[int(u * len(places))]
        said = _said(lines[place])
        other = corrupted("wrong", said, u * len(places) % 1)
        lines[place] = lines[place][: len(lines[place]) - len(said)] + other
        return head + gap + "\n".join(lines)

    @staticmethod
    def oracle(task: Task, messages: list[Message]) -> Move:
        """The gold steps, found on the pages by role and name."""
        if task.data["site"] == "miniwob":
            return gold.move(task.data["page"], messages)
        return oracle.move(task.data, messages)

    # -- state -------------------------------------------------------------------------------------

    @property
    def _now(self) -> Browsing:
        assert self._browsing is not None, "reset() comes first"
        return self._browsing

    def world_of(self, task: Task) -> World:
        """What stands behind the browser in an episode of a task; for subclasses to replace."""
        return PageWorld(task.data) if task.data["site"] == "miniwob" else SiteWorld(task.data)

    def setup(self, task: Task) -> None:
        """A fresh site, and a browser that is ready for it."""
        self._browsing = Browsing(self.world_of(task), self._settings)
        self._browsing_for = task

    def save(self) -> Saved:
        """See `ToolEnv`."""
        return self._now.save()

    def load(self, saved: Saved) -> None:
        """Go back to a state, maybe of an earlier episode or another env."""
        if self._browsing is None or self._browsing_for is not self.task:
            self.teardown()
            self.setup(self.task)
        self._now.load(saved)

    def teardown(self) -> None:
        """Leave the browser. Ends a running call."""
        browsing, self._browsing = self._browsing, None
        if browsing is not None:
            browsing.close()

    # -- looking -----------------------------------------------------------------------------------

    def render(self) -> Any:
        """The shown page as an array of (720, 1280, 3) bytes, or the episode as text."""
        if self.render_mode != "rgb_array":
            return super().render()
        self._need()
        try:
            from PIL import Image
        except ImportError as error:
            raise BackendUnavailable("pictures need Pillow: pip install pillow") from error
        with Image.open(BytesIO(self._now.screenshot())) as picture:
            return np.asarray(picture.convert("RGB"))


def _said(line: str) -> str:
    """A line without its number."""
    return re.sub(r"^ *(\[\d+\] ?)?", "", line)
