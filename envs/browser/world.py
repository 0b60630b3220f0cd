"""What stands behind the browser in an episode: the pages that a task is about, and their state."""

import secrets
from collections.abc import Mapping
from typing import Any, Protocol

from agent_envs.envs.browser import sites
from agent_envs.envs.browser.sites.base import COOKIE, Request, Response
from agent_envs.envs.browser.sites.database import connect, token


class World(Protocol):
    """The host's side of an episode. The browser reaches it through `respond` alone."""

    name: str
    """The host's name as the model sees it."""
    scripted: bool
    """Whether pages run scripts, so that there may be state in them."""
    timed: bool
    """Whether time stands still between calls, and state lives in scripts: see `Session`."""

    def respond(self, request: Request) -> Response:
        """The answer to a request."""

    def cookies(self) -> Mapping[str, str]:
        """What the browser is given at the start."""

    def save(self) -> Any:
        """The whole state, as an immutable value."""

    def load(self, saved: Any) -> None:
        """Go back to a saved state."""

    def close(self) -> None:
        """Free it."""


class SiteWorld:
    """A site of ours: its state is one database."""

    scripted = timed = False

    def __init__(self, data: Mapping[str, Any]) -> None:
        """`data`: a task's, as `sites.open_site` takes them."""
        self.name = f"{data['site']}.test"
        self._data = dict(data)
        self._site = sites.get(data["site"])
        self.nonce = secrets.token_bytes(16)
        self._db = sites.open_site(self._data, self.nonce)
        self._kept: tuple[int, tuple[bytes, bytes]] | None = None

    def respond(self, request: Request) -> Response:
        """See `World`."""
        return self._site.respond(request, self._db)

    def cookies(self) -> Mapping[str, str]:
        """The session of the task's user."""
        return {COOKIE: token(self.nonce)}

    def save(self) -> tuple[bytes, bytes]:
        """Nonce and database; the same object again while nothing has changed."""
        changes = self._db.total_changes
        if self._kept is None or self._kept[0] != changes:
            self._kept = changes, (self.nonce, self._db.serialize())
        return self._kept[1]

    def load(self, saved: tuple[bytes, bytes]) -> None:
        """Go back to a saved state, maybe of another episode's world."""
        self._db.close()
        self.nonce, data = saved
        self._db = connect(self.nonce, data)
        self._kept = self._db.total_changes, saved

    def close(self) -> None:
        """Free the database."""
        self._db.close()
