"""Speeds and sizes of the namespace sandbox, with a floor and with peers, interleaved in one run.

    python -m tests.benchmarks.bench_sandbox [--rounds 15] [--out FILE] [--no-peers]

The floor is what no sandbox of this design can beat: a bare fork, exec and reply in an interpreter
as warm as the zygote. Peers run in virtual environments of their own under build/bench. Figures
are wall time, medians with the least and the largest; on a busy machine look at the ratios, whose
two sides are measured back to back. No figure fails the run: the log says what was met.
"""

import argparse
import os
import socket
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from agent_envs.sandbox import Limits, Sandbox, close_zygotes, probe
from agent_envs.sandbox.inner.modules import USUAL
from agent_envs.sandbox.interpreter import FLAGS, choose
from tests.benchmarks.programs import PEERS, ROOT, SCRATCH, Program, interpreter
from tests.benchmarks.report import Bench, Log, Result, machine, proportional, timed
from tests.sandbox.leftovers import descendants, zygote_pid

INSPECT = ["inspect-ai==0.3.285"]
MEGABYTE = 1 << 20
LARGE = Limits(memory=1024 * MEGABYTE, total_memory=4096 * MEGABYTE, entries=20_000)
FLOOR = """
import gc, os, socket, sys
for name in sys.argv[2].split(): __import__(name)
sock, names = socket.socket(fileno=int(sys.argv[1])), {}
exec(sys.argv[3], names)
gc.freeze()
while code := sock.recv(9999):
    if (pid := os.fork()) == 0:
        exec(code.decode(), names); sock.send(b"done"); os._exit(0)
    os.waitpid(pid, 0)
"""
HEAP = "h = bytearray({} << 20)\nfor i in range(0, len(h), 4096): h[i] = 1"
FILES = """import os
for i in range({}):
    d = f"d{{i % 20}}"; os.makedirs(d, exist_ok=True)
    with open(f"{{d}}/f{{i}}.txt", "wb") as f: f.write(os.urandom(10240))"""
TOUCH = """import random
for i in random.SystemRandom().sample(range({1}), {0}):
    with open(f"d{{i % 20}}/f{{i}}.txt", "wb") as f: f.write(os.urandom(10240))"""


@contextmanager
def floor(heap: str) -> Iterator[Callable[[], object]]:
    """A bare fork, exec and reply, by a process of the sandbox's own interpreter."""
    mine, theirs = socket.socketpair()
    python = choose(None, ()).python
    command = [python, *FLAGS, "-c", FLOOR, str(theirs.fileno()), " ".join(USUAL), heap]
    with subprocess.Popen(command, pass_fds=[theirs.fileno()]) as process, mine:
        theirs.close()

        def call() -> bytes:
            mine.send(b"x=1")
            return mine.recv(99)

        call()
        yield call
        mine.close()
        process.wait()


@contextmanager
def peers(wanted: bool) -> Iterator[dict[str, Program]]:
    """The peers' processes."""
    if not wanted:
        yield {}
        return
    SCRATCH.mkdir(parents=True, exist_ok=True)
    gem = interpreter("gem_math", PEERS["gem_math"])
    inspect = interpreter("inspect_local", INSPECT)
    with ExitStack() as stack:
        running = {}
        for name, python in (("gem_python", gem), ("inspect_local", inspect)):
            running[name] = Program(name, python, SCRATCH / f"{name}.log")
            stack.callback(running[name].close)
        yield running


def calls(bench: Bench, running: dict[str, Program]) -> None:
    """A call against the floor and the peers, round by round."""
    for heap in (0, 10, 100):
        code = HEAP.format(heap)
        with Sandbox("namespace", limits=LARGE) as box, floor(code) as bare:
            box.run_python(code)
            pairs = [
                (timed(bare), timed(lambda: box.run_python("x=1")))  # noqa: B023
                for _ in range(bench.rounds * 20)
            ]
            bares, ours = [bare for bare, _ in pairs], [ours for _, ours in pairs]
            bench.add(f"bare fork-exec-reply, {heap} MB of heap", bares)
            bench.add(f"call, {heap} MB of heap", ours)
            ratio = statistics.median(ours) / statistics.median(bares)
            what = f"call / bare fork-exec-reply, {heap} MB of heap"
            bench.results.append(Result(what, [ratio], 2.0 if heap == 0 else None, "times"))
            bench.point("heap, MB", "call", heap, ours)
    for name, program in running.items():
        against_peer(bench, name, program)


def against_peer(bench: Bench, name: str, program: Program) -> None:
    """How much faster a call is than a peer's."""
    theirs, ratios = [], []
    with Sandbox("namespace") as box:
        for _ in range(bench.rounds):
            one = 1e3 / program.ask(measure="calls", seconds=0.3)["wall"]
            ours = [timed(lambda: box.run_python("print(6*7)")) for _ in range(10)]
            theirs.append(one)
            ratios.append(one / statistics.median(ours))
    bench.add(f"call of {name}", theirs)
    bench.results.append(Result(f"{name} / call", ratios, 6.0, "times", at_least=True))


