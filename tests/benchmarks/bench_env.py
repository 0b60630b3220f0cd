"""Speeds of the contract and the calculator against peers, in one run, interleaved in rounds.

    python -m tests.benchmarks.bench_env [--rounds 15] [--seconds 0.3] [--out FILE]

Each peer gets a virtual environment of its own under build/bench (they cannot share one: about
1 GB and a few minutes the first time, then kept). Every program is a process that stays up; one at
a time works, on one core, and what is compared is measured within a second or two. A ratio is the
median of the ratios of the rounds, by CPU time: nothing here waits, so on an idle machine that is
the wall clock's, and on a busy one it is steadier. No figure fails the run: the log says what was
met.
"""

import argparse
import datetime
import statistics
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from tests.benchmarks.programs import PEERS, ROOT, Program, imports, one_core, programs
from tests.benchmarks.report import command, load, machine, spread, table

GROUPS = [
    ["ours/chars steps", "skyrl_gsm8k/steps", "ours/hermes steps"],
    ["ours/chars steps, two turns", "skyrl_gsm8k/steps, two turns"],
    [
        "ours/calculator snapshots",
        "textarena_guess/deepcopies",
        "ours/bank snapshots",
        "textarena_guess/deepcopies after two guesses",
    ],
    ["ours/episodes", "gem_math/episodes"],
    ["ours/resets", "gem_math/resets"],
    ["import/agent_envs", "import/gymnasium"],
]
"""What is measured back to back in a round; the order turns from round to round."""


@dataclass(frozen=True)
class Target:
    """A ratio of two measures that should be at least, or at most, so much."""

    what: str
    ours: str
    peer: str
    bound: float | None = None
    """None where a figure is given for completeness."""
    at_most: bool = False
    """The ratio is one of times, not of rates."""

    def ratios(self, figures: "Figures", kind: str) -> list[float]:
        """Ours by the peer's, round by round."""
        ours, peer = ([pair[kind] for pair in figures[name]] for name in (self.ours, self.peer))
        if self.at_most:
            ours, peer = peer, ours
        return [x / y for x, y in zip(ours, peer, strict=True)]

    def verdict(self, ratio: float) -> str:
        """Whether a ratio meets the bound, in words."""
        if self.bound is None:
            return "-"
        if (ratio <= self.bound) if self.at_most else (ratio >= self.bound):
            return "met"
        return f"NOT MET, by {abs(1 - ratio / self.bound):.0%}"

    def asked(self) -> str:
        """The bound, as the table has it."""
        if self.bound is None:
            return "-"
        return f"{'at most' if self.at_most else 'at least'} {self.bound:g}"


TARGETS = [
    Target("CalculatorChars steps", "ours/chars steps", "skyrl_gsm8k/steps", 1.5),
    Target("Calculator steps", "ours/hermes steps", "skyrl_gsm8k/steps", 1.0),
    Target("CalculatorChars steps", "ours/chars steps, two turns", "skyrl_gsm8k/steps, two turns"),
    Target(
        "snapshot + rollback, calculator",
        "ours/calculator snapshots",
        "textarena_guess/deepcopies",
        2.0,
    ),
    Target("snapshot + rollback, bank", "ours/bank snapshots", "textarena_guess/deepcopies", 2.0),
    Target("episodes of reset + graded answer", "ours/episodes", "gem_math/episodes", 20.0),
    Target("resets alone", "ours/resets", "gem_math/resets"),
    Target("import agent_envs", "import/agent_envs", "import/gymnasium", 1.3, at_most=True),
]

PARTS = {
    "reset": (1, "`reset()`: choose the task, derive the seed, write the prompt, a new `Episode`"),
    "parse": (4, "`protocol.parse` of the turn's text"),
    "check": (4, "arguments against the tool's schema"),
    "run": (4, "the tool itself: evaluate `23+45`, render `68`"),
    "observation": (4, "`protocol.say`"),
    "messages": (4, "`protocol.messages`"),
}
"""Of an episode of five turns: how often each happens, and what it is. The rest is subtracted."""

REST = "`act` itself: copy of the move, cleaning of texts, counting, `info` and its copy, log"

Figures: TypeAlias = dict[str, list[dict[str, float]]]
"""Of each measure and round: units a second, of CPU time (`rate`) and of wall time (`wall`)."""


def measure(running: dict[str, Program], name: str, seconds: float) -> dict[str, float]:
    """One figure."""
    program, _, what = name.partition("/")
    if program == "import":
        return imports(what)
    return running[program].ask(measure=what, seconds=seconds)


def compare(running: dict[str, Program], rounds: int, seconds: float) -> Figures:
    """The figures of every measure in every round."""
    figures: Figures = {name: [] for group in GROUPS for name in group}
    for number in range(-1, rounds):  # the first round warms up and is not counted
        print(f"\rround {max(number + 1, 0)} of {rounds}", end="", file=sys.stderr, flush=True)
        for group in GROUPS:
            turned = number % len(group)
            for name in group[turned:] + group[:turned]:
                figure = measure(running, name, seconds)
                if number >= 0:
                    figures[name].append(figure)
    print(file=sys.stderr)
    return figures


