"""What a page and a model can reach: the site of their own episode, and nothing else at all."""

import contextlib
import http.client
import http.server
import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from agent_envs.envs.browser import chromium, engine
from agent_envs.envs.browser.front import SECRET, Front
from agent_envs.envs.browser.session import Session
from tests.envs.browser_zoo import Visitor, Zoo
from tests.envs.test_browser_robust import browser_of, inside, processes
from tests.sandbox.leftovers import program

LONG: dict[str, Any] = {"max_turns": 10**6, "max_calls": 10**6}


@pytest.fixture(scope="module")
def envs() -> Iterator[list[Zoo]]:
    envs = [Zoo(**LONG) for _ in range(2)]
    yield envs
    for env in envs:
        env.close()


@pytest.fixture
def visits(envs: list[Zoo]) -> list[Visitor]:
    for env in envs:
        env.reset(seed=1)
    found = [Visitor(env) for env in envs]
    for visit in found:
        visit.do("read")
    return found


@pytest.fixture
def service() -> Iterator[int]:
    """A service on this machine's loopback device, as a trainer might run one."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server.server_port
    server.shutdown()
    server.server_close()
    thread.join()


def session_of(visit: Visitor) -> Session:
    session = visit.env._now._session
    assert session is not None
    return session


def test_addresses_that_a_model_may_not_open(visits: list[Visitor], tmp_path: Path) -> None:
    visit, other = visits
    (tmp_path / "gold.json").write_text("the answer")
    for url in (
        "file:///etc/passwd", f"file://{tmp_path}/gold.json", "file:", "/\\etc", "//example.com/",
        "javascript:alert(1)", "JaVaScRiPt:alert(1)", "data:text/html,hi", "blob:http://zoo.test/1",
        "chrome://version", "chrome://crash", "view-source:http://zoo.test/", "about:blank",
        "devtools://x", "ftp://zoo.test/", "https://zoo.test/", "ws://zoo.test/",
        "http://zoo.test:81/", "http://user@zoo.test/", "http://zoo.test@example.com/",
        "http://example.com/", "example.com",
        "http://127.0.0.1/", "http://[::1]/", "http://localhost/", "http://0/", "http://zoo.test./",
        f"http://{session_of(other).origin.name}/", f"http://{session_of(visit).origin.name}/",
        "http://xn--zoo.test/", "http://zoo.test\t.example.com/", "\x00", "", "x" * 5000,
    ):  # fmt: skip
        text = visit.attempt("goto", url=url)
        assert visit.last.error == "failed" or visit.seen.url.startswith("http://zoo.test/"), (
            url,
            text,
        )
        assert "the answer" not in text and "root:" not in text
    assert (
        "zoo.test" in visit.do("read") and session_of(visit).origin.name not in visit.last.content
    )


def test_links_that_lead_away(visits: list[Visitor]) -> None:
    visit = visits[0]
    for name in ("file", "data", "outside", "loopback", "away", "crash"):
        visit.do("goto", url="/links")
        text = visit.click(name, "link")
        assert "root:" not in text and "hi" not in str(visit.seen.lines)
        assert visit.seen.url.startswith(("http://zoo.test/links", "chrome-error:", "about:blank"))
    assert visit.do("goto", url="/") and visit.seen.title == "Zoo"


def test_what_a_page_can_fetch(visits: list[Visitor], service: int) -> None:
    visit, other = visits
    targets = [
        f"http://127.0.0.1:{service}/",
        f"http://localhost:{service}/",
        "http://127.0.0.1:8000/",
        "http://192.0.2.1/",
        "http://example.com/",
        f"http://{session_of(other).origin.name}/",
        f"http://{'0' * 32}.test/",
    ]
    assert reachable(visit, targets) == ["shut", "shut", "shut", "shut", "shut", "open", "open"]
    # The last two reach the front, which knows a name and does not give away which names there are.
    assert answers(visit, targets[-2:]) == [(403, "no such site")] * 2
    assert answers(visit, ["/data"]) == [(200, "fetched")]


def reachable(visit: Visitor, targets: list[str]) -> list[str]:
    visit.do("goto", url="/reach#" + quote(json.dumps(targets)))
    for _ in range(20):
        visit.do("wait")
        said = visit.seen.lines[0].text
        if said != "trying":
            return said.split(",")
    raise AssertionError("the page never came to an end")


def answers(visit: Visitor, targets: list[str]) -> list[tuple[int, str]]:
    """What the server says to a context's own requests, which no page could read."""

    async def ask(session: Session) -> list[tuple[int, str]]:
        found = []
        for target in targets:
            page = await session.context.new_page()
            url = target if target.startswith("http") else session.real(target)
            response = await page.goto(url)
            found.append((response.status, await page.inner_text("body")))
            await page.close()
        return found

    found: list[tuple[int, str]] = inside(visit, ask)
    return found


