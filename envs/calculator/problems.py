"""The calculator's problems: sums, nested expressions, stories. Each maker is a function of dice.

The value of a problem's last call is its gold answer, so a problem is right if `evaluate` is.
"""

import random
from typing import NamedTuple

from agent_envs.envs.calculator.evaluate import evaluate, render
from agent_envs.streams import derive


class Problem(NamedTuple):
    """A question, and the calls that answer it, in order."""

    text: str
    calls: tuple[str, ...]
    answer: str


class Dice:
    """Draws the numbers of one problem: all twelve digits longer, or negative, in some styles."""

    def __init__(self, style: str, *key: object) -> None:
        rng = random.Random(derive(*key))
        self.choice, self.randint, self.random = rng.choice, rng.randint, rng.random
        self._style = style

    def number(self, low: int, high: int) -> int:
        """A whole number from `low` to `high`, before the style has its say."""
        drawn = self.randint(low, high)
        if self._style == "large":
            return drawn * 10**12 + self.randint(0, 10**12 - 1)
        return -drawn if self._style == "negative" else drawn

    def term(self, low: int, high: int, *, cents: bool = False) -> str:
        """Such a number as it is written inside an expression, perhaps with two decimals."""
        drawn = f"{self.number(low, high)}" + (f".{self.randint(1, 99):02}" if cents else "")
        return f"({drawn})" if drawn[0] == "-" else drawn


def two(dice: Dice) -> Problem:
    """The sum of two two-digit numbers."""
    a, b = dice.term(10, 99), dice.term(10, 99)
    wording = dice.choice(["What is {}+{}?", "Work out {} + {}.", "Add {} and {}."])
    return _solved(wording.format(a, b), [f"{a}+{b}"])


def longer(dice: Dice) -> Problem:
    """Four to eight numbers, added and subtracted; sometimes with decimals."""
    cents = dice.random() < 0.3
    expression = dice.term(10, 9999, cents=cents)
    for _ in range(dice.randint(3, 7)):
        expression += dice.choice("+-") + dice.term(10, 9999, cents=cents)
    return _solved(f"Work out {expression}.", [expression])


def column(dice: Dice) -> Problem:
    """Three to five numbers, added; nothing but the sum itself."""
    expression = "+".join(dice.term(10, 999) for _ in range(dice.randint(3, 5)))
    return _solved(expression, [expression])


def nested(dice: Dice) -> Problem:
    """Four to six numbers in parentheses, with `+ - * // %`."""
    expression = _tree(dice, dice.randint(4, 6))[1:-1]
    rules = "Here // rounds down and % is the remainder, as in Python."
    return _solved(f"Work out {expression}. {rules}", [expression])


class _Story(NamedTuple):
    """`{a}` stands for a number drawn from its range, `{0}` for the result of the first call.

    Where there is a comparison, it is of two results, and says which calls come after it.
    """

    text: str
    ranges: dict[str, tuple[int, int]]
    calls: tuple[str, ...]
    compare: tuple[int, int] = (0, 0)
    if_greater: tuple[str, ...] = ()
    otherwise: tuple[str, ...] = ()


_STORIES = (
    _Story(
        "A theatre has {a} rows of {b} seats and a balcony of {c} seats. A ticket costs {d}. "
        "How much does a full house bring in?",
        {"a": (12, 60), "b": (14, 48), "c": (20, 180), "d": (7, 64)},
        ("{a}*{b}", "{0}+{c}", "{1}*{d}"),
    ),
    _Story(
        "A bakery makes {a} trays of {b} rolls and fills bags of {c}. A full bag sells for {d}; "
        "what does not fill a bag is given away. How much do the bags bring in?",
        {"a": (20, 95), "b": (18, 60), "c": (5, 13), "d": (3, 29)},
        ("{a}*{b}", "{0}//{c}", "{1}*{d}"),
    ),
    _Story(
        "A van drives {a} km a day for {b} days and then {c} km home. It burns 8 litres on 100 km, "
        "and a litre costs {d} cents. What did the fuel cost, in cents?",
        {"a": (110, 620), "b": (3, 28), "c": (40, 900), "d": (120, 210)},
        ("{a}*{b}", "{0}+{c}", "{1}*8/100", "{2}*{d}"),
    ),
    _Story(
        "{a} people give {b} each. A quarter of the money goes to the school; from the rest, lamps "
        "for {c} are bought. How much is left?",
        {"a": (60, 400), "b": (15, 85), "c": (100, 600)},
        ("{a}*{b}", "{0}/4", "{0}-{1}", "{2}-{c}"),
    ),
    _Story(
        "A shop buys {a} jars at {b} cents each. {d} of them break; the others are sold at {c} "
        "cents more than they cost. What is the profit, in cents? A loss is a negative number.",
        {"a": (50, 400), "b": (40, 300), "c": (30, 200), "d": (3, 40)},
        ("{a}*{b}", "{a}-{d}", "{b}+{c}", "{1}*{2}", "{3}-{0}"),
    ),
    _Story(
        "A meadow is {a} m long and {b} m wide. A fence goes all around it but for a gate of 4 m. "
        "A metre of fence costs {c}, the gate costs {d}. What do fence and gate cost together?",
        {"a": (40, 400), "b": (30, 300), "c": (8, 45), "d": (120, 900)},
        ("{a}+{b}", "{0}*2", "{1}-4", "{2}*{c}", "{3}+{d}"),
    ),
    _Story(
        "An account holds {a}. It earns {b} percent, then {c} is taken out, then what remains "
        "earns {b} percent again. What does it hold in the end? Round nothing.",
        {"a": (2000, 9000), "b": (2, 9), "c": (100, 1500)},
        ("{a}*{b}/100", "{a}+{0}", "{1}-{c}", "{2}*{b}/100", "{2}+{3}"),
    ),
)

