"""Episodes as tensors: what the learner works on."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from agent_envs.baselines.record import Record

Piece = tuple[str, list[int], list[bool], list[float], list[float]]
"""The group, and for every token: which it is, whether it is own, its log-prob, its advantage."""


@dataclass
class Batch:
    """Rows of tokens as tensors (rows, length), padded at the end; `own` says what carries loss.

    A row is an episode, or a part of one where its conversation started over.
    """

    tokens: Tensor
    own: Tensor
    old: Tensor
    """Log-probs under the sampler."""
    advantages: Tensor
    group: Tensor
    """(rows): whose rows may begin with the same prompt."""
    shared: Tensor
    """(rows): how many tokens at the beginning are the same in all rows of the group."""
    weights: Tensor
    """By how much a token counts; see `losses.truncated`."""

    def to(self, device: str) -> "Batch":
        """The same on a device."""
        return Batch(*(getattr(self, field.name).to(device) for field in fields(self)))

    def parts(self, rows: int) -> Iterator["Batch"]:
        """The same, some rows at a time."""
        columns = [getattr(self, field.name).split(rows) for field in fields(self)]
        return (Batch(*part) for part in zip(*columns, strict=True))


def collate(
    records: Sequence[Record],
    advantages: Sequence[Sequence[float]],
    device: str = "cpu",
    share: int = 0,
) -> Batch:
    """Episodes, and an advantage for each of their turns, as one batch. `share`: from how many
    tokens on a beginning that is common to a group is marked as shared; 0 for never."""
    pieces = [
        piece
        for record, turns in zip(records, advantages, strict=True)
        for piece in _pieces(record, turns)
    ]
    size = (len(pieces), max(len(tokens) for _, tokens, *_ in pieces))
    tokens = torch.zeros(size, dtype=torch.int64)
    own = torch.zeros(size, dtype=torch.bool)
    old, spread = torch.zeros(size), torch.zeros(size)
    for i, (_, *columns) in enumerate(pieces):
        end = len(pieces[i][1])
        for tensor, column in zip((tokens, own, old, spread), columns, strict=True):
            tensor[i, :end] = torch.tensor(column)
    names = [piece[0] for piece in pieces]
    group = torch.tensor([names.index(name) for name in names])
    shared = torch.tensor(_shared(pieces, share))
    found = Batch(tokens, own, old, spread, group, shared, torch.ones(size))
    return found.to(device)


def _pieces(record: Record, turns: Sequence[float]) -> Iterator[Piece]:
    """The rows of one episode: up to each place where its conversation started over."""
    row = record.row
    spread = [0.0] * len(row.tokens)
    for (first, last), advantage in zip(row.spans, turns, strict=True):
        spread[first:last] = [advantage] * (last - first)
    ends = [*row.restarts, len(row.tokens)]
    for start, end in zip([0, *row.restarts], ends, strict=True):
        cut = slice(start, end)
        yield record.group_id, row.tokens[cut], row.own[cut], row.logprobs[cut], spread[cut]


def _shared(pieces: Sequence[Piece], share: int) -> list[int]:
    """How much of each row the learner may read once for its group. The last token in common is
    read by every row, for what follows it."""
    prompts: dict[str, list[list[int]]] = {}
    for group, tokens, own, *_ in pieces:
        prompts.setdefault(group, []).append(tokens[: own.index(True) if True in own else 1])
    common = {group: len(os.path.commonprefix(some)) for group, some in prompts.items()}
    return [common[piece[0]] - 1 if 0 < share <= common[piece[0]] else 0 for piece in pieces]


def nothing(device: str) -> Batch:
    """A row that teaches nothing, for a process that has to keep step with others."""
    size = (1, 2)
    own, zeros = torch.tensor([[False, True]]), torch.zeros(size)
    one = torch.zeros(1, dtype=torch.int64)
    tokens = torch.zeros(size, dtype=torch.int64)
    return Batch(tokens, own, zeros, zeros, one, one, zeros).to(device)
