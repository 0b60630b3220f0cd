"""Speed of the code environment: verifications, all of HumanEval with mutants, and episodes.

    python -m tests.benchmarks.bench_code [--rounds 5] [--seconds 20] [--tasks FILE] [--out FILE]

`--tasks` is a file in HumanEval's format; without one its two parts are left out, and say so. A
verification is that of the gold solution, in a warm process: the first round is not counted. Of
every task three wrong solutions are graded too: nothing, a changed result, and the prompt's
helpers redefined. Episodes are the oracle's (write, run the tests, be graded), so many envs at
once in threads of one process. No figure fails the run: the log says what was met.
"""

import argparse
import ast
import os
import statistics
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from agent_envs.envs.code.env import Code
from agent_envs.envs.code.humaneval import read_tasks
from agent_envs.policy import oracle
from agent_envs.rollout import rollout
from agent_envs.sandbox import close_zygotes, probe_all
from agent_envs.task import Task
from agent_envs.verifiers.unit_tests import close_kept, verify
from tests.benchmarks.programs import ROOT
from tests.benchmarks.report import Log, machine, spread, table

FOLDER = Path(os.environ.get("AGENT_ENVS_DATA", ROOT.parent / "shared" / "data"))
FILE = FOLDER / "code" / "humaneval_000_081.jsonl.gz"
TARGET = 30.0
"""Milliseconds of one verification, at the median of tasks."""
AT_ONCE = (1, 2, 4, 16, 64)
LEVELS_PLAYED = "Levels 0 to 3 in turn: write the solution, run the visible tests, be graded."


@dataclass
class Row:
    """One task: whether it tells right from wrong, and how long that takes."""

    task: Task
    gold: bool
    wrong: dict[str, bool]
    """By kind of wrong solution: whether it passed."""
    milliseconds: list[float]
    """Of a verification of the gold solution, each round."""

    @property
    def sound(self) -> bool:
        """Whether the gold solution passes, and nothing else."""
        return self.gold and not any(self.wrong.values())

    def cells(self) -> list[str]:
        """For the table."""
        said = ["passes" if self.gold else "FAILS"]
        said += ["PASSES" if passed else "fails" for passed in self.wrong.values()]
        return [self.task.id, *said, spread(self.milliseconds, ".1f")]


def wrong_solutions(task: Task) -> dict[str, str]:
    """Nothing; every result in a tuple with one more; helpers that agree with anything."""
    name, source = task.data["entry_point"], task.data["solution"]["solution.py"]
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Return) and node.value is not None:
            node.value = ast.Tuple([node.value, ast.Constant("more")], ast.Load())
    functions = [n.name for n in ast.parse(source).body if isinstance(n, ast.FunctionDef)]
    helpers = [f"def {one}(*a, **k):\n    return None\n" for one in {*functions, name}]
    return {
        "empty": task.data["files"]["solution.py"],
        "mutated": ast.unparse(ast.fix_missing_locations(tree)),
        "helpers redefined": "\n".join(sorted(helpers)),
    }


def timed(task: Task) -> tuple[bool, float]:
    """Whether the gold solution passes, and the milliseconds that it takes to say so."""
    start = time.perf_counter()
    passed = verify(task.data, task.data["solution"]).passed
    return passed, 1000 * (time.perf_counter() - start)


def verifications(tasks: list[Task], rounds: int) -> list[Row]:
    """All tasks, round after round."""
    rows = []
    for task in tasks:
        wrong = {
            kind: verify(task.data, {"solution.py": source}).passed
            for kind, source in wrong_solutions(task).items()
        }
        rows.append(Row(task, timed(task)[0], wrong, []))
    for _ in range(rounds):
        for row in rows:
            passed, milliseconds = timed(row.task)
            row.gold &= passed
            row.milliseconds.append(milliseconds)
    return rows


def episodes(count: int, seconds: float) -> tuple[int, float, int]:
    """How many episodes `count` envs play in so many seconds, the seconds that it took, and how
    many of them were not solved."""
    until = time.monotonic() + seconds
    played = [0] * count
    failed = [0] * count

    def work(number: int) -> None:
        with Code(split="train", level=number % 4) as env:
            player = oracle(Code, env.tasks)
            tasks = env.tasks.split("train", number % 4)
            while time.monotonic() < until or not played[number]:
                task = tasks[(number + played[number]) % len(tasks)]
                (episode,) = rollout([env], player, [task], progress=False)
                failed[number] += not (episode.verdict and episode.verdict.passed)
                played[number] += 1

    threads = [threading.Thread(target=work, args=(n,)) for n in range(count)]
    start = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(played), time.monotonic() - start, sum(failed)


def of_humaneval(rows: list[Row]) -> str:
    """The two parts about HumanEval."""
    middle = [statistics.median(row.milliseconds) for row in rows]
    median = statistics.median(middle)
    met = "met" if median <= TARGET else "NOT MET"
    sound = sum(row.sound for row in rows)
    verdict = "met" if sound == len(rows) else "NOT MET"
    kinds = list(rows[0].wrong)
    head = ["task", "gold", *kinds, "verification of the gold solution, ms"]
    width = f"{min(middle):.1f} to {max(middle):.1f}"
    targets = [
        ["one HumanEval verification, median of tasks (least to largest)",
         f"at most {TARGET:g} ms", f"{median:.1f} ({width}) ms", met],
        ["tasks of which the gold solution passes and no wrong one does",
         f"all {len(rows)}", f"{sound}", verdict],
    ]  # fmt: skip
    every = table(head, [row.cells() for row in rows])
    return f"{table(['measure', 'target', 'value', 'verdict'], targets)}\n\n{every}"


def of_episodes(seconds: float) -> str:
    """The part about episodes."""
    rows = []
    for count in AT_ONCE:
        played, took, failed = episodes(count, seconds)
        rows.append([str(count), str(played), f"{played / took:.1f}", str(failed)])
    return table(["envs at once", "episodes", "episodes/s", "not solved"], rows)


def main() -> None:
    """Measure, and write the log."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=20.0, help="for each number of envs")
    parser.add_argument("--tasks", type=Path, default=FILE, help="in HumanEval's format")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "measured" / "code.md")
    arguments = parser.parse_args()
    isolating = [r for r in probe_all() if r.capabilities and r.capabilities.isolated]
    if not isolating:
        raise SystemExit("nothing to measure: no sandbox works here; see agent-envs doctor")
    options = f"--rounds {arguments.rounds} --seconds {arguments.seconds:g}"
    log = Log("Speed: the code environment", f"bench_code {options}")
    humaneval = f"Left out: there is no {arguments.tasks.name}; set AGENT_ENVS_DATA or --tasks."
    if arguments.tasks.exists():
        tasks = read_tasks(arguments.tasks, "train")
        humaneval = of_humaneval(verifications(tasks, arguments.rounds))
    played = of_episodes(arguments.seconds)
    close_kept()
    close_zygotes()
    sandbox = f"Sandbox: {isolating[0].capabilities}; uid {os.getuid()}"
    parts = ["## Episodes of the oracle", LEVELS_PLAYED, played, "## HumanEval", humaneval]
    log.write(arguments.out, [f"Machine: {machine([])}", sandbox], *parts)


if __name__ == "__main__":
    main()
