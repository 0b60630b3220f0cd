"""A server with OpenAI's chat API that is as strict as the strictest, and does what a test says."""

import json
import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

Body = dict[str, Any]


@dataclass
class Say:
    """What the server answers with."""

    body: Any = None
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    raw: bytes | None = None
    """The bytes of the body, instead of JSON."""
    length: int | None = None
    """A content length that is not the body's."""
    after: float = 0.0
    """How long it waits before it says anything, in seconds."""
    drip: float = 0.0
    """How long it waits between two bytes of the body."""
    then_close: bool = False
    """Close the connection after the answer without a word, as when it idles for too long."""
    hang_up: bool = False
    """Close the connection without an answer."""


def completion(
    text: str | None = None,
    calls: list[tuple[str, str]] | None = None,
    *,
    reason: str = "stop",
    usage: tuple[int, int] | None = (10, 5),
) -> Body:
    """A chat completion; `calls` are names and argument texts."""
    message: Body = {"role": "assistant", "content": text}
    if calls:
        message["tool_calls"] = [
            {"id": f"c{n}", "type": "function", "function": {"name": name, "arguments": given}}
            for n, (name, given) in enumerate(calls)
        ]
    told: Body = {
        "id": "x",
        "object": "chat.completion",
        "model": "fake-1",
        "choices": [{"index": 0, "message": message, "finish_reason": reason}],
    }
    if usage:
        told["usage"] = {"prompt_tokens": usage[0], "completion_tokens": usage[1]}
    return told


def error(status: int, message: str, code: str | None = None, **headers: str) -> Say:
    """An error in OpenAI's form; `retry_after="1"` is a header."""
    told = {"error": {"message": message, "type": "some_error", "code": code, "param": None}}
    return Say(told, status, {name.replace("_", "-"): value for name, value in headers.items()})


class ChatServer:
    """Calls `answer` with each request's body; whatever breaks OpenAI's rules gets a 400."""

    def __init__(self, answer: Callable[[Body], Say | Body]) -> None:
        self.answer = answer
        self.requests: list[Body] = []
        self.headers: list[dict[str, str]] = []
        self.problems: list[str] = []
        self.at_once = self.most_at_once = self.connections = 0
        self.lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def close(self) -> None:
        """Stop listening; what is being answered is not waited for."""
        self._server.shutdown()
        self._thread.join()
        self._server.socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *given: object) -> None:
        self.close()

    def _said(self, handler: BaseHTTPRequestHandler) -> Say:
        body = json.loads(handler.rfile.read(int(handler.headers["Content-Length"])))
        problem = None if handler.path == "/v1/chat/completions" else f"path {handler.path}"
        problem = problem or wrong_with(body)
        with self.lock:
            self.requests.append(body)
            self.headers.append(dict(handler.headers))
            if problem:
                self.problems.append(problem)
        if problem:
            return error(400, problem)
        said = self.answer(body)
        return said if isinstance(said, Say) else Say(said)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self) -> None:
                super().setup()
                with server.lock:
                    server.connections += 1

            def do_POST(self) -> None:
                with server.lock:
                    server.at_once += 1
                    server.most_at_once = max(server.most_at_once, server.at_once)
                try:
                    send(self, server._said(self))
                except OSError:  # nobody waits for it any more
                    self.close_connection = True
                finally:
                    with server.lock:
                        server.at_once -= 1

            def log_message(self, *given: Any) -> None:
                pass

        return Handler


def send(handler: BaseHTTPRequestHandler, said: Say) -> None:
    """Write an answer, as badly as it says."""
    time.sleep(said.after)
    if said.hang_up:
        handler.close_connection = True
        return
    data = json.dumps(said.body).encode() if said.raw is None else said.raw
    handler.send_response(said.status)
    for name, value in said.headers.items():
        handler.send_header(name, value)
    handler.send_header("Content-Length", str(len(data) if said.length is None else said.length))
    handler.end_headers()
    if said.length is not None or said.then_close:
        handler.close_connection = True
    for byte in [data] if not said.drip else [data[i : i + 1] for i in range(len(data))]:
        handler.wfile.write(byte)
        handler.wfile.flush()
        time.sleep(said.drip)


def wrong_with(body: Body) -> str | None:
    """What OpenAI's API would refuse in a request."""
    if not isinstance(body.get("model"), str) or not body.get("messages"):
        return "no model or no messages"
    waiting: list[str] = []
    for number, message in enumerate(body["messages"]):
        role, content = message.get("role"), message.get("content")
        where = f"messages[{number}]"
        if not set(message) <= {"role", "content", "tool_calls", "tool_call_id"}:
            return f"{where}: unknown fields in {sorted(message)}"
        if role not in ("system", "user", "assistant", "tool") or not isinstance(content, str):
            return f"{where}: role {role!r}, content {content!r}"
        if any(0xD800 <= ord(x) < 0xE000 for x in content):
            return f"{where}: a lone surrogate"
        if role == "tool":
            if message.get("tool_call_id") not in waiting:
                return f"{where}: a tool message that answers no call"
            waiting.remove(message["tool_call_id"])
            continue
        if waiting:
            return f"{where}: tool calls {waiting} are not answered"
        waiting = [call["id"] for call in message.get("tool_calls", ())]
        for call in message.get("tool_calls", ()):
            name, arguments = call["function"]["name"], call["function"]["arguments"]
            if not re.fullmatch("[A-Za-z0-9_-]{1,64}", name):
                return f"{where}: the name {name!r}"
            if not isinstance(json.loads(arguments), dict):
                return f"{where}: the arguments {arguments!r}"
        if len(set(waiting)) < len(waiting):
            return f"{where}: two calls with one id"
    return f"tool calls {waiting} are not answered" if waiting else None
