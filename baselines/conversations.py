"""What a policy keeps of its conversations: their tokens, as they were heard and sampled."""

import hashlib
import random
import time
import warnings
from abc import abstractmethod
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from typing import TypeAlias

from agent_envs.baselines.codec import Codec
from agent_envs.baselines.record import Record, Row, record
from agent_envs.policy import Answer, Messages, Policy
from agent_envs.streams import derive
from agent_envs.trajectory import Trajectory
from agent_envs.turns import Action


@dataclass(eq=False)
class Talk:
    """One conversation: its row, its place in the cache, its own stream of random numbers."""

    key: Hashable
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
    slot: int = -1
    """Its place in the cache; -1 before it has one, and when it was given to another."""
    donor: "tuple[Talk, int] | None" = None
    """Who reads the same beginning at this moment, and how long that is."""


Drawn: TypeAlias = tuple[Talk, int, float]
"""Whose next token, which one, and its log-prob."""


class Conversations(Policy):
    """Tokens in, tokens out: a turn goes on from the very tokens that were sampled before it.

    This is the bookkeeping of the conversations; who writes their tokens is up to a subclass.
    """

    def __init__(self, codec: Codec, turn_limit: int, context: int) -> None:
        """`turn_limit`: the longest turn, in tokens; a longer one is cut there, and where the
        conversation has `context` tokens."""
        self.codec, self.turn_limit, self.context = codec, turn_limit, context
        self.seconds = 0.0
        """How long it has worked."""
        self.begin(0)

    def begin(self, seed: int, *, version: int = 0, temperature: float = 1.0) -> None:
        """Forget all conversations, and sample from here on with these; call it when the weights
        have changed. Temperature 0 takes the likeliest token, with its log-prob at 1."""
        self.seed, self.version, self.temperature = seed, version, temperature
        self._talks: dict[Hashable, Talk] = {}
        self._waiting: dict[Hashable, Talk] = {}
        self._refused: list[Answer] = []
        self._ended: dict[Hashable, Talk] = {}
        self._told: dict[bytes, tuple[Talk, int, int]] = {}

    @abstractmethod
    def write(self, talks: list[Talk]) -> Iterable[Drawn]:
        """The next token of some of the conversations, all of which wait for their turn."""

    def enter(self, talk: Talk, parent: Talk | None, length: int) -> None:
        """A conversation begins. Its first `length` tokens are those of `parent`, if any, who may
        still have them at hand."""

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
        full = [t for t in self._waiting.values() if self.room(t) <= 0]
        answers, self._refused = self._refused, []
        answers += [self._answer(talk, cut=True) for talk in full]
        if self._waiting:
            for talk, token, logprob in self.write(list(self._waiting.values())):
                talk.row.say(token, logprob, self.version)
                if token == self.codec.end:
                    answers.append(self._answer(talk, cut=False))
                elif self.room(talk) <= 0:
                    answers.append(self._answer(talk, cut=True))
        return answers

    def cancel(self, key: Hashable) -> None:
        """See `Policy`. The row stays, for `record`."""
        talk = self._talks.pop(key, None)
        if talk is not None:
            self._waiting.pop(key, None)
            self._ended[key] = talk

    def record(self, trajectory: Trajectory) -> Record:
        """What was sampled in an episode that this policy has played since `begin`; nothing, where
        the environment failed before the first turn."""
        talk = self._ended.get(trajectory.episode_id)
        return record(trajectory, talk.row if talk else Row())

    # -- conversations -----------------------------------------------------------------------------

    def _meet(self, key: Hashable, messages: Messages) -> Talk:
        """A new conversation. A branch goes on from the very tokens its parent had there."""
        dice = random.Random(derive(self.seed, "sample", key))
        talk = self._talks[key] = Talk(key, dice)
        mark = _marked(b"", messages)
        if mark not in self._told:
            self.enter(talk, None, 0)
            return talk
        parent, base, length = self._told[mark]
        talk.row.hear(parent.row.tokens[base:length])
        talk.heard, talk.mark = len(messages) + 1, mark
        self.enter(talk, parent if parent.base == base else None, length - base)
        return talk

    def _hear(self, talk: Talk, messages: Messages) -> None:
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

    def room(self, talk: Talk) -> int:
        """How many tokens may still be written in this turn."""
        start, end = talk.row.spans[-1]
        return min(start + self.turn_limit, talk.base + self.context) - end

    def _answer(self, talk: Talk, *, cut: bool) -> Answer:
        del self._waiting[talk.key]
        sample = talk.row.last_sample(self.version)
        talk.said = self.codec.read(sample.tokens)
        return talk.key, Action(talk.said, sample, cut=cut)


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
