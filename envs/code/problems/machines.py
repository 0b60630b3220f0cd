"""Level 3, too: a stack machine, text in columns, and a timetable."""

from agent_envs.envs.code.problems.form import Dice, Problem, fill, mutated
from agent_envs.envs.code.problems.programs import program

_MACHINE = """\
def solve(lines: list[str]) -> list[str]:
    stack: list[int] = []
    out = []
    for number, line in enumerate(lines, 1):
        word, *rest = line.split()
        need = {"<push>": 0, "<show>": 1, "<copy>": 1}.get(word, 2)
        if len(stack) < need:
            out.append(f"line {number}: empty stack")
            <after>
        if word == "<push>":
            stack.append(int(rest[0]))
        elif word == "<show>":
            out.append(str(stack<peek>))
        elif word == "<copy>":
            stack.append(stack[-1])
        elif word == "swap":
            stack[-2:] = stack[:-3:-1]
        else:
            b, a = stack.pop(), stack.pop()
            stack.append(a + b if word == "add" else a - b if word == "sub" else <own>)
    return out + [" ".join(map(str, stack)) or "empty"]
"""

_OWN = (
    ("a times b", "a * b", "a + b"),
    ("the larger of a and b", "max(a, b)", "min(a, b)"),
    ("a modulo 7, plus b", "a % 7 + b", "a + b % 7"),
    ("a times 10 plus b", "a * 10 + b", "b * 10 + a"),
)


def machine(dice: Dice) -> Problem:
    """A stack machine with words of its own."""
    push, show, copy = dice.choice(["push get out", "put say twin", "load print dup"]).split()
    said, own, wrong = dice.choice(_OWN)
    stops, pops = dice.choice([True, False]), dice.choice([True, False])
    code = {"after": "break" if stops else "continue", "peek": ".pop()" if pops else "[-1]"}
    body = fill(_MACHINE, push=push, show=show, copy=copy, own=own, **code)
    text = (
        f"The lines are orders for a machine with a stack of whole numbers: `{push} N` puts N on "
        f"top; `{show}` prints the top number on a line of its own{' and takes it away' * pops}; "
        f"`{copy}` puts the top number on top once more; `swap` exchanges the two on top; `add`, "
        f"`sub` and `mix` take b from the top and then a, and put a + b, a - b, or {said}, on top. "
        "An order that finds too few numbers on the stack prints `line N: empty stack`, where N "
        f"counts lines from 1, and {'ends the program' if stops else 'does nothing else'}. In the "
        "end print the stack on one line, from the bottom up, separated by blanks, or `empty`."
    )
    mutants = mutated(
        body,
        (f"else {own})", f"else {wrong})"),
        ("b, a = stack", "a, b = stack"),
        ('f"line {number}', 'f"line {number - 1}'),
        (f"            {code['after']}\n", f"            {'continue' if stops else 'break'}\n"),
        (f"stack{code['peek']}))", f"stack{'[-1]' if pops else '.pop()'}))"),
    )
    words = [f"{push} 1"] * 7 + ["add", "sub", "mix", "mix", "swap", copy, show]
    inputs = [_orders(dice, words, push, dice.randint(7, 14)) for _ in range(14)]
    inputs[3:3] = [[], [show], [f"{push} 4", "swap", f"{push} -2", "sub", show, copy]]
    return program("machine", f"{push}|{said}|{stops}|{pops}", text, body, mutants, inputs)


def _orders(dice: Dice, words: list[str], push: str, count: int) -> list[str]:
    drawn = [f"{push} {dice.randint(-9, 30)}"] + dice.choices(words, k=count)
    return [f"{push} {dice.randint(-9, 30)}" if w.startswith(push) else w for w in drawn]


_COLUMNS = """\
def solve(lines: list[str]) -> list[str]:
    out, row = [], ""
    for word in " ".join(lines).split():
        if len(word) > <width>:
            word = word[: <width> - 1] + "<cut>"
        if row and len(row) + 1 + len(word) > <width>:
            out.append(row)
            row = word
        else:
            row = f"{row} {word}" if row else word
    if row:
        out.append(row)
    rows = [f"{i}<edge>{row:<align><width>}<edge>" for i, row in enumerate(out, <first>)]
    return rows or ["nothing"]
"""

_ALIGN = (("left", "<"), ("right", ">"))
_STOCK = "a an the wolf mountain of night extraordinarily by river unbelievable stone it or".split()


