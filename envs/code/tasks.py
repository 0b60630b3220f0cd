"""The tasks: five levels of programming problems, made here, with hidden tests.

A problem belongs to one use (to be written, or to be repaired) and to one split by a hash of what
makes it this problem and no other: so splits are disjoint, and each can be made without the others.
"""

import itertools
import random
from collections.abc import Iterator, Sequence
from typing import Any

from agent_envs.envs.code.misleading import STYLES
from agent_envs.envs.code.problems import functions, machines, parsing, programs, structures, tables
from agent_envs.envs.code.problems.form import (
    VISIBLE,
    Checked,
    Maker,
    Problem,
    Result,
    checked,
    results,
)
from agent_envs.envs.code.problems.library import library
from agent_envs.envs.code.problems.repairs import Package, PackageMaker, choices
from agent_envs.envs.code.problems.shop import shop
from agent_envs.envs.code.problems.texts import texts
from agent_envs.streams import derive
from agent_envs.task import Task, TaskSource
from agent_envs.verifiers.unit_tests.literal import literal

SOLUTION = "solution.py"

SMALL: tuple[Maker, ...] = (
    functions.pipeline,
    functions.wording,
    functions.numeral,
    tables.tally,
    tables.grid,
    tables.bands,
)
HARDER: tuple[Maker, ...] = (
    parsing.notation,
    parsing.groups,
    parsing.rows,
    structures.intervals,
    structures.cache,
    structures.paths,
    structures.tree,
)
PROGRAMS: tuple[Maker, ...] = (
    programs.ledger,
    programs.robot,
    programs.ranking,
    machines.machine,
    machines.columns,
    machines.timetable,
)
PACKAGES: tuple[PackageMaker, ...] = (shop, library, texts)

WRITTEN = {0: SMALL, 1: HARDER, 3: PROGRAMS}
"""By level: what is to be written."""
REPAIR, MEND = 2, 4
LEVELS = (*WRITTEN, REPAIR, MEND)
COUNTS = {"train": 36, "heldout": 12, "adversarial": 12}
"""Tasks of a level."""
_SHARES = {"train": 60, "heldout": 20, "adversarial": 20}
_ATTEMPTS = 200
"""How often a template is asked for a split's problems."""
MOST_ATTEMPTS = 20_000
"""The same where more are wanted than are shipped."""


class CodeTasks(TaskSource):
    """Level 0: write a small function. 1: a harder one (parsing, data structures, recursion).
    2: repair a function. 3: write a program that reads standard input. 4: repair a package.

    `data` is what `agent_envs.verifiers.unit_tests.verify` takes.
    """

    def load(self, split: str) -> Iterator[Task]:
        """All levels of a split; see `TaskSource.load`."""
        for level in LEVELS:
            yield from itertools.islice(_level(level, split, _ATTEMPTS), COUNTS[split])

    def drawn(self, level: int) -> Iterator[Task]:
        """See `TaskSource.drawn`. Raises ValueError for a level that there is not."""
        if level not in LEVELS:
            raise ValueError(f"level={level}: one of {', '.join(map(str, LEVELS))}")
        return _level(level, "train", MOST_ATTEMPTS)


def _level(level: int, split: str, attempts: int) -> Iterator[Task]:
    for index, (template, prompt, data) in enumerate(_made(level, split, attempts)):
        yield _task(level, split, index, template, prompt, data)


