"""Level 1: functions that need a data structure: intervals, caches, paths, trees."""

from typing import Any

from agent_envs.envs.code.problems.form import Dice, Problem, fill, mutated

_WANTED = (
    ("the merged intervals in order, as a list of tuples", "list[tuple[int, int]]", "merged"),
    ("how much they cover: the sum of the lengths end - start of the merged intervals", "int",
     "sum(b - a for a, b in merged)"),
    ("the gaps between the merged intervals in order, as a list of (end of the one, start of the "
     "next) tuples", "list[tuple[int, int]]",
     "[(a[1], b[0]) for a, b in zip(merged, merged[1:])]"),
    ("the longest merged interval as a tuple (the first of several; (0, 0) if there is none)",
     "tuple[int, int]", "max(merged, key=lambda i: i[1] - i[0], default=(0, 0))"),
)  # fmt: skip

_INTERVALS = """\
def <name>(intervals: list[tuple[int, int]]) -> <type>:
    merged: list[tuple[int, int]] = []
    for start, end in sorted(intervals):
        if end - start < <short>:
            continue
        if merged and start <= merged[-1][1] + <gap>:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return <wanted>
"""


def intervals(dice: Dice) -> Problem:
    """Intervals that are merged where they touch, or nearly."""
    short, gap = dice.choice([1, 2, 3]), dice.choice([0, 1, 2, 3])
    wanted, kind, code = dice.choice(_WANTED)
    name = dice.choice(["merge", "join_intervals", "coverage"])
    source = fill(_INTERVALS, name=name, short=short, gap=gap, type=kind, wanted=code)
    text = (
        f"`intervals` are (start, end) tuples with start <= end, in any order. Leave out those "
        f"with end - start below {short}. Merge two intervals where they overlap or at most {gap} "
        f"lies between the end of the one and the start of the other (and so on with what comes of "
        f"it). Return {wanted}."
    )
    mutants = mutated(
        source,
        (f"< {short}:", f"<= {short}:"),
        (f"[1] + {gap}:", f"[1] + {gap + 1}:"),
        ("start <= merged", "start < merged"),
        ("max(merged[-1][1], end)", "end"),
        ("sorted(intervals)", "intervals"),
    )
    inputs = [_spans(dice, dice.randint(4, 7)) for _ in range(13)]
    inputs[3:3] = [[], [(0, 9), (2, 5), (9 + gap, 15)], [(0, 4), (5 + gap, 11), (20, 20 + short)]]
    return Problem(
        "intervals",
        f"{short}|{gap}|{wanted}",
        name,
        f"def {name}(intervals: list[tuple[int, int]]) -> {kind}:",
        text,
        source,
        mutants,
        tuple((spans,) for spans in inputs),
    )


def _spans(dice: Dice, count: int) -> list[tuple[int, int]]:
    starts = [dice.randint(0, 40) for _ in range(count)]
    return [(start, start + dice.randint(0, 9)) for start in starts]


_CACHE = """\
def <name>(capacity: int, steps: list[tuple[str, str, int]]) -> list[int]:
    store: dict[str, int] = {}  # in the order in which keys leave
    out = []
    for what, key, value in steps:
        if what == "get":
            out.append(store.get(key, <missing>))
            if <get> and key in store:
                store[key] = store.pop(key)
            continue
        if key in store:
            if <put>:
                del store[key]
        elif len(store) == capacity:
            del store[<victim>]
        store[key] = value
    return out + [len(store)]
"""


