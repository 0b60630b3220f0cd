"""The policy: generates the turns of all waiting conversations together."""

import hashlib
import random
import time
import warnings
from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from agent_envs.baselines.codec import Codec
from agent_envs.baselines.model import Model
from agent_envs.baselines.reader import Reader
from agent_envs.baselines.record import Record, Row, record
from agent_envs.policy import Answer, Messages, Policy
from agent_envs.streams import derive
from agent_envs.trajectory import Trajectory
from agent_envs.turns import Action


@dataclass(eq=False)
class _Talk:
    """One conversation: its row, its place in the cache, its own stream of random numbers."""

    key: Hashable
    slot: int
    """-1 when the place was given to another conversation."""
    dice: random.Random
    row: Row = field(default_factory=Row)
    base: int = 0
    """Where in the row the conversation begins that the model sees: at the last restart."""
    read: int = 0
    """Up to where the row is in the cache."""
    heard: int = 0
    """How many messages are in the row, the one that is being written included."""
    said: str = ""
    """The last turn, as text."""
    mark: bytes = b""
    """Stands for the messages that were heard."""
    donor: "tuple[_Talk, int] | None" = None
    """Who reads the same beginning at this moment, and how long that is."""


class TokenPolicy(Policy):
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
        self.model, self.codec, self.turn_limit = model, codec, turn_limit
        self.slots, self.share = slots, share
        self.seconds = 0.0
        """How long it has worked."""
        self.begin(0)

    def begin(self, seed: int, *, version: int = 0, temperature: float = 1.0) -> None:
        """Forget all conversations, and sample from here on with these; call it when the weights
        have changed. Temperature 0 takes the likeliest token, with its log-prob at 1."""
        self.seed, self.version, self.temperature = seed, version, temperature
        self.reader = Reader(self.model, getattr(self, "reader", None), self.share > 0)
        self._free = list(range(self.reader.cache.slots))[::-1]
        self._talks: dict[Hashable, _Talk] = {}
        self._waiting: dict[Hashable, _Talk] = {}
        self._refused: list[Answer] = []
        self._ended: dict[Hashable, _Talk] = {}
        self._resting: deque[_Talk] = deque()
        self._told: dict[bytes, tuple[_Talk, int, int]] = {}

    @property
    def fed(self) -> int:
        """How many tokens the model has read since `begin`."""
        return self.reader.fed

    # -- Policy ------------------------------------------------------------------------------------

    def submit(self, key: Hashable, messages: Messages) -> None:
        """See `Policy`. Text that has no tokens is an error that `collect` gives; raises ValueError
        for a conversation in which the last turn is not what was sampled."""
        began = time.perf_counter()
        self._take(key, messages)
        self.seconds += time.perf_counter() - began

    def _take(self, key: Hashable, messages: Messages) -> None:
        talk = self._talks.get(key) or self._meet(key, messages)
        if talk.row.spans and messages[talk.heard - 1]["content"] != talk.said:
            raise ValueError(f"{key}: the conversation has another turn than was sampled")
        try:
            self._hear(talk, messages)
        except ValueError as error:
            self._refused.append((key, error))
            return
        talk.mark = _marked(talk.mark, messages[max(talk.heard - 1, 0) :])
        talk.heard = len(messages) + 1
        self._told[talk.mark] = talk, talk.base, len(talk.row.tokens)
        talk.row.begin_turn()
        self._waiting[key] = talk

    def collect(self, timeout: float) -> list[Answer]:
        """See `Policy`: reads what is new, writes one token for each that waits, and gives the
        turns that are complete."""
        began = time.perf_counter()
        answers = self._work()
        self.seconds += time.perf_counter() - began
        return answers

    def _work(self) -> list[Answer]:
        full = [t for t in self._waiting.values() if self._room(t) <= 0]
        answers, self._refused = self._refused, []
        answers += [self._answer(talk, cut=True) for talk in full]
        talks = sorted(self._waiting.values(), key=lambda talk: talk.slot)
        if talks:
            for talk, token, logprob in self._next_tokens(talks):
                talk.row.say(token, logprob, self.version)
                if token == self.codec.end:
                    answers.append(self._answer(talk, cut=False))
                elif self._room(talk) <= 0:
                    answers.append(self._answer(talk, cut=True))
        return answers

    def cancel(self, key: Hashable) -> None:
        """See `Policy`. The row stays, for `record`."""
        talk = self._talks.pop(key, None)
        if talk is not None:
            self._waiting.pop(key, None)
            self._ended[key] = talk
            self._resting.append(talk)

    def record(self, trajectory: Trajectory) -> Record:
        """What was sampled in an episode that this policy has played since `begin`; nothing, where
        the environment failed before the first turn."""
        talk = self._ended.get(trajectory.episode_id)
        return record(trajectory, talk.row if talk else Row())

    # -- conversations -----------------------------------------------------------------------------

    def _meet(self, key: Hashable, messages: Messages) -> _Talk:
        """A new conversation. A branch goes on from the very tokens its parent had there."""
        dice = random.Random(derive(self.seed, "sample", key))
        talk = self._talks[key] = _Talk(key, self._slot(), dice)
        mark = _marked(b"", messages)
        if mark in self._told:
            parent, base, length = self._told[mark]
            talk.row.hear(parent.row.tokens[base:length])
            talk.heard, talk.mark = len(messages) + 1, mark
            if parent.base == base:
                self._inherit(talk, parent, length - base)
        return talk

    def _inherit(self, talk: _Talk, parent: _Talk, length: int) -> None:
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

    def _hear(self, talk: _Talk, messages: Messages) -> None:
        """Append what is new to the row, or all of it where the model is shown it anew."""
        row, codec = talk.row, self.codec
        if row.spans:
            ended = row.tokens[-1:] == [codec.end] and row.spans[-1][1] > row.spans[-1][0]
            news = codec.follow(messages, talk.heard, ended=ended)
            if news is None:
                if not codec.memory:
                    _say_once()
                row.restart()
                talk.base = talk.read = len(row.tokens)
                news = codec.open(messages)
            row.hear(news)
        elif not talk.heard:
            row.hear(codec.open(messages))

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

    def _room(self, talk: _Talk) -> int:
        """How many tokens may still be written in this turn."""
        start, end = talk.row.spans[-1]
        return min(start + self.turn_limit, talk.base + self.model.sizes.context) - end

    def _answer(self, talk: _Talk, *, cut: bool) -> Answer:
        del self._waiting[talk.key]
        sample = talk.row.last_sample(self.version)
        talk.said = self.codec.read(sample.tokens)
        return talk.key, Action(talk.said, sample, cut=cut)

    # -- tokens ------------------------------------------------------------------------------------

    def _next_tokens(self, talks: list[_Talk]) -> list[tuple[_Talk, int, float]]:
        """Feed what each has not read yet, and draw the token that follows.

        Those in mid-turn have one token to read, the others a message: apart, nobody is padded to
        the length of somebody else's prompt."""
        writing = [t for t in talks if len(t.row.tokens) == t.read + 1]
        reading = [t for t in talks if len(t.row.tokens) > t.read + 1 and self._has_news(t)]
        return [drawn for part in (writing, reading) if part for drawn in self._draw(part)]

    def _has_news(self, talk: _Talk) -> bool:
        """Whether a conversation shall read now, and not wait for one that reads its beginning."""
        if talk.donor is not None:
            self._inherit(talk, *talk.donor)
        return talk.donor is None

    def _draw(self, talks: list[_Talk]) -> list[tuple[_Talk, int, float]]:
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


def _marked(mark: bytes, messages: Messages) -> bytes:
    """What stands for a conversation that has grown by some messages: the same one is read and
    written with the same tokens."""
    for message in messages:
        digest = hashlib.sha256(mark + f"{message['role']}:{message['content']}".encode())
        mark = digest.digest()
    return mark


def _say_once() -> None:
    warnings.warn(
        "this chat template rewrites earlier turns: a new row begins at every turn where it does, "
        "and the whole conversation is read again",
        RuntimeWarning,
        stacklevel=2,
    )
