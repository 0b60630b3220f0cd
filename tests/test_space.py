"""UnicodeText by itself: membership, cleaning, and each of Gymnasium's functions of spaces."""

import copy
import json
import pickle
import sys
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.error import CustomSpaceError, Error
from gymnasium.spaces.utils import is_space_dtype_shape_equiv
from gymnasium.vector.utils import (
    batch_differing_spaces,
    batch_space,
    concatenate,
    create_empty_array,
    create_shared_memory,
    iterate,
    read_from_shared_memory,
    write_to_shared_memory,
)
from gymnasium.wrappers.utils import create_zero_array
from hypothesis import given
from hypothesis import strategies as st

from agent_envs.space import LiveTexts, UnicodeText, clean

write: Any = write_to_shared_memory  # its annotation knows arrays alone
any_text = st.text(
    st.sampled_from("a\n\0é中😀\ud800\udfff\ufffd") | st.characters(exclude_categories=())
)


def member(text: str, max_bytes: int) -> bool:
    """Membership by the definition, one character at a time."""
    plain = all(c != "\0" and not "\ud800" <= c <= "\udfff" for c in text)
    return plain and sum(len(c.encode()) for c in text) <= max_bytes


@given(any_text, st.integers(1, 40))
def test_contains_is_the_definition(text: str, max_bytes: int) -> None:
    assert (text in UnicodeText(max_bytes)) is member(text, max_bytes)


@pytest.mark.parametrize("x", [b"a", None, 1, ["a"], ("a",), np.array("a"), float("nan")])
def test_other_things_are_no_members(x: Any) -> None:
    assert x not in UnicodeText()


def test_the_limit_is_in_bytes() -> None:
    space = UnicodeText(4)
    assert "" in space and "abcd" in space and "éé" in space and "😀" in space
    assert "abcde" not in space and "ééa" not in space and "😀a" not in space
    assert "x" * 65536 in UnicodeText() and "x" * 65537 not in UnicodeText()


@given(any_text, st.integers(0, 40), st.integers(0, 40))
def test_clean(text: str, limit: int, more: int) -> None:
    cleaned = clean(text, limit)
    replaced = "".join(c if member(c, 4) else "\ufffd" for c in text)
    assert member(cleaned, limit) and clean(cleaned, limit) == cleaned
    assert replaced.startswith(cleaned) and clean(text, limit + more).startswith(cleaned)
    assert cleaned == replaced or not member(replaced[: len(cleaned) + 1], limit)
    assert cleaned == text or not member(text, limit)


def test_clean_by_example() -> None:
    assert clean("a\0b", 9) == "a\ufffdb"
    assert clean("\ud83d\ude00", 9) == "\ufffd\ufffd"
    assert clean("ab😀", 5) == "ab"
    assert clean("a" * 10**6 + "\0", 3) == "aaa"
    with pytest.raises(ValueError, match="negative"):
        clean("a", -1)


def test_max_bytes_is_checked() -> None:
    assert UnicodeText(np.int64(3)) == UnicodeText(3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="at least 1"):
        UnicodeText(0)
    with pytest.raises(TypeError, match="float"):
        UnicodeText(1.5)  # type: ignore[arg-type]


@pytest.mark.parametrize("max_bytes", [1, 5, 65536])
def test_samples_are_members(max_bytes: int) -> None:
    space = UnicodeText(max_bytes, seed=1)
    assert all(space.sample() in space for _ in range(300))


def test_samples_are_varied_and_seeded() -> None:
    space = UnicodeText(seed=7)
    samples = [space.sample() for _ in range(300)]
    assert "" in samples and max(map(len, samples)) > 150
    assert any("\n" in s for s in samples) and not all(s.isascii() for s in samples)
    space.seed(7)
    assert [space.sample() for _ in range(300)] == samples
    assert [UnicodeText(seed=8).sample() for _ in range(9)] != samples[:9]


@pytest.mark.parametrize("argument", ["mask", "probability"])
def test_sample_refuses_a_mask(argument: str) -> None:
    with pytest.raises(Error, match="neither a mask nor a probability"):
        UnicodeText().sample(**{argument: np.ones(3)})
    assert spaces.Tuple([UnicodeText()]).sample(**{argument: (None,)})[0] in UnicodeText()


def test_equality_hash_and_repr() -> None:
    space = UnicodeText(9, seed=1)
    assert space == UnicodeText(9) and hash(space) == hash(UnicodeText(9))
    assert space != UnicodeText(8) and space != spaces.Text(9) and space != 9
    assert eval(repr(space)) == space


