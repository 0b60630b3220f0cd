"""Level 0, too: small functions of pairs, of rows, and of marks."""

from agent_envs.envs.code.problems.form import Dice, Problem, fill, mutated
from agent_envs.envs.code.problems.functions import Part

_NAMES = ("ada", "bo", "cy", "dee", "eli", "fay", "gus")

_TOTAL = (
    Part("the sum of its amounts", "sum(amounts)", "max(amounts)"),
    Part("its largest amount", "max(amounts)", "amounts[-1]"),
    Part("its last amount", "amounts[-1]", "amounts[0]"),
    Part("how many amounts it has", "len(amounts)", "len(set(amounts))"),
    Part(
        "its largest amount minus its smallest", "max(amounts) - min(amounts)", "max(amounts)"
    ),
)  # fmt: skip
_ORDER = (
    Part(
        "the highest value first, and names with one value in alphabetical order",
        "key=lambda item: (-item[1], item[0])",
        "key=lambda item: item[1], reverse=True",
    ),
    Part(
        "the lowest value first, and names with one value in alphabetical order",
        "key=lambda item: (item[1], item[0])",
        "key=lambda item: item[1]",
    ),
    Part("in alphabetical order of the names", "key=lambda item: item[0]", "key=len"),
)

_TALLY = """\
def <name>(pairs: list[tuple[str, int]]) -> list[tuple[str, int]]:
    found: dict[str, list[int]] = {}
    for name, amount in pairs:
        found.setdefault(name, []).append(amount)
    values = {name: <total> for name, amounts in found.items()}
    kept = [item for item in values.items() if item[1] >= <least>]
    return sorted(kept, <order>)[:<most>]
"""


def tally(dice: Dice) -> Problem:
    """Amounts by name, filtered, ordered and cut."""
    total, order = dice.choice(_TOTAL), dice.choice(_ORDER)
    least, most = dice.choice([1, 2, 3]), dice.randint(2, 4)
    name = dice.choice(["leaders", "tally", "standings"])
    solution = fill(
        _TALLY, name=name, total=total.code, least=least, order=order.code, most=most
    )  # fmt: skip
    text = (
        f"`pairs` holds names with amounts. The value of a name is {total.text}. Return a list of "
        f"(name, value) tuples: only names with a value of {least} or more, {order.text}, and of "
        f"these only the first {most}."
    )
    mutants = mutated(
        solution,
        (f"{total.code} for name", f"{total.wrong} for name"),
        (f", {order.code})", f", {order.wrong})"),
        (f">= {least}", f"> {least}"),
        (f"[:{most}]", ""),
        (f"[:{most}]", f"[:{most + 1}]"),
    )
    inputs = [_pairs(dice, dice.randint(6, 12)) for _ in range(13)]
    inputs[3:3] = [[], [("bo", 3), ("ada", 3), ("cy", 3)], [("dee", 0)], [("cy", 1), ("bo", 1)]]
    return Problem(
        "tally",
        f"{total.text}|{order.text}|{least}|{most}",
        name,
        f"def {name}(pairs: list[tuple[str, int]]) -> list[tuple[str, int]]:",
        text,
        solution,
        mutants,
        tuple((pairs,) for pairs in inputs),
    )


def _pairs(dice: Dice, length: int) -> list[tuple[str, int]]:
    names = dice.sample(_NAMES, dice.randint(4, 6))
    return [(dice.choice(names), dice.randint(-2, 7)) for _ in range(length)]


_CELLS = (
    Part("on the border", "r in (0, height - 1) or c in (0, width - 1)", "r == 0 or c == 0"),
    Part("with an even sum of row and column index", "(r + c) % 2 == 0", "(r + c) % 2 == 1"),
    Part("above the diagonal (the column index is larger than the row index)", "c > r", "c >= r"),
    Part("that are larger than the cell to their left (cells of the first column are not)",
         "c > 0 and x > row[c - 1]", "c > 0 and x < row[c - 1]"),
    Part("that are smaller than the cell above them (cells of the first row are not)",
         "r > 0 and x < rows[r - 1][c]", "r > 0 and x <= rows[r - 1][c]"),
    Part("that are the largest of their row", "x == max(row)", "x == max(max(rows))"),
)  # fmt: skip
_MEASURE = (
    Part("their sum", "sum(cells)", "max(cells, default=0)"),
    Part("how many there are", "len(cells)", "len(set(cells))"),
    Part("the largest minus the smallest (0 if there is none)",
         "max(cells) - min(cells) if cells else 0", "max(cells, default=0)"),
    Part("how many of them are above <k>", "sum(x > <k> for x in cells)",
         "sum(x >= <k> for x in cells)"),
    Part("their product modulo <m> (1 if there is none)", "math.prod(cells) % <m>",
         "sum(cells) % <m>"),
)  # fmt: skip

