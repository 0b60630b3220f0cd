"""Counter-based randomness: every draw is a function of (seed, stream name, index).

Nothing is advanced, so there is nothing to capture in a snapshot, and two streams never disturb
each other: changing the fault rate cannot change which task is drawn.
"""

import hashlib
import struct

_UNIT = 2.0**-53
_MASK = 2**64 - 1
_STABLE = frozenset({str, int, float, bool, bytes, type(None)})


def derive(*parts: object) -> int:
    """A number in [0, 2**63) from strings, numbers, bytes, None, and tuples of these.

    Raises TypeError for anything else: its `repr`, which is hashed, may differ in another process.
    """
    _check_stable(parts)
    digest = hashlib.blake2b(repr(parts).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1


def draw(seed: int, stream: str, index: int) -> float:
    """A uniform number in [0, 1): number `index` of the stream called `stream` under `seed`.

    Seed and index count modulo 2**64.
    """
    key = struct.pack("<QQ", seed & _MASK, index & _MASK)
    digest = hashlib.blake2b(stream.encode(), digest_size=8, key=key).digest()
    return (int.from_bytes(digest, "little") >> 11) * _UNIT


def _check_stable(parts: tuple[object, ...]) -> None:
    for part in parts:
        if isinstance(part, tuple):
            _check_stable(part)
        elif type(part) not in _STABLE:
            raise TypeError(
                f"derive() takes str, int and tuples of them, not a {type(part).__name__}"
            )
