"""The workshop's alphabet: 17 characters, each of them one token."""

import hashlib
from collections.abc import Iterable, Sequence

from agent_envs.baselines.codec import Codec
from agent_envs.policy import Messages

ALPHABET = "0123456789+|B=;?-"
PAD = 0
"""Fills what no row reaches. Nothing is inferred from it: lengths and masks say what counts."""
END = ALPHABET.index("|")
"""Closes a turn, the model's and the tool's."""

_ID = {char: number for number, char in enumerate(ALPHABET)}


def encode(text: str) -> list[int]:
    """Token ids, one a character. Raises ValueError for a character outside the alphabet."""
    try:
        return [_ID[char] for char in text]
    except KeyError:
        strange = sorted(set(text) - set(ALPHABET))
        raise ValueError(
            f"the workshop's model has no characters {strange}; it reads {ALPHABET!r}, so train it "
            f"on agent/CalculatorChars-v0"
        ) from None


def decode(tokens: Iterable[int]) -> str:
    """The inverse of `encode`."""
    return "".join([ALPHABET[token] for token in tokens])


class Chars(Codec):
    """Contents one after the other; the `|` that closes a turn is a part of its text."""

    size, end = len(ALPHABET), END

    def open(self, messages: Messages) -> list[int]:
        """See `Codec`. Raises ValueError for a character outside the alphabet."""
        return encode("".join(message["content"] for message in messages))

    def follow(self, messages: Messages, heard: int, *, ended: bool) -> list[int]:
        """See `Codec`."""
        return self.open(messages[heard:])

    def write(self, text: str) -> list[int]:
        """See `Codec`."""
        return encode(text)

    def read(self, tokens: Sequence[int]) -> str:
        """See `Codec`."""
        return decode(tokens)

    def digest(self) -> str:
        """A hash of the alphabet and its order."""
        return hashlib.sha256(ALPHABET.encode()).hexdigest()[:16]