def columns(dice: Dice) -> Problem:
    """Text, wrapped, aligned and numbered."""
    width, cut = dice.randint(8, 12), dice.choice("~*+")
    edge, first = dice.choice("|:!"), dice.choice([0, 1, 10])
    side, align = dice.choice(_ALIGN)
    other = ">" if align == "<" else "<"
    body = fill(_COLUMNS, width=width, cut=cut, edge=edge, first=first, align=align)
    text = (
        "Read words, separated by white space of any kind, and fill rows with them from left to "
        f"right, one blank between two words, at most {width} characters a row. A word of more "
        f"than {width} characters is first cut to {width - 1} and a `{cut}`. Print every row on a "
        f"line: its number (from {first} up), `{edge}`, the row {side}-aligned in {width} "
        f"characters, and `{edge}`. Without any word, print `nothing`."
    )
    mutants = mutated(
        body,
        ("+ 1 + len(word) >", "+ 1 + len(word) >="),
        (f"row:{align}", f"row:{other}"),
        (f"word[: {width} - 1]", f"word[: {width}]"),
        (f"(out, {first})", f"(out, {first + 1})"),
        ("    if row:\n        out.append(row)\n", ""),
    )
    inputs = [_prose(dice, dice.randint(6, 14)) for _ in range(11)]
    inputs[3:3] = [[], ["", "  "], ["x" * width, "y" * (width + 1)], ["a " + "b" * (width - 2)]]
    return program("columns", f"{width}|{cut}|{edge}|{first}|{side}", text, body, mutants, inputs)


def _prose(dice: Dice, count: int) -> list[str]:
    words = dice.choices(_STOCK, k=count)
    where = dice.randint(1, count)
    return [" ".join(words[:where]), "  ".join(words[where:])]


_TIMETABLE = """\
def solve(lines: list[str]) -> list[str]:
    free = [0] * <rooms>
    out = []
    for line in sorted(lines, key=_start):
        name, start, length = line.split()[0], _start(line), int(line.split()[2])
        room = <choose>
        if free[room] > start + <wait>:
            out.append(f"{name} cannot be")
            continue
        begin = max(free[room], start)
        free[room] = begin + length + <clean>
        out.append(f"{name} room {room + 1} {begin // 60:02}:{begin % 60:02}")
    return out + [f"last {max(free) // 60:02}:{max(free) % 60:02}"]


def _start(line: str) -> int:
    hours, minutes = line.split()[1].split(":")
    return 60 * int(hours) + int(minutes)
"""

_ROOMS = (
    ("the room that is free earliest (of several the one with the lowest number)",
     "free.index(min(free))", "0"),
    ("the room that is free latest (of several the one with the lowest number)",
     "free.index(max(free))", "free.index(min(free))"),
    ("room 1 if that is free by then, and else the last room",
     "0 if free[0] <= start else len(free) - 1", "len(free) - 1"),
)  # fmt: skip


def timetable(dice: Dice) -> Problem:
    """Meetings that ask for rooms."""
    rooms, wait, clean = dice.randint(2, 3), dice.choice([5, 10, 20]), dice.choice([0, 5, 15])
    said, choose, wrong = dice.choice(_ROOMS)
    body = fill(_TIMETABLE, rooms=rooms, wait=wait, clean=clean, choose=choose)
    text = (
        f"There are {rooms} rooms, free from 00:00 on. Every line is a meeting: `NAME HH:MM "
        "LENGTH`, the length in minutes. Meetings are served in the order of their times, and "
        f"those of one time in the order of the lines. A meeting asks for {said}. If the room is "
        f"not free by {wait} minutes after the meeting's time, print `NAME cannot be`; else it "
        f"begins at its time, or as soon after it as the room is free; the room is free again "
        f"{clean} minutes after its end; print `NAME room NUMBER HH:MM` with the time at which it "
        "begins. Rooms are numbered from 1. In the end print `last HH:MM`, the time from which on "
        "all rooms are free."
    )
    mutants = mutated(
        body,
        (f"room = {choose}", f"room = {wrong}"),
        (f"> start + {wait}", f">= start + {wait}"),
        ("begin = max(free[room], start)", "begin = start"),
        (f"length + {clean}", f"length + {clean + 5}"),
        ("sorted(lines, key=_start)", "lines"),
    )
    inputs = [_meetings(dice, dice.randint(6, 9)) for _ in range(11)]
    inputs[3:3] = [[], ["a 09:00 30", "b 09:00 30", "c 09:00 30", f"d 09:{30 - wait:02} 5"]]
    return program(
        "timetable", f"{rooms}|{wait}|{clean}|{said}", text, body, mutants, inputs
    )  # fmt: skip


def _meetings(dice: Dice, count: int) -> list[str]:
    return [
        f"{'abcdefghij'[i]}{i} 09:{5 * dice.randrange(10):02} {5 * dice.randint(1, 7)}"
        for i in range(count)
    ]
