"""A kept-alive HTTP connection: whole requests, each with a deadline, that can be called off."""

import http.client
import socket
import ssl
import threading
from base64 import b64encode
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import SplitResult, unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

from agent_envs.models.trouble import Malformed, Unreachable

_MOST_BYTES = 64 << 20
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


@dataclass(frozen=True, slots=True)
class Answer:
    """What a server sent: the status, the headers by their names in lower case, the body."""

    status: int
    headers: dict[str, str]
    body: bytes


def checked_url(base_url: str) -> SplitResult:
    """A base URL in its parts. Raises ValueError for one that is none, or that holds a secret."""
    try:
        url = urlsplit(base_url)
        host, port = url.hostname, url.port
    except ValueError:
        url, host, port = urlsplit(""), None, None
    if url.username is not None or url.password is not None or url.query or url.fragment:
        raise ValueError("a base URL holds no user, query or fragment; a key goes in by itself")
    if url.scheme not in ("http", "https") or not host or port == 0:
        raise ValueError(f"{base_url!r:.200}: a base URL is http://host:port/v1 or https://host/v1")
    if any(not " " < x < "\x7f" for x in base_url):
        raise ValueError(f"{base_url!r:.200}: a base URL has no spaces and only ASCII characters")
    return url


class Connection:
    """To one server, through the proxy that the environment names, if any.

    It connects when it is first used, and again after an error. One thread posts; any other may
    call `abort`.
    """

    def __init__(self, url: SplitResult) -> None:
        self._url = url
        self._client: http.client.HTTPConnection | None = None
        self._lock = threading.Lock()
        self._called_off = False

    def post(self, path: str, body: bytes, headers: dict[str, str], timeout: float) -> Answer:
        """Send a body to the base URL's path with `path` after it, and wait for all of the answer.

        Raises Unreachable where it does not come within `timeout` seconds, or not whole, Malformed
        for one of over 64 MB.
        """
        with self._lock:
            self._called_off = False
        late = threading.Timer(timeout, self.abort)
        late.daemon = True
        late.start()
        try:
            return self._exchange(path, body, headers, timeout)
        except (OSError, http.client.HTTPException, ValueError) as error:
            self.close()
            if self._called_off or isinstance(error, TimeoutError):
                raise Unreachable(f"no answer within {timeout:g} s") from None
            failure = Unreachable(f"no answer from {self._url.netloc}: {_why(error)}")
            failure.passing = not isinstance(error, ssl.SSLCertVerificationError)
            failure.hopeless = not failure.passing
            raise failure from None
        except BaseException:
            self.close()
            raise
        finally:
            late.cancel()

    def abort(self) -> None:
        """End a running `post`, which raises Unreachable."""
        with self._lock:
            self._called_off = True
            sock = self._client.sock if self._client else None
            if sock is not None:
                with suppress(OSError):  # a TLS socket too is shut down below TLS, without waiting
                    socket.socket.shutdown(sock, socket.SHUT_RDWR)

    def close(self) -> None:
        """Let go of the socket."""
        with self._lock:
            client, self._client = self._client, None
        if client is not None:
            client.close()

    def _exchange(self, path: str, body: bytes, headers: dict[str, str], timeout: float) -> Answer:
        idle = self._client is not None
        try:
            return self._read(self._sent(path, body, headers, timeout))
        except (http.client.RemoteDisconnected, ConnectionError):
            if not idle or self._called_off:
                raise
        self.close()  # the server had closed it while nothing was asked
        return self._read(self._sent(path, body, headers, timeout))

    def _sent(
        self, path: str, body: bytes, headers: dict[str, str], timeout: float
    ) -> http.client.HTTPResponse:
        client, prefix, more = self._connected(timeout)
        client.request("POST", f"{prefix}{self._url.path.rstrip('/')}{path}", body, headers | more)
        return client.getresponse()

    def _read(self, response: http.client.HTTPResponse) -> Answer:
        content = response.read(_MOST_BYTES + 1)
        if len(content) > _MOST_BYTES:
            raise Malformed("an answer of over 64 MB")
        if response.length:  # http.client does not tell: fewer bytes than the header promised
            raise http.client.IncompleteRead(b"", response.length)
        if response.will_close:
            self.close()
        told = {name.lower(): value for name, value in response.getheaders()}
        return Answer(response.status, told, content)

    def _connected(self, timeout: float) -> tuple[http.client.HTTPConnection, str, dict[str, str]]:
        """The connection, what stands before the path, and headers for the proxy."""
        url, proxy = self._url, _proxy(self._url)
        kind = http.client.HTTPSConnection if url.scheme == "https" else http.client.HTTPConnection
        client, prefix, more = self._client, "", {}
        if proxy is not None and url.scheme == "http":
            prefix, more = f"http://{url.netloc}", _credentials(proxy)
        if client is None:
            at = proxy or url
            client = kind(at.hostname or "", at.port, timeout=timeout)
            if proxy is not None and url.scheme == "https":
                client.set_tunnel(url.hostname or "", url.port, _credentials(proxy))
            client.connect()
            with self._lock:
                self._client = client
                if self._called_off:
                    raise TimeoutError
        if client.sock is not None:
            client.sock.settimeout(timeout)
        return client, prefix, more


def _proxy(url: SplitResult) -> SplitResult | None:
    """The proxy that the environment names for a server; never one for this machine itself."""
    host = url.hostname or ""
    named = getproxies().get(url.scheme)
    if not named or host in _LOOPBACK or proxy_bypass(host):
        return None
    return urlsplit(named if "://" in named else f"http://{named}")


def _credentials(proxy: SplitResult) -> dict[str, str]:
    if proxy.username is None:
        return {}
    pair = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
    return {"Proxy-Authorization": f"Basic {b64encode(pair.encode()).decode()}"}


def _why(error: Exception) -> str:
    """What happened, without numbers that differ each time: equal failures are counted together."""
    text = error.strerror if isinstance(error, OSError) and error.strerror else ""
    return text or type(error).__name__
