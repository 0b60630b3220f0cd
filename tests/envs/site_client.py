"""A browser without a window or scripts: shows a site's page as the environment does, follows links
and sends forms, so that the plans of tasks can be carried out on the site alone."""

import json
from collections.abc import Callable
from html.parser import HTMLParser
from typing import Any
from urllib.parse import parse_qs, unquote, urlencode, urljoin, urlsplit

from agent_envs.envs.browser.sites.base import COOKIE, Request, Response, Site
from agent_envs.envs.browser.sites.database import Database, token
from agent_envs.turns import ToolCall

_ROLES = {"a": "link", "button": "button", "select": "combobox", "textarea": "textbox"}


class Element:
    """A tag that can be acted on, or a form or label."""

    def __init__(self, tag: str, attributes: dict[str, str], form: "Element | None") -> None:
        self.tag, self.attributes, self.form = tag, attributes, form
        self.text = ""
        self.name = attributes.get("aria-label", "")
        self.options: list[tuple[str, str]] = []
        self.value = attributes.get("value", "")
        self.checked = "checked" in attributes

    @property
    def role(self) -> str:
        """The role as a browser has it; empty for what is no control."""
        if self.tag != "input":
            return _ROLES.get(self.tag, "")
        return {"text": "textbox", "checkbox": "checkbox"}.get(self.attributes["type"], "")

    def pairs(self) -> list[tuple[str, str]]:
        """What this control adds to its form."""
        name = self.attributes.get("name", "")
        if not name or self.tag == "button" or (self.role == "checkbox" and not self.checked):
            return []
        return [(name, self.value.replace("\n", "\r\n"))]


class Page(HTMLParser):
    """A page taken apart: its elements in order, and its text."""

    def __init__(self, body: str) -> None:
        super().__init__()
        self.elements: list[Element] = []
        self.labels: dict[str, str] = {}
        self.words: list[str] = []
        self._open: list[Element] = []
        self._form: Element | None = None
        self.feed(body)
        self.close()
        for element in self.elements:
            label = self.labels.get(element.attributes.get("id", ""), "")
            element.name = element.name or label or " ".join(element.text.split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep what can be acted on."""
        element = Element(tag, {k: v or "" for k, v in attrs}, self._form)
        if tag == "form":
            self._form = element
        if tag == "option":
            self._option(element)
        if element.role or tag == "input":
            self.elements.append(element)
        if tag in ("a", "button", "select", "textarea", "label", "option", "title"):
            self._open.append(element)

    def _option(self, element: Element) -> None:
        chosen = self._open[-1]
        value = element.attributes["value"]
        if not chosen.options or "selected" in element.attributes:
            chosen.value = value
        chosen.options.append((value, ""))

    def handle_data(self, data: str) -> None:
        """Text belongs to the innermost open element."""
        if self._open:
            self._open[-1].text += data
        if data.strip():
            self.words.append(" ".join(data.split()))

    def handle_endtag(self, tag: str) -> None:
        """Close it; a label and an option hand their text on."""
        if tag == "form":
            self._form = None
        if not self._open or self._open[-1].tag != tag:
            return
        element = self._open.pop()
        if tag == "label":
            self.labels[element.attributes.get("for", "")] = " ".join(element.text.split())
        if tag == "option":
            parent = self._open[-1]
            parent.options[-1] = (parent.options[-1][0], " ".join(element.text.split()))
        if tag == "textarea":
            element.value = element.text.removeprefix("\n")
            element.text = ""

    @property
    def text(self) -> str:
        """All text."""
        return "\n".join(self.words)


class Client:
    """One tab on one site. `run` takes the tool calls that the built-in oracles make."""

    def __init__(self, site: Site, db: Database) -> None:
        self.site, self.db = site, db
        self._visited: list[str] = []
        self.goto("/")

    def goto(self, url: str) -> None:
        """Open an address of the site."""
        self._load("GET", urljoin("/", url), {})

    def send(self, method: str, url: str, form: dict[str, list[str]], **more: Any) -> Response:
        """One request, as the front would hand it on; redirects are not followed."""
        split = urlsplit(url)
        query = parse_qs(split.query, keep_blank_values=True)
        cookies = more.pop("cookies", {COOKIE: token(self.db.nonce)})
        request = Request(method, unquote(split.path), query, form, cookies, **more)
        return self.site.respond(request, self.db)

    def _load(self, method: str, url: str, form: dict[str, list[str]]) -> None:
        own = {"host": "site.test", "origin": "http://site.test"}
        response = self.send(method, url, form, **(own if method == "POST" else {}))
        while response.status == 303:
            url = dict(response.headers)["Location"]
            response = self.send("GET", url, {})
        self._visited.append(url)
        self.url, self.status, self.page = url, response.status, Page(response.body.decode())

    def observation(self) -> str:
        """The page as the environment shows it, as far as an oracle looks."""
        lines = [
            f"[{n}] {e.role} {json.dumps(e.name, ensure_ascii=False)}"
            for n, e in enumerate(self.page.elements, 1)
            if e.role
        ]
        return "\n".join([f'page: "{self.url}"', f"url: {self.url}", "", *lines])

    def run(self, call: ToolCall) -> str:
        """What a tool does to the page, and the page after it."""
        if call.name == "goto":
            if urlsplit(call.arguments["url"]).scheme:
                return "error: only this site can be reached"
            self.goto(call.arguments["url"])
            return self.observation()
        if call.name == "back":
            self._visited.pop()
            self.goto(self._visited.pop())
            return self.observation()
        element = self.page.elements[call.arguments["ref"] - 1]
        act: Callable[[Element, ToolCall], None] = getattr(self, f"_{call.name}")
        act(element, call)
        return self.observation()

    def _click(self, element: Element, call: ToolCall) -> None:
        if element.tag == "a":
            self._load("GET", urljoin(self.url, element.attributes["href"]), {})
        elif element.role == "checkbox":
            element.checked = not element.checked
        else:
            self._submit(element)

    def _submit(self, button: Element) -> None:
        form = button.form
        assert form is not None, f"the button {button.name!r} is in no form"
        inside = [e for e in self.page.elements if e.form is form]
        pairs = [pair for element in inside for pair in element.pairs()]
        if button.attributes.get("name"):
            pairs.append((button.attributes["name"], button.value))
        where = urljoin(self.url, form.attributes["action"])
        if form.attributes["method"] == "get":
            return self._load("GET", f"{where}?{urlencode(pairs)}", {})
        sent: dict[str, list[str]] = {}
        for name, value in pairs:
            sent.setdefault(name, []).append(value)
        self._load("POST", where, sent)

    def _fill(self, element: Element, call: ToolCall) -> None:
        element.value = call.arguments["text"]

    def _check(self, element: Element, call: ToolCall) -> None:
        element.checked = True

    def _select(self, element: Element, call: ToolCall) -> None:
        wanted = call.arguments["option"]
        element.value = next(v for v, text in element.options if text == wanted)
