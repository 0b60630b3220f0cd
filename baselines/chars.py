"""The workshop's alphabet: 17 characters, each of them one token."""

import hashlib
from collections.abc import Iterable

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


def digest() -> str:
    """A hash of the alphabet and its order, for provenance."""
    return hashlib.sha256(ALPHABET.encode()).hexdigest()[:16]
