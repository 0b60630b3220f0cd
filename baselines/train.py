"""The command behind `agent-envs train`: a preset, changes to it, a folder for what comes out."""

import argparse
import copy
import dataclasses
import inspect
import json
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import gymnasium
import torch
from gymnasium.envs.registration import load_env_creator

from agent_envs.baselines.credit import COMPARISONS
from agent_envs.baselines.grpo import train
from agent_envs.baselines.learning import KL_GRADIENTS
from agent_envs.baselines.losses import LOSSES
from agent_envs.baselines.players import ENGINES, KINDS
from agent_envs.baselines.presets import PRESETS, PUBLISHED_MODEL
from agent_envs.baselines.settings import Args
from agent_envs.errors import BackendUnavailable, near

_FAILURES = (ValueError, KeyError, ImportError, OSError, gymnasium.error.Error, BackendUnavailable)


def main(argv: Sequence[str] | None = None) -> int:
    """Train, and print a summary: 0 if all went well, 2 for arguments that make no sense, 130
    after Ctrl-C, which `--resume` makes good."""
    options = _parser().parse_args(argv)
    try:
        args = configure(options.preset, options.set)
        out = options.out or Path("runs") / f"{options.preset}-{args.seed}"
        if not options.resume and (out / "metrics.jsonl").exists():
            raise ValueError(f"{out} holds a run: give --resume to go on, or another --out")
        summary = train(args, out, resume=options.resume)
    except _FAILURES as error:
        said = error.args[0] if isinstance(error, KeyError) and error.args else error
        print(f"agent-envs train: {said}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("stopped; the same command with --resume goes on", file=sys.stderr)
        return 130
    summary = {"preset": options.preset, **summary}
    if int(os.environ.get("RANK", 0)) == 0:
        print(json.dumps(summary) if options.json else _table(summary))
    return 0


def configure(preset: str, changes: Sequence[str] = ()) -> Args:
    """The arguments of a preset with `key=value` changes; a key may have a dot in it. With
    `policy=hf` the preset is first changed by `PUBLISHED_MODEL`.

    Raises ValueError for a preset or a key that does not exist, and a value of another type.
    """
    if preset not in PRESETS:
        hint = near(preset, PRESETS)
        raise ValueError(f"no preset {preset!r}{hint}; there are {', '.join(PRESETS)}")
    published = {"policy=hf", "policy.kind=hf"}.intersection(changes)
    settings = PRESETS[preset] | (PUBLISHED_MODEL if published else {})
    args = Args(**copy.deepcopy(settings))
    for change in changes:
        key, equals, text = change.partition("=")
        if not equals:
            raise ValueError(f"--set {change!r}: it is key=value")
        _change(args, key, text)
    check(args)
    return args


def check(args: Args) -> None:
    """Raise ValueError for arguments that make no run, saying which would."""
    kinds = (*COMPARISONS, "turn_values")
    few = ", ".join(f"{n}={getattr(args, n)}" for n in _COUNTS if getattr(args, n) < 1)
    twice = ", ".join(sorted(_OWN.intersection(args.arguments)))
    unknown = ", ".join(sorted(set(args.arguments) - _taken(args))) if args.arguments else ""
    kind = args.policy.kind
    rules = {
        _one_of("policy", kind, KINDS): kind in KINDS,
        "policy.path: where policy=hf has its model": kind != "hf" or args.policy.path,
        _one_of("policy.engine", args.policy.engine, ENGINES): args.policy.engine in ENGINES,
        "policy.engine=vllm: with policy=hf, without lora, in one process": _goes_with_engine(args),
        _one_of("credit", args.credit, kinds): args.credit in kinds,
        _one_of("loss", args.loss, LOSSES): args.loss in LOSSES,
        _one_of("kl_gradient", args.kl_gradient, KL_GRADIENTS): args.kl_gradient in KL_GRADIENTS,
        _one_of("precision", args.precision, PRECISIONS): args.precision in PRECISIONS,
        f"group={args.group}: at least 2, to compare": args.group >= 2,
        f"{few}: at least 1": not few,
        f"temperature={args.temperature}: over 0, to explore": args.temperature > 0,
        f"updates={args.updates}: at least 0": args.updates >= 0,
        f"renamed={args.renamed}: from 0 to 1": 0 <= args.renamed <= 1,
        f"blame={args.blame}: from 0 to 1": 0 <= args.blame <= 1,
        f"warmup={args.warmup}: at least 0": args.warmup >= 0,
        f"arguments.{twice}: the trainer sets {twice} itself": not twice,
        f"arguments.{unknown}: {args.env} takes no such argument": not unknown,
        f"device={args.device!r}: cpu or cuda": args.device.partition(":")[0] in ("cpu", "cuda"),
    }
    wrong = [rule for rule, holds in rules.items() if not holds]
    if args.device.startswith("cuda") and not torch.cuda.is_available():
        wrong.append(f"device={args.device}: torch {torch.__version__} sees no GPU here")
    if wrong:
        raise ValueError("; ".join(wrong))


PRECISIONS = ("float32", "bfloat16")
_OWN = frozenset({"fault_rate", "level", "max_turns", "protocol", "split", "tool_docs"})
"""Arguments of every environment that follow from others of a run."""
_COUNTS = ("tasks", "draws", "epochs", "rows", "continuations", "workers", "evaluate_every")


def _goes_with_engine(args: Args) -> bool:
    player, processes = args.policy, int(os.environ.get("WORLD_SIZE", 1))
    alone = player.kind == "hf" and not player.lora and processes == 1
    return player.engine != "vllm" or alone


def _taken(args: Args) -> set[str]:
    """The names of the arguments that the environment can be made with."""
    entry = gymnasium.spec(args.env).entry_point
    made: Any = load_env_creator(entry) if isinstance(entry, str) else entry
    classes = made.__mro__ if inspect.isclass(made) else [made]
    return {name for one in classes for name in inspect.signature(one).parameters}


def _one_of(key: str, value: str, known: Iterable[str]) -> str:
    return f"{key}={value!r}: one of {', '.join(known)}"


def _change(args: Any, key: str, text: str) -> None:
    first, dot, rest = key.partition(".")
    known: dict[str, Any] = {f.name: getattr(args, f.name) for f in dataclasses.fields(args)}
    if not dot and hasattr(known.get(first), "kind"):
        dot, rest = ".", "kind"  # policy=hf is short for policy.kind=hf
    if rest and isinstance(known.get(first), dict):
        known[first][rest] = _value(text)
        return
    grouped = dataclasses.is_dataclass(known.get(first)) or isinstance(known.get(first), dict)
    if first not in known or bool(dot) != grouped:
        keys = _keys(args)
        hint = near(key, keys)
        raise ValueError(f"--set {key}: no such argument{hint}; there are {', '.join(keys)}")
    if dot:
        _change(known[first], rest, text)
        return
    kind = type(known[first])
    try:
        setattr(args, first, _BOOLS[text.lower()] if kind is bool else kind(text))
    except (KeyError, ValueError):
        raise ValueError(f"--set {key}={text}: not of type {kind.__name__}") from None


def _value(text: str) -> Any:
    """JSON, or else the text itself."""
    try:
        return json.loads(text)
    except ValueError:
        return text


_BOOLS = {"true": True, "1": True, "false": False, "0": False}


def _keys(args: Any) -> list[str]:
    """All keys that `--set` takes."""
    keys = []
    for field in dataclasses.fields(args):
        value = getattr(args, field.name)
        inner = _keys(value) if dataclasses.is_dataclass(value) else []
        inner = ["NAME"] if isinstance(value, dict) else inner
        keys += [f"{field.name}.{key}" for key in inner] or [field.name]
    return keys


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("agent-envs train", description=__doc__)
    parser.add_argument("preset", help=", ".join(PRESETS))
    parser.add_argument("--out", type=Path, help="folder of the run; runs/PRESET-SEED if not given")
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="change an argument"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--resume", action="store_true", help="go on from the last checkpoint")
    return parser


def _table(summary: dict[str, Any]) -> str:
    rows = [(name, f"{v:.3g}" if isinstance(v, float) else str(v)) for name, v in summary.items()]
    return "\n".join(f"{name:24}{value}" for name, value in rows)


if __name__ == "__main__":
    sys.exit(main())