def parts(ours: Program, protocol: str, seconds: float) -> dict[str, float]:
    """Microseconds of each part of an episode of five turns, and of the whole."""
    names = [*PARTS, "reset and four turns"]
    asked = ["nothing", f"{protocol} steps", *(f"{protocol}: {name}" for name in names)]
    turns = [[1e6 / ours.ask(measure=a, seconds=seconds)["rate"] for a in asked] for _ in range(7)]
    nothing, step, *times = [statistics.median(column) for column in zip(*turns, strict=True)]
    took = dict(zip(names, times, strict=True))
    out = {name: count * (took[name] - nothing) for name, (count, _) in PARTS.items()}
    out["rest"] = took["reset and four turns"] - sum(out.values())
    out["answer"] = 5 * step - took["reset and four turns"]
    return out


# -- the log ---------------------------------------------------------------------------------------


def targets_table(figures: Figures) -> str:
    """Each target with the ratio that came out."""
    rows = []
    for target in TARGETS:
        ratios = [target.ratios(figures, kind) for kind in ("rate", "wall")]
        verdict = target.verdict(statistics.median(ratios[0]))
        against = f"{target.what} / {target.peer}"
        rows.append([against, target.asked(), *(spread(r, ".2f") for r in ratios), verdict])
    return table(["ratio", "target", "by CPU time", "by wall time", "verdict"], rows)


def figures_table(figures: Figures) -> str:
    """Each measure by itself."""
    rows = []
    for name, pairs in figures.items():
        cells = (spread([pair[kind] for pair in pairs], ",.0f") for kind in ("rate", "wall"))
        if name.startswith("import/"):
            cells = (spread([1e3 / p[k] for p in pairs], ",.0f") + " ms" for k in ("rate", "wall"))
        rows.append([name, *cells])
    return table(["measure", "a second of CPU time", "a second of wall time"], rows)


def parts_table(parts_by_protocol: dict[str, dict[str, float]]) -> str:
    """Where the time of an episode goes."""
    about = {name: (f"{count} x {name}", text) for name, (count, text) in PARTS.items()}
    about["rest"] = ("4 x the rest", REST)
    about["answer"] = ("1 x answer", "the last turn: parse, grade, and the rest once more")
    rows = []
    for name, (title, text) in about.items():
        cells = []
        for took in parts_by_protocol.values():
            cells.append(f"{took[name]:5.1f} us {took[name] / sum(took.values()):4.0%}")
        rows.append([title, *cells, text])
    whole = [f"{sum(took.values()):5.1f} us 100%" for took in parts_by_protocol.values()]
    return table(["part", *parts_by_protocol, "what"], [*rows, ["episode", *whole, ""]])


def functions_table(ours: Program, name: str, seconds: float) -> str:
    """The functions with the most time of their own in a measure, a unit being a step."""
    found = ours.ask(measure=name, seconds=seconds, profile=True)["functions"]
    rows = [[f"{share:.1%}", f"{calls:.1f}", what] for what, calls, share in found]
    return table(["own time", "calls a step", "function"], rows)


def run(rounds: int, seconds: float) -> str:
    """Measure everything; returns the log."""
    when = f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d %H:%M} UTC"
    before, pinned = load(), one_core()
    with programs() as running:
        figures = compare(running, rounds, seconds)
        ours = running["ours"]
        took = {protocol: parts(ours, protocol, seconds) for protocol in ("chars", "hermes")}
        draw = 1e6 / ours.ask(measure="fault draw", seconds=seconds)["rate"]
        functions = {p: functions_table(ours, f"{p} steps", seconds) for p in took}
    shares = [pair["wall"] / pair["rate"] for pairs in figures.values() for pair in pairs]
    noise = f"load {before} before, {load()} after; share of the core that a measured process had: "
    noise += spread(shares, ".2f")
    return LOG.format(
        command=command("bench_env"),
        machine=machine(r for wanted in PEERS.values() for r in wanted),
        rounds=f"{rounds} rounds of {seconds} s a measure, {when}, {pinned}; {noise}",
        targets=targets_table(figures),
        figures=figures_table(figures),
        parts=parts_table(took),
        draw=f"{draw:.1f}",
        chars=functions["chars"],
        hermes=functions["hermes"],
    )


def main() -> None:
    """Measure, print the log, and write it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--seconds", type=float, default=0.3, help="how long a measure takes")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "measured" / "bench_env.md")
    args = parser.parse_args()
    log = run(args.rounds, args.seconds)
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(log)
    print(log)


LOG = """# Speed: the contract and the calculator against peers

- Command: `{command}` (`make bench`)
- Machine: {machine}
- Run: {rounds}

## Targets

{targets}

A ratio is ours by the peer's in the same round: median (least to largest). The verdict goes by the
median by CPU time: nothing here waits, so on an idle core it is the wall clock's.

- Steps: episodes of five turns. SkyRL-Gym's: make, init, five turns without an answer (its fastest
  way). Ours: a reset, four calls of the calculator, the right answer. Two turns, a call and the
  answer, is how long a sum takes; what an episode costs at its start then weighs more.
- Snapshot + rollback: after two calls, the release counted too, against one `copy.deepcopy` of
  GuessTheNumber just after its reset. In mid-episode that is slower; to come back takes another.
- Episodes: a reset and the right answer. GEM's is graded in its own process (`use_mp=False`; its
  default, a pool, is slower); ours is Calculator's. GEM's reset alone reads a row of a table and
  does nothing else, so that row has no target.
- Imports: times, not rates; the quickest of three fresh interpreters a round, without its start.

## Figures

{figures}

## Where the time goes

An episode of five turns as above, microseconds by timed subtraction (loop overhead taken off):

{parts}

A fault draw, {draw} us a call, happens only where `fault_rate` is not 0.

By function, under cProfile (which inflates small functions; `chars`):

{chars}

The same for `hermes`:

{hermes}
"""


if __name__ == "__main__":
    main()
