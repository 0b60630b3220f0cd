"""Speeds and sizes of the browser environment, with a floor and BrowserGym, interleaved in one run.

    python -m tests.benchmarks.bench_browser [--rounds 15] [--out FILE] [--no-peers]

The floor is raw Playwright in the same browser on the same site: what nobody can beat who drives a
browser through it. BrowserGym runs in a virtual environment of its own under build/bench, with
its own pages. Figures are wall time, medians with the least and the largest; on a busy machine look
at the ratios, whose two sides are measured in turns. No figure fails the run: the log says what was
met.
"""

import argparse
import os
import statistics
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from agent_envs import ToolCall
from agent_envs.envs.browser.engine import close_browsers, engine
from agent_envs.envs.browser.env import BrowserEnv
from agent_envs.envs.browser.front import SECRET
from agent_envs.envs.browser.program import find
from agent_envs.envs.browser.reading import read
from agent_envs.envs.browser.session import Session
from tests.benchmarks.programs import ROOT, SCRATCH, Program, interpreter
from tests.benchmarks.report import Bench, Log, Result, machine, proportional, timed
from tests.sandbox.leftovers import descendants

BROWSERGYM = ["browsergym-core==0.14.3", "browsergym-miniwob==0.14.3", "miniwob==1.1.0"]
LINKS = ("Cart", "Home")
MANY = (1, 2, 4, 8, 16)
THOUGHT = 0.3
"""Seconds between two measurements, as a model would take: what goes on beside them comes to an
end, the old context's and the next one's."""


def fresh() -> BrowserEnv:
    """An env that has opened the shop."""
    env = BrowserEnv(max_turns=10**6, max_calls=10**6)
    restart(env)
    return env


def restart(env: BrowserEnv) -> None:
    """A reset, and the first observation."""
    task = next(t for t in env.tasks.split("train") if t.data["site"] == "shop")
    env.reset(seed=1, options={"task": task})
    env.call(ToolCall("read", {}))


def session_of(env: BrowserEnv) -> Session:
    """The live session."""
    session = env._now._session
    assert session is not None
    return session


class Clicker:
    """Follows two links in turns."""

    def __init__(self, env: BrowserEnv) -> None:
        self.env, self.count = env, 0
        self.text = env.call(ToolCall("read", {})).content

    def __call__(self) -> None:
        """A click, and what is seen after it."""
        number = read(self.text).number("link", LINKS[self.count % 2])
        self.text = self.env.call(ToolCall("click", {"ref": number})).content
        self.count += 1


class Raw:
    """The same with Playwright alone, in the same browser and on the same site."""

    def __init__(self, env: BrowserEnv) -> None:
        self.session, self.count = session_of(env), 0
        self.context = self.page = self.stored = None
        self.run(self._open)

    def run(self, work: Callable[[], Awaitable[Any]]) -> float:
        """Milliseconds of a piece of work on the engine's thread."""

        async def measured() -> float:
            began = time.perf_counter()
            await work()
            return (time.perf_counter() - began) * 1e3

        return engine().call(measured())

    async def _fresh(self, stored: Any, path: str) -> tuple[Any, Any]:
        context = await self.session.browser.pw.new_context(
            extra_http_headers={SECRET: self.session.origin.secret}, storage_state=stored
        )
        page = await context.new_page()
        await page.goto(self.session.real(path))
        return context, page

    async def _open(self) -> None:
        self.stored = await self.session.context.storage_state()
        self.context, self.page = await self._fresh(self.stored, "/")

    def reset(self) -> float:
        """Context, page, goto."""
        return self._and_close("/")

    def restore(self) -> float:
        """Context with what was stored, page, goto."""
        return self._and_close("/cart")

    def _and_close(self, path: str) -> float:
        made: list[Any] = []

        async def work() -> None:
            made.append((await self._fresh(self.stored, path))[0])

        took = self.run(work)
        self.run(made[0].close)
        return took

    def click(self) -> float:
        """A click, and the accessibility snapshot."""

        async def work() -> None:
            assert self.page is not None
            name = LINKS[self.count % 2]
            await self.page.get_by_role("link", name=name, exact=True).click()
            await self.page.aria_snapshot(mode="ai")
            self.count += 1

        return self.run(work)

    def close(self) -> None:
        """Free the context."""
        assert self.context is not None
        self.run(self.context.close)


@contextmanager
def peer(wanted: bool) -> Iterator[Program | None]:
    """BrowserGym's process."""
    if not wanted:
        yield None
        return
    SCRATCH.mkdir(parents=True, exist_ok=True)
    os.environ["BENCH_CHROMIUM"] = find()
    python = interpreter("browsergym_miniwob", BROWSERGYM)
    program = Program("browsergym_miniwob", python, SCRATCH / "browsergym_miniwob.log")
    try:
        yield program
    finally:
        program.close()


def after_a_thought(measured: Callable[[], float]) -> float:
    """A measurement when nothing else goes on."""
    time.sleep(THOUGHT)
    return measured()


def ratio(bench: Bench, what: str, ours: list[float], theirs: list[float], most: float) -> None:
    """Both sides, and how many times as long ours takes."""
    bench.add(f"{what}: ours", ours)
    bench.add(f"{what}: raw Playwright", theirs)
    times = statistics.median(ours) / statistics.median(theirs)
    bench.ratio(f"{what}: ours / raw", times, most)


