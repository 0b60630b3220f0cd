"""Level 0: small functions that are put together from parts."""

from typing import NamedTuple

from agent_envs.envs.code.problems.form import Dice, Problem, fill, mutated


class Part(NamedTuple):
    """A piece of a function: how it is said, how it is written, and how it is written wrongly."""

    text: str
    code: str
    wrong: str


_KEEP = (
    Part("are even", "x % 2 == 0", "x % 2 == 1"),
    Part("are odd", "x % 2 == 1", "x % 2 == 0"),
    Part("are above <k>", "x > <k>", "x >= <k>"),
    Part("are below <k>", "x < <k>", "x <= <k>"),
    Part("are divisible by <m>", "x % <m> == 0", "x % <m> == 1"),
    Part("stand at an even index (the first has index 0)", "i % 2 == 0", "i % 2 == 1"),
    Part(
        "are larger than the element right before them (so the first is dropped)",
        "i > 0 and x > values[i - 1]",
        "i > 0 and x >= values[i - 1]",
    ),
)
_MAP = (
    Part("square it", "x * x", "2 * x"),
    Part("double it and add <k>", "2 * x + <k>", "2 * (x + <k>)"),
    Part("take its absolute value", "abs(x)", "x"),
    Part("take the last decimal digit of its absolute value", "abs(x) % 10", "x % 10"),
    Part("subtract it from <m>", "<m> - x", "x - <m>"),
    Part("divide it by <m>, rounding down", "x // <m>", "int(x / <m>)"),
)
_FOLD = (
    Part("the sum of the results", "sum(out)", "sum(out[1:])"),
    Part("the largest result, or 0 if there is none", "max(out, default=0)", "max([0, *out])"),
    Part("how many different results there are", "len(set(out))", "len(out)"),
    Part(
        "the first result minus the second plus the third, and so on (0 if there is none)",
        "sum(out[::2]) - sum(out[1::2])",
        "sum(out[1::2]) - sum(out[::2])",
    ),
    Part(
        "the last result minus the first, or 0 if there is none",
        "out[-1] - out[0] if out else 0",
        "out[0] - out[-1] if out else 0",
    ),
    Part("the largest result minus the smallest, or 0 if there is none",
         "max(out) - min(out) if out else 0", "max(out) - min(out)"),
)  # fmt: skip

_PIPELINE = """\
def <name>(values: list[int]) -> int:
    kept = [x for i, x in enumerate(values) if <keep>]
    out = [<map> for x in kept]
    return <fold>
"""


def pipeline(dice: Dice) -> Problem:
    """Whole numbers: some are kept, each is turned into another, these become one."""
    numbers = {"k": dice.randint(1, 6), "m": dice.randint(3, 7)}
    keep, change, fold = dice.choice(_KEEP), dice.choice(_MAP), dice.choice(_FOLD)
    name = dice.choice(["condense", "summarise", "digest"])
    solution = fill(_PIPELINE, name=name, keep=keep.code, map=change.code, fold=fold.code)
    text = (
        f"Of the numbers in `values`, keep those that {keep.text}. To each of them, in order, do "
        f"this: {change.text}. Return {fold.text}."
    )
    changes = (
        (f"if {keep.code}]", f"if {keep.wrong}]"),
        (f"[{change.code} for", f"[{change.wrong} for"),
        (f"return {fold.code}", f"return {fold.wrong}"),
        ("enumerate(values)", "enumerate(values[:-1])"),
        ("enumerate(values)", "enumerate(sorted(values))"),
    )
    inputs = [_numbers(dice, dice.randint(5, 9)) for _ in range(13)]
    inputs[3:3] = [[], [numbers["k"]], [-1, -4, -9, -15], [7, 7, 2, 2, 2, 6, 6]]
    return Problem(
        "pipeline",
        fill(f"{keep.text}|{change.text}|{fold.text}", **numbers),
        name,
        f"def {name}(values: list[int]) -> int:",
        fill(text, **numbers),
        fill(solution, **numbers),
        tuple(fill(m, **numbers) for m in mutated(solution, *changes)),
        tuple((values,) for values in inputs),
    )


def _numbers(dice: Dice, length: int) -> list[int]:
    return [dice.choice([dice.randint(-9, 9), dice.randint(-40, 60)]) for _ in range(length)]


_WORDS = (
    "river oak level apple stone eve kayak moon under otter tea iron noon olive red ant "
    "lamp even umbrella radar ice nut echo window a elm tot salt area dog onion i civic"
).split()

_CHOOSE = (
    Part("have more than <n> letters", "len(w) > <n>", "len(w) >= <n>"),
    Part("have at most <n> letters", "len(w) <= <n>", "len(w) < <n>"),
    Part("begin with a vowel (one of aeiou)", 'w[0] in "aeiou"', 'w[-1] in "aeiou"'),
    Part("contain the letter `<c>`", '"<c>" in w', 'w.startswith("<c>")'),
    Part("do not contain the letter `<c>`", '"<c>" not in w', 'not w.startswith("<c>")'),
    Part("have an odd number of letters", "len(w) % 2 == 1", "len(w) % 2 == 0"),
)
_SPELL = (
    Part("reverse it", "w[::-1]", "w"),
    Part("make its first letter a capital", "w[0].upper() + w[1:]", "w.upper()"),
    Part("drop its vowels (aeiou)", '"".join(c for c in w if c not in "aeiou")', "w"),
    Part("write its last letter twice", "w + w[-1]", "w + w[0]"),
    Part("move its first letter to the end", "w[1:] + w[0]", "w[-1] + w[:-1]"),
    Part("add its number of letters at the end", "w + str(len(w))", "str(len(w)) + w"),
)
_GATHER = (
    Part("all of them as one text, joined by `<s>`", '"<s>".join(out)', '" ".join(out)'),
    Part("the sorted list of the different ones", "sorted(set(out))", "sorted(out)"),
    Part(
        "a dict from each of them to how often it occurs",
        "{w: out.count(w) for w in out}",
        "{w: 1 for w in out}",
    ),
    Part(
        "the longest of them (the first such, or an empty text if there is none)",
        'max(out, key=len, default="")',
        'max(out[::-1], key=len, default="")',
    ),
    Part("the list of them, last one first", "out[::-1]", "sorted(out)[::-1]"),
)

