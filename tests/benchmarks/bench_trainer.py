"""The trainer beside TRL: the same model, prompts and tool, on one CPU thread each.

    python -m tests.benchmarks.bench_trainer [--episodes 128] [--steps 5] [--out FOLDER]

Three tables go to `docs/measured/bench_trainer.md`, all figures to `bench_trainer.json`: own tokens
a second when playing and in a whole update, beside TRL's and what the matrix products cost at
least; what a turn costs as its conversation grows; and where the time of a rollout goes. No figure
fails the run: the log says what was met.
"""

import argparse
import datetime
import importlib.metadata
import json
import os
import shlex
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from agent_envs.baselines.attention import Cache
from agent_envs.baselines.gpu_check import count, matmul_speed
from agent_envs.baselines.grpo import Run
from agent_envs.baselines.policy import TokenPolicy
from agent_envs.baselines.settings import Args, Player
from agent_envs.policy import Messages
from tests.benchmarks.programs import ROOT, SCRATCH, interpreter, surroundings
from tests.benchmarks.report import command, load, machine, table

PEER = Path(__file__).parent / "peers" / "trl_adding.py"
NEEDS = [
    "trl==1.16.0",
    "datasets==5.2.0",
    "jmespath==1.1.0",
    "torch==2.13.0",
    "transformers==5.24.0",
]
GROUP = 16


def settings(folder: Path, episodes: int) -> Args:
    """A run like TRL's: plain GRPO, one gradient of all episodes."""
    return Args(
        env="tests.benchmarks.adding:agent/Adding-v0",
        max_turns=3,
        policy=Player(kind="hf", path=str(folder), native_tools=True, append=True),
        context=512,
        shown=0,
        tasks=episodes // GROUP,
        group=GROUP,
        turn_limit=128,
        rows=32,
        share=32,
        slots=0,
        credit="group_normalised",
    )


def measured(folder: Path, episodes: int, steps: int) -> dict[str, Any]:
    """Means over updates, the first left out."""
    with Run(settings(folder, episodes), folder) as run:
        spent = _watch(run)
        rows = []
        for update in range(1, steps + 1):
            spent.clear()
            values = run.update(update)
            rows.append(values | {"tools": sum(spent)})
        kept = rows[1:] or rows
        mean = {k: sum(row[k] for row in kept) / len(kept) for k in kept[0] if k in _KEPT}
        prompt = len(run.codec.open([{"role": "user", "content": "What is 23+45?"}]))
        weights, speed = count(run.model), matmul_speed(run.model.weight, 1024)
    own, groups = mean["own_tokens"], episodes // GROUP
    heard = 25 * mean["turns"] * episodes
    written = 2 * weights * (own + heard + prompt * groups) / speed
    learned = 6 * weights * (own + heard + prompt * groups) / speed
    return mean | {"floor_playing": written, "floor_learning": learned, "prompt": prompt}


_KEPT = (
    "own_tokens",
    "turns",
    "passed",
    "ratio_off",
    "tools",
    "seconds_playing",
    "seconds_policy",
    "seconds_learning",
)


