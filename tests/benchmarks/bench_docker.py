"""Speeds of the docker sandbox beside the namespace sandbox's, interleaved in one run.

    python -m tests.benchmarks.bench_docker [--rounds 15] [--out FILE]

It starts an engine of its own, as the tests do. Figures are wall time, medians with the least and
the largest; on a busy machine look at the ratios, whose two sides are measured back to back. No
figure fails the run: the log says what was met.
"""

import argparse
import statistics
import warnings
from pathlib import Path

from agent_envs.sandbox import Sandbox, close_zygotes, probe
from agent_envs.sandbox.docker.engine import engine
from tests.benchmarks.bench_sandbox import FILES, HEAP, LARGE, TOUCH
from tests.benchmarks.programs import ROOT
from tests.benchmarks.report import Bench, Log, machine, timed
from tests.sandbox.engine import IMAGE, running, why_not

BACKENDS = ("namespace", "docker")
MOST = 1.5
"""Times what the same takes in `namespace`."""
FRESH = 20.0
"""Milliseconds."""


def compare(bench: Bench, what: str, values: dict[str, list[float]]) -> None:
    """Both backends' times, and their ratio."""
    for name in BACKENDS:
        bench.add(f"{what}, {name}", values[name])
    ratio = statistics.median(values["docker"]) / statistics.median(values["namespace"])
    bench.ratio(f"{what}, docker / namespace", ratio, MOST)


def calls(bench: Bench) -> None:
    """The same call in both, in turn."""
    boxes = {name: Sandbox(name, limits=LARGE) for name in BACKENDS}
    values: dict[str, list[float]] = {name: [] for name in BACKENDS}
    for _ in range(bench.rounds * 20):
        for name, box in boxes.items():
            values[name].append(timed(lambda: box.run_python("x=1")))  # noqa: B023
    compare(bench, "call", values)
    for box in boxes.values():
        box.close()


def snapshots(bench: Bench) -> None:
    """Snapshot and rollback with 10 MB of heap and 200 files of 10 KB, 10 of them changed."""
    boxes = {name: Sandbox(name, limits=LARGE) for name in BACKENDS}
    taken: dict[str, list[float]] = {name: [] for name in BACKENDS}
    back: dict[str, list[float]] = {name: [] for name in BACKENDS}
    bases = {}
    for name, box in boxes.items():
        box.run_python(HEAP.format(10))
        box.run_python(FILES.format(200))
        bases[name] = box.snapshot()
    for _ in range(bench.rounds * 5):
        for name, box in boxes.items():
            box.run_python(TOUCH.format(10, 200))
            made: list[object] = []
            taken[name].append(timed(lambda: made.append(box.snapshot())))  # noqa: B023
            back[name].append(timed(lambda: box.rollback(bases[name])))  # noqa: B023
            box.release(made[0])  # type: ignore[arg-type]
    compare(bench, "snapshot", taken)
    compare(bench, "rollback", back)
    for box in boxes.values():
        box.close()


def starts(bench: Bench) -> None:
    """A fresh session of a container that is there, in turn with one of `namespace`."""
    values: dict[str, list[float]] = {name: [] for name in BACKENDS}
    for _ in range(bench.rounds * 5):
        for name in BACKENDS:
            boxes: list[Sandbox] = []
            values[name].append(timed(lambda: boxes.append(Sandbox(name))))  # noqa: B023
            boxes[0].close()
    bench.add("fresh session, namespace", values["namespace"])
    bench.add("fresh session from a container that is there, docker", values["docker"], FRESH)


def containers(bench: Bench) -> None:
    """What the pool saves: a container of its own for a session, and a plain one's whole life."""
    own, plain = [], []
    for _ in range(bench.rounds):
        close_zygotes()
        boxes: list[Sandbox] = []
        own.append(timed(lambda: boxes.append(Sandbox("docker"))))  # noqa: B023
        boxes[0].close()
        with engine() as client:
            argv = ["python3", "-c", "pass"]
            plain.append(
                timed(
                    lambda: client.containers.run(IMAGE, argv, network_mode="none", remove=True)  # noqa: B023
                )
            )
    bench.add("first session of a container", own)
    bench.add("a container that runs python3 -c pass", plain)


def measure(rounds: int) -> Bench:
    """Everything, in order."""
    bench = Bench(rounds)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        calls(bench)
        snapshots(bench)
        starts(bench)
        containers(bench)
    return bench


def main() -> None:
    """Measure, and write the log."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "measured" / "docker.md")
    arguments = parser.parse_args()
    if reason := why_not():
        raise SystemExit(f"nothing to measure: {reason}")
    one = running()
    try:
        report = probe("docker")
        if not report.works:
            raise SystemExit(f"nothing to measure: {report.text()}")
        log = Log("Speed: the docker sandbox", f"bench_docker --rounds {arguments.rounds}")
        bench = measure(arguments.rounds)
        with engine() as client:
            told = client.info()
        close_zygotes()
    finally:
        one.remove()
    kind = f"{told['ServerVersion']}, {told['Driver']}, cgroups v{told.get('CgroupVersion', 1)}"
    facts = [f"Machine: {machine([])}", f"Engine: docker {kind}; {report.capabilities}"]
    log.write(arguments.out, facts, bench.table())


if __name__ == "__main__":
    main()
