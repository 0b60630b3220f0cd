"""Level 1: functions that read a small language: sums, nested groups, rows, packed text."""

from agent_envs.envs.code.problems.form import Dice, Problem, fill, mutated

_MEANINGS = (
    ("the larger of a and b", "max(a, b)", "min(a, b)"),
    ("a times 10, plus b", "a * 10 + b", "a + b * 10"),
    ("a minus twice b", "a - 2 * b", "2 * a - b"),
    ("the absolute difference of a and b", "abs(a - b)", "a - b"),
    ("a times a, plus b", "a * a + b", "a + b * b"),
)

_NOTATION = """\
def <name>(text: str) -> int:
    rest = list(text.replace(" ", ""))
    value = _chain(rest, 0)
    if rest:
        raise ValueError("something more at the end")
    return value


def _chain(rest: list[str], level: int) -> int:
    if level == len(_LEVELS):
        return _atom(rest)
    left = _chain(rest, level + 1)
    while rest and rest[0] in _LEVELS[level]:
        sign = rest.pop(0)
        left = _apply(sign, left, _chain(rest, level + 1))
    return left


def _atom(rest: list[str]) -> int:
    if rest and rest[0] == "(":
        rest.pop(0)
        value = _chain(rest, 0)
        if not rest or rest.pop(0) != ")":
            raise ValueError("a parenthesis is not closed")
        return value
    digits = ""
    while rest and rest[0].isdigit():
        digits += rest.pop(0)
    if not digits:
        raise ValueError("a number is missing")
    return int(digits)


def _apply(sign: str, a: int, b: int) -> int:
    if sign == "+":
        return a + b
    if sign == "-":
        return a - b
    return <meaning>


_LEVELS = <levels>
"""


def notation(dice: Dice) -> Problem:
    """Sums with an operator of one's own, some precedence, and parentheses."""
    sign = dice.choice("#@~^!")
    meaning, code, wrong = dice.choice(_MEANINGS)
    tightness, levels, swapped = dice.choice(
        [
            ("binds tighter than + and -", f'("+-", "{sign}")', f'("{sign}", "+-")'),
            ("binds looser than + and -", f'("{sign}", "+-")', f'("+-", "{sign}")'),
            ("binds as tight as + and -", f'("+-{sign}",)', f'("+-", "{sign}")'),
        ]
    )
    name = dice.choice(["evaluate", "work_out", "calculate"])
    source = fill(_NOTATION, name=name, meaning=code, levels=levels)
    text = (
        f"`text` is a sum of whole numbers with the operators +, - and {sign}, parentheses, and "
        f"spaces, which mean nothing. `a {sign} b` is {meaning}. {sign} {tightness}. Operators "
        "that bind equally tight are worked out from left to right. There is no sign in front of a "
        "number. Return the value; raise ValueError where the text is no such sum."
    )
    mutants = mutated(
        source,
        (code, wrong),
        (f"_LEVELS = {levels}", f"_LEVELS = {swapped}"),
        ("_chain(rest, level + 1))", "_chain(rest, level))"),
        ('raise ValueError("something more at the end")', "pass"),
        ('raise ValueError("a number is missing")', "return 0"),
    )
    sums = [_sum(dice, sign, dice.randint(3, 6)) for _ in range(12)]
    sums[3:3] = ["7", "", "3+", "(4", "5)", f"9 {sign} 2 - 1", f"1-2{sign}3{sign}4", "2 (3)", "-3"]
    sums.append(f"8 - 3 - 2 {sign} (1 + 4)")
    return Problem(
        "notation",
        f"{sign}|{meaning}|{tightness}",
        name,
        f"def {name}(text: str) -> int:",
        text,
        source,
        mutants,
        tuple((given,) for given in sums),
    )


def _sum(dice: Dice, sign: str, terms: int) -> str:
    if terms == 1:
        return str(dice.randint(0, 12))
    left = dice.randint(1, terms - 1)
    operator = dice.choice(["+", "-", sign, sign])
    out = f"{_sum(dice, sign, left)} {operator} {_sum(dice, sign, terms - left)}"
    return f"({out})" if dice.random() < 0.3 else out


_WEIGHTS = (
    ("its depth", "depth"),
    ("its depth squared", "depth * depth"),
    ("2 to the power of its depth", "2**depth"),
    ("1 at odd depths and -1 at even ones", "(1 if depth % 2 else -1)"),
)

_GROUPS = """\
def <name>(text: str) -> int:
    depth = total = 0
    number = ""
    for c in text + "<comma>":
        if c.isdigit():
            number += c
            continue
        if number:
            if depth == 0:
                raise ValueError("a number outside of all groups")
            total += int(number) * <weight>
            number = ""
        if c == "<open>":
            depth += 1
        elif c == "<close>":
            depth -= 1
            if depth < 0:
                raise ValueError("a group ends that never began")
        elif c != "<comma>":
            raise ValueError("no such character")
    if depth > 0:
        raise ValueError("a group does not end")
    return total
"""


