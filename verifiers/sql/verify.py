"""Runs what is graded on databases of its own, and judges what comes out."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol, TypeVar

from agent_envs.task import Task
from agent_envs.verifiers.sql.rows import Failed, Outcome, Row, Rows, same_rows
from agent_envs.verifiers.sql.state import State, differences
from agent_envs.verifiers.sql.values import is_fractional

D = TypeVar("D", contravariant=True)


@dataclass(frozen=True)
class Gold:
    """An accepted query. Its last `keys` columns are what it orders by, and no part of the result:
    None where the order does not count. `floats` are the columns with a tolerance: None for all in
    which some gold result has a fraction."""

    sql: str
    keys: int | None = None
    floats: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Report:
    """Whether a task is solved; whether it looks so on the database that the agent saw; why not."""

    passed: bool
    visible: bool = False
    why: str = ""


class Engine(Protocol[D]):
    """What runs SQL for a grader: in databases that no agent ever touched.

    Whatever the graded SQL does is a `Failed` outcome. BackendUnavailable is a fault of ours.
    """

    def ask(self, query: str, databases: Sequence[D]) -> list[Outcome]:
        """What a query of the agent's gives on each of them."""

    def gold(self, query: str, databases: Sequence[D]) -> list[Outcome]:
        """The same for a gold query; never together with the former."""

    def after(self, script: str, database: D) -> State:
        """The state of a database after gold statements. ValueError where one of them fails."""


def verify_query(
    engine: Engine[D], query: str, golds: Sequence[Gold], databases: Sequence[D], decisive: int = 0
) -> Report:
    """Whether a query gives what one of the golds gives, on every database.

    The first database is the one that the agent saw; it is left out of the decision where
    `decisive` is 1, since gold is not decided on it.
    """
    given = engine.ask(query, databases)
    best: Report | None = None
    for gold in golds:
        verdicts = _against(gold, engine.gold(gold.sql, databases), given, decisive)
        passed = not any(verdicts[decisive:])
        report = Report(passed, not verdicts[0], next(filter(None, verdicts), ""))
        if passed:
            return report
        if best is None or report.visible > best.visible:
            best = report
    return best or Report(False, False, "no gold")


def _against(
    gold: Gold, results: Sequence[Outcome], given: Sequence[Outcome], decisive: int
) -> list[str]:
    """For each database nothing, or what is wrong on it."""
    expected = [_decided(gold, result, i >= decisive) for i, result in enumerate(results)]
    floats = gold.floats if gold.floats is not None else fractional(expected)
    return [
        found.why
        if isinstance(found, Failed)
        else same_rows(wanted, found, keys=keys, floats=floats)
        for (wanted, keys), found in zip(expected, given, strict=True)
    ]


def _decided(gold: Gold, result: Outcome, decides: bool) -> tuple[Rows, list[Row] | None]:
    """A gold result, and the keys of its order."""
    if isinstance(result, Failed):
        raise ValueError(f"the gold query fails: {result.why}: {gold.sql:.200}")
    if decides and not result.rows:
        raise ValueError(f"the gold query gives nothing, which decides nothing: {gold.sql:.200}")
    if gold.keys is None:
        return result, None
    rows = result.cut(gold.keys)
    return rows, [row[rows.columns :] for row in result.rows]


def fractional(expected: Sequence[tuple[Rows, list[Row] | None]]) -> tuple[int, ...]:
    """The columns in which some result has a fraction."""
    found = {i for rows, _ in expected for row in rows.rows for i in _fractions(row)}
    return tuple(sorted(found))


def _fractions(row: Row) -> list[int]:
    return [i for i, value in enumerate(row) if is_fractional(value)]


def verify_value(task: Task, answer: str | None, gold: str) -> Report:
    """Whether an answer is the gold value, read as the task says: exact, and of its type."""
    if answer is None:
        return Report(False, False, "no answer")
    try:
        passed = _typed(task.read(answer)) == _typed(task.read(gold))
    except ValueError as error:
        return Report(False, False, str(error))
    return Report(passed, passed, "" if passed else "another value")


def _typed(value: object) -> tuple[str, object]:
    """With its type, so that true is not 1; a number is one, however it is written."""
    number = isinstance(value, int | float | Fraction) and not isinstance(value, bool)
    return ("number" if number else type(value).__name__), value


def verify_change(engine: Engine[D], script: str, database: D, found: State | Failed) -> Report:
    """Whether a database is as the gold statements leave a pristine copy, and nothing else."""
    if isinstance(found, Failed):
        return Report(False, False, found.why)
    differing = differences(engine.after(script, database), found)
    return Report(not differing, not differing, "; ".join(differing)[:500])
