"""What a position of a conversation sees: the ways in which a model may read.

A view gets the queries, keys and values of each layer, as (rows, heads, new, width), and gives what
they attend to in the same shape. There may be fewer heads of keys than of queries.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional as F


@dataclass(frozen=True)
class Sizes:
    """What a cache has to know of a model."""

    layers: int
    heads: int
    """Of keys and values."""
    width: int
    """Of a head."""
    context: int
    """The longest conversation, in tokens."""


class View(Protocol):
    """A way to read."""

    def attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor, scale: float | None) -> Tensor:
        """What the new positions see in a layer; `scale` None is 1 / sqrt(width)."""


class Whole:
    """Every row from its beginning; a position sees all that come before it."""

    def attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor, scale: float | None) -> Tensor:
        """See `View`."""
        shared = q.shape[1] != k.shape[1]
        return F.scaled_dot_product_attention(
            q, k, v, is_causal=True, scale=scale, enable_gqa=shared
        )


class Prompts(Whole):
    """The same, and what was read is kept for `Behind`."""

    def __init__(self) -> None:
        self.kept: list[tuple[Tensor, Tensor]] = []

    def attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor, scale: float | None) -> Tensor:
        """See `View`."""
        self.kept.append((k, v))
        return super().attend(layer, q, k, v, scale)


class EndToEnd(Whole):
    """Rows laid end to end as one, so that only attention meets their padding."""

    def __init__(self, valid: Tensor) -> None:
        """`valid` (rows, length): which places are no padding; so many tokens are read."""
        self.size = valid.shape
        self.places = valid.flatten().nonzero()[:, 0]

    def attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor, scale: float | None) -> Tensor:
        """See `View`."""
        q, k, v = self._spread(q), self._spread(k), self._spread(v)
        out = self.look(layer, q, k, v, scale)
        flat = out.transpose(1, 2).flatten(0, 1)
        return flat.index_select(0, self.places).transpose(0, 1)[None]

    def look(self, layer: int, q: Tensor, k: Tensor, v: Tensor, scale: float | None) -> Tensor:
        """The same with every row apart, padded at its end."""
        return super().attend(layer, q, k, v, scale)

    def _spread(self, x: Tensor) -> Tensor:
        _, heads, _, width = x.shape
        flat = x.new_zeros(self.size.numel(), heads, width)
        flat = flat.index_copy(0, self.places, x[0].transpose(0, 1))
        return flat.view(*self.size, heads, width).transpose(1, 2)


class Behind(EndToEnd):
    """The same for rows that go on behind prompts which were read once; gradients reach those."""

    def __init__(self, valid: Tensor, prompts: Prompts, rows: Tensor, lengths: Tensor) -> None:
        """Row i goes on behind the first `lengths[i]` tokens of prompt `rows[i]`."""
        super().__init__(valid)
        self.prompts, self.rows = prompts, rows
        longest, new = prompts.kept[0][0].shape[2], valid.shape[1]
        steps = torch.arange(max(longest, new), device=rows.device)
        before = (steps[:longest] < lengths[:, None])[:, None].expand(-1, new, -1)
        among = (steps[:new] <= steps[:new, None]).expand(len(rows), -1, -1)
        self.mask = torch.cat([before, among], -1)[:, None]

    def look(self, layer: int, q: Tensor, k: Tensor, v: Tensor, scale: float | None) -> Tensor:
        """See `EndToEnd`."""
        first_k, first_v = self.prompts.kept[layer]
        k, v = torch.cat([first_k[self.rows], k], 2), torch.cat([first_v[self.rows], v], 2)
        return _masked(q, k, v, self.mask, scale)


class Cache:
    """Keys and values of many conversations: a slot each, with one more place that is never read.

    What a row was padded with lands in that place, or behind the row's end, where it is
    overwritten before anything looks at it.
    """

    def __init__(self, sizes: Sizes, slots: int, like: Tensor) -> None:
        """`like`: a tensor of the device and the type that are wanted."""
        size = (sizes.layers, 2, slots, sizes.context + 1, sizes.heads, sizes.width)
        self.data = torch.zeros(size, device=like.device, dtype=like.dtype)
        self.context = sizes.context
        self._source: list[int] = []  # by slot: where its beginning was copied from, or itself
        self._same: list[int] = []  # by slot: how much of it is still what it is there
        self._lent: list[int] = []  # by slot: how much of it is somebody's beginning
        self._note(slots)

    @property
    def slots(self) -> int:
        """How many conversations fit."""
        return self.data.shape[2]

    def grow(self, slots: int) -> None:
        """Make room for more conversations; those there are keep their slots."""
        more = self.data.new_zeros((*self.data.shape[:2], slots - self.slots, *self.data.shape[3:]))
        self.data = torch.cat([self.data, more], 2)
        self._note(slots)

    def _note(self, slots: int) -> None:
        more = range(len(self._source), slots)
        self._source += more
        self._same += [0 for _ in more]
        self._lent += [0 for _ in more]

    def copy(self, source: int, target: int, length: int) -> None:
        """Give one slot the beginning of another's conversation."""
        self.written(target, 0)
        self.data[:, :, target, :length] = self.data[:, :, source, :length]
        origin = self._source[source] if self._same[source] >= length else source
        self._source[target], self._same[target] = origin, length
        self._lent[origin] = max(self._lent[origin], length)

    def written(self, slot: int, start: int) -> None:
        """A slot is written from `start` on: that is nobody else's beginning any more."""
        self._same[slot] = min(self._same[slot], start)
        if self._lent[slot] > start:
            self._lent[slot] = start
            for other, source in enumerate(self._source):
                if source == slot:
                    self._same[other] = min(self._same[other], start)

    def families(self, slots: Sequence[int], starts: Sequence[int]) -> list["Family"]:
        """Which rows begin alike. Those at the context's end are in any family."""
        found: dict[int, Family] = {}
        idle = []
        for row, (slot, start) in enumerate(zip(slots, starts, strict=True)):
            if start >= self.context:
                idle.append(row)
                continue
            copied = self._same[slot] > 0
            family = found.setdefault(self._source[slot] if copied else slot, Family(slot, start))
            family.rows.append(row)
            family.length = min(family.length, self._same[slot] if copied else start)
        for row in idle:
            min(found.values(), key=lambda family: len(family.rows)).rows.append(row)
        return list(found.values())