def groups(dice: Dice) -> Problem:
    """Nested groups of numbers, summed with weights by depth."""
    opening, closing = dice.choice([("(", ")"), ("[", "]"), ("{", "}"), ("<", ">")])
    comma = dice.choice(",;|/")
    weight, code = dice.choice(_WEIGHTS)
    wrong = dice.choice([c for _, c in _WEIGHTS if c != code])
    name = dice.choice(["weigh", "nested_total", "group_sum"])
    source = fill(_GROUPS, name=name, comma=comma, weight=code)
    source = source.replace("<open>", opening).replace("<close>", closing)
    text = (
        f"`text` holds groups, which begin with `{opening}` and end with `{closing}`; in a group "
        f"stand whole numbers and groups, separated by `{comma}` (separators may also be doubled "
        f"or left out next to a group). A number directly in an outermost group has depth 1. "
        f"Return the sum of all numbers, each one times {weight}. Raise ValueError where a group "
        "does not end or never began, where a number stands outside of all groups, and for any "
        "other character."
    )
    mutants = mutated(
        source,
        (f"int(number) * {code}", f"int(number) * {wrong}"),
        ("if depth == 0:", "if depth < 0:"),
        ('raise ValueError("a group does not end")', "return 0"),
        ('raise ValueError("a group ends that never began")', "depth = 0"),
        ('            number = ""', "            number = number[1:]"),
    )
    texts = [_group(dice, opening, closing, comma, 3) for _ in range(11)]
    texts[3:3] = ["", opening, closing, f"{opening}12{closing}7", f"{opening}x{closing}"]
    texts += [f"{opening}1{comma}{opening}10{opening}100{closing}{closing}{closing}"]
    texts += [f"{opening}5{closing}{closing}{opening}6", f"{opening}40{comma}{comma}2{closing}"]
    return Problem(
        "groups",
        f"{opening}|{comma}|{weight}",
        name,
        f"def {name}(text: str) -> int:",
        text,
        source,
        mutants,
        tuple((given,) for given in texts),
    )


def _group(dice: Dice, opening: str, closing: str, comma: str, depth: int) -> str:
    parts = [str(dice.randint(1, 30)) for _ in range(dice.randint(1, 3))]
    for _ in range(dice.randint(0, 2) if depth else 0):
        inner = _group(dice, opening, closing, comma, depth - 1)
        parts.insert(dice.randint(0, len(parts)), inner)
    return opening + comma.join(parts) + closing


_ROWS = """\
def <name>(text: str) -> list[list[str]]:
    rows: list[list[str]] = []
    for line in text.split("\\n"):
        if not line or line.startswith("<note>"):
            continue
        rows.append(_cells(line))
    return rows


def _cells(line: str) -> list[str]:
    cells, cell, quoted, i = [], "", False, 0
    while i < len(line):
        c = line[i]
        if quoted and line[i : i + 2] == "<q><q>":
            cell += "<q>"
            i += 1
        elif c == "<q>":
            quoted = not quoted
        elif c == "<sep>" and not quoted:
            cells.append(cell)
            cell = ""
        else:
            cell += c
        i += 1
    if quoted:
        raise ValueError("a quote is not closed")
    return [*cells, cell]
"""


def rows(dice: Dice) -> Problem:
    """Lines of cells with separators, quotes and comments."""
    sep, quote, note = dice.choice(",;|:"), dice.choice("'`$"), dice.choice("#%!")
    name = dice.choice(["read_rows", "parse_table", "split_cells"])
    source = fill(_ROWS, name=name, sep=sep, q=quote, note=note)
    text = (
        f"Each line of `text` is a row of cells separated by `{sep}`. Empty lines, and lines that "
        f"begin with `{note}`, are left out. A `{quote}` begins or ends a quoted stretch and is "
        f"itself no part of the cell; in a quoted stretch `{sep}` is an ordinary character, and "
        f"`{quote}{quote}` stands for one `{quote}`. Nothing is stripped. Return the rows as lists "
        "of texts. Raise ValueError where a quoted stretch does not end in its line."
    )
    mutants = mutated(
        source,
        ("not line or line", "line"),
        (f'cell += "{quote}"', f'cell += "{quote}{quote}"'),
        (f'c == "{sep}" and not quoted', f'c == "{sep}"'),
        ("return [*cells, cell]", "return [*cells, cell] if cell else cells"),
        ('raise ValueError("a quote is not closed")', "pass"),
    )
    quotes = [quote + sep + quote, quote + quote, f"{quote}x{quote}"]
    pieces = [sep, sep, "ab", " c", "12", "", *quotes]
    texts = ["".join(dice.choices(pieces, k=6)) for _ in range(9)]
    texts = [f"{a}\n{b}" for a, b in zip(texts, reversed(texts), strict=True)]
    texts[3:3] = ["", f"a{sep}", f"{note} a{sep}b\n\nc{sep}d", f"{quote}a", f"x {note}{sep}"]
    texts.append(f"{quote}a{quote}{quote}b{quote}{sep}{quote}{sep}{quote}")
    return Problem(
        "rows",
        f"{sep}|{quote}|{note}",
        name,
        f"def {name}(text: str) -> list[list[str]]:",
        text,
        source,
        mutants,
        tuple((given,) for given in texts),
    )
