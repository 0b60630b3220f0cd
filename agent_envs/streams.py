"""Counter-based randomness: every draw is a function of (seed, stream name, index).

Nothing is advanced, so there is nothing to capture in a snapshot, and two streams never disturb
each other: changing the fault rate cannot change which task is drawn.
"""

import hashlib
import struct

_UNIT = 2.0**-53


def derive(*parts: object) -> int:
    """A number in [0, 2**63) from any parts whose `repr` is stable: str, int, tuples of them."""
    digest = hashlib.blake2b(repr(parts).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1


def draw(seed: int, stream: str, index: int) -> float:
    """A uniform number in [0, 1): number `index` of the stream called `stream` under `seed`."""
    key = struct.pack("<QQ", seed & 0xFFFFFFFFFFFFFFFF, index)
    digest = hashlib.blake2b(stream.encode(), digest_size=8, key=key).digest()
    return (int.from_bytes(digest, "little") >> 11) * _UNIT
