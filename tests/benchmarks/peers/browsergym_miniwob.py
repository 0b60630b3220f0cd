"""BrowserGym on a MiniWoB++ page, with the system's Chromium; a step does nothing but observe."""

import functools
import http.server
import os
import threading
from pathlib import Path
from typing import Any

import miniwob  # type: ignore[import-not-found,import-untyped,unused-ignore]


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Serves the pages and says nothing."""

    def log_message(self, *args: object) -> None:
        pass


PAGES = functools.partial(Quiet, directory=str(Path(miniwob.__file__).parent / "html"))
SERVER = http.server.ThreadingHTTPServer(("127.0.0.1", 0), PAGES)
threading.Thread(target=SERVER.serve_forever, daemon=True).start()
os.environ["MINIWOB_URL"] = f"http://127.0.0.1:{SERVER.server_port}/miniwob/"

import browsergym.miniwob  # type: ignore[import-not-found]  # noqa: E402, F401
import gymnasium  # noqa: E402
import playwright.sync_api  # noqa: E402

CHROMIUM = os.environ["BENCH_CHROMIUM"]
BROWSER_TYPE: Any = playwright.sync_api.BrowserType
LAUNCH = BROWSER_TYPE.launch


def launch(self: Any, **options: Any) -> Any:
    """Playwright's own, with the browser that is installed here."""
    switches = ["--no-sandbox", *(options.pop("args", None) or [])]
    return LAUNCH(self, **{**options, "executable_path": CHROMIUM, "args": switches})


BROWSER_TYPE.launch = launch
SHIPPED: Any = gymnasium.make("browsergym/miniwob.click-test", headless=True)
SHIPPED.reset(seed=0)


def resets(count: int) -> int:
    """A unit is a reset."""
    for seed in range(count):
        SHIPPED.reset(seed=seed)
    return count


def steps(count: int) -> int:
    """A unit is a step, as the package comes: with a pause before it observes."""
    for _ in range(count):
        SHIPPED.step("noop(0)")
    return count


def steps_at_once(count: int) -> int:
    """A unit is a step without that pause."""
    kept = SHIPPED.unwrapped.pre_observation_delay
    SHIPPED.unwrapped.pre_observation_delay = 0.0
    try:
        return steps(count)
    finally:
        SHIPPED.unwrapped.pre_observation_delay = kept


MEASURES = {"resets": resets, "steps": steps, "steps_at_once": steps_at_once}
