"""Episodes as a Parquet file, a row each: for notebooks and for whoever trains on them."""

import importlib
import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from agent_envs.cli.common import Failed
from agent_envs.cli.probes import python
from agent_envs.cli.tally import row
from agent_envs.trajectory import Trajectory, read_trajectories

PARQUET = "episodes.parquet"

_ROWS = 500
"""How many are held in memory."""


def load_pyarrow() -> Any:
    """pyarrow, which is loaded for this alone. Raises Failed, with the command, where it is not
    installed."""
    try:
        importlib.import_module("pyarrow.parquet")
    except ModuleNotFoundError as error:
        fix = f"{python()} -m pip install pyarrow"
        raise Failed(f"--parquet needs the package {error.name}: {fix}") from None
    return importlib.import_module("pyarrow")


def write_parquet(episodes: Path, path: Path) -> int:
    """Write the episodes of a JSON Lines file; returns how many."""
    arrow = load_pyarrow()
    schema = _schema(arrow)
    draft, count = path.with_name(f"{path.name}.new"), 0
    with arrow.parquet.ParquetWriter(draft, schema) as writer:
        for some in _batches(episodes):
            writer.write_table(arrow.Table.from_pylist(some, schema))
            count += len(some)
    draft.replace(path)
    return count


def _batches(episodes: Path) -> Iterator[list[dict[str, Any]]]:
    records = map(_record, read_trajectories(episodes))
    while some := list(islice(records, _ROWS)):
        yield some


def _schema(arrow: Any) -> Any:
    text, whole, real, flag = arrow.string(), arrow.int64(), arrow.float64(), arrow.bool_()
    kinds = {
        **dict.fromkeys(("episode_id", "group_id", "task_id", "split"), text),
        "level": whole,
        "tags": arrow.list_(text),
        "seed": whole,
        **dict.fromkeys(("valid", "passed"), flag),
        "reward": real,
        "components": arrow.map_(text, real),
        **dict.fromkeys(("turns", "calls"), whole),
        **dict.fromkeys(("end_reason", "error"), text),
        **dict.fromkeys(("prompt_tokens", "completion_tokens"), whole),
        **dict.fromkeys(("messages", "provenance"), text),
    }
    return arrow.schema(list(kinds.items()))


def _record(episode: Trajectory) -> dict[str, Any]:
    """An episode as a row; the conversation and the provenance are JSON texts."""
    told = row(episode)
    usage = told.usage
    return {
        "episode_id": episode.episode_id,
        "group_id": episode.group_id,
        "task_id": told.task,
        "split": told.split,
        "level": told.level,
        "tags": list(episode.task.tags),
        "seed": episode.seed,
        "valid": told.valid,
        "passed": told.passed,
        "reward": told.reward,
        "components": list(episode.verdict.components.items()) if episode.verdict else [],
        "turns": told.turns,
        "calls": told.calls,
        "end_reason": told.end_reason,
        "error": episode.error,
        "prompt_tokens": usage and usage.prompt_tokens,
        "completion_tokens": usage and usage.completion_tokens,
        "messages": json.dumps(episode.messages()),
        "provenance": json.dumps(episode.provenance),
    }
