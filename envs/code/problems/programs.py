"""Level 3: programs that read lines from standard input and print lines."""

from agent_envs.envs.code.problems.form import Dice, Problem, fill, mutated

MAIN = """

if __name__ == "__main__":
    print("\\n".join(solve(sys.stdin.read().splitlines())))
"""
"""The end of every program; what stands before it is a function of lines."""


def program(
    template: str,
    variant: str,
    text: str,
    body: str,
    mutants: tuple[str, ...],
    inputs: list[list[str]],
) -> Problem:
    """A problem whose solution is `body` with `MAIN` after it."""
    whole = [f"import sys\n\n\n{part.rstrip()}\n{MAIN}" for part in (body, *mutants)]
    given = tuple((lines,) for lines in inputs)
    return Problem(template, variant, "solve", "", text, whole[0], tuple(whole[1:]), given)


_LEDGER = """\
def solve(lines: list[str]) -> list[str]:
    balance: dict[str, int] = {}
    refused = 0
    for line in lines:
        what, name, *rest = line.split()
        amount = int(rest[-1])
        have = balance.setdefault(name, 0)
        if what == "in":
            balance[name] = have + amount
            continue
        cost = amount + (<fee> if amount > <free> else 0)
        if have - cost < -<credit>:
            refused += 1
            continue
        balance[name] = have - cost
        if what == "send":
            balance[rest[0]] = balance.get(rest[0], 0) + amount
    out = [f"{name} {value}" for name, value in sorted(balance.items()) if value != 0]
    return out + [f"refused {refused}"]
"""


def ledger(dice: Dice) -> Problem:
    """Accounts with fees and credit."""
    fee, free, credit = dice.randint(1, 4), dice.choice([10, 20, 50]), dice.choice([0, 5, 30])
    body = fill(_LEDGER, fee=fee, free=free, credit=credit)
    text = (
        "The lines are orders for accounts: `in NAME AMOUNT` pays in, `out NAME AMOUNT` pays out, "
        "`send NAME OTHER AMOUNT` pays from one account into another. All accounts begin at 0. "
        f"Paying out and sending more than {free} costs a fee of {fee} on top, taken from NAME. An "
        f"order that would leave NAME below {-credit} is refused and changes nothing. In the end "
        "print `NAME BALANCE` for every account whose balance is not 0, in alphabetical order, and "
        "then `refused COUNT`."
    )
    mutants = mutated(
        body,
        (f"amount > {free}", f"amount >= {free}"),
        (f"< -{credit}:", f"<= -{credit}:"),
        (" + amount\n            continue", " + amount - 1\n            continue"),
        ("balance.get(rest[0], 0) + amount", "balance.get(rest[0], 0) + cost"),
        (" if value != 0", ""),
    )
    inputs = [_orders(dice, free, credit, dice.randint(6, 10)) for _ in range(11)]
    inputs[3:3] = [[], [f"in bo {free + fee}", f"out bo {free}", f"out bo {fee + credit}"]]
    return program("ledger", f"{fee}|{free}|{credit}", text, body, mutants, inputs)


def _orders(dice: Dice, free: int, credit: int, count: int) -> list[str]:
    out = []
    for _ in range(count):
        amount = dice.choice([dice.randint(1, 60), free, free + 1, credit + 1])
        name, other = dice.sample(["ada", "bo", "cy", "dee"], 2)
        out.append(
            dice.choice([f"in {name} {amount}", f"out {name} {amount}", f"in {other} {amount}",
                         f"send {name} {other} {amount}"])
        )  # fmt: skip
    return out


_ROBOT = """\
def solve(lines: list[str]) -> list[str]:
    width, height = (int(word) for word in lines[0].split())
    x = y = turns = 0
    heading = <start>
    seen = {(0, 0)}
    for line in lines[1:]:
        what, count = line[0], int(line[1:] or 1)
        if what == "L":
            heading = (heading - count) % 4
        elif what == "R":
            heading = (heading + count) % 4
        else:
            for _ in range(count):
                dx, dy = [(0, 1), (1, 0), (0, -1), (-1, 0)][heading]
                <move>
                seen.add((x, y))
    return [f"{x} {y} {'NESW'[heading]}", f"<label> {<result>}"]
"""

_EDGES = (
    ("comes in again at the opposite edge", "x, y = (x + dx) % width, (y + dy) % height"),
    ("stays where it is", "x, y = min(max(x + dx, 0), width - 1), min(max(y + dy, 0), height - 1)"),
    ("stays where it is and turns around (it looks the other way from then on)",
     "if 0 <= x + dx < width and 0 <= y + dy < height:\n"
     "                    x, y = x + dx, y + dy\n"
     "                else:\n"
     "                    heading = (heading + 2) % 4"),
)  # fmt: skip
_COUNTS = (
    ("how many different cells it has been in, the first included", "seen", "len(seen)",
     "len(seen) - 1"),
    ("how many cells it has never been in", "unseen", "width * height - len(seen)",
     "width * height - len(seen) - 1"),
    ("the sum of its coordinates in the end", "sum", "x + y", "x - y"),
)  # fmt: skip