_LETTERS = """\
def <name>(text: str) -> <type>:
    kept = [w for w in text.split() if <choose>]
    out = [<spell> for w in kept]
    return <gather>
"""
_TYPES = ("str", "list[str]", "dict[str, int]", "str", "list[str]")


def wording(dice: Dice) -> Problem:
    """Words of a text: some are kept, each is spelt anew, these are gathered."""
    values = {"n": dice.randint(2, 4), "c": dice.choice("aeor"), "s": dice.choice("-+/.")}
    choose, spell, gather = dice.choice(_CHOOSE), dice.choice(_SPELL), dice.choice(_GATHER)
    name = dice.choice(["respell", "word_game", "rewrite"])
    kind = _TYPES[_GATHER.index(gather)]
    parts = {"choose": choose.code, "spell": spell.code, "gather": gather.code}
    solution = fill(_LETTERS, name=name, type=kind, **parts)
    text = (
        f"`text` holds words of lower-case letters, separated by white space. Keep the words that "
        f"{choose.text}. To each of them, in order, do this: {spell.text}. Return {gather.text}."
    )
    changes = (
        (f"if {choose.code}]", f"if {choose.wrong}]"),
        (f"[{spell.code} for", f"[{spell.wrong} for"),
        (f"return {gather.code}", f"return {gather.wrong}"),
        ("text.split()", 'text.split(" ")[1:] if w'),
        ("text.split()", "sorted(text.split())"),
    )
    texts = [" ".join(dice.choices(_WORDS, k=dice.randint(5, 9))) for _ in range(12)]
    texts[3:3] = ["", "  ice   ant\n ice\ttea ", "i a tot", "moon under red under moon"]
    return Problem(
        "wording",
        fill(f"{choose.text}|{spell.text}|{gather.text}", **values),
        name,
        f"def {name}(text: str) -> {kind}:",
        fill(text, **values),
        fill(solution, **values),
        tuple(fill(m, **values) for m in mutated(solution, *changes)),
        tuple((given,) for given in texts),
    )


_DIGITS = (
    Part("the sum of the squares of the digits", "sum(d * d for d in ds)", "sum(ds) ** 2"),
    Part(
        "the alternating sum of the digits: the last minus the one before it plus the next, and "
        "so on",
        "sum(ds[::2]) - sum(ds[1::2])",
        "sum(ds[1::2]) - sum(ds[::2])",
    ),
    Part("how many different digits occur", "len(set(ds))", "len(ds)"),
    Part(
        "the largest difference between two digits that stand side by side, or 0 if there is "
        "one digit",
        "max((abs(a - b) for a, b in zip(ds, ds[1:])), default=0)",
        "max(ds) - min(ds)",
    ),
    Part(
        "the number whose digits in base <b> are the same in reverse order",
        "sum(d * <b>**i for i, d in enumerate(ds[::-1]))",
        "sum(d * <b>**i for i, d in enumerate(ds))",
    ),
    Part(
        "how many digits are at least <d>", "sum(d >= <d> for d in ds)", "sum(d > <d> for d in ds)"
    ),
)

_NUMERAL = """\
def <name>(n: int) -> int:
    if n < 0:
        raise ValueError("n is negative")
    ds = [n % <b>]  # last digit first
    while n >= <b>:
        n //= <b>
        ds.append(n % <b>)
    return <do>
"""


def numeral(dice: Dice) -> Problem:
    """Digits of a number in some base; a negative number is a ValueError."""
    base = dice.choice([2, 3, 4, 5, 6, 7, 8, 9, 11, 12])
    values = {"b": base, "d": dice.randint(1, base - 1)}
    do = dice.choice(_DIGITS)
    name = dice.choice(["digit_rule", "numeral", "from_digits"])
    solution = fill(_NUMERAL, name=name, do=do.code)
    text = (
        f"Write `n` in base <b>, without leading zeros (0 has the one digit 0). Return {do.text}. "
        "Raise ValueError if `n` is negative."
    )
    changes = (
        (f"return {do.code}", f"return {do.wrong}"),
        ("raise ValueError", "return 0\n        raise ValueError"),
        ("n >= <b>", "n > <b>"),
        ("ds = [n % <b>]", "ds = [n % 10]"),
        ("n < 0", "n < 1"),
    )
    inputs = [dice.randrange(base, base ** dice.randint(3, 6)) for _ in range(12)]
    inputs[3:3] = [0, 1, base - 1, base, base**2, -1, -base]
    return Problem(
        "numeral",
        fill(do.text, **values) + f"|{base}",
        name,
        f"def {name}(n: int) -> int:",
        fill(text, **values),
        fill(solution, **values),
        tuple(fill(m, **values) for m in mutated(solution, *changes)),
        tuple((n,) for n in inputs),
    )
