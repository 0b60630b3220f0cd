"""The server in front of all sites of a browser: which episode is asked, and by whom.

An episode has a name of 128 random bits for its origin, and its browser context sends a second
secret with every request, which no page can read. Whoever lacks one of them gets nothing.
"""

import asyncio
import contextlib
import hmac
import logging
import secrets
import socket
from collections import OrderedDict
from collections.abc import Callable
from http import HTTPStatus
from typing import TypeAlias

from agent_envs.envs.browser.sites.base import Request, Response
from agent_envs.envs.browser.wire import MAX_HEAD, BadRequest, Head, read_head, request_of

logger = logging.getLogger("agent_envs")

SECRET = "x-episode"
"""The header that a context sends along."""
_REMEMBERED = 64
_STUB = Response(200, [("Content-Type", "text/html; charset=utf-8")], b"<!DOCTYPE html>")

Address: TypeAlias = tuple[str, str]
"""Method and target of a request."""


class Origin:
    """One episode's site, as its browser context reaches it."""

    def __init__(self, respond: Callable[[Request], Response]) -> None:
        self.respond = respond
        self.name = f"{secrets.token_hex(16)}.test"
        self.secret = secrets.token_hex(16)
        self.documents: OrderedDict[Address, Response] = OrderedDict()
        """The last answers to navigations."""
        self.replaying: dict[Address, Response] | None = None
        """While a state is restored: what navigations get, and all others a blank page."""

    def answer(self, head: Head, body: bytes) -> Response:
        """What the site says; 500 where it has a bug, which is logged."""
        address = (head.method, head.target)
        if self.replaying is not None and head.navigates:
            return self.replaying.get(address, _STUB)
        try:
            response = self.respond(request_of(head, body))
        except BadRequest as error:
            response = _plain(400, str(error))
        except Exception:
            logger.exception("a site failed at %s %s", head.method, head.target[:200])
            response = _plain(500, "the site failed")
        if head.navigates and response.status not in (204, 301, 302, 303, 307, 308):
            self.documents[address] = response
            self.documents.move_to_end(address)
            if len(self.documents) > _REMEMBERED:
                self.documents.popitem(last=False)
        return response


class Front:
    """A server on one listening socket, for any number of origins."""

    def __init__(self) -> None:
        self.origins: dict[str, Origin] = {}
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()

    async def listen(self, listening: socket.socket) -> None:
        """Serve what comes in on a socket."""
        listening.setblocking(False)
        self._server = await asyncio.start_server(self._serve, sock=listening, limit=MAX_HEAD)

    async def close(self) -> None:
        """Serve nothing any more."""
        if self._server is not None:
            self._server.close()
        for writer in [*self._open]:
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        try:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError, BadRequest):
                while await self._one(reader, writer):
                    pass
        finally:
            self._open.discard(writer)
            writer.transport.abort() if writer.is_closing() else writer.close()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """One request; whether another may follow on the connection."""
        head, body = await read_head(reader)
        response = self._answer(head, body)
        writer.write(_wire(response, head.method))
        await writer.drain()
        return head.keep_alive

    def _answer(self, head: Head, body: bytes) -> Response:
        origin = self.origins.get(head.headers.get("host", ""))
        given = head.headers.get(SECRET, "")
        if origin is None or not hmac.compare_digest(given.encode(), origin.secret.encode()):
            return _plain(403, "no such site")
        return origin.answer(head, body)


def _plain(status: int, text: str) -> Response:
    return Response(status, [("Content-Type", "text/plain; charset=utf-8")], text.encode())


def _wire(response: Response, method: str) -> bytes:
    """The bytes of a response. No answer may be kept: going back asks the site again."""
    try:
        phrase = HTTPStatus(response.status).phrase
    except ValueError:
        phrase = "Unknown"
    lines = [f"HTTP/1.1 {response.status} {phrase}", f"Content-Length: {len(response.body)}"]
    names = {name.lower() for name, _ in response.headers}
    if "cache-control" not in names:
        lines.append("Cache-Control: no-store")
    for name, value in response.headers:
        lines.append(f"{name}: {' '.join(value.splitlines())}")
    head = "\r\n".join([*lines, "", ""]).encode("utf-8", "replace")
    return head if method == "HEAD" or response.status in (204, 304) else head + response.body
