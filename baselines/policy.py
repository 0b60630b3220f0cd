"""The policy: generates the turns of all waiting conversations together."""

from collections import deque
from collections.abc import Hashable

import torch
from torch import Tensor

from agent_envs.baselines.codec import Codec
from agent_envs.baselines.conversations import Conversations, Drawn, Talk
from agent_envs.baselines.model import Model
from agent_envs.baselines.reader import Reader


class TokenPolicy(Conversations):
    """Plays with a `Model`, on the caller's thread.

    What a key has read stays in the cache while its episode runs, so that a turn costs its new
    tokens alone; and for a while after that, so that a branch costs nothing of its parent's past.
    What a key samples depends on the seed and the key, not on who else waits: its batch moves
    log-probs by rounding only.
    """

    def __init__(
        self,
        model: Model,
        codec: Codec,
        turn_limit: int = 12,
        slots: int = 256,
        *,
        share: int = 0,
    ) -> None:
        """`turn_limit`: the longest turn, in tokens; a longer one is cut there. `slots`: how many
        conversations are kept in the cache, ended ones included; more only if more run at once.
        `share`: a prompt of so many tokens that others wait with too is read by one of them, and
        the cache is read in one piece where it can be, see `Reader`; 0 for neither, which is
        quickest where conversations are short."""
        self.model, self.slots, self.share = model, slots, share
        super().__init__(codec, turn_limit, model.sizes.context)

    def begin(self, seed: int, *, version: int = 0, temperature: float = 1.0) -> None:
        """See `Conversations`."""
        super().begin(seed, version=version, temperature=temperature)
        self.reader = Reader(self.model, getattr(self, "reader", None), self.share > 0)
        self._free = list(range(self.reader.cache.slots))[::-1]
        self._resting: deque[Talk] = deque()

    @property
    def fed(self) -> int:
        """How many tokens the model has read since `begin`."""
        return self.reader.fed

    def cancel(self, key: Hashable) -> None:
        """See `Policy`. Its place in the cache is kept until others need it."""
        talk = self._talks.get(key)
        if talk is not None:
            self._resting.append(talk)
        super().cancel(key)

    def enter(self, talk: Talk, parent: Talk | None, length: int) -> None:
        """See `Conversations`."""
        talk.slot = self._slot()
        if parent is not None:
            self._inherit(talk, parent, length)

    def _inherit(self, talk: Talk, parent: Talk, length: int) -> None:
        """Take over what the parent has read of a beginning that they share."""
        while parent.donor is not None:
            parent = parent.donor[0]
        talk.donor = None
        if parent.slot < 0:
            return
        read = min(parent.read - parent.base, length - 1)  # the last is read for what follows it
        if 0 < self.share <= length and read < length - 1 and parent.key in self._waiting:
            talk.donor = parent, length
        else:
            talk.read = read
            self.reader.cache.copy(parent.slot, talk.slot, read)

    def _slot(self) -> int:
        """A free place, or that of whoever ended longest ago."""
        count = self.reader.cache.slots
        if not self._free and (count < self.slots or not self._resting):
            wanted = min(max(16, 2 * count), self.slots)
            self.reader.cache.grow(wanted if wanted > count else 2 * count)
            self._free = list(range(count, self.reader.cache.slots))[::-1]
        if self._free:
            return self._free.pop()
        talk = self._resting.popleft()
        slot, talk.slot = talk.slot, -1
        return slot

    def write(self, talks: list[Talk]) -> list[Drawn]:
        """Feed what each has not read yet, and draw the token that follows.

        Those in mid-turn have one token to read, the others a message: apart, nobody is padded to
        the length of somebody else's prompt."""
        talks = sorted(talks, key=lambda talk: talk.slot)
        writing = [t for t in talks if len(t.row.tokens) == t.read + 1]
        reading = [t for t in talks if len(t.row.tokens) > t.read + 1 and self._has_news(t)]
        return [drawn for part in (writing, reading) if part for drawn in self._draw(part)]

    def _has_news(self, talk: Talk) -> bool:
        """Whether a conversation shall read now, and not wait for one that reads its beginning."""
        if talk.donor is not None:
            self._inherit(talk, *talk.donor)
        return talk.donor is None

    def _draw(self, talks: list[Talk]) -> list[Drawn]:
        news = [talk.row.tokens[talk.read :] for talk in talks]
        starts = [talk.read - talk.base for talk in talks]
        logits = self.reader.read(news, starts, [talk.slot for talk in talks])
        for talk in talks:
            talk.read = len(talk.row.tokens)
        logprobs = (logits / (self.temperature or 1.0)).log_softmax(-1)
        if self.temperature == 0:
            chosen = logprobs.argmax(-1)
        else:
            at = torch.tensor([[t.dice.random()] for t in talks], device=logprobs.device)
            chosen = _invert(logprobs.exp(), at)
        found = logprobs.gather(1, chosen[:, None])[:, 0]
        return list(zip(talks, chosen.tolist(), found.tolist(), strict=True))


def _invert(probabilities: Tensor, at: Tensor) -> Tensor:
    """The outcome at which the cumulated probabilities pass `at` (rows, 1), each in [0, 1)."""
    cumulated = probabilities.double().cumsum(-1)
    return (cumulated <= at.double() * cumulated[:, -1:]).sum(-1)
