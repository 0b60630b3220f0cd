"""A small causal transformer, made from scratch."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from agent_envs.baselines.attention import Sizes, View
from agent_envs.baselines.model import Model

SHARP = 4.0
"""The length of each pair in the queries and keys with which a head begins to look back."""


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
    base: float = 100.0
    """Of the rotary positions: the longest wave is 2 pi times as many tokens."""

    def __post_init__(self) -> None:
        if self.positions not in ("learned", "rope"):
            raise ValueError(f"positions={self.positions!r}: learned or rope")
        if self.width % (2 * self.heads):
            raise ValueError(f"width={self.width} is no multiple of 2 x heads={self.heads}")


class Transformer(Model):
    """Pre-norm blocks of causal attention and a GELU layer (Vaswani et al., 2017, section 3)."""

    def __init__(self, shape: Shape, seed: int = 0) -> None:
        super().__init__()
        self.shape = shape
        self.embed = nn.Embedding(shape.vocabulary, shape.width)
        self.place = (
            nn.Embedding(shape.context, shape.width) if shape.positions == "learned" else None
        )
        self.blocks: Iterable[_Block]
        self.blocks = nn.ModuleList(_Block(shape, layer) for layer in range(shape.layers))  # type: ignore[assignment]
        self.norm = nn.LayerNorm(shape.width)
        self.head: nn.Linear = nn.Linear(shape.width, shape.vocabulary, bias=False)
        self._initialise(torch.Generator().manual_seed(seed))

    @property
    def sizes(self) -> Sizes:
        """See `Model`."""
        shape = self.shape
        return Sizes(shape.layers, shape.heads, shape.width // shape.heads, shape.context)

    def hidden(self, tokens: Tensor, positions: Tensor, view: View) -> Tensor:
        """See `Model`."""
        x = self._enter(tokens, positions)
        for layer, block in enumerate(self.blocks):
            q, k, v = block.project(x, positions)
            x = block.finish(x, view.attend(layer, q, k, v, None))
        out: Tensor = self.norm(x)
        return out

    def following(self, hidden: Tensor, lengths: Tensor) -> Tensor:
        """See `Model`. With few tokens to tell apart, all logits cost less than choosing."""
        logits: Tensor = self.head(hidden)
        return logits[torch.arange(len(lengths), device=lengths.device), lengths - 1]

    def _enter(self, tokens: Tensor, positions: Tensor) -> Tensor:
        x: Tensor = self.embed(tokens)
        if self.place is not None:
            x = x + self.place(positions.clamp(max=self.shape.context - 1))
        return x

    def _initialise(self, generator: torch.Generator) -> None:
        """Matrices from N(0, 0.7/sqrt(inputs)), embeddings from N(0, 0.02), biases zero."""
        for name, weight in self.named_parameters():
            if name.endswith(".lean"):
                continue
            if weight.dim() > 1:
                std = 0.02 if name.split(".")[0] in ("embed", "place") else 0.7
                std = std if std == 0.02 else std / math.sqrt(weight.shape[1])
                nn.init.normal_(weight, 0.0, std, generator=generator)
            elif name.endswith("bias"):
                nn.init.zeros_(weight)


class _Block(nn.Module):
    def __init__(self, shape: Shape, layer: int) -> None:
        super().__init__()
        width, self.heads = shape.width, shape.heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, False)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.rope = _Rope(shape) if shape.positions == "rope" else None
        self.lean = (
            nn.Parameter(self.rope.one_back(shape.heads)) if self.rope and not layer else None
        )

    def project(self, x: Tensor, positions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values, each (rows, heads, length, width of a head)."""
        rows, length, width = x.shape
        split = self.qkv(self.norm1(x)).view(rows, length, 3, self.heads, width // self.heads)
        q, k, v = split.permute(2, 0, 3, 1, 4)
        if self.lean is not None:
            q, k = q + self.lean[0], k + self.lean[1]
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

    Deviations: the two halves of a head are paired instead of neighbours; the base is the shape's,
    100 where conversations are tens of characters long.
    """

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        half = shape.width // shape.heads // 2
        self.speed = shape.base ** (-torch.arange(half) / half)
        angle = torch.arange(shape.context + 1)[:, None] * self.speed
        self.register_buffer("cos", angle.cos(), persistent=False)
        self.register_buffer("sin", angle.sin(), persistent=False)
        self.cos: Tensor
        self.sin: Tensor

    def one_back(self, heads: int) -> Tensor:
        """What is added to queries and keys, (2, heads, 1, width), so that the first head begins by
        looking at the token before: half of what copying needs, which is long in coming by itself
        (Olsson et al., 2022, arXiv:2209.11895). It is learned like all else."""
        half = len(self.speed)
        lean = torch.zeros(2, heads, 1, 2 * half)
        lean[0, 0, 0, :half] = SHARP
        lean[1, 0, 0] = SHARP * torch.cat([self.speed.cos(), self.speed.sin()])
        return lean

    def forward(self, x: Tensor, positions: Tensor) -> Tensor:
        cos, sin = self.cos[positions], self.sin[positions]
        if positions.dim() == 2:
            cos, sin = cos[:, None], sin[:, None]
        left, right = x.chunk(2, -1)
        return torch.cat([left * cos - right * sin, left * sin + right * cos], -1)
