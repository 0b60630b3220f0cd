"""Episodes as tensors: what the learner works on."""

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from agent_envs.baselines import chars
from agent_envs.baselines.record import Record


@dataclass
class Batch:
    """Episodes as tensors (rows, length), padded at the end; `own` says what carries loss."""

    tokens: Tensor
    own: Tensor
    old: Tensor
    """Log-probs under the sampler."""
    advantages: Tensor

    def parts(self, rows: int) -> Iterator["Batch"]:
        """The same, some rows at a time."""
        columns = [getattr(self, f.name).split(rows) for f in dataclasses.fields(self)]
        return (Batch(*part) for part in zip(*columns, strict=True))


def collate(
    records: Sequence[Record], advantages: Sequence[Sequence[float]], device: str = "cpu"
) -> Batch:
    """Episodes, and an advantage for each of their turns, as one batch."""
    size = (len(records), max(len(r.row.tokens) for r in records))
    tokens = torch.full(size, chars.PAD)
    own = torch.zeros(size, dtype=torch.bool)
    old, spread = torch.zeros(size), torch.zeros(size)
    for i, (record, turns) in enumerate(zip(records, advantages, strict=True)):
        end = len(record.row.tokens)
        tokens[i, :end] = torch.tensor(record.row.tokens)
        own[i, :end] = torch.tensor(record.row.own)
        old[i, :end] = torch.tensor(record.row.logprobs)
        for (first, last), advantage in zip(record.row.spans, turns, strict=True):
            spread[i, first:last] = advantage
    return Batch(*(x.to(device) for x in (tokens, own, old, spread)))
