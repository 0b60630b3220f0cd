"""How the zygote lays out its memory, so that its forks share as many pages as they can."""

import sys

BLOCK, LARGEST_SMALL, POOL, POOL_HEADER = 16, 512, 1 << 14, 48
"""How CPython lays out small objects; if another version does it otherwise, little is lost."""
BYTES_HEADER = sys.getsizeof(b"")
MOST_GAPS = 4000
SPARE = 1 << 20


def fill_gaps() -> list[object]:
    """Use up the free blocks between Python's small objects. The result must be kept.

    What a session allocates then lies together on fresh pages, instead of making it copy a shared
    page for every gap; and it lies at the same addresses in every session.
    """
    kept: list[object] = []
    for size in range(2 * BLOCK, LARGEST_SMALL + 1, BLOCK):
        for _ in range(MOST_GAPS):
            filler = bytes(max(0, size - BYTES_HEADER))
            kept.append(filler)
            if id(filler) % POOL == POOL_HEADER:  # the first of a fresh pool
                break
    return kept


def keep_a_heap() -> None:
    """Have buffers for messages come from the heap, not from a mapping of their own each time:
    malloc learns that from a large block that is freed."""
    bytes(SPARE)
