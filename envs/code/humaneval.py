"""Tasks from files: our own form, and HumanEval's, as `.jsonl` or `.jsonl.gz`."""

import ast
import doctest
import gzip
import re
import symtable
import warnings
from collections.abc import Mapping
from os import PathLike
from typing import Any

from agent_envs.envs.code.tasks import SOLUTION
from agent_envs.plain import parse_json
from agent_envs.task import Task, task_file
from agent_envs.verifiers.unit_tests.literal import parse

FIELDS = ("task_id", "prompt", "entry_point", "canonical_solution", "test")
"""What a line of HumanEval's format has; all are texts."""
_EXAMPLE = r"^[ >]*({}\(.*\)) *(?:[-=]+>|==|[=➞➜]|# returns|should return) *(.*?)\.?$"
"""A line of a docstring such as `f(1, 2) => 3`, with the function's name put in."""


def read_tasks(path: str | PathLike[str], split: str) -> list[Task]:
    """The tasks of a file; those in HumanEval's format, which has no splits, are of this one.

    Raises ValueError, with the number of the line, for a line that is no task.
    """
    content = task_file(path).read_bytes()
    if content[:2] == b"\x1f\x8b":
        try:
            content = gzip.decompress(content)
        except (OSError, EOFError) as error:
            raise ValueError(f"{path}: not a gzip file that can be read: {error}") from None
    tasks = []
    for number, line in enumerate(content.split(b"\n"), 1):
        if line.strip():
            try:
                tasks.append(_read(parse_json(line.decode()), split))
            except ValueError as error:
                raise ValueError(f"{path}:{number}: {error}") from None
    return tasks


def _read(record: Any, split: str) -> Task:
    if isinstance(record, dict) and "task_id" in record:
        return from_humaneval(record, split)
    return Task.from_dict(record)


def from_humaneval(record: Mapping[str, Any], split: str) -> Task:
    """A task of one line of HumanEval's format. Raises ValueError, naming what is wrong: code that
    does not compile (none of it is run), a test without `check`, a field that is missing.

    The examples of the docstring, where they can be read, are the visible tests; `untried` says
    that nobody knows whether they are right.
    """
    task_id, prompt, name, solution, test = _texts(record)
    stub = f"{prompt}    raise NotImplementedError\n"
    try:
        visible = _examples(stub, name)
        _compiled("prompt + canonical_solution", prompt + solution)
        _check_test(test)
    except ValueError as error:
        raise ValueError(f"task {task_id!r:.80}: {error}") from None
    constant = f"{prompt}    return None\n"
    data = {
        "kind": "asserts",
        "entry_point": name,
        "module": SOLUTION,
        "prompt_code": prompt,
        "files": {SOLUTION: stub},
        "visible": visible,
        "untried": True,
        "passing": [],
        "hidden": [test],
        "solution": {SOLUTION: prompt + solution},
        "mutants": [{SOLUTION: stub}, {SOLUTION: constant}, {SOLUTION: ""}],
    }
    return Task(task_id, split, _said(prompt), data, 0, ("humaneval",))


def _texts(record: Mapping[str, Any]) -> list[str]:
    """The fields. A task without the gold solution is none: nothing tells whether its tests can be
    passed, or which examples of its docstring are right."""
    wrong = [name for name in FIELDS if not isinstance(record.get(name), str)]
    if wrong:
        task_id = record.get("task_id")
        gold = "; every task needs a gold solution" if "canonical_solution" in wrong else ""
        raise ValueError(
            f"task {task_id!r:.80}: not HumanEval's format: {', '.join(wrong)} must be texts{gold}"
        )
    return [record[field] for field in FIELDS]


def _check_test(test: str) -> None:
    """Raise ValueError where a test does not compile, or leaves no `check` behind."""
    found = [one for one in _compiled("test", test).get_symbols() if one.get_name() == "check"]
    if not any(one.is_assigned() or one.is_imported() for one in found):
        raise ValueError("its test defines no check(candidate)")


def _compiled(what: str, source: str) -> symtable.SymbolTable:
    """The names of code that compiles. Raises ValueError for other code."""
    try:
        with warnings.catch_warnings(action="ignore"):
            compile(source, what, "exec", dont_inherit=True)
            return symtable.symtable(source, what, "exec")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        why = str(error) or "it is nested too deeply"
        raise ValueError(f"its {what} does not compile: {why}") from None


def _said(prompt: str) -> str:
    return (
        f"Complete the code in {SOLUTION}:\n\n{prompt}\n{SOLUTION} as it stands when you finish is "
        "graded, by tests that you do not see; run_tests runs the examples, if there are any. Say "
        "that you are done to finish."
    )


def _examples(code: str, name: str) -> list[str]:
    """The docstring's examples as tests, each one a `check(candidate)`."""
    try:
        tree = parse(code)
    except (SyntaxError, RecursionError, MemoryError) as error:
        why = str(error) or "it is nested too deeply"
        raise ValueError(f"the prompt is no beginning of a function: {why}") from None
    _compiled("prompt", code)
    defined = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    found = [node for node in defined if node.name == name]
    if not found:
        raise ValueError(f"the prompt defines no function {name!r}")
    docstring = ast.get_docstring(found[-1]) or ""
    pairs = [*_doctests(docstring), *re.findall(_EXAMPLE.format(name), docstring, re.MULTILINE)]
    read = dict.fromkeys(_comparison(source, want) for source, want in pairs)
    return [
        f"def check(candidate):\n    {name} = candidate\n    assert {comparison}\n"
        for comparison in read
        if comparison
    ]


def _doctests(docstring: str) -> list[tuple[str, str]]:
    try:
        examples = doctest.DocTestParser().get_examples(docstring)
    except ValueError:  # it only looks like examples
        return []
    return [(one.source.strip(), one.want.strip()) for one in examples]


def _comparison(source: str, want: str) -> str:
    """`source == want`, if that is an expression and a literal on a line; else nothing."""
    try:
        left, right = (parse(part.strip(), "eval").body for part in (source, want))
        ast.literal_eval(right)
    except (SyntaxError, ValueError):
        return ""
    return ast.unparse(ast.Compare(left, [ast.Eq()], [right]))