def _watch(run: Run) -> list[float]:
    """The seconds that environments take, call by call, from now on."""
    spent: list[float] = []

    def timed(work: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            began = time.perf_counter()
            try:
                return work(*args, **kwargs)
            finally:
                spent.append(time.perf_counter() - began)

        return call

    for env in run.envs:
        for name in ("act", "reset", "rollback", "snapshot"):
            setattr(env, name, timed(getattr(env, name)))
    return spent


def turns(folder: Path, count: int = 32) -> list[dict[str, float]]:
    """What each turn of one long conversation costs, with all that is new in it 20 tokens long."""
    args = settings(folder, GROUP)
    args.context = 4096
    with Run(args, folder) as run:
        policy = TokenPolicy(run.model, run.codec, turn_limit=16, slots=1, share=32)
        policy.reader.cache = Cache(run.model.sizes, 0, run.model.weight)
        talk: Messages = [{"role": "user", "content": "Say something long."}]
        rows = []
        for turn in range(count):
            began, read = time.perf_counter(), policy.fed
            policy.submit("k", talk)
            while not (answers := policy.collect(0.0)):
                pass
            action: Any = answers[0][1]
            rows.append(
                {
                    "turn": turn + 1,
                    "seconds": time.perf_counter() - began,
                    "read": policy.fed - read,
                    "written": len(action.sample.tokens),
                    "length": len(policy._talks["k"].row.tokens),
                }
            )
            talk += [{"role": "assistant", "content": action.text}]
            talk += [{"role": "tool", "content": "1 2 3 4 5 6 7 8"}]
    return rows


def trl(folder: Path, python: Path, episodes: int, steps: int) -> dict[str, Any]:
    """TRL's figures."""
    command = [str(python), str(PEER), "train", str(folder), str(steps), str(episodes)]
    done = subprocess.run(command, env=surroundings(ours=False), capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{shlex.join(command)} failed:\n{done.stderr[-3000:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def report(ours: dict[str, Any], theirs: dict[str, Any], curve: list[dict[str, float]]) -> str:
    """The log."""
    playing, update = ours["seconds_playing"], ours["seconds_playing"] + ours["seconds_learning"]
    their_update = theirs["update"]
    speed = (ours["own_tokens"] / playing) / (theirs["own"] / theirs["generation"])
    whole = (ours["own_tokens"] / update) / (theirs["own"] / their_update)
    outside = 1 - (ours["seconds_policy"] + ours["tools"]) / playing
    head = ["", "own tokens", "playing, s", "an update, s", "own tokens/s playing", "in an update"]
    floor = [ours["floor_playing"], ours["floor_playing"] + ours["floor_learning"]]

    def line(name: str, own: float, play: float, all_: float) -> list[str]:
        numbers = f"{own:,.0f}", f"{play:.2f}", f"{all_:.2f}", f"{own / play:,.0f}"
        return [name, *numbers, f"{own / all_:,.0f}"]

    rows = [
        line("ours", ours["own_tokens"], playing, update),
        line(f"TRL {theirs['version']}", theirs["own"], theirs["generation"], their_update),
        line("floor: matrix products alone", ours["own_tokens"], *floor),
    ]
    kept = [row for row in curve if row["turn"] in (1, 2, 4, 8, 12, 16, 24, 32)]
    by_turn = [
        [
            f"{row['turn']:.0f}",
            f"{row['length']:.0f}",
            f"{row['read']:.0f}",
            f"{1000 * row['seconds'] / row['written']:.1f}",
        ]
        for row in kept
    ]
    targets = [
        ["generation at least 3 times TRL's", f"{speed:.2f}", _met(speed >= 3)],
        ["an update at least 2.5 times TRL's", f"{whole:.2f}", _met(whole >= 2.5)],
        [
            "a rollout's time outside policy and tools <= 5%",
            f"{outside:.1%}",
            _met(outside <= 0.05),
        ],
    ]
    versions = [f"{n}=={importlib.metadata.version(n)}" for n in ("torch", "transformers")]
    return "\n\n".join(
        [
            "# The trainer beside TRL",
            f"Measured on {datetime.date.today()} with `{command('bench_trainer')}`: "
            f"{machine(versions)}; load {load()}.",
            f"Four layers of width 256, prompts of {ours['prompt']} tokens, {ours['turns']:.2f} "
            f"turns an episode, {ours['passed']:.0%} right; trained and sampled differ by at most "
            f"{ours['ratio_off']:.1e}. TRL's update includes its generation.",
            table(head, rows),
            table(["target", "measured", ""], targets),
            "A turn of one conversation that grows; what is read of it is what is new:",
            table(["turn", "tokens so far", "tokens read", "ms a written token"], by_turn),
        ]
    )


def _met(holds: bool) -> str:
    return "met" if holds else "NOT MET"


def main() -> None:
    """Measure both, and write the log and the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--episodes", type=int, default=128)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--teach", type=int, default=150, help="steps, before both begin")
    parser.add_argument("--python", type=Path, help="one that has TRL; made where it is not given")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "measured")
    options = parser.parse_args()
    os.environ |= {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
    torch.set_num_threads(1)
    python = options.python or interpreter("trl", NEEDS)
    folder = SCRATCH / "adding"
    make = [str(python), str(PEER), "make", str(folder), str(options.teach)]
    subprocess.run(make, env=surroundings(ours=False), check=True)
    ours = measured(folder, options.episodes, options.steps)
    theirs = trl(folder, python, options.episodes, options.steps)
    curve = turns(folder)
    text = report(ours, theirs, curve) + "\n"
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "bench_trainer.md").write_text(text)
    figures = {"ours": ours, "trl": theirs, "turns": curve}
    (options.out / "bench_trainer.json").write_text(json.dumps(figures, indent=1) + "\n")
    print(text)


if __name__ == "__main__":
    main()
