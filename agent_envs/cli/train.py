"""Train a policy of the reference trainer: a preset, changes to it, a folder for what comes out.

agent-envs train workshop --out runs/w
agent-envs train workshop-best --set fault_rate=0.3 --set seed=1
"""

import argparse
import importlib
from pathlib import Path

from agent_envs.cli.common import Failed
from agent_envs.cli.probes import install


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """A preset, and what to change of it."""
    parser.add_argument("preset", help="a named setting: workshop, workshop-best, ...")
    parser.add_argument("--out", type=Path, help="folder of the run (default: runs/PRESET-SEED)")
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="change an argument"
    )
    parser.add_argument("--resume", action="store_true", help="go on from the last checkpoint")


def run(arguments: argparse.Namespace) -> int:
    """Hand over to the trainer, which is loaded by name: nothing but it may import torch."""
    argv = [arguments.preset]
    argv += ["--out", str(arguments.out)] if arguments.out else []
    argv += [part for change in arguments.set for part in ("--set", change)]
    argv += ["--resume"] if arguments.resume else []
    argv += ["--json"] if arguments.json else []
    try:
        trainer = importlib.import_module("agent_envs.baselines.train")
    except ModuleNotFoundError as error:
        raise Failed(f"training needs the package {error.name}: {install('train')}") from None
    code: int = trainer.main(argv)
    return code
