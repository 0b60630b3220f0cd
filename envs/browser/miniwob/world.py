"""A MiniWoB++ page behind a browser, as the `miniwob` package ships it.

The page draws its problem from a seed, and its clock moves with the calls alone. It grades itself:
the first end of its episode counts, and it starts no second one.
"""

import json
import mimetypes
from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from agent_envs.envs.browser.sites.base import Request, Response
from agent_envs.errors import BackendUnavailable

RESULT = "JSON.stringify(window.agentEnvsResult ?? null)"
"""What a page says of its end: null before it, then `{"raw": 1, "reason": ...}`."""

_SEEDED = "<script>Math.seedrandom({seed})</script>"
_START = """<script>
addEventListener('load', () => {{
  const end = core.endEpisode, start = core.startEpisodeReal;
  core.endEpisode = (raw, ...more) => {{
    if (core.EP_TIMER !== null)
      window.agentEnvsResult ??= {{raw, reason: String(more[1] ?? '')}};
    end(raw, ...more);
  }};
  core.EPISODE_MAX_TIME = 1e9;
  Math.seedrandom({seed});
  start();
  core.startEpisodeReal = () => {{}};
  core.hideDisplay();
}});
</script>"""


@cache
def folder() -> Path:
    """Where the pages are. Raises BackendUnavailable where the package is not installed."""
    spec = find_spec("miniwob")
    if spec is None or spec.origin is None:
        raise BackendUnavailable('tasks="miniwob" needs its pages: pip install miniwob')
    return Path(spec.origin).parent / "html"


@cache
def pages() -> tuple[str, ...]:
    """The names of all pages, sorted."""
    return tuple(sorted(path.stem for path in (folder() / "miniwob").glob("*.html")))


class PageWorld:
    """One page under one seed. It keeps its whole state in its scripts."""

    name = "miniwob.test"
    scripted = timed = True

    def __init__(self, data: Mapping[str, Any]) -> None:
        """`data`: the task's, with `page` and `seed`. Raises KeyError for a page that is none."""
        if data["page"] not in pages():
            raise KeyError(f"no MiniWoB++ page {data['page']!r}")
        self._page, self._seed = str(data["page"]), int(data["seed"])

    def respond(self, request: Request) -> Response:
        """The page, which starts at once, and the files that it asks for."""
        if request.path == "/":
            return Response(302, [("Location", f"/miniwob/{self._page}.html")], b"")
        root = folder().resolve()
        path = (root / request.path.lstrip("/")).resolve()
        if not path.is_relative_to(root) or not path.is_file():
            return Response(404, [("Content-Type", "text/plain")], b"no such file")
        body = path.read_bytes()
        if path == root / "miniwob" / f"{self._page}.html":
            body = self._prepared(body)
        kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
        return Response(200, [("Content-Type", f"{kind}; charset=utf-8")], body)

    def _prepared(self, body: bytes) -> bytes:
        """The page with its seed, first after the script that makes chance seedable."""
        tag = b'<script src="../core/core.js"></script>'
        seeded = _SEEDED.format(seed=self._seed).encode()
        start = _START.format(seed=self._seed).encode()
        return body.replace(tag, tag + seeded, 1).replace(b"</head>", start + b"</head>", 1)

    def cookies(self) -> Mapping[str, str]:
        """None."""
        return {}

    def save(self) -> tuple[()]:
        """Nothing: the page has it all."""
        return ()

    def load(self, saved: Any) -> None:
        """Nothing to do."""

    def close(self) -> None:
        """Nothing to do."""


def raw_reward(said: Any) -> float | None:
    """The raw reward in what a page says of its end; None before the end, or for nonsense.

    A page's raw rewards lie in [-1, 1]; a page that says something else has been tampered with."""
    try:
        found = json.loads(said)
        raw = None if found is None else float(found["raw"])
    except (KeyError, TypeError, ValueError):
        return None
    return raw if raw is None or -1.0 <= raw <= 1.0 else None
