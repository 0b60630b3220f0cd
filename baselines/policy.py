"""The character policy: generates the turns of all waiting conversations together."""

import random
from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from agent_envs.baselines import chars
from agent_envs.baselines.record import Record, Row, record
from agent_envs.baselines.transformer import Cache, Transformer
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
    read: int = 0
    """How many tokens of the row are in the cache."""
    heard: int = 0
    """How many messages are in the row, the one that is being written included."""

    def said(self) -> str:
        """The last turn, as text."""
        start, end = self.row.spans[-1]
        return chars.decode(self.row.tokens[start:end])


class CharPolicy(Policy):
    """Plays with a `Transformer`, on the caller's thread.

    What a key has read stays in the cache while its episode runs, so that a turn costs its new
    tokens alone; and for a while after that, so that a branch costs nothing of its parent's past.
    What a key samples depends on the seed and the key, not on who else waits: its batch moves
    log-probs by rounding only.
    """

    def __init__(self, model: Transformer, turn_limit: int = 12, slots: int = 256) -> None:
        """`turn_limit`: the longest turn, in tokens; a longer one is cut there. `slots`: how many
        conversations are kept in the cache, ended ones included; more only if more run at once."""
        self.model, self.turn_limit, self.slots = model, turn_limit, slots
        self._cache = Cache(model.shape, 0, model.head.weight.device)
        self.begin(0)

    def begin(self, seed: int, *, version: int = 0, temperature: float = 1.0) -> None:
        """Forget all conversations, and sample from here on with these; call it when the weights
        have changed. Temperature 0 takes the likeliest token, with its log-prob at 1."""
        self.seed, self.version, self.temperature = seed, version, temperature
        self.fed = 0
        """How many tokens the model has read since."""
        self._free = list(range(self._cache.slots))[::-1]
        self._talks: dict[Hashable, _Talk] = {}
        self._waiting: dict[Hashable, _Talk] = {}
        self._refused: list[Answer] = []
        self._ended: dict[Hashable, _Talk] = {}
        self._resting: deque[_Talk] = deque()
        self._told: dict[tuple[str, ...], tuple[_Talk, int]] = {}

    # -- Policy ------------------------------------------------------------------------------------

    def submit(self, key: Hashable, messages: Messages) -> None:
        """See `Policy`. Text outside the alphabet is an error that `collect` gives; raises
        ValueError for a conversation in which the last turn is not what was sampled."""
        talk = self._talks.get(key) or self._meet(key, messages)
        if talk.row.spans and messages[talk.heard - 1]["content"] != talk.said():
            raise ValueError(f"{key}: the conversation has another turn than was sampled")
        news = [m["content"] for m in messages[talk.heard :]]
        try:
            talk.row.hear(chars.encode("".join(news)))
        except ValueError as error:
            self._refused.append((key, error))
            return
        talk.heard = len(messages) + 1
        self._told[_said(messages)] = talk, len(talk.row.tokens)
        talk.row.begin_turn()
        self._waiting[key] = talk

    def collect(self, timeout: float) -> list[Answer]:
        """See `Policy`: reads what is new, writes one token for each that waits, and gives the
        turns that are complete."""
        full = [t for t in self._waiting.values() if self._room(t) <= 0]
        answers, self._refused = self._refused, []
        answers += [self._answer(talk, cut=True) for talk in full]
        talks = sorted(self._waiting.values(), key=lambda talk: talk.slot)
        if talks:
            for talk, token, logprob in self._next_tokens(talks):
                talk.row.say(token, logprob, self.version)
                if token == chars.END:
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

    # -- inside ------------------------------------------------------------------------------------

    def _meet(self, key: Hashable, messages: Messages) -> _Talk:
        """A new conversation. A branch goes on from the very tokens its parent had there."""
        dice = random.Random(derive(self.seed, "sample", key))
        talk = self._talks[key] = _Talk(key, self._slot(), dice)
        if _said(messages) in self._told:
            parent, length = self._told[_said(messages)]
            talk.row.hear(parent.row.tokens[:length])
            talk.heard = len(messages)
            if parent.slot >= 0:
                talk.read = min(parent.read, length - 1)  # the last is read for what follows it
                self._cache.copy(parent.slot, talk.slot, talk.read)
        return talk

    def _slot(self) -> int:
        """A free place, or that of whoever ended longest ago."""
        count = self._cache.slots
        if not self._free and (count < self.slots or not self._resting):
            wanted = min(max(16, 2 * count), self.slots)
            self._cache.grow(wanted if wanted > count else 2 * count)
            self._free = list(range(count, self._cache.slots))[::-1]
        if self._free:
            return self._free.pop()
        talk = self._resting.popleft()
        slot, talk.slot = talk.slot, -1
        return slot

    def _room(self, talk: _Talk) -> int:
        """How many tokens may still be written in this turn."""
        start, end = talk.row.spans[-1]
        return min(start + self.turn_limit, self.model.shape.context) - end

    def _answer(self, talk: _Talk, *, cut: bool) -> Answer:
        del self._waiting[talk.key]
        sample = talk.row.last_sample(self.version)
        return talk.key, Action(talk.said(), sample, cut=cut)

    def _next_tokens(self, talks: list[_Talk]) -> list[tuple[_Talk, int, float]]:
        """Feed what each has not read yet, and draw the token that follows.

        Those in mid-turn have one token to read, the others a message: apart, nobody is padded to
        the length of somebody else's prompt."""
        writing = [t for t in talks if len(t.row.tokens) == t.read + 1]
        reading = [t for t in talks if len(t.row.tokens) > t.read + 1]
        return [drawn for part in (writing, reading) if part for drawn in self._draw(part)]

    def _draw(self, talks: list[_Talk]) -> list[tuple[_Talk, int, float]]:
        logprobs = self._read(talks)
        if self.temperature == 0:
            chosen = logprobs.argmax(-1)
        else:
            at = torch.tensor([[t.dice.random()] for t in talks], device=self._cache.data.device)
            chosen = _invert(logprobs.exp(), at)
        found = logprobs.gather(1, chosen[:, None])[:, 0]
        return list(zip(talks, chosen.tolist(), found.tolist(), strict=True))

    @torch.inference_mode()
    def _read(self, talks: list[_Talk]) -> Tensor:
        """Log-probs (talks, vocabulary) after all that each has in its row."""
        news = [talk.row.tokens[talk.read :] for talk in talks]
        width = max(map(len, news))
        tokens = [new + [chars.PAD] * (width - len(new)) for new in news]
        made = [tokens, [t.read for t in talks], [t.slot for t in talks], [len(n) for n in news]]
        new, start, slots, lengths = (torch.tensor(x, device=self._cache.data.device) for x in made)
        logits = self.model.extend(new, start, slots, self._cache)
        for talk in talks:
            talk.read = len(talk.row.tokens)
        self.fed += sum(map(len, news))
        last = logits[torch.arange(len(talks), device=self._cache.data.device), lengths - 1]
        return (last / (self.temperature or 1.0)).log_softmax(-1)


def _invert(probabilities: Tensor, at: Tensor) -> Tensor:
    """The outcome at which the cumulated probabilities pass `at` (rows, 1), each in [0, 1)."""
    cumulated = probabilities.double().cumsum(-1)
    return (cumulated <= at.double() * cumulated[:, -1:]).sum(-1)


def _said(messages: Messages) -> tuple[str, ...]:
    """A conversation as a key: the same one was read and written with the same tokens."""
    return tuple(f"{message['role']}:{message['content']}" for message in messages)