_CHOICES = (
    _Story(
        "Let A be {a}*{b} and B be {c}*{d}. If A is greater than B, subtract B from A and multiply "
        "by {e}. Otherwise add A to B and subtract {e}. What comes out?",
        {"a": (21, 98), "b": (21, 98), "c": (21, 98), "d": (21, 98), "e": (11, 60)},
        ("{a}*{b}", "{c}*{d}"),
        (0, 1),
        ("{0}-{1}", "{2}*{e}"),
        ("{0}+{1}", "{2}-{e}"),
    ),
    _Story(
        "{a} chairs are needed. North asks {b} for a chair and {c} for bringing them all; South "
        "asks {d} for a chair and brings them for nothing. Take the cheaper offer. On top of it, "
        "South takes a tax of {e} percent, North a fee of {f} for each chair. What is paid in all?",
        {"a": (21, 95), "b": (30, 80), "c": (100, 400), "d": (35, 85), "e": (3, 19), "f": (2, 9)},
        ("{a}*{b}", "{0}+{c}", "{a}*{d}"),
        (1, 2),
        ("{2}*{e}/100", "{2}+{3}"),
        ("{a}*{f}", "{1}+{3}"),
    ),
    _Story(
        "The old press makes {a} parts an hour and ran for {b} hours, but {c} of its parts are "
        "broken. The new press makes {d} parts an hour and ran for {e} hours. Whichever made more "
        "good parts now runs for another {f} hours, and breaks none. How many good parts are there "
        "in the end, from both?",
        {"a": (80, 190), "b": (6, 19), "c": (40, 300), "d": (80, 190), "e": (5, 18), "f": (2, 9)},
        ("{a}*{b}", "{0}-{c}", "{d}*{e}", "{1}+{2}"),
        (1, 2),
        ("{a}*{f}", "{3}+{4}"),
        ("{d}*{f}", "{3}+{4}"),
    ),
)


def story(dice: Dice) -> Problem:
    """A story whose steps are the same whatever comes out. One long expression would do as well."""
    told = dice.choice(_STORIES)
    numbers = {name: dice.number(*ends) for name, ends in told.ranges.items()}
    return _solved(told.text.format(**numbers), _play(told.calls, numbers))


def choice(dice: Dice) -> Problem | None:
    """A story in which earlier results, compared, decide what is to be worked out next."""
    if dice.random() < 0.25:
        return _rounds(dice)
    told = dice.choice(_CHOICES)
    numbers = {name: dice.number(*ends) for name, ends in told.ranges.items()}
    left, right = (evaluate(_play(told.calls[: i + 1], numbers)[-1]) for i in told.compare)
    greater = _play(told.calls + told.if_greater, numbers)
    otherwise = _play(told.calls + told.otherwise, numbers)
    if left == right or evaluate(greater[-1]) == evaluate(otherwise[-1]):
        return None
    return _solved(told.text.format(**numbers), greater if left > right else otherwise)


def _play(steps: tuple[str, ...], numbers: dict[str, int]) -> list[str]:
    """The calls of a story, with the result of each filled in where a later one needs it."""
    calls: list[str] = []
    results: list[str] = []
    for step in steps:
        calls.append(step.format(*results, **numbers))
        results.append(render(evaluate(calls[-1])))
    return calls


def _rounds(dice: Dice) -> Problem | None:
    """Every call depends on how the result of the one before compares."""
    start, bound = dice.number(1000, 9999), dice.number(1000, 9999)
    less, times, more = dice.number(700, 2900), dice.number(2, 9), dice.number(10, 99)
    value, calls, ways = evaluate(str(start)), [], set()
    for _ in range(dice.randint(3, 4)):
        ways.add(value > bound)
        calls.append(f"{value}-{less}" if value > bound else f"{value}*{times}+{more}")
        value = evaluate(calls[-1])
    text = (
        f"Start with {start}. Do this {len(calls)} times: if the number is greater than {bound}, "
        f"subtract {less}; otherwise multiply it by {times} and add {more}. What is it at the end?"
    )
    return _solved(text, calls) if len(ways) == 2 else None


def _solved(text: str, calls: list[str]) -> Problem:
    return Problem(text, tuple(calls), render(evaluate(calls[-1])))


def _tree(dice: Dice, leaves: int) -> str:
    if leaves == 1:
        return dice.term(2, 99)
    left = dice.randint(1, leaves - 1)
    sign = dice.choice(["+", "+", "-", "-", "*", "*", "*", "//", "%"])
    return f"({_tree(dice, left)}{sign}{_tree(dice, leaves - left)})"
