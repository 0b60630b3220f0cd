"""What the trainer has to know of a language model, and how likely it finds what was said."""

from abc import ABC, abstractmethod
from collections.abc import Iterable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from agent_envs.baselines.attention import Behind, EndToEnd, Prompts, Sizes, View, Whole
from agent_envs.baselines.batch import Batch


class Model(nn.Module, ABC):
    """A causal language model that reads through a `View`."""

    head: nn.Module
    """From hidden states to logits."""

    @property
    @abstractmethod
    def sizes(self) -> Sizes:
        """What a cache has to know."""

    @abstractmethod
    def hidden(self, tokens: Tensor, positions: Tensor, view: View) -> Tensor:
        """What `head` makes logits of: (rows, new, width) for `tokens` (rows, new), which stand at
        `positions`, (new) or (rows, new)."""

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits (rows, length, vocabulary) of the token that follows each of `tokens`."""
        positions = torch.arange(tokens.shape[1], device=tokens.device)
        logits: Tensor = self.head(self.hidden(tokens, positions, Whole()))
        return logits

    def following(self, hidden: Tensor, lengths: Tensor) -> Tensor:
        """Logits (rows, vocabulary) after the first `lengths` positions of each row."""
        rows = torch.arange(len(lengths), device=lengths.device)
        logits: Tensor = self.head(hidden[rows, lengths - 1])
        return logits

    @property
    def weight(self) -> Tensor:
        """A weight, for its device and type."""
        return next(self.parameters())

    def layers(self) -> Iterable[nn.Module]:
        """The parts to spread over processes one by one; none where it is one whole."""
        return ()


def logprobs(model: Model, tokens: Tensor, temperature: float = 1.0) -> Tensor:
    """The log-prob of every token given those before it, (rows, length); 0 for the first."""
    logits = model(tokens[:, :-1]) / temperature
    found = logits.log_softmax(-1).gather(2, tokens[:, 1:, None])[..., 0]
    return F.pad(found, (1, 0))


class Likelihood(nn.Module):
    """Log-probs of the own tokens of a batch: the learner's only way into the model."""

    def __init__(self, model: Model, temperature: float = 1.0, whole: bool = True) -> None:
        """`whole`: read every row whole and make all logits, which is quickest where prompts and
        vocabulary are small; otherwise what rows share is read once, and logits are made only where
        an own token follows."""
        super().__init__()
        self.model, self.temperature, self.whole = model, temperature, whole

    def forward(self, batch: Batch) -> Tensor:
        """(rows, length), at least the own tokens filled in. The first of a row has none."""
        if self.whole:
            return logprobs(self.model, batch.tokens, self.temperature)
        out = torch.zeros(batch.tokens.shape, device=batch.tokens.device)
        rows, places = batch.own.nonzero(as_tuple=True)
        logits = self.model.head(self._before(batch, rows, places)).float() / self.temperature
        targets = batch.tokens[rows, places]
        found = logits.gather(1, targets[:, None])[:, 0] - logits.logsumexp(-1)
        return out.index_put((rows, places), found)

    def _before(self, batch: Batch, rows: Tensor, places: Tensor) -> Tensor:
        """Hidden states before some places of rows, all behind what their rows share."""
        everywhere = torch.arange(batch.own.shape[1], device=batch.own.device)
        counts = ((everywhere * batch.own).amax(1) - batch.shared).clamp(min=0)
        steps = everywhere[: int(counts.max())]
        valid = steps < counts[:, None]
        where = (batch.shared[:, None] + steps)[valid]
        tokens = batch.tokens[valid.nonzero()[:, 0], where]
        found = self.model.hidden(tokens[None], where[None], self._view(batch, valid))[0]
        return found[(counts.cumsum(0) - counts - batch.shared)[rows] + places - 1]

    def _view(self, batch: Batch, valid: Tensor) -> View:
        longest = int(batch.shared.max())
        if not longest:
            return EndToEnd(valid)
        prompts, (owners, which) = Prompts(), _first_rows(batch.group)
        everywhere = torch.arange(longest, device=valid.device)
        self.model.hidden(batch.tokens[owners, :longest], everywhere, prompts)
        return Behind(valid, prompts, which, batch.shared)


def _first_rows(group: Tensor) -> tuple[Tensor, Tensor]:
    """The first row of each group, and for every row which of these is its group's."""
    firsts = (group[:, None] == group).int().argmax(1)
    owners: Tensor = torch.unique(firsts)
    return owners, torch.searchsorted(owners, firsts)