@dataclass
class Family:
    """Rows whose conversations begin alike."""

    slot: int
    """Of one of them."""
    length: int
    """So many tokens."""
    rows: list[int] = field(default_factory=list)


class Onward:
    """Rows that go on where the conversations of their slots stand; the cache grows by them.

    Row i begins at position `start[i]` of slot `slots[i]`; all earlier positions must be in the
    cache. A row may be padded at its end, and one that starts at the context's end leaves no trace.
    """

    def __init__(
        self,
        cache: Cache,
        start: Sequence[int],
        slots: Sequence[int],
        new: int,
        reach: int = 0,
    ) -> None:
        """`reach`: up to where anybody looks; 0 for the end of the longest."""
        self.cache, device = cache, cache.data.device
        for slot, place in zip(slots, start, strict=True):
            cache.written(slot, place)
        self.reach = reach or min(max(start) + new, cache.context)
        begin = torch.tensor(start, device=device)[:, None]
        self.positions = (begin + torch.arange(new, device=device)).clamp(max=cache.context)
        self.mask = (torch.arange(self.reach, device=device) <= self.positions[..., None])[:, None]
        self.slots = torch.tensor(slots, device=device)
        self.rows: Tensor | slice = self.slots
        if list(slots) == list(range(slots[0], slots[0] + len(slots))):
            self.rows = slice(slots[0], slots[0] + len(slots))  # neighbours are read in place

    def attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor, scale: float | None) -> Tensor:
        """See `View`."""
        store = self.cache.data[layer]
        store[0][self.slots[:, None], self.positions] = k.transpose(1, 2)
        store[1][self.slots[:, None], self.positions] = v.transpose(1, 2)
        return self.look(store, q, scale)

    def look(self, store: Tensor, q: Tensor, scale: float | None) -> Tensor:
        """The same, once the cache has grown: `store` is what it has of the layer."""
        past = store[:, self.rows, : self.reach].transpose(2, 3)
        return _masked(q, past[0], past[1], self.mask, scale)