_GRID = """\
import math


def <name>(rows: list[list[int]]) -> int:
    height, width = len(rows), len(rows[0]) if rows else 0
    cells = [
        x
        for r, row in enumerate(rows)
        for c, x in enumerate(row)
        if <cell>
    ]
    return <measure>
"""


def grid(dice: Dice) -> Problem:
    """Some cells of a table, measured."""
    cell, measure = dice.choice(_CELLS), dice.choice(_MEASURE)
    values = {"k": dice.randint(0, 5), "m": dice.choice([89, 97, 101])}
    name = dice.choice(["measure", "inspect_grid", "cells"])
    solution = fill(_GRID, name=name, cell=cell.code, measure=measure.code)
    text = (
        "`rows` is a table of whole numbers: a list of rows of one length. Take the cells "
        f"{cell.text}. Return {measure.text}. The table may be empty."
    )
    changes = (
        (f"if {cell.code}\n", f"if {cell.wrong}\n"),
        (f"return {measure.code}", f"return {measure.wrong}"),
        ("enumerate(rows)", "enumerate(rows[:-1])"),
        ("enumerate(row)", "enumerate(row[:-1])"),
    )
    sizes = [(dice.randint(2, 4), dice.randint(2, 5)) for _ in range(13)]
    inputs = [[[dice.randint(-4, 9) for _ in range(w)] for _ in range(h)] for h, w in sizes]
    inputs[3:3] = [[], [[values["k"]]], [[5, 5, 5], [5, 5, 5]], [[3], [1], [2]]]
    return Problem(
        "grid",
        fill(f"{cell.text}|{measure.text}", **values),
        name,
        f"def {name}(rows: list[list[int]]) -> int:",
        fill(text, **values),
        fill(solution, **values),
        tuple(fill(m, **values) for m in mutated(solution, *changes)),
        tuple((rows,) for rows in inputs),
    )


_GRADES = """\
def <name>(score: int, extra: int = 0) -> str:
    if not 0 <= score <= <top>:
        raise ValueError("no such score")
    total = min(score + extra, <top>)
    for least, label in <bands>:
        if total >= least:
            return label
    return "<rest>"
"""


def bands(dice: Dice) -> Problem:
    """A score to a label by limits; a score out of range is a ValueError."""
    labels = dice.choice(["gold silver bronze none", "A B C D", "green amber red black"]).split()
    top = dice.choice([20, 50, 100])
    limits = sorted(dice.sample(range(top // 4, top - 2), 3), reverse=True)
    name = dice.choice(["grade", "medal", "band"])
    rest = labels.pop()
    steps = list(zip(limits, labels, strict=True))
    solution = fill(_GRADES, name=name, top=top, bands=repr(steps), rest=rest)
    said = ", ".join(f'"{label}" from {limit}' for limit, label in steps)
    text = (
        f"A score is a whole number from 0 to {top}; raise ValueError for any other. Add `extra` "
        f"(it may be negative), but count no more than {top}. Return the label of the result: "
        f'{said}, and "{rest}" below that.'
    )
    mutants = mutated(
        solution,
        ("total >= least", "total > least"),
        (f"0 <= score <= {top}", f"0 <= score < {top}"),
        ("score + extra, ", "score, "),
        ("not 0 <= score", "not 1 <= score"),
        (f"min(score + extra, {top})", f"(score + extra) % {top + 1}"),
    )
    inputs = [(dice.randint(0, top), dice.randint(-3, 6)) for _ in range(6)]
    inputs += [(limit + d, 0) for limit in limits for d in (-1, 0)]
    inputs += [(top, 3), (top + 1, -5), (-1, 5), (0, 0), (1, 0), (limits[1] - 2, 2)]
    return Problem(
        "bands",
        f"{top}|{steps}|{rest}",
        name,
        f"def {name}(score: int, extra: int = 0) -> str:",
        text,
        solution,
        mutants,
        tuple(inputs),
    )
