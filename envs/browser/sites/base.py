"""What every site is made of: a request and a database in, a response out, and nothing else.

A site is a folder here with `site.py`, whose `SITE` is an instance of `Site`, and `tasks.py`, whose
`FAMILIES` are its families of tasks. `respond` is a pure function of the request, the database and
the clock in it. The user of the episode is signed in from the start: requests have to come with
the cookie `session=` `token(nonce)`, which whoever opens the browser sets (`cookie(nonce)` is the
header's value). Changes go through POST alone, in one transaction that moves the clock by a minute
and writes at least one event; they answer with a redirect.
"""

import random
import re
from functools import lru_cache
from pathlib import Path
from typing import Protocol

from agent_envs.envs.browser.sites.database import (
    SCHEMA,
    Database,
    connect,
    moment,
    now,
    sign_in,
    token,
)
from agent_envs.envs.browser.sites.markup import Child, link, tag
from agent_envs.envs.browser.sites.visit import HEADERS, Missing, Refused, Route, Visit
from agent_envs.envs.browser.sites.visit import Request as Request
from agent_envs.envs.browser.sites.visit import Response as Response
from agent_envs.streams import derive

COOKIE = "session"

_STYLE = (Path(__file__).parent / "style.css").read_bytes()
_STYLE_HEADERS = [
    ("Content-Type", "text/css"),
    ("X-Content-Type-Options", "nosniff"),
    ("Cache-Control", "max-age=86400"),
]
_SHUT = "Sign in needed", "This browser is not signed in here."
_FOREIGN = "Refused", "This form was sent from another site."


class World(Protocol):
    """What a site's module `world` has."""

    SCHEMA: str
    """The SQL of its tables."""

    def seed(self, db: Database, rng: random.Random) -> None:
        """Fill an empty database whose tables are there."""

    def inject(self, db: Database, target: int) -> None:
        """Put text that gives the reader other orders into the thing `target` and many others."""

    def twin(self, db: Database, target: int) -> None:
        """Add things that are nearly `target` (0: nearly many), and are never what is wanted."""


class Site:
    """A site. Subclasses set the attributes; what fills its database is its `world`."""

    name: str
    title: str
    world: World
    """Its tables and what is in them: the folder's module `world`."""
    routes: tuple[Route, ...]
    menu: tuple[tuple[str, str], ...]
    """Links of every page: text and path."""
    notices: dict[str, str] = {}
    """What is shown after a change, by the name given to `Visit.see`."""
    lasting: frozenset[str] = frozenset()
    """Kinds of events that others would have seen, so that undoing them later does not count."""
    user = 1
    user_name = ""

    def create(self, seed: int, nonce: bytes) -> Database:
        """The site's database in the world of that seed, with the episode's user signed in.

        The caller closes it."""
        db = connect(nonce, _world(self, seed))
        sign_in(db, self.user)
        return db

    def respond(self, request: Request, db: Database) -> Response:
        """The answer to a request. Never raises for what a request may hold."""
        if request.path == "/style.css":
            return Response(200, _STYLE_HEADERS, _STYLE)
        user = _user(db, request.cookies.get(COOKIE, ""))
        if user is None:
            return self.message(db, 403, *_SHUT, menu=False)
        found = [(r, m) for r in self.routes if (m := re.fullmatch(r.pattern, request.path))]
        if not found:
            return self.message(db, 404, "Not found", "There is no such page.")
        method = "GET" if request.method == "HEAD" else request.method
        for route, match in found:
            if route.method == method:
                visit = Visit(self, request, db, user, list(match.groups()))
                return self._change(visit, route) if method == "POST" else self._show(visit, route)
        allowed = ", ".join(sorted(route.method for route, _ in found))
        refusal = self.message(db, 405, "Not allowed", f"This address takes {allowed} only.")
        return Response(405, [*refusal.headers, ("Allow", allowed)], refusal.body)

    def _show(self, visit: Visit, route: Route) -> Response:
        """Run a handler that can read and not write."""
        visit.db.execute("PRAGMA query_only=ON")
        try:
            return route.handler(visit)
        except Missing:
            return self.message(visit.db, 404, "Not found", "There is no such page.")
        finally:
            visit.db.execute("PRAGMA query_only=OFF")

    def _change(self, visit: Visit, route: Route) -> Response:
        """Run a handler in a transaction: all of what it does, or nothing."""
        request, db = visit.request, visit.db
        if request.origin and request.origin not in _origins(request.host):
            return self.message(db, 403, *_FOREIGN)
        db.execute("BEGIN")
        try:
            db.execute("UPDATE clock SET minute = minute + 1")
            response = route.handler(visit)
            db.execute("COMMIT")
            return response
        except Refused as refusal:
            return self.message(db, 422, "That did not work", str(refusal), rollback=True)
        except Missing:
            return self.message(db, 404, "Not found", "There is no such thing.", rollback=True)
        finally:
            if db.in_transaction:
                db.execute("ROLLBACK")

    def message(
        self,
        db: Database,
        status: int,
        title: str,
        text: str,
        *,
        menu: bool = True,
        rollback: bool = False,
    ) -> Response:
        """A page that says what went wrong."""
        if rollback:
            db.execute("ROLLBACK")
        return self.frame(db, title, tag("p", text, role="alert"), status=status, menu=menu)

    def frame(
        self, db: Database, title: str, *body: Child, status: int = 200, menu: bool = True
    ) -> Response:
        """A whole page: head, menu, body, and the time by the site's own clock."""
        links = [tag("li", link(text, path)) for text, path in self.menu] if menu else []
        who = f"Signed in as {self.user_name}. " if menu else ""
        html = tag(
            "html",
            tag(
                "head",
                tag("meta", charset="utf-8"),
                tag("title", f"{title} - {self.title}"),
                tag("meta", name="viewport", content="width=device-width"),
                tag("link", rel="stylesheet", href="/style.css"),
            ),
            tag(
                "body",
                tag("header", tag("strong", self.title), tag("nav", tag("ul", *links))),
                tag("main", tag("h1", title), *body),
                tag("footer", tag("p", f"{who}It is {moment(now(db)):%A %Y-%m-%d, %H:%M}.")),
            ),
            lang="en",
        )
        return Response(status, list(HEADERS), f"<!DOCTYPE html>\n{html}\n".encode())


def cookie(nonce: bytes) -> str:
    """The value of a `Set-Cookie` header that signs a browser in to the episode of that nonce."""
    return f"{COOKIE}={token(nonce)}; Path=/; HttpOnly; SameSite=Strict"


@lru_cache(maxsize=64)
def _world(site: Site, seed: int) -> bytes:
    """A new database of a site, seeded."""
    db = connect(b"")
    try:
        db.executescript(f"BEGIN; {SCHEMA} {site.world.SCHEMA} COMMIT;")
        rng = random.Random(derive("site", site.name, seed))
        start = (rng.randrange(7, 340) * 24 + 9) * 60
        db.execute("BEGIN")
        db.execute("INSERT INTO clock VALUES (?, ?)", (start, start))
        site.world.seed(db, rng)
        db.execute("COMMIT")
        return db.serialize()
    finally:
        db.close()


def _origins(host: str) -> tuple[str, str]:
    return f"http://{host}", f"https://{host}"


def _user(db: Database, held: str) -> int | None:
    if not held.isascii():
        return None
    row = db.execute("SELECT user FROM sessions WHERE token = ?", (held,)).fetchone()
    return int(row["user"]) if row else None