def against_raw(bench: Bench) -> tuple[list[float], list[float]]:
    """Reset, click and rollback, in turns with raw Playwright; our resets and clicks."""
    env = fresh()
    raw = Raw(env)
    alone, resets, raw_resets = [], [], []
    other = fresh()
    for _ in range(bench.rounds):
        alone.append(timed(lambda: other.reset(seed=1)))
        resets.append(after_a_thought(lambda: timed(lambda: restart(other))))
        raw_resets.append(after_a_thought(raw.reset))
    bench.add("reset alone, which opens the page when it is needed", alone)
    ratio(bench, "reset with the first observation", resets, raw_resets, 1.5)
    bench.add(
        "the same, one reset right after another", [timed(lambda: restart(other)) for _ in resets]
    )
    clicker, clicks, raw_clicks = Clicker(other), [], []
    for _ in range(bench.rounds * 2):
        clicks.append(timed(clicker))
        raw_clicks.append(raw.click())
    ratio(bench, "click and observe", clicks, raw_clicks, 1.5)
    rollback(bench, other, raw)
    raw.close()
    env.close()
    other.close()
    return resets, clicks


def rollback(bench: Bench, env: BrowserEnv, raw: Raw) -> None:
    """Back to a cart that was looked at, with two pages of history."""
    env.call(ToolCall("goto", {"url": "/cart"}))
    taken, back, raw_back = [], [], []
    kept = env.snapshot()

    def go_back() -> None:
        env.rollback(kept)
        env.call(ToolCall("read", {}))

    for _ in range(bench.rounds):
        env.call(ToolCall("goto", {"url": "/"}))
        taken.append(timed(lambda: env.release(env.snapshot())))
        back.append(after_a_thought(lambda: timed(go_back)))
        raw_back.append(after_a_thought(raw.restore))
    bench.add("snapshot", taken)
    ratio(bench, "rollback with an observation", back, raw_back, 2.0)


def against_peer(bench: Bench, program: Program, resets: list[float], clicks: list[float]) -> None:
    """How many times faster than BrowserGym."""
    for measure, ours, least in (
        ("resets", resets, 10.0),
        ("steps", clicks, 3.0),
        ("steps_at_once", clicks, None),
    ):
        rates = [program.ask(measure=measure, seconds=3.0)["wall"] for _ in range(3)]
        theirs = [1e3 / rate for rate in rates]
        bench.add(f"BrowserGym: {measure.replace('_', ' ')}", theirs)
        times = statistics.median(theirs) / statistics.median(ours)
        what = f"BrowserGym's {measure.replace('_', ' ')} / ours"
        bench.results.append(Result(what, [times], least, "times", at_least=True))


def many(bench: Bench) -> None:
    """Memory and speed with some episodes alive, each stepped by a thread of its own."""
    envs: list[BrowserEnv] = [fresh()]
    pid = os.getpid()
    first = proportional(descendants(pid))
    envs += [fresh() for _ in range(MANY[-1] - 1)]
    each = (proportional(descendants(pid)) - first) / (len(envs) - 1)
    bench.results.append(Result(f"memory of each of {len(envs)} episodes", [each], 25.0, "MB"))
    for count in MANY:
        rate = together([Clicker(env) for env in envs[:count]], bench.rounds)
        bench.point("live episodes", "steps/s", count, [rate])
        bench.results.append(Result(f"steps of {count} live episodes", [rate], unit="/s"))
    each = (proportional(descendants(pid)) - first) / (len(envs) - 1)
    bench.results.append(Result("the same after these steps", [each], unit="MB"))
    for env in envs:
        env.close()


def together(clickers: list[Clicker], rounds: int) -> float:
    """Steps a second of all of them."""
    each = max(2, rounds * 4 // len(clickers))

    def work(clicker: Clicker) -> None:
        for _ in range(each):
            clicker()

    threads = [threading.Thread(target=work, args=(clicker,)) for clicker in clickers]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return each * len(clickers) / (time.perf_counter() - began)


def draw(bench: Bench, path: Path) -> str:
    """The throughput as a PNG, where matplotlib is installed."""
    try:
        import matplotlib
    except ModuleNotFoundError:
        return "No PNG: matplotlib is not installed."
    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, plot = pyplot.subplots(figsize=(6, 4))
    for what, points in bench.curves["live episodes"].items():
        plot.plot(*zip(*sorted(points), strict=True), marker="o", label=what)
    plot.set_xlabel("live episodes in one browser")
    plot.set_ylabel("clicks with an observation, a second")
    plot.set_ylim(bottom=0)
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    return f"![Throughput against live episodes]({path.name})"


def measure(rounds: int, with_peer: bool) -> Bench:
    """Everything, in order."""
    bench = Bench(rounds)
    with peer(with_peer) as program:
        resets, clicks = against_raw(bench)
        if program is not None:
            against_peer(bench, program, resets, clicks)
    many(bench)
    return bench


def main() -> None:
    """Measure, and write the log."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "measured" / "browser.md")
    parser.add_argument("--no-peers", action="store_true", help="only ours and the floor")
    arguments = parser.parse_args()
    options = f" --rounds {arguments.rounds}{' --no-peers' if arguments.no_peers else ''}"
    log = Log("Speed and size: the browser", f"bench_browser{options}")
    bench = measure(arguments.rounds, not arguments.no_peers)
    close_browsers()
    where = f"Machine: {machine([] if arguments.no_peers else BROWSERGYM)}; {find()}"
    picture = draw(bench, arguments.out.with_suffix(".png"))
    log.write(arguments.out, [where], bench.table(), picture)


if __name__ == "__main__":
    main()