def starts(bench: Bench) -> None:
    """A fresh session, and its end."""
    begun, closed = [], []
    for _ in range(bench.rounds * 10):
        boxes: list[Sandbox] = []
        begun.append(timed(lambda: boxes.append(Sandbox("namespace"))))  # noqa: B023
        closed.append(timed(boxes[0].close))
    bench.add("fresh session", begun, 6.0)
    bench.add("close", closed)


def snapshots(bench: Bench, heap: int, files: int, changes: dict[int, float | None]) -> None:
    """Snapshot and rollback with so much heap, so many files of 10 KB, and some changed."""
    with Sandbox("namespace", limits=LARGE) as box:
        box.run_python(HEAP.format(heap))
        box.run_python(FILES.format(files))
        base = box.snapshot()
        for changed, bound in changes.items():
            taken, back = [], []
            for _ in range(bench.rounds * 3):
                box.run_python(TOUCH.format(changed, files))
                began = time.perf_counter()
                snapshot = box.snapshot()
                taken.append((time.perf_counter() - began) * 1e3)
                back.append(timed(lambda: box.rollback(base)))
                box.release(snapshot)
            what = f"{heap} MB of heap, {files} files of 10 KB, {changed} changed"
            bench.add(f"snapshot, {what}", taken, bound)
            bench.add(f"rollback, {what}", back, bound)
            if changed == 10 and files == 200:
                bench.point("heap, MB", "snapshot", heap, taken)
                bench.point("heap, MB", "rollback", heap, back)
            if changed == 10 and heap == 10:
                bench.point("files of 10 KB", "snapshot", files, taken)
                bench.point("files of 10 KB", "rollback", files, back)


def many(bench: Bench) -> None:
    """Two hundred sessions alive, and what one of them costs."""
    source = zygote_pid("namespace")
    boxes: list[Sandbox] = []
    before = proportional({source})
    for count in (1, 50, 100, 200):
        while len(boxes) < count:
            boxes.append(Sandbox("namespace"))
            boxes[-1].run_python("x = list(range(1000))")
        each = (proportional({source, *descendants(source)}) - before) / count
        bench.point("live sessions", "MB each", count, [each])
        ours = [timed(lambda: boxes[0].run_python("y=1")) for _ in range(bench.rounds * 3)]
        bench.point("live sessions", "call", count, ours)
    bench.results.append(Result("memory of each of 200 live sessions", [each], 6.0, "MB"))
    for box in boxes:
        box.close()


def copies(bench: Bench) -> None:
    """What a frozen copy costs until its twin writes."""
    with Sandbox("namespace", limits=LARGE) as box:
        box.run_python(HEAP.format(10))
        source = zygote_pid("namespace")
        before = proportional(descendants(source))
        for n in range(100):
            box.run_python(f"n = {n}")
            box.snapshot()
        each = (proportional(descendants(source)) - before) / 100
    bench.results.append(Result("memory of a frozen copy, 10 MB of heap", [each], 1.5, "MB"))


def draw(bench: Bench, path: Path) -> str:
    """The curves as a PNG, where matplotlib is installed."""
    try:
        import matplotlib
    except ModuleNotFoundError:
        return "No PNG: matplotlib is not installed."
    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, plots = pyplot.subplots(1, len(bench.curves), figsize=(13, 4))
    for plot, (against, lines) in zip(plots, bench.curves.items(), strict=True):
        for what, points in lines.items():
            plot.plot(*zip(*sorted(points), strict=True), marker="o", label=what)
        plot.set_xlabel(against)
        plot.set_ylabel("ms (median)" if against != "live sessions" else "ms (median), MB")
        plot.set_ylim(bottom=0)
        plot.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    return f"![Curves against heap, files and live sessions]({path.name})"


def measure(rounds: int, with_peers: bool) -> Bench:
    """Everything, in order."""
    bench = Bench(rounds)
    with peers(with_peers) as running:
        calls(bench, running)
    starts(bench)
    snapshots(bench, 10, 200, {0: 3.0, 10: 3.0, 200: 5.0})
    snapshots(bench, 100, 200, {10: 6.0})
    snapshots(bench, 200, 200, {10: None})
    snapshots(bench, 10, 50, {10: None})
    snapshots(bench, 10, 1000, {10: None})
    many(bench)
    copies(bench)
    return bench


def main() -> None:
    """Measure, and write the log."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "measured" / "sandbox.md")
    parser.add_argument("--no-peers", action="store_true", help="only ours and the floor")
    arguments = parser.parse_args()
    report = probe("namespace")
    if not report.works:
        raise SystemExit(f"nothing to measure: {report.why}")
    options = f" --rounds {arguments.rounds}{' --no-peers' if arguments.no_peers else ''}"
    log = Log("Speed and size: the sandbox", f"bench_sandbox{options}")
    bench = measure(arguments.rounds, not arguments.no_peers)
    close_zygotes()
    versions = [] if arguments.no_peers else [PEERS["gem_math"][0], *INSPECT]
    inside = f"Inside: {choose(None, ()).python}; uid {os.getuid()}; {report.capabilities}"
    picture = draw(bench, arguments.out.with_suffix(".png"))
    log.write(arguments.out, [f"Machine: {machine(versions)}", inside], bench.table(), picture)


if __name__ == "__main__":
    main()