@pytest.mark.parametrize("clone", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_a_copy_is_equal_and_draws_the_same(clone: Any) -> None:
    space = UnicodeText(99, seed=1)
    twin = clone(space)
    assert twin == space and twin is not space
    assert [twin.sample() for _ in range(5)] == [space.sample() for _ in range(5)]


def test_json() -> None:
    space = UnicodeText(seed=1)
    samples = [space.sample() for _ in range(20)]
    for ascii_only in (True, False):
        text = json.dumps(space.to_jsonable(samples), ensure_ascii=ascii_only)
        assert space.from_jsonable(json.loads(text)) == samples


def test_every_function_that_knows_text_knows_unicode_text() -> None:
    unreached = {"_flat_dtype"}  # private; asked only after `flatdim`, which refuses
    modules = [m for name, m in sys.modules.items() if name.startswith("gymnasium")]
    found = {id(f): f for m in modules for f in vars(m).values() if hasattr(f, "registry")}
    functions = [f for f in found.values() if spaces.Text in getattr(f, "registry", ())]
    assert len(functions) >= 13
    for function in functions:
        known = function.registry.keys() & {UnicodeText, spaces.Space}
        assert known or function.__name__ in unreached, function.__name__


def test_batches() -> None:
    space = UnicodeText(9, seed=1)
    batch = batch_space(space, 3)
    assert batch == spaces.Tuple([UnicodeText(9)] * 3)
    assert len(set(batch.sample() for _ in range(20))) > 5
    texts = ("é\n", "", "abc")
    assert concatenate(space, texts, ("",) * 3) == texts
    assert list(iterate(batch, texts)) == list(texts)
    assert create_empty_array(space, 2) == ("", "") and create_zero_array(space) == ""
    with pytest.raises(CustomSpaceError):
        iterate(space, "abc")


def test_batches_of_differing_spaces() -> None:
    differing = [UnicodeText(3), UnicodeText(5)]
    batch = batch_differing_spaces(differing)
    assert isinstance(batch, spaces.Tuple) and batch == spaces.Tuple(differing)
    assert batch[0] is not differing[0]
    assert is_space_dtype_shape_equiv(UnicodeText(3), UnicodeText(3))
    assert not is_space_dtype_shape_equiv(*differing)
    assert not is_space_dtype_shape_equiv(UnicodeText(3), spaces.Text(3))


@pytest.mark.parametrize("wrap", [lambda s: s, lambda s: spaces.Tuple([s])])
def test_flattening_says_what_to_do(wrap: Any) -> None:
    space = wrap(UnicodeText(9))
    assert not space.is_np_flattenable
    with pytest.raises(NotImplementedError, match="tokeniz"):
        spaces.flatten_space(space)
    with pytest.raises(NotImplementedError, match="tokeniz"):
        spaces.flatten(space, space.sample())
    with pytest.raises(NotImplementedError, match="tokeniz"):
        spaces.unflatten(space, np.zeros(9) if space == UnicodeText(9) else (np.zeros(9),))
    with pytest.raises((NotImplementedError, ValueError), match="flat"):
        spaces.flatdim(space)


def test_shared_memory_keeps_every_text_to_itself() -> None:
    space = UnicodeText(6)
    memory = create_shared_memory(space, n=3)
    live = read_from_shared_memory(space, memory, n=3)
    assert live == ("", "", "")
    for texts in [("é中\n", "abcdef", ""), ("", "😀", "ééé"), ("\u2028", "", "x")]:
        for index, text in enumerate(texts):
            write(space, index, text, memory)
        assert tuple(live) == texts
    for bad in ("abcdefg", "\0", "\ud800"):
        with pytest.raises(ValueError, match="clean"):
            write(space, 1, bad, memory)
    assert live == ("\u2028", "", "x")


def test_live_texts_are_a_read_only_sequence() -> None:
    space = UnicodeText(6)
    memory = create_shared_memory(space, n=3)
    live: Any = read_from_shared_memory(space, memory, n=3)
    write(space, 1, "é\n", memory)
    now = ("", "é\n", "")
    assert isinstance(live, LiveTexts) and not hasattr(live, "__setitem__")
    assert len(live) == 3 and live[1] == live[-2] == "é\n" and live[1:] == now[1:]
    assert tuple(live) == now == live and live == live
    assert live != now[:2] and live != ("", "é", "") and live != list(now)
    assert repr(live) == repr(now) and "é\n" in live
    copies = [copy.copy(live), copy.deepcopy(live), pickle.loads(pickle.dumps(live))]
    assert all(type(c) is tuple and c == now for c in copies)
    write(space, 1, "new", memory)
    assert live == ("", "new", "") and copies[0] == now
    with pytest.raises(IndexError):
        live[3]
