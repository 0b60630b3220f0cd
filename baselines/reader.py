"""Feeds a model what conversations have not read yet, a slot of its cache for each."""

from collections.abc import Sequence

import torch
from torch import Tensor

from agent_envs.baselines.attention import Cache, Onward, Step
from agent_envs.baselines.model import Model

ALIKE = 32
"""From so many tokens on it pays to read apart what conversations have in common."""


class Reader:
    """A model with the cache of what it has read since this was made: under these very weights."""

    def __init__(self, model: Model, last: "Reader | None" = None, fill: bool = False) -> None:
        """`last`: one that is given up; its memory is used again. `fill`: when most slots between
        the first and the last of a batch have one token to read, idle ones read along and leave no
        trace, since a cache is quicker to read in one piece than row by row."""
        self.model, self.fill = model, fill
        self.cache: Cache = last.cache if last else Cache(model.sizes, 0, model.weight)
        self.fed = 0
        """How many tokens the model has read."""

    @torch.inference_mode()
    def read(
        self, news: Sequence[list[int]], starts: Sequence[int], slots: Sequence[int]
    ) -> Tensor:
        """Logits (rows, vocabulary) after `news`, which go on at `starts` in their `slots`."""
        self.fed += sum(map(len, news))
        width = max(map(len, news))
        if self.fill and width == 1 and 2 * len(slots) > slots[-1] - slots[0]:
            return self._fill([new[0] for new in news], starts, slots)
        tokens = [new + [0] * (width - len(new)) for new in news]
        return self._read(tokens, starts, slots, [len(new) for new in news])

    def _fill(self, news: Sequence[int], starts: Sequence[int], slots: Sequence[int]) -> Tensor:
        first = slots[0]
        count = slots[-1] - first + 1
        tokens, places = [[0] for _ in range(count)], [self.cache.context] * count
        for new, start, slot in zip(news, starts, slots, strict=True):
            tokens[slot - first], places[slot - first] = [new], start
        reach = max(starts) + 1
        logits = self._read(tokens, places, range(first, first + count), [1] * count, reach)
        return logits[[slot - first for slot in slots]]

    def _read(
        self,
        tokens: Sequence[Sequence[int]],
        starts: Sequence[int],
        slots: Sequence[int],
        lengths: Sequence[int],
        reach: int = 0,
    ) -> Tensor:
        view = self._view(starts, slots, len(tokens[0]), reach)
        made = (torch.tensor(x, device=self.cache.data.device) for x in (tokens, lengths))
        new, ends = made
        return self.model.following(self.model.hidden(new, view.positions, view), ends).float()

    def _view(self, starts: Sequence[int], slots: Sequence[int], new: int, reach: int) -> Onward:
        """For single tokens of rows that begin alike, one that reads their beginning once."""
        families = self.cache.families(slots, starts) if self.fill and new == 1 else []
        least = min((family.length for family in families), default=0)
        if least >= ALIKE and 2 * len(families) <= len(slots):
            return Step(self.cache, starts, slots, reach or max(starts) + 1, families)
        return Onward(self.cache, starts, slots, new, reach)