class Step(Onward):
    """The same for one new token a row, where families of rows begin alike: what a family has in
    common is read once for all of it (Juravsky et al., 2024, arXiv:2402.05099, section 3)."""

    def __init__(
        self,
        cache: Cache,
        start: Sequence[int],
        slots: Sequence[int],
        reach: int,
        families: Sequence[Family],
    ) -> None:
        """`reach`: see `Onward`."""
        super().__init__(cache, start, slots, 1, reach)
        device, most = cache.data.device, max(len(family.rows) for family in families)
        padded = [family.rows + family.rows[:1] * (most - len(family.rows)) for family in families]
        back = {row: (i, j) for i, f in enumerate(families) for j, row in enumerate(f.rows)}
        where = torch.tensor([back[row] for row in range(len(slots))], device=device)
        lengths = torch.tensor([family.length for family in families], device=device)
        self.members = torch.tensor(padded, device=device)
        self.back = where[:, 0] * most + where[:, 1]
        self.first = torch.tensor([family.slot for family in families], device=device)
        self.least, self.most = int(lengths.min()), int(lengths.max())
        after = torch.arange(self.least, self.reach, device=device) < lengths[where[:, 0], None]
        self.before = (torch.arange(self.most, device=device) >= lengths[:, None])[:, None, None]
        self.hidden = (after | ~self.mask[:, 0, 0, self.least :])[:, None, None]

    def look(self, store: Tensor, q: Tensor, scale: float | None) -> Tensor:
        """See `Onward`."""
        rows, heads, _, width = q.shape
        asked = q.reshape(rows, store.shape[3], -1, width) * (scale or width**-0.5)
        first_k, first_v = store[:, self.first, : self.most].transpose(2, 3)
        own_k, own_v = store[:, self.rows, self.least : self.reach].transpose(2, 3)
        common = self._by_family(asked) @ first_k.transpose(2, 3)
        common = self._by_row(common.masked_fill(self.before, -torch.inf))
        alone = _by_head(asked, own_k.transpose(2, 3)).masked_fill(self.hidden, -torch.inf)
        weights = torch.cat([common, alone], -1).float().softmax(-1).to(q.dtype)
        common, alone = weights[..., : self.most], weights[..., self.most :]
        found = self._by_row(self._by_family(common) @ first_v) + _by_head(alone, own_v)
        return found.reshape(rows, heads, 1, width)

    def _by_family(self, x: Tensor) -> Tensor:
        """(rows, heads, queries, width) as (families, heads, queries of all members, width)."""
        return x[self.members].transpose(1, 2).flatten(2, 3)

    def _by_row(self, x: Tensor) -> Tensor:
        """The way back."""
        families, heads, queries, width = x.shape
        members = self.members.shape[1]
        apart = x.view(families, heads, members, queries // members, width)
        return apart.transpose(1, 2).flatten(0, 1)[self.back]


def _by_head(a: Tensor, b: Tensor) -> Tensor:
    """Their product; head by head, since all at once would first copy the cache."""
    heads = zip(a.unbind(1), b.unbind(1), strict=True)
    return torch.stack([torch.bmm(x, y) for x, y in heads], 1)


def _masked(q: Tensor, k: Tensor, v: Tensor, mask: Tensor, scale: float | None) -> Tensor:
    """Attention under a mask (rows, 1, new, past). Queries that share a head of keys become more
    queries of that head, so that no key is copied."""
    rows, heads, new, width = q.shape
    times = heads // k.shape[1]
    if times > 1:
        q = q.reshape(rows, k.shape[1], times * new, width)
        mask = mask.repeat(1, 1, times, 1)
    out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=scale)
    return out.reshape(rows, heads, new, width) if times > 1 else out
