"""A request as the handlers of a site see it, and what they answer with."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias
from urllib.parse import urlencode

from agent_envs.envs.browser.sites.database import Database
from agent_envs.envs.browser.sites.markup import Child, Markup, link, tag

if TYPE_CHECKING:
    from agent_envs.envs.browser.sites.base import Site

MAX_TEXT = 4000
"""Characters of one form value."""
HEADERS = [
    ("Content-Type", "text/html; charset=utf-8"),
    (
        "Content-Security-Policy",
        "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; "
        "base-uri 'none'; frame-ancestors 'none'",
    ),
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "same-origin"),
    ("Cache-Control", "no-store"),
]
"""Of every page."""
_UNWANTED = re.compile("[\x00-\x08\x0b-\x1f\x7f\u2028\u2029\ud800-\udfff]")
_DIGITS = re.compile("[0-9]{1,9}")


@dataclass(frozen=True)
class Request:
    """What a browser asked for. `path` is decoded and has no query; `origin` and `host` are the
    headers of these names, empty where there were none."""

    method: str
    path: str
    query: dict[str, list[str]] = field(default_factory=dict)
    form: dict[str, list[str]] = field(default_factory=dict)
    cookies: dict[str, str] = field(default_factory=dict)
    files: dict[str, tuple[str, bytes]] = field(default_factory=dict)
    origin: str = ""
    host: str = ""


@dataclass(frozen=True)
class Response:
    """What the site answers with. To HEAD the front sends it without its body."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes


class Refused(Exception):
    """A change that cannot be made as it was asked for; nothing has changed. Its text is shown."""


class Missing(Exception):
    """There is no such page or thing."""


class Visit:
    """One request, as the handlers of a site see it: cleaned, and with whoever sent it."""

    def __init__(self, site: "Site", request: Request, db: Database, user: int, ids: list[str]):
        self.site, self.request, self.db, self.user = site, request, db, user
        self.ids = ids
        """What the groups of the route's pattern matched."""

    @property
    def id(self) -> int:
        """The number in the path."""
        return int(self.ids[0])

    def asked(self, name: str, default: str = "") -> str:
        """A value from the query, cleaned and stripped; the default where there is none."""
        return _clean((self.request.query.get(name) or [default])[-1][:200]).strip()

    def listing(self, sql: str, values: list[Any], size: int) -> tuple[list[Any], int, Markup]:
        """The rows of a query on the page that is asked for, the number of all, and links on."""
        count = self.db.value(f"SELECT count(*) FROM ({sql})", *values)
        text, last = self.asked("page", "1"), max(1, -(-count // size))
        page = min(max(1, int(text)), last) if _DIGITS.fullmatch(text) else 1
        rows = self.db.all(f"{sql} LIMIT {size} OFFSET {(page - 1) * size}", *values)
        return rows, count, self._pager(page, last)

    def _pager(self, page: int, last: int) -> Markup:
        kept = {_clean(k): self.asked(k) for k in [*self.request.query][:20] if len(k) < 20}
        kept.pop("done", None)

        def to(text: str, number: int) -> Markup | str:
            query = urlencode(kept | {"page": number})
            return link(text, f"{self.request.path}?{query}") if 1 <= number <= last else ""

        here = f" Page {page} of {last} "
        return tag("p", to("Previous page", page - 1), here, to("Next page", page + 1))

    def many(self, name: str) -> list[str]:
        """All values of a form field."""
        return [_clean(value) for value in self.request.form.get(name, [])[:500]]

    def text(self, name: str, most: int = 200, *, needed: bool = True) -> str:
        """A form value, stripped. Refused where it is too long, or needed and empty."""
        raw = self._raw(name)
        if len(raw) > min(most, MAX_TEXT):
            raise Refused(f"{name.capitalize()} is too long: at most {most} characters.")
        text = _clean(raw.replace("\r\n", "\n")).strip()
        if needed and not text:
            raise Refused(f"{name.capitalize()} is needed.")
        return text

    def number(self, name: str, low: int, high: int) -> int:
        """A whole number from a form. Refused for anything else, or out of bounds."""
        text = self._raw(name).strip()
        if not _DIGITS.fullmatch(text) or not low <= int(text) <= high:
            raise Refused(f"{name.capitalize()} must be a whole number from {low} to {high}.")
        return int(text)

    def choice(self, name: str, options: Sequence[str]) -> str:
        """One of some values. Refused for others."""
        text = self._raw(name)
        if text not in options:
            raise Refused(f"{name.capitalize()} must be one of: {', '.join(options)}.")
        return text

    def _raw(self, name: str) -> str:
        return (self.request.form.get(name) or [""])[-1]

    def row(self, sql: str, *values: object) -> Any:
        """The one row of a query. Raises Missing where there is none."""
        found = self.db.one(sql, *values)
        if found is None:
            raise Missing
        return found

    def page(self, title: str, *body: Child) -> Response:
        """The page of that title, in the site's frame."""
        done = self.site.notices.get(self.asked("done"), "")
        note = tag("p", done, role="status", cls="notice") if done else ""
        return self.site.frame(self.db, title, note, *body)

    def see(self, path: str, done: str = "") -> Response:
        """Go on to another page, after a change; `done` names the notice to show there."""
        where = f"{path}{'&' if '?' in path else '?'}done={done}" if done else path
        return Response(303, [*HEADERS, ("Location", where)], b"")


Handler: TypeAlias = Callable[[Visit], Response]


class Route(NamedTuple):
    """Which handler answers which paths; `pattern` is a regular expression for the whole path."""

    method: str
    pattern: str
    handler: Handler


def _clean(text: str) -> str:
    return _UNWANTED.sub("", text)
