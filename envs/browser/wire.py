"""Reading HTTP requests: the little of it that a browser sends to a site."""

import asyncio
import re
from dataclasses import dataclass
from urllib.parse import parse_qs, unquote, urlsplit

from agent_envs.envs.browser.sites.base import Request

MAX_HEAD = 65_536
MAX_BODY = 8 << 20
"""Bytes that a form may send, files included."""
_FIELDS = 2000
_PARAMETER = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


class BadRequest(ValueError):
    """Bytes that are no request that a browser would send."""


@dataclass(frozen=True)
class Head:
    """The first line and the headers, their names in lower case."""

    method: str
    target: str
    headers: dict[str, str]

    @property
    def keep_alive(self) -> bool:
        """Whether the connection may be used again."""
        return self.headers.get("connection", "").lower() != "close"

    @property
    def navigates(self) -> bool:
        """Whether a page is to be shown, be it in a tab or in a frame."""
        return "upgrade-insecure-requests" in self.headers


async def read_head(reader: asyncio.StreamReader) -> tuple[Head, bytes]:
    """The next request of a connection and its body.

    Raises IncompleteReadError at the end, BadRequest for what is none."""
    try:
        text = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    except asyncio.LimitOverrunError:
        raise BadRequest("the headers are too long") from None
    first, *lines = text.split("\r\n")[:-2]
    words = first.split(" ")
    if len(words) != 3:
        raise BadRequest("no request line")
    pairs = (line.partition(":")[::2] for line in lines)
    headers = {name.strip().lower(): value.strip() for name, value in pairs}
    length = headers.get("content-length", "0")
    if not length.isdecimal() or int(length) > MAX_BODY or "transfer-encoding" in headers:
        raise BadRequest("the body is too long")
    return Head(words[0], words[1], headers), await reader.readexactly(int(length))


def request_of(head: Head, body: bytes) -> Request:
    """What a site is given. Raises BadRequest for a form that is none."""
    target = urlsplit(head.target)
    kind = head.headers.get("content-type", "")
    form: dict[str, list[str]] = {}
    files: dict[str, tuple[str, bytes]] = {}
    if kind.startswith("application/x-www-form-urlencoded"):
        form = _query(body.decode("utf-8", "replace"))
    elif kind.startswith("multipart/form-data"):
        form, files = _multipart(kind, body)
    elif kind.startswith("text/plain"):
        form = {"": [body.decode("utf-8", "replace")]}
    return Request(
        head.method,
        unquote(target.path) or "/",
        _query(target.query),
        form,
        _cookies(head.headers.get("cookie", "")),
        files,
        head.headers.get("origin", ""),
        head.headers.get("host", ""),
    )


def _query(text: str) -> dict[str, list[str]]:
    try:
        return parse_qs(text, keep_blank_values=True, max_num_fields=_FIELDS, errors="replace")
    except ValueError as error:
        raise BadRequest(str(error)) from None


def _cookies(text: str) -> dict[str, str]:
    pairs = (pair.partition("=")[::2] for pair in text.split(";") if "=" in pair)
    return {name.strip(): value.strip() for name, value in pairs}


def _multipart(kind: str, body: bytes) -> tuple[dict[str, list[str]], dict[str, tuple[str, bytes]]]:
    """Fields and files of a form that has files."""
    boundary = kind.partition("boundary=")[2].strip('"')
    form: dict[str, list[str]] = {}
    files: dict[str, tuple[str, bytes]] = {}
    if not boundary:
        raise BadRequest("a form without a boundary")
    for part in body.split(b"--" + boundary.encode("latin-1"))[1:-1][:_FIELDS]:
        head, _, content = part.removeprefix(b"\r\n").partition(b"\r\n\r\n")
        names = dict(_PARAMETER.findall(head.decode("utf-8", "replace")))
        content = content.removesuffix(b"\r\n")
        if "filename" in names:
            files[names.get("name", "")] = (names["filename"], content)
        else:
            form.setdefault(names.get("name", ""), []).append(content.decode("utf-8", "replace"))
    return form, files