def cache(dice: Dice) -> Problem:
    """A store of limited size that forgets by a rule."""
    on_get, on_put = dice.choice([True, False]), dice.choice([True, False])
    newest, missing = dice.choice([True, False]), dice.choice([-1, 0, -99])
    victim, other = "list(store)[-1]", "list(store)[0]"
    if not newest:
        victim, other = other, victim
    name = dice.choice(["simulate", "run_cache", "replay_steps"])
    source = fill(_CACHE, name=name, missing=missing, get=on_get, put=on_put, victim=victim)
    refresh = [what for what, on in [("a get", on_get), ("a put on it", on_put)] if on]
    text = (
        "A store keeps at most `capacity` (1 or more) keys with values. `steps` are played in "
        'order: ("put", key, value) sets a key, ("get", key, 0) looks one up. A put of a new key '
        f"into a full store first removes the {'newest' if newest else 'oldest'} key. A key is as "
        f"old as the put that brought it in{_or_since(refresh)}. Return what the gets give, in "
        f"order ({missing} for a key that is not there), and after these how many keys there are."
    )
    mutants = mutated(
        source,
        (f"store[{victim}]", f"store[{other}]"),
        (f"if {on_get} and", f"if {not on_get} and"),
        (f"if {on_put}:\n", f"if {not on_put}:\n"),
        ("== capacity", "> capacity"),
        (f"key, {missing})", f"key, {missing - 1})"),
    )
    inputs = [(dice.randint(2, 3), _steps(dice, dice.randint(12, 18))) for _ in range(14)]
    inputs[3:3] = [(1, []), (1, [("get", "a", 0), ("put", "a", 5), ("put", "a", 6)])]
    return Problem(
        "cache",
        f"{on_get}|{on_put}|{newest}|{missing}",
        name,
        f"def {name}(capacity: int, steps: list[tuple[str, str, int]]) -> list[int]:",
        text,
        source,
        mutants,
        tuple(inputs),
    )


def _or_since(refresh: list[str]) -> str:
    if not refresh:
        return "; neither a get nor another put on it makes it newer"
    verb = "make" if len(refresh) > 1 else "makes"
    return f"; {' and '.join(refresh)}, where it is there already, {verb} it the newest"


def _steps(dice: Dice, count: int) -> list[tuple[str, str, int]]:
    out: list[tuple[str, str, int]] = []
    for _ in range(count):
        key = dice.choice("abcde")
        put = dice.random() < 0.5
        out.append(("put", key, dice.randint(1, 99)) if put else ("get", key, 0))
    return out


_MOVES = (
    ("up, down, left or right", "[(0, 1), (1, 0), (0, -1), (-1, 0)]", "[(0, 1), (1, 0)]"),
    ("to any of the eight cells around",
     "[(r, c) for r in (-1, 0, 1) for c in (-1, 0, 1) if r or c]",
     "[(0, 1), (1, 0), (0, -1), (-1, 0)]"),
    ("right or down", "[(0, 1), (1, 0)]", "[(0, 1), (1, 0), (0, -1), (-1, 0)]"),
    ("as a knight in chess",
     "[(r, c) for r in (-2, -1, 1, 2) for c in (-2, -1, 1, 2) if abs(r) != abs(c)]",
     "[(r, c) for r in (-2, 2) for c in (-1, 1)]"),
)  # fmt: skip

_PATHS = """\
import heapq


def <name>(rows: list[str]) -> int:
    height, width = len(rows), len(rows[0])
    moves = <moves>
    best = {(0, 0): 0}
    queue = [(0, 0, 0)]
    while queue:
        cost, r, c = heapq.heappop(queue)
        if (r, c) == (height - 1, width - 1):
            return cost
        for dr, dc in moves:
            y, x = r + dr, c + dc
            if not (0 <= y < height and 0 <= x < width) or rows[y][x] == "<wall>":
                continue
            total = cost + (<slow> if rows[y][x] == "<mud>" else 1)
            if total < best.get((y, x), 10**9):
                best[y, x] = total
                heapq.heappush(queue, (total, y, x))
    return <none>
"""


