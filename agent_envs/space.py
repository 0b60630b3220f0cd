"""Any Unicode text as a Gymnasium space, in every function that Gymnasium dispatches on spaces.

Gymnasium's own `Text` comes back blank from an `AsyncVectorEnv` with shared memory, because it is
read once, when the vector is made. Here the batch is a view that decodes the memory when it is
looked at; the deep copy that the vector hands out by default is a plain tuple of strings. (`OneOf`
is read once too, whatever is in it: with one, use `shared_memory=False`.)

Left to what Gymnasium does for any space: `batch_space` (a Tuple), `concatenate` (a tuple) and
`iterate`, whose handler for Tuple would take the batch apart by characters if texts had their own.
"""

import multiprocessing
import operator
import re
import struct
from collections.abc import Callable, Sequence
from copy import deepcopy
from ctypes import Array, c_ubyte
from types import ModuleType
from typing import Any, NoReturn, overload

import numpy as np
from gymnasium.error import Error
from gymnasium.spaces import Space, Tuple
from gymnasium.spaces.utils import (
    flatdim,
    flatten,
    flatten_space,
    is_space_dtype_shape_equiv,
    unflatten,
)
from gymnasium.vector.utils import (
    batch_differing_spaces,
    create_empty_array,
    create_shared_memory,
    read_from_shared_memory,
    write_to_shared_memory,
)
from gymnasium.wrappers.utils import create_zero_array

_REPLACEMENT = "\ufffd"
_NOT_TEXT = re.compile("[\0\ud800-\udfff]")
_SAMPLED = (
    "".join(map(chr, range(32, 127)))
    + "\n" * 6
    + "\t\r\x7f\x85\u2028\ufeff"
    + "äéßØαЖ\u0301\u05d0\u0627\u0e01中文한"
    + "\ufffd😀👍🏽\U0010ffff"
)


def clean(text: str, max_bytes: int) -> str:
    """`text` as a member of `UnicodeText(max_bytes)`.

    NUL and lone surrogates become U+FFFD; what is over `max_bytes` of UTF-8 is cut off, at a
    character boundary. A text that is a member comes back as it is. Raises ValueError where
    `max_bytes` is negative.
    """
    if max_bytes < 0:
        raise ValueError(f"max_bytes must not be negative, and is {max_bytes}")
    text = text[:max_bytes]  # a character takes a byte at least
    if text.isascii() and "\0" not in text:
        return text
    text = text.replace("\0", _REPLACEMENT)
    try:
        data = text.encode()
    except UnicodeEncodeError:
        text = _NOT_TEXT.sub(_REPLACEMENT, text)
        data = text.encode()
    return text if len(data) <= max_bytes else data[:max_bytes].decode(errors="ignore")


class UnicodeText(Space[str]):
    """Every string of at most `max_bytes` bytes in UTF-8, without NUL and lone surrogates.

    The empty string is a member. `clean` makes a member of any string. Raises ValueError where
    `max_bytes` is less than 1, TypeError where it is no integer.
    """

    def __init__(
        self, max_bytes: int = 65536, seed: int | np.random.Generator | None = None
    ) -> None:
        self.max_bytes = operator.index(max_bytes)
        if self.max_bytes < 1:
            raise ValueError(f"max_bytes must be at least 1, and is {max_bytes}")
        super().__init__(seed=seed)

    @property
    def is_np_flattenable(self) -> bool:
        """False: text has no numeric form of its own."""
        return False

    def contains(self, x: Any) -> bool:
        """Whether `x` is a string that this space holds."""
        if not isinstance(x, str) or len(x) > self.max_bytes or "\0" in x:
            return False
        if x.isascii():
            return True
        try:
            return len(x.encode()) <= self.max_bytes
        except UnicodeEncodeError:
            return False

    def sample(self, mask: Any | None = None, probability: Any | None = None) -> str:
        """A text of 0 to 255 characters, short ones more often, one in five or so empty.

        Raises gymnasium.error.Error where a mask or a probability is given.
        """
        if mask is not None or probability is not None:
            raise Error(
                "UnicodeText.sample takes neither a mask nor a probability: its members cannot be "
                "listed. Call sample() without, and change or choose among what it gives."
            )
        length = self.np_random.integers(2 ** self.np_random.integers(9))
        picks = self.np_random.integers(len(_SAMPLED), size=length)
        return clean("".join(_SAMPLED[i] for i in picks), self.max_bytes)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UnicodeText) and self.max_bytes == other.max_bytes

    def __hash__(self) -> int:
        return hash((UnicodeText, self.max_bytes))

    def __repr__(self) -> str:
        return f"UnicodeText({self.max_bytes})"