def _made(level: int, split: str, attempts: int) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Template, prompt and data of the problems of a level."""
    if level == REPAIR:
        yield from filter(None, map(_to_repair, _draw(SMALL + HARDER, "repair", split, attempts)))
    elif level == MEND:
        for package, broken in _packages(split):
            yield package.name, *_to_mend(package, broken)
    else:
        for found in _draw(WRITTEN[level], "write", split, attempts):
            yield found.problem.template, *_to_write(found)


def _task(
    level: int, split: str, index: int, template: str, prompt: str, data: dict[str, Any]
) -> Task:
    style = "plain"
    if split == "adversarial":
        style = list(STYLES)[index % len(STYLES)]
        prompt, data["files"] = STYLES[style](prompt, data["files"])
    return Task(f"code/{level}/{split}/{index:03}", split, prompt, data, level, (template, style))


def _draw(makers: Sequence[Maker], use: str, split: str, attempts: int) -> Iterator[Checked]:
    """Problems whose home this is, one template after the other, as long as each has some."""
    drawn = (_problems(maker, (use, split), attempts) for maker in makers)
    for row in itertools.zip_longest(*drawn):
        yield from filter(None, row)


def _problems(maker: Maker, home: tuple[str, str], attempts: int) -> Iterator[Checked]:
    """The problems of a template that live here, none twice."""
    taken: set[str] = set()
    for attempt in range(attempts):
        problem = maker(random.Random(derive("code", maker.__name__, attempt)))
        if problem.variant in taken or _home(problem.template, problem.variant) != home:
            continue
        found = checked(problem)
        if found is not None:
            taken.add(problem.variant)
            yield found


def _home(template: str, variant: str) -> tuple[str, str]:
    """Use and split of a problem. Programs are only ever written."""
    number = derive("code home", template, variant)
    split = _split(number // 2)
    programs = {maker.__name__ for maker in PROGRAMS}
    return ("repair" if number % 2 and template not in programs else "write"), split


def _split(number: int) -> str:
    place = number % 100
    for split, share in _SHARES.items():
        if place < share:
            return split
        place -= share
    raise AssertionError("the shares are less than 100")


def _to_write(found: Checked) -> tuple[str, dict[str, Any]]:
    """Prompt and data of a problem that is to be solved from its text."""
    problem = found.problem
    if problem.header:
        start = f"{problem.header}\n    raise NotImplementedError\n"
        head = f"Write this function in {SOLUTION}:\n\n    {problem.header}"
    else:
        start = "import sys\n\nlines = sys.stdin.read().splitlines()\n"
        head = f"Write a program in {SOLUTION} that reads standard input and prints."
    data = _data(found, start, [start, *found.mutants])
    return f"{head}\n\n{problem.text}\n\n{_examples(problem, data['visible'])}\n\n{_END}", data


_END = (
    f"{SOLUTION} as it stands when you finish is graded, by tests that you do not see; run_tests "
    "runs the examples. Say that you are done to finish."
)


def _to_repair(found: Checked) -> tuple[str, str, dict[str, Any]] | None:
    """Template, prompt and data of a function with a bug that a visible test shows."""
    first = derive("code bug", found.problem.template, found.problem.variant)
    turned = [found.mutants[(first + i) % len(found.mutants)] for i in range(len(found.mutants))]
    pairs = ((bug, _show(found, results(found.problem, bug))) for bug in turned)
    bug, shown = next(((b, s) for b, s in pairs if s and b in s.mutants), ("", None))
    if shown is None:
        return None
    problem = shown.problem
    data = _data(shown, bug, list(shown.mutants)) | {"passing": _passing(shown, bug)}
    prompt = (
        f"The function `{problem.entry_point}` in {SOLUTION} has a bug: run_tests shows it. Repair "
        f"it. This is what it should do:\n\n    {problem.header}\n\n{problem.text}\n\n"
        f"{_examples(problem, data['visible'])}\n\n{_END}"
    )
    return problem.template, prompt, data


def _show(found: Checked, given: list[Result]) -> Checked | None:
    """The problem with its inputs in such an order that a visible one shows the bug."""
    inputs = list(found.problem.inputs)
    first = next(i for i, wanted in enumerate(found.expected) if given[i] != wanted)
    if first >= VISIBLE:
        inputs[1], inputs[first] = inputs[first], inputs[1]
    changed = {**vars(found.problem), "inputs": tuple(inputs)}
    return checked(Problem(**changed))


def _passing(found: Checked, source: str) -> list[str]:
    """The names of the visible tests that a solution passes."""
    pairs = zip(results(found.problem, source), found.expected, strict=True)
    right = [given == wanted for given, wanted in pairs][:VISIBLE]
    return [f"case {number}" for number, is_right in enumerate(right, 1) if is_right]


def _data(found: Checked, start: str, mutants: list[str]) -> dict[str, Any]:
    problem = found.problem
    test = _call if problem.header else _run
    tests = [test(*pair) for pair in zip(problem.inputs, found.expected, strict=True)]
    return {
        "kind": "cases" if problem.header else "stdin",
        "entry_point": problem.entry_point,
        "module": SOLUTION,
        "prompt_code": "",
        "files": {SOLUTION: start},
        "visible": tests[:VISIBLE],
        "passing": [],
        "hidden": tests[VISIBLE:],
        "solution": {SOLUTION: problem.solution},
        "mutants": [{SOLUTION: mutant} for mutant in mutants],
    }


def _call(arguments: tuple[Any, ...], expected: Result) -> dict[str, str]:
    how, what = expected
    return {"args": repr(arguments), how: what}


def _run(arguments: tuple[Any, ...], expected: Result) -> dict[str, str]:
    (lines,) = arguments
    out = literal(expected[1])
    return {"stdin": "".join(f"{x}\n" for x in lines), "stdout": "".join(f"{x}\n" for x in out)}


def _examples(problem: Problem, visible: list[dict[str, str]]) -> str:
    if problem.header:
        name = problem.entry_point
        inputs = problem.inputs[:VISIBLE]
        shown = [
            f"    {name}({', '.join(map(repr, given))}) {_outcome(test)}"
            for given, test in zip(inputs, visible, strict=True)
        ]
        return "Examples:\n\n" + "\n".join(shown)
    shown = [f"Input:\n\n{test['stdin']}\nOutput:\n\n{test['stdout']}" for test in visible]
    return "Examples.\n\n" + "\n".join(shown).rstrip("\n")


def _outcome(test: dict[str, str]) -> str:
    return f"== {test['returns']}" if "returns" in test else f"raises {test['raises']}"


def _packages(split: str) -> Iterator[tuple[Package, tuple[str, ...]]]:
    """Packages with the places that are broken, one package after the other."""
    columns = []
    for maker in PACKAGES:
        sets = choices(maker(random.Random(0)))
        random.Random(derive("code", maker.__name__)).shuffle(sets)
        columns.append([s for s in sets if _split(derive("code home", maker.__name__, s)) == split])
    for row in itertools.zip_longest(*columns):
        for maker, broken in zip(PACKAGES, row, strict=True):
            if broken is not None:
                dice = random.Random(derive("code", maker.__name__, broken))
                yield maker(dice), broken


def _to_mend(package: Package, broken: tuple[str, ...]) -> tuple[str, dict[str, Any]]:
    """Prompt and data of a package with broken places."""
    visible, hidden = package.tests(broken, "visible"), package.tests(broken, "hidden")
    due = [test for test in visible if test["must"] == "fail_to_pass"]
    failing = [f"    {test['path']}: {', '.join(test['names'])}" for test in due]
    passing = [f"{t['path']}::{name}" for t in visible if t not in due for name in t["names"]]
    readme = {"README.md": f"# {package.name}\n\n{package.text}\n"}
    data = {
        "kind": "package",
        "entry_point": "",
        "module": "",
        "prompt_code": "",
        "files": package.broken(broken)
        | {test["path"]: test["source"] for test in visible}
        | readme,
        "visible": visible,
        "passing": passing,
        "hidden": hidden,
        "solution": package.broken(()),
        "mutants": [package.broken(broken), *package.mutants(broken)],
    }
    prompt = (
        f"Repair the package `{package.name}` in the workspace: these tests fail, and must pass "
        "without breaking others.\n\n" + "\n".join(failing) + f"\n\n{package.text}\n\nThe package "
        "is graded by tests that you do not see; run_tests runs the visible ones, in their "
        "original form. Say that you are done to finish."
    )
    return prompt, data