def paths(dice: Dice) -> Problem:
    """The cheapest way through a field with walls and mud."""
    wall, mud = dice.choice("#X%"), dice.choice("~w:")
    slow, none = dice.choice([2, 3, 5]), dice.choice([-1, 0])
    said, moves, wrong = dice.choice(_MOVES)
    name = dice.choice(["cheapest", "walk", "cross_field"])
    source = fill(_PATHS, name=name, moves=moves, wall=wall, mud=mud, slow=slow, none=none)
    text = (
        "`rows` is a field: texts of one length, one character a cell. From the first cell of the "
        f"first row one wants to get to the last cell of the last row, moving {said}. `{wall}` is "
        f"a wall, which cannot be entered; to enter `{mud}` costs {slow}, to enter `.` costs 1; "
        "the cell one starts in costs nothing. Start and end are never walls. Return the least "
        f"cost, or {none} where there is no way."
    )
    mutants = mutated(
        source,
        (f"moves = {moves}", f"moves = {wrong}"),
        (f"({slow} if", f"({slow + 1} if"),
        (f"return {none}\n", f"return {none - 1}\n"),
        (f' or rows[y][x] == "{wall}"', ""),
        ("return cost", "return cost + 1"),
    )
    sizes = [(dice.randint(3, 5), dice.randint(3, 6)) for _ in range(16)]
    inputs = [_field(dice, h, w, f"...{mud}{mud}{wall}") for h, w in sizes]
    inputs[3:3] = [["."], [f".{wall}.", f"{wall}{wall}.", "..."], [f".{mud}", f"{mud}."]]
    return Problem(
        "paths",
        f"{wall}|{mud}|{slow}|{none}|{said}",
        name,
        f"def {name}(rows: list[str]) -> int:",
        text,
        source,
        mutants,
        tuple((field,) for field in inputs),
    )


def _field(dice: Dice, height: int, width: int, ground: str) -> list[str]:
    rows = [[dice.choice(ground) for _ in range(width)] for _ in range(height)]
    rows[0][0] = rows[-1][-1] = "."
    return ["".join(row) for row in rows]


_RULES = (
    ("the sum of the values of all nodes that have no children which count",
     "sum(below) if below else node[1]", "node[1] + sum(below)"),
    ("the largest sum of values on a way from the root down to a leaf",
     "node[1] + max(below, default=0)", "node[1] + sum(below)"),
    ("the value of the root minus the results for its children (each worked out by this same rule)",
     "node[1] - sum(below)", "node[1] + sum(below)"),
    ("the sum of all values, where what lies one level deeper counts <k> times as much (the root "
     "counts once, its children <k> times, and so on)",
     "node[1] + <k> * sum(below)", "node[1] + sum(below)"),
)  # fmt: skip

_TREE = """\
def <name>(node: tuple) -> int:
    below = [<name>(child) for child in node[2] if not child[0].startswith("<mark>")]
    if node[1] == <stop>:
        below = []
    return <rule>
"""


def tree(dice: Dice) -> Problem:
    """A tree of named values, folded from below."""
    values: dict[str, Any] = {
        "k": dice.choice([2, 3, 10]),
        "mark": dice.choice("_.-"),
        "stop": dice.choice([0, 1]),
    }
    said, code, wrong = dice.choice(_RULES)
    name = dice.choice(["fold", "tree_value", "climb"])
    source = fill(_TREE, name=name, rule=code)
    text = (
        "A node of a tree is a tuple (name, value, list of its children, which are nodes). Nodes "
        "whose name begins with `<mark>`, and all below them, do not count as children; nor do the "
        f"children of a node with the value <stop>. Return {said}."
    )
    changes = (
        (f"return {code}", f"return {wrong}"),
        (' if not child[0].startswith("<mark>")', ""),
        ("node[1] == <stop>", "node[1] == 99"),
        ("in node[2] if", "in node[2][1:] if"),
        ("in node[2] if", "in node[2][:2] if"),
    )
    inputs: list[Any] = [_node(dice, values["mark"], 3) for _ in range(14)]
    inputs[3:3] = [("a", 7, []), ("a", values["stop"], [("b", 5, [])])]
    return Problem(
        "tree",
        fill(said, **values) + f"|{values['mark']}|{values['stop']}",
        name,
        f"def {name}(node: tuple) -> int:",
        fill(text, **values),
        fill(source, **values),
        tuple(fill(m, **values) for m in mutated(source, *changes)),
        tuple((node,) for node in inputs),
    )


def _node(dice: Dice, mark: Any, depth: int) -> tuple[str, int, list[Any]]:
    name = dice.choice([mark, "", "", ""]) + dice.choice("abcd") if depth < 3 else "root"
    count = dice.randint(1, 3) if depth else 0
    return name, dice.randint(0, 9), [_node(dice, mark, depth - 1) for _ in range(count)]
