"""Level 4: a package that counts, wraps and encodes text."""

from agent_envs.envs.code.problems.form import Dice
from agent_envs.envs.code.problems.repairs import Package, Place, filled

_TEXT = """\
The package `texts` works on plain text.

- `texts.tokens.tokens(text)`: the words of a text in lower case; a word is a run of letters,
  digits and `<join>`, but a `<join>` at its beginning or end is no part of it.
- `texts.tokens.counts(text, least=1)`: a dict from each word that occurs at least `least` times
  to how often it does.
- `texts.layout.wrap(text, width=<width>)`: a list of rows of whole words, as many to a row as
  fit into `width` characters, one blank between two; a longer word has a row of its own.
- `texts.layout.table(rows)`: rows of texts as text: columns as wide as their widest cell,
  left-aligned, `<gap>` between two columns, no blanks at the end of a row.
- `texts.code.shift(text, by=<by>)`: letters a to z and A to Z moved on by `by` places in the
  alphabet, from z to a again, capitals staying capitals; other characters stay.
- `texts.code.pack(text)`: runs of one character as the character and the length of the run; runs
  of length 1 as the character alone. `pack("aaab")` is `"a3b"`."""

_FILES = {
    "texts/tokens.py": '''\
"""Words."""

import re


def tokens(text: str) -> list:
    """The words of a text."""
    found = re.findall(r"[A-Za-z0-9<join>]+", text)
    stripped = [word.strip("<join>").lower() for word in found]
    return [word for word in stripped if word]


def counts(text: str, least: int = 1) -> dict:
    """How often each word occurs."""
    words = tokens(text)
    numbers = {word: words.count(word) for word in words}
    return {word: n for word, n in numbers.items() if n >= least}
''',
    "texts/layout.py": '''\
"""Rows and columns."""


def wrap(text: str, width: int = <width>) -> list:
    """Rows of words."""
    rows = []
    for word in text.split():
        if rows and len(rows[-1]) + 1 + len(word) <= width:
            rows[-1] += " " + word
        else:
            rows.append(word)
    return rows


def table(rows: list) -> str:
    """Rows of cells as text."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths)]
        lines.append("<gap>".join(cells).rstrip())
    return "\\n".join(lines)
''',
    "texts/code.py": '''\
"""Encodings."""

from itertools import groupby


def shift(text: str, by: int = <by>) -> str:
    """Each letter moved on in the alphabet."""
    return "".join(_moved(c, by) for c in text)


def _moved(c: str, by: int) -> str:
    for first in "aA":
        place = ord(c) - ord(first)
        if 0 <= place < 26:
            return chr(ord(first) + (place + by) % 26)
    return c


def pack(text: str) -> str:
    """Runs as characters and lengths."""
    runs = [(c, len(list(group))) for c, group in groupby(text)]
    return "".join(c + (str(n) if n > 1 else "") for c, n in runs)
''',
}

_PLACES = (
    Place("tokens", "texts/tokens.py", 'word.strip("<join>").lower()', "word.lower()",
'''\
from texts.tokens import tokens


def test_ends():
    assert tokens("<join>One two<join> th<join>ree") == ["one", "two", "th<join>ree"]
''', '''\
from texts.tokens import tokens


def test_nothing_but_joins():
    assert tokens("a <join><join> B<join>") == ["a", "b"]


def test_inside_and_outside():
    assert tokens("<join>x<join>y<join>, (Z9<join>)") == ["x<join>y", "z9"]
'''),
    Place("counts", "texts/tokens.py", "if n >= least", "if n > least",
'''\
from texts.tokens import counts


def test_once():
    assert counts("so it goes") == {"so": 1, "it": 1, "goes": 1}


def test_twice():
    assert counts("so it is so", 2) == {"so": 2}
''', '''\
from texts.tokens import counts


def test_each_limit():
    found = [sorted(counts("a b b c c c", n)) for n in (1, 2, 3, 4)]
    assert found == [["a", "b", "c"], ["b", "c"], ["c"], []]


def test_any_case():
    assert counts("Tea tea TEA jam", 3) == {"tea": 3}
'''),
    Place("wrap", "texts/layout.py", "+ 1 + len(word) <= width", "+ len(word) <= width",
'''\
from texts.layout import wrap


def test_the_blank_counts():
    assert wrap("ab cd ef", 4) == ["ab", "cd", "ef"]


def test_just_fits():
    assert wrap("ab cd efg h", 5) == ["ab cd", "efg h"]
    assert wrap("abc def", 6) == ["abc", "def"]
''', '''\
from texts.layout import wrap


def test_every_width():
    found = [len(wrap("aa bb cc dd", width)) for width in (1, 4, 5, 10, 11)]
    assert found == [4, 4, 2, 2, 1]


def test_the_usual_width():
    assert wrap("x" * (<width> - 3) + " yyy") == ["x" * (<width> - 3), "yyy"]
    assert wrap("x" * (<width> - 4) + " yyy") == ["x" * (<width> - 4) + " yyy"]
'''),
    Place("table", "texts/layout.py", "max(len(row[i]) for row in rows)", "len(rows[0][i])",
'''\
from texts.layout import table


def test_a_long_cell_below():
    assert table([["a", "b"], ["ccc", "d"]]) == "a  <gap>b\\nccc<gap>d"
''', '''\
from texts.layout import table


def test_three_columns():
    found = table([["a", "bb", "c"], ["aaaa", "b", ""], ["", "bbbbb", "cc"]])
    assert found.split("\\n") == [
        "a   <gap>bb   <gap>c", "aaaa<gap>b    <gap>".rstrip(), "    <gap>bbbbb<gap>cc"
    ]


def test_the_last_row_is_the_widest():
    assert table([["", "x"], ["wide", "y"]]) == "    <gap>x\\nwide<gap>y"
'''),
    Place("shift", "texts/code.py", "(place + by) % 26)", "place + by)",
'''\
from texts.code import shift


def test_around_the_end():
    assert shift("xyz", 3) == "abc"
''', '''\
from texts.code import shift


def test_and_back():
    text = "The quick brown fox, 7 jumps!"
    assert shift(shift(text), -<by>) == text and shift(text, 26) == text


def test_capitals():
    assert shift("Zz Aa", 1) == "Aa Bb" and shift("Az", -1) == "Zy"
'''),
    Place("pack", "texts/code.py", "n > 1 else", "n > 2 else",
'''\
from texts.code import pack


def test_runs_of_two():
    assert pack("aab") == "a2b"
''', '''\
from texts.code import pack


def test_all_lengths():
    assert pack("".join("abcde"[n] * (n + 1) for n in range(5))) == "ab2c3d4e5"


def test_pairs():
    assert pack("xxyyzx") == "x2y2zx"
'''),
)  # fmt: skip


def texts(dice: Dice) -> Package:
    """With widths and places of its own."""
    return filled(
        "texts",
        _TEXT,
        _FILES,
        _PLACES,
        join=dice.choice(["_", "'", "@"]),
        width=dice.choice([20, 30, 40]),
        gap=dice.choice(["  ", " | ", " : "]),
        by=dice.choice([3, 5, 13]),
    )
