"""A small causal transformer, and the cache that lets it read a growing conversation once."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F


@dataclass(frozen=True)
class Shape:
    """The size of a model. The defaults are the published workshop's."""

    vocabulary: int = 17
    layers: int = 2
    width: int = 128
    heads: int = 4
    context: int = 64
    """The longest conversation, in tokens."""
    positions: str = "learned"
    """`learned` absolute positions, or `rope`: rotary ones, which see distances only."""

    def __post_init__(self) -> None:
        if self.positions not in ("learned", "rope"):
            raise ValueError(f"positions={self.positions!r}: learned or rope")
        if self.width % (2 * self.heads):
            raise ValueError(f"width={self.width} is no multiple of 2 x heads={self.heads}")


class Cache:
    """Keys and values of many conversations: a slot each, with one more place that is never read.

    What a row was padded with lands in that place, or behind the row's end, where it is
    overwritten before anything looks at it.
    """

    def __init__(self, shape: Shape, slots: int, device: torch.device) -> None:
        size = (shape.layers, 2, slots, shape.context + 1, shape.heads, shape.width // shape.heads)
        self.data = torch.zeros(size, device=device)

    @property
    def slots(self) -> int:
        """How many conversations fit."""
        return self.data.shape[2]

    def grow(self, slots: int) -> None:
        """Make room for more conversations; those there are keep their slots."""
        more = self.data.new_zeros((*self.data.shape[:2], slots - self.slots, *self.data.shape[3:]))
        self.data = torch.cat([self.data, more], 2)

    def copy(self, source: int, target: int, length: int) -> None:
        """Give one slot the beginning of another's conversation."""
        self.data[:, :, target, :length] = self.data[:, :, source, :length]


class Transformer(nn.Module):
    """Pre-norm blocks of causal attention and a GELU layer (Vaswani et al., 2017, section 3)."""

    def __init__(self, shape: Shape, seed: int = 0) -> None:
        super().__init__()
        self.shape = shape
        self.embed = nn.Embedding(shape.vocabulary, shape.width)
        self.place = (
            nn.Embedding(shape.context, shape.width) if shape.positions == "learned" else None
        )
        self.blocks: Iterable[_Block]
        self.blocks = nn.ModuleList(_Block(shape) for _ in range(shape.layers))  # type: ignore[assignment]
        self.norm = nn.LayerNorm(shape.width)
        self.head = nn.Linear(shape.width, shape.vocabulary, bias=False)
        self._initialise(torch.Generator().manual_seed(seed))

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits (rows, length, vocabulary) of the token that follows each of `tokens`."""
        positions = torch.arange(tokens.shape[1], device=tokens.device)
        x = self._enter(tokens, positions)
        for block in self.blocks:
            q, k, v = block.project(x, positions)
            x = block.finish(x, F.scaled_dot_product_attention(q, k, v, is_causal=True))
        logits: Tensor = self.head(self.norm(x))
        return logits

    def extend(self, tokens: Tensor, start: Tensor, slots: Tensor, cache: Cache) -> Tensor:
        """The same for `tokens` (rows, new) that go on where their slots' conversations stand.

        Row i begins at position `start[i]` of slot `slots[i]`; all earlier positions must be in
        the cache. A row may be padded at its end.
        """
        steps = torch.arange(tokens.shape[1], device=tokens.device)
        positions = (start[:, None] + steps).clamp(max=self.shape.context)
        reach = min(int(start.max()) + tokens.shape[1], self.shape.context)
        mask = torch.arange(reach, device=tokens.device) <= positions[..., None]
        x = self._enter(tokens, positions)
        for block, store in zip(self.blocks, cache.data, strict=True):
            q, k, v = block.project(x, positions)
            store[0][slots[:, None], positions] = k.transpose(1, 2)
            store[1][slots[:, None], positions] = v.transpose(1, 2)
            past = store[:, slots, :reach].transpose(2, 3)
            attended = F.scaled_dot_product_attention(q, past[0], past[1], attn_mask=mask[:, None])
            x = block.finish(x, attended)
        logits: Tensor = self.head(self.norm(x))
        return logits

    def _enter(self, tokens: Tensor, positions: Tensor) -> Tensor:
        x: Tensor = self.embed(tokens)
        if self.place is not None:
            x = x + self.place(positions.clamp(max=self.shape.context - 1))
        return x

    def _initialise(self, generator: torch.Generator) -> None:
        """Matrices from N(0, 0.7/sqrt(inputs)), embeddings from N(0, 0.02), biases zero."""
        for name, weight in self.named_parameters():
            if weight.dim() > 1:
                std = 0.02 if name.split(".")[0] in ("embed", "place") else 0.7
                std = std if std == 0.02 else std / math.sqrt(weight.shape[1])
                nn.init.normal_(weight, 0.0, std, generator=generator)
            elif name.endswith("bias"):
                nn.init.zeros_(weight)


class _Block(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        width, self.heads = shape.width, shape.heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, False)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.rope = _Rope(shape) if shape.positions == "rope" else None

    def project(self, x: Tensor, positions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values, each (rows, heads, length, width of a head)."""
        rows, length, width = x.shape
        split = self.qkv(self.norm1(x)).view(rows, length, 3, self.heads, width // self.heads)
        q, k, v = split.permute(2, 0, 3, 1, 4)
        if self.rope is not None:
            q, k = self.rope(q, positions), self.rope(k, positions)
        return q, k, v

    def finish(self, x: Tensor, attended: Tensor) -> Tensor:
        """The rest of the block, after attention."""
        x = x + self.out(attended.transpose(1, 2).reshape(x.shape))
        added: Tensor = self.down(F.gelu(self.up(self.norm2(x))))
        return x + added


class _Rope(nn.Module):
    """Rotary positions (Su et al., 2021, arXiv:2104.09864, equation 34).

    Deviations: the two halves of a head are paired instead of neighbours; the base is 100, not
    10,000, because conversations are tens of characters long.
    """

    def __init__(self, shape: Shape, base: float = 100.0) -> None:
        super().__init__()
        half = shape.width // shape.heads // 2
        speed = base ** (-torch.arange(half) / half)
        angle = torch.arange(shape.context + 1)[:, None] * speed
        self.register_buffer("cos", angle.cos(), persistent=False)
        self.register_buffer("sin", angle.sin(), persistent=False)
        self.cos: Tensor
        self.sin: Tensor

    def forward(self, x: Tensor, positions: Tensor) -> Tensor:
        cos, sin = self.cos[positions], self.sin[positions]
        if positions.dim() == 2:
            cos, sin = cos[:, None], sin[:, None]
        left, right = x.chunk(2, -1)
        return torch.cat([left * cos - right * sin, left * sin + right * cos], -1)


def logprobs(model: Transformer, tokens: Tensor, temperature: float = 1.0) -> Tensor:
    """The log-prob of every token given those before it, (rows, length); 0 for the first."""
    logits = model(tokens[:, :-1]) / temperature
    found = logits.log_softmax(-1).gather(2, tokens[:, 1:, None])[..., 0]
    return F.pad(found, (1, 0))
