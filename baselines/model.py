"""What the trainer has to know of a language model, and how likely it finds what was said."""

from abc import ABC, abstractmethod
from collections.abc import Iterable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from agent_envs.baselines.attention import Behind, Prompts, Sizes, View, Whole
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
        hidden = self._behind(batch, int(places.max()))[rows, places - 1 - batch.shared[rows]]
        logits = self.model.head(hidden).float() / self.temperature
        targets = batch.tokens[rows, places]
        found = logits.gather(1, targets[:, None])[:, 0] - logits.logsumexp(-1)
        return out.index_put((rows, places), found)

    def _behind(self, batch: Batch, end: int) -> Tensor:
        """Hidden states of each row, from the end of its shared prompt up to `end`."""
        shared, device = batch.shared, batch.tokens.device
        longest, everywhere = int(shared.max()), torch.arange(end, device=device)
        if not longest:
            return self.model.hidden(batch.tokens[:, :end], everywhere, Whole())
        prompts = Prompts()
        owners, which = _first_rows(batch.group)
        self.model.hidden(batch.tokens[owners, :longest], everywhere[:longest], prompts)
        steps = everywhere[: end - int(shared.min())]
        places = (shared[:, None] + steps).clamp(max=end - 1)
        view = Behind(prompts, which, shared, len(steps))
        return self.model.hidden(batch.tokens.gather(1, places), places, view)


def _first_rows(group: Tensor) -> tuple[Tensor, Tensor]:
    """The first row of each group, and for every row which of these is its group's."""
    firsts = (group[:, None] == group).int().argmax(1)
    owners: Tensor = torch.unique(firsts)
    return owners, torch.searchsorted(owners, firsts)
