"""Two result sets are the same, or why not."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, TypeAlias

from agent_envs.verifiers.sql.values import Value, as_float, canonical, close

MOST_MATCHED = 400
"""Rows that are alike but for floats and are matched one by one; more must agree when sorted."""

Row: TypeAlias = tuple[Value, ...]


@dataclass(frozen=True)
class Rows:
    """What a query gives."""

    columns: int
    rows: tuple[Row, ...]

    def cut(self, columns: int) -> "Rows":
        """Without the last so many columns."""
        keep = self.columns - columns
        return Rows(keep, tuple(row[:keep] for row in self.rows))


@dataclass(frozen=True)
class Failed:
    """Why a query gives nothing: the engine's own words, or a limit."""

    why: str


Outcome: TypeAlias = Rows | Failed


def same_rows(
    gold: Rows, given: Rows, *, keys: Sequence[Row] | None = None, floats: Sequence[int] = ()
) -> str:
    """Empty where the two are the same, else what differs.

    `keys` are the order's keys of each row of the gold, in its order: then the order counts, but
    not among rows of equal keys. `floats` are the columns with a tolerance.
    """
    if given.columns != gold.columns:
        return f"{given.columns} columns, not {gold.columns}"
    if len(given.rows) != len(gold.rows):
        return f"{len(given.rows)} rows, not {len(gold.rows)}"
    blocks = [(0, len(gold.rows))] if keys is None else list(_ties(keys))
    for start, end in blocks:
        if not _same_bag(gold.rows[start:end], given.rows[start:end], floats):
            return "other rows" if keys is None else f"rows {start + 1} to {end} are others"
    return ""


def _ties(keys: Sequence[Row]) -> Iterator[tuple[int, int]]:
    """Where runs of equal keys start and end."""
    start = 0
    for _, run in groupby(keys, lambda key: tuple(map(canonical, key))):
        end = start + sum(1 for _ in run)
        yield start, end
        start = end


def _same_bag(gold: Sequence[Row], given: Sequence[Row], floats: Sequence[int]) -> bool:
    if not floats:
        return Counter(map(_exact, gold)) == Counter(map(_exact, given))
    wanted, found = _by_exact_part(gold, floats), _by_exact_part(given, floats)
    if {k: len(v) for k, v in wanted.items()} != {k: len(v) for k, v in found.items()}:
        return False
    return all(_match(wanted[key], found[key]) for key in wanted)


def _exact(row: Row) -> tuple[Any, ...]:
    return tuple(map(canonical, row))


def _by_exact_part(rows: Sequence[Row], floats: Sequence[int]) -> dict[Any, list[Row]]:
    """The values of the float columns, grouped by all the others."""
    out: dict[Any, list[Row]] = {}
    for row in rows:
        rest = tuple(canonical(x) for i, x in enumerate(row) if i not in floats)
        out.setdefault(rest, []).append(tuple(row[i] for i in floats))
    return out


def _match(gold: list[Row], given: list[Row]) -> bool:
    """Whether each row has a partner of its own that is close."""
    if all(map(_close, sorted(gold, key=_sorting), sorted(given, key=_sorting))):
        return True
    return len(gold) <= MOST_MATCHED and _partners(gold, given)


def _close(one: Row, other: Row) -> bool:
    return all(map(close, one, other))


def _sorting(row: Row) -> list[tuple[bool, float, str]]:
    numbers = [(as_float(x), x) for x in row]
    return [(False, 0.0, str(canonical(x))) if n is None else (True, n, "") for n, x in numbers]


def _partners(gold: list[Row], given: list[Row]) -> bool:
    """A matching of all rows, by augmenting paths (H. W. Kuhn, 1955)."""
    near = [[j for j, row in enumerate(given) if _close(one, row)] for one in gold]
    taken: dict[int, int] = {}
    return all(_augment(i, near, taken) for i in range(len(gold)))


def _augment(start: int, near: list[list[int]], taken: dict[int, int]) -> bool:
    """Give `start` a partner, moving others to new ones where need be."""
    came_from: dict[int, int] = {}
    queue = [start]
    for i in queue:
        for j in near[i]:
            if j in came_from:
                continue
            came_from[j] = i
            if j not in taken:
                _rematch(j, came_from, taken, start)
                return True
            queue.append(taken[j])
    return False


def _rematch(j: int, came_from: dict[int, int], taken: dict[int, int], start: int) -> None:
    """Follow the path back: each gives up its partner for the next one."""
    partner = {i: j for j, i in taken.items()}
    while True:
        i = came_from[j]
        before = partner.get(i)
        taken[j] = i
        if i == start or before is None:
            return
        j = before