def robot(dice: Dice) -> Problem:
    """A robot on a field with edges of some kind."""
    start, (edge, move), count = dice.randrange(4), dice.choice(_EDGES), dice.choice(_COUNTS)
    other = dice.choice([code for _, code in _EDGES if code != move])
    body = fill(_ROBOT, start=start, move=move, label=count[1], result=count[2])
    text = (
        "The first line has width and height of a field. A robot stands in its cell 0 0 and looks "
        f"{['north', 'east', 'south', 'west'][start]}. Every other line is an order: `L` and `R` "
        "turn it left and right by 90 degrees, `F` makes it go forward by one cell; a number right "
        "behind the letter says how often. x grows to the east, y to the north. Where a step would "
        f"take it over the edge, the robot {edge}. Print x, y and where it looks (N, E, S or W), "
        f"separated by blanks, and on a second line `{count[1]}` and {count[0]}."
    )
    mutants = mutated(
        body,
        (move, other),
        (f"{{{count[2]}}}", f"{{{count[3]}}}"),
        ("heading - count", "heading - 1"),
        ("line[1:] or 1", "line[1:] or 0"),
        (f"heading = {start}\n", f"heading = {(start + 1) % 4}\n"),
    )
    inputs = []
    for _ in range(13):
        orders = [dice.choice("LRFFF") + dice.choice(["", "", "2", "3", "5"]) for _ in range(9)]
        inputs.append([f"{dice.randint(2, 6)} {dice.randint(2, 6)}", *orders])
    inputs[3:3] = [["1 1", "F3"], ["4 3"]]
    return program("robot", f"{start}|{edge}|{count[1]}", text, body, mutants, inputs)


_RANKING = """\
def solve(lines: list[str]) -> list[str]:
    scores: dict[str, list[int]] = {}
    for line in lines:
        name, score = line.rsplit(":", 1)
        scores.setdefault(name.strip(), []).append(int(score))
    totals = {name: <total> for name, found in scores.items()}
    out = []
    for name, total in sorted(totals.items(), key=lambda item: (-item[1], item[0])):
        rank = <rank>
        if rank <= <most>:
            out.append(f"{rank:>2}. {name:<pad><width>}{total:>5}")
    return out or ["nobody"]
"""

_TOTALS = (
    ("the sum of its scores", "sum(found)", "sum(found[1:])"),
    ("its best score", "max(found)", "found[0]"),
    ("the sum of its two best scores (or its only one)", "sum(sorted(found)[-2:])", "sum(found)"),
    ("its best score minus its worst", "max(found) - min(found)", "max(found)"),
)
_RANKS = (
    ("Equal results share a rank, and the ranks after them are left out (1, 2, 2, 4)",
     "1 + sum(t > total for t in totals.values())"),
    ("Equal results share a rank, and no rank is left out (1, 2, 2, 3)",
     "1 + len({t for t in totals.values() if t > total})"),
    ("Equal results share the worst of their ranks (1, 3, 3, 4)",
     "sum(t >= total for t in totals.values())"),
)  # fmt: skip


def ranking(dice: Dice) -> Problem:
    """A table of ranks, aligned."""
    total, (ties, rank) = dice.choice(_TOTALS), dice.choice(_RANKS)
    pad, most = dice.choice([".", "_", "-"]), dice.randint(3, 4)
    other = dice.choice([code for _, code in _RANKS if code != rank])
    body = fill(_RANKING, total=total[1], rank=rank, most=most, pad=pad, width="<10")
    text = (
        "Every line is `NAME: SCORE`; a name may have blanks inside, and may occur again. The "
        f"result of a name is {total[0]}. The highest result has rank 1. {ties}. Print a line for "
        f"every name with a rank of at most {most}, in the order of results, then of names: the "
        "rank, right-aligned in 2 characters, a full stop, a blank, the name, left-aligned and "
        f"filled up with `{pad}` to 10 characters, and the result, right-aligned in 5 characters. "
        "If there is no such name, print `nobody`."
    )
    mutants = mutated(
        body,
        (f"{total[1]} for", f"{total[2]} for"),
        (f"rank = {rank}", f"rank = {other}"),
        (f"rank <= {most}", f"rank < {most}"),
        (f"{{name:{pad}<10}}", "{name:<10}"),
        ("(-item[1], item[0])", "-item[1]"),
    )
    inputs = [_scores(dice, dice.randint(7, 11)) for _ in range(12)]
    inputs[3:3] = [[], ["bo:3", "ada:3", "old cy:3", "dee:4", "eli:1", "fay:1"]]
    return program("ranking", f"{total[0]}|{rank}|{pad}|{most}", text, body, mutants, inputs)


def _scores(dice: Dice, count: int) -> list[str]:
    names = dice.sample(["ada", "bo", "old cy", "dee", "eli", "fay", "big gus", "hal"], 6)
    gaps = ["", " "]
    return [f"{dice.choice(names)}:{dice.choice(gaps)}{dice.randint(0, 9)}" for _ in range(count)]
