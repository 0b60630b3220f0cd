"""What a problem is, and how its tests come from its solution.

A maker writes the text, a solution, wrong solutions and inputs. What is expected is what the
solution gives, so a problem is right if its solution is; a wrong solution that the hidden inputs do
not find out is left out, and a problem that is left with fewer than `MUTANTS` is none.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

Dice: TypeAlias = random.Random

VISIBLE = 3
"""How many inputs of a problem are shown; the others are hidden."""
MUTANTS = 3
"""How many wrong solutions a problem has at least."""
DISTINCT = 4
"""How many different results the hidden inputs have at least, so that none can be guessed."""


@dataclass(frozen=True)
class Problem:
    """A function to write, or a program that reads standard input."""

    template: str
    variant: str
    """What makes it this one: two problems of a template with one variant are the same."""
    entry_point: str
    """The function's name; of a program, its function from the list of lines to such a list."""
    header: str
    """The function's `def` line; empty for a program."""
    text: str
    solution: str
    mutants: tuple[str, ...]
    inputs: tuple[tuple[Any, ...], ...]
    """Argument tuples, `VISIBLE` ordinary ones first. Of a program: the lines of its input."""


Maker: TypeAlias = Callable[[Dice], Problem]

Result: TypeAlias = tuple[str, str]
""""returns" and the literal, or "raises" and the name of the exception's class."""


def fill(template: str, **values: object) -> str:
    """A template with `<name>` replaced by values."""
    for name, value in values.items():
        template = template.replace(f"<{name}>", str(value))
    return template


def mutated(solution: str, *changes: tuple[str, str]) -> tuple[str, ...]:
    """The solution with one change each. ValueError for a change that is none, or not unique."""
    for old, new in changes:
        if solution.count(old) != 1 or old == new:
            raise ValueError(f"{old!r} stands {solution.count(old)} times in\n{solution}")
    return tuple(solution.replace(old, new) for old, new in changes)


def results(problem: Problem, source: str) -> list[Result]:
    """What a solution of ours gives for every input. Never for text of anybody else.

    Our solutions leave their arguments as they are, and all come to an end.
    """
    namespace: dict[str, Any] = {"__name__": "problem"}
    exec(compile(source, problem.entry_point, "exec"), namespace)
    function = namespace[problem.entry_point]
    return [_result(function, arguments) for arguments in problem.inputs]


def _result(function: Callable[..., Any], arguments: Sequence[Any]) -> Result:
    try:
        value = function(*arguments)
    except Exception as error:
        return "raises", type(error).__name__
    if isinstance(value, dict):  # whose order is no part of the result
        value = dict(sorted(value.items()))
    return "returns", repr(value)


@dataclass(frozen=True)
class Checked:
    """A problem with what is expected, and the mutants that the hidden inputs find out."""

    problem: Problem
    expected: tuple[Result, ...]
    mutants: tuple[str, ...]


def checked(problem: Problem) -> Checked | None:
    """None where the inputs tell too little: other dice are needed."""
    expected = results(problem, problem.solution)
    hidden = expected[VISIBLE:]
    found = [m for m in problem.mutants if results(problem, m)[VISIBLE:] != hidden]
    if len(set(hidden)) < DISTINCT or len(found) < MUTANTS:
        return None
    return Checked(problem, tuple(expected), tuple(found))