class LiveTexts(Sequence[str]):
    """The newest texts of a vector's workers, decoded from shared memory when looked at.

    What `AsyncVectorEnv(..., copy=False)` hands out. It is read-only and equals a tuple of the same
    texts; every step changes it, and while a step is under way what it says is undefined.
    `tuple(texts)`, a copy, a deep copy and a pickle of it are plain tuples, and stay as they are;
    only these are members of the vector's `observation_space`.
    """

    def __init__(self, memory: "Array[c_ubyte]", n: int, max_bytes: int) -> None:
        self._slots = [_slot(memory, i, max_bytes) for i in range(n)]

    def __len__(self) -> int:
        return len(self._slots)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[str, ...]: ...
    def __getitem__(self, index: int | slice) -> str | tuple[str, ...]:
        slots = self._slots[index]
        return _load(slots) if isinstance(slots, memoryview) else tuple(map(_load, slots))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, tuple | LiveTexts):
            return NotImplemented
        return self[:] == tuple(other)

    def __repr__(self) -> str:
        return repr(self[:])

    def __reduce__(self) -> tuple[type[tuple[str, ...]], tuple[tuple[str, ...]]]:
        return tuple, (self[:],)


_LENGTH = struct.Struct("=Q")


def _slot(memory: "Array[c_ubyte]", index: int, max_bytes: int) -> memoryview:
    size = _LENGTH.size + max_bytes
    return memoryview(memory).cast("B")[index * size : (index + 1) * size]


def _load(slot: memoryview) -> str:
    (length,) = _LENGTH.unpack_from(slot)
    return str(slot[_LENGTH.size : _LENGTH.size + length], "utf-8")


def _create_memory(
    space: UnicodeText, n: int = 1, ctx: ModuleType = multiprocessing
) -> "Array[c_ubyte]":
    memory: Array[c_ubyte] = ctx.RawArray("B", n * (_LENGTH.size + space.max_bytes))
    return memory


def _read_memory(space: UnicodeText, shared_memory: "Array[c_ubyte]", n: int = 1) -> LiveTexts:
    return LiveTexts(shared_memory, n, space.max_bytes)


def _write_memory(
    space: UnicodeText, index: int, value: str, shared_memory: "Array[c_ubyte]"
) -> None:
    if value not in space:
        raise ValueError(
            f"the observation of env {index} is not in {space}: pass it through "
            f"agent_envs.space.clean(text, {space.max_bytes})"
        )
    data = value.encode()
    slot = _slot(shared_memory, index, space.max_bytes)
    _LENGTH.pack_into(slot, 0, len(data))
    slot[_LENGTH.size : _LENGTH.size + len(data)] = data


def _create_empty(space: UnicodeText, n: int = 1, fn: Any = None) -> tuple[str, ...]:
    return ("",) * n


def _create_zero(space: UnicodeText) -> str:
    return ""


def _batch_differing(spaces: Sequence[UnicodeText]) -> Tuple[Any]:
    return Tuple([deepcopy(space) for space in spaces], seed=deepcopy(spaces[0].np_random))


def _is_equivalent(space_1: UnicodeText, space_2: Space[Any]) -> bool:
    return space_1 == space_2  # one slot of the shared memory has to fit all


def _no_flat_form(space: UnicodeText, x: Any = None) -> NoReturn:
    raise NotImplementedError(
        f"{space} has no flat form: text becomes numbers by a tokenizer. Wrap the environment, as "
        "in gymnasium.wrappers.TransformObservation(env, tokenize, MultiDiscrete([vocabulary] * n))"
        " or TransformAction, and flatten that."
    )


_HANDLERS: dict[Any, Callable[..., Any]] = {
    create_shared_memory: _create_memory,
    read_from_shared_memory: _read_memory,
    write_to_shared_memory: _write_memory,
    create_empty_array: _create_empty,
    create_zero_array: _create_zero,
    batch_differing_spaces: _batch_differing,
    is_space_dtype_shape_equiv: _is_equivalent,
    flatdim: _no_flat_form,
    flatten: _no_flat_form,
    unflatten: _no_flat_form,
    flatten_space: _no_flat_form,
}
for _function, _handler in _HANDLERS.items():
    _function.register(UnicodeText, _handler)
