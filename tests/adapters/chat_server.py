"""An OpenAI-compatible chat endpoint on this machine whose model is a function of the messages."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Reply = Callable[[list[dict[str, Any]], dict[str, Any]], dict[str, Any]]
"""Messages and the whole request in; the assistant's message out, with a `finish_reason`."""


@contextmanager
def serving(reply: Reply) -> Iterator[str]:
    """The base URL while it is up."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            message = {"role": "assistant", "content": "", **reply(body["messages"], body)}
            whole = _completion(body, message)
            kind = "text/event-stream" if body.get("stream") else "application/json"
            data = _events(whole) if body.get("stream") else json.dumps(whole).encode()
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        server.server_close()


def _completion(body: dict[str, Any], message: dict[str, Any]) -> dict[str, Any]:
    why = message.pop("finish_reason", "tool_calls" if message.get("tool_calls") else "stop")
    return {
        "id": "c1",
        "object": "chat.completion",
        "created": 0,
        "model": body.get("model", "script"),
        "choices": [{"index": 0, "message": message, "finish_reason": why}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    }


def _events(whole: dict[str, Any]) -> bytes:
    """A completion as the one chunk of a stream."""
    [choice] = whole["choices"]
    delta = choice.pop("message")
    for index, call in enumerate(delta.get("tool_calls") or ()):
        call["index"] = index
    chunk = {**whole, "object": "chat.completion.chunk", "choices": [{**choice, "delta": delta}]}
    return f"data: {json.dumps(chunk)}\n\ndata: [DONE]\n\n".encode()