def test_the_browser_sees_no_file_and_no_network_of_the_host(
    visits: list[Visitor], service: int, tmp_path: Path
) -> None:
    """The wall itself, past the tools and past every rule inside Chromium."""
    visit = visits[0]
    (tmp_path / "gold.json").write_text("the answer")
    root = str(Path(__file__).parents[2])

    async def look(session: Session) -> list[str]:
        found = []
        for url in (f"file://{tmp_path}/gold.json", "file:///etc/passwd", f"file://{root}/"):
            page = await session.context.new_page()
            try:
                await page.goto(url, timeout=5000)
                found.append(await page.inner_text("body"))
            except Exception as error:
                found.append("FILE_NOT_FOUND" if "ERR_FILE_NOT_FOUND" in str(error) else str(error))
            await page.close()
        return found

    assert inside(visit, look) == ["FILE_NOT_FOUND"] * 3
    mains = [
        pid
        for pid in processes("--remote-debugging-pipe") - processes("--type=")
        if "chromium" in program(pid)
    ]
    assert mains
    for main in mains:
        status = dict(
            line.split(":", 1) for line in Path(f"/proc/{main}/status").read_text().splitlines()
        )
        assert "0" not in status["Uid"].split() and int(status["CapEff"], 16) == 0
        assert status["NoNewPrivs"].strip() == "1"
        devices = Path(f"/proc/{main}/net/dev").read_text().splitlines()[2:]
        assert [line.split(":")[0].strip() for line in devices] == ["lo"]
        listening = Path(f"/proc/{main}/net/tcp").read_text()
        assert f":{service:04X} " not in listening and f":{8000:04X} " in listening


def test_chromium_keeps_its_own_sandbox(visits: list[Visitor]) -> None:
    visits[0].do("goto", url="/")
    if not chromium._own_sandbox:
        pytest.skip("Chromium's own sandbox does not work on this machine")
    renderers = processes("--type=renderer")
    assert renderers
    for pid in renderers:
        assert "Seccomp:\t2" in Path(f"/proc/{pid}/status").read_text()


def test_name_and_secret_are_both_needed(visits: list[Visitor]) -> None:
    one, two = (session_of(visit).origin for visit in visits)
    front = browser_of(visits[0]).front
    assert front is browser_of(visits[1]).front, "these two share a browser"
    assert len(one.name) == 32 + len(".test") and len(one.secret) == 32
    for name, secret, status in (
        (one.name, one.secret, 200),
        (one.name, two.secret, 403),
        (one.name, "", 403),
        (two.name, one.secret, 403),
        ("unknown.test", one.secret, 403),
    ):
        assert asked(front, name, {SECRET: secret}) == status


@contextlib.contextmanager
def second_door(front: Front) -> Iterator[tuple[str, int]]:
    """Another address at which a front serves, on this machine's own loopback device."""
    door = socket.create_server(("127.0.0.1", 0))
    address = door.getsockname()
    kept, front._server = front._server, None
    engine.engine().call(front.listen(door))
    server, front._server = front._server, kept
    assert server is not None
    try:
        yield address
    finally:
        engine.engine().loop.call_soon_threadsafe(server.close)


def asked(front: Front, host: str, headers: dict[str, str]) -> int:
    """The status of a request that comes in on a second door."""
    with second_door(front) as (name, port):
        connection = http.client.HTTPConnection(name, port, timeout=10)
        connection.request("GET", "/", headers={"Host": host, "Connection": "close", **headers})
        status = connection.getresponse().status
        connection.close()
        return status


def test_hostile_requests_end_their_connection_alone(visits: list[Visitor]) -> None:
    with second_door(browser_of(visits[0]).front) as address:
        for sent in (
            b"", b"\r\n\r\n", b"GET\r\n\r\n", b"x" * 100_000, b"\xff" * 50 + b"\r\n\r\n",
            b"GET / HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n",
            b"GET / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
            b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        ):  # fmt: skip
            with socket.create_connection(address, timeout=10) as peer:
                peer.sendall(sent)
                peer.shutdown(socket.SHUT_WR)
                answer = received(peer)
                assert answer == b"" or answer.startswith(b"HTTP/1.1 403 "), (sent, answer)
    assert visits[0].do("goto", url="/second")


def received(peer: socket.socket) -> bytes:
    try:
        return peer.recv(100)
    except ConnectionResetError:
        return b""


def test_storage_of_an_episode_is_its_own(visits: list[Visitor]) -> None:
    one, two = visits
    one.do("goto", url="/stored")
    one.click("Store")
    assert '"kept,too"' in one.do("goto", url="/stored")
    assert '"kept,too"' not in two.do("goto", url="/stored")
    one.env.reset(seed=2)
    assert '"kept,too"' not in one.do("goto", url="/stored")


def test_without_a_wall_only_when_asked_for() -> None:
    env = Zoo(isolation="none", **LONG)
    with pytest.warns(chromium.BrowserWarning, match="isolation='none'"):
        env.reset(seed=1)
    assert "Zoo" in Visitor(env).do("read")
    env.close()
