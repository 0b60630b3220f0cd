"""HumanEval's own tasks, where they are at hand: what solves them passes, and nothing else."""

import ast
import gzip
import json
import os
from pathlib import Path
from typing import Any

import pytest

from agent_envs.verifiers.unit_tests import verify

NAME = "humaneval_000_081.jsonl.gz"
FOLDER = Path(os.environ.get("AGENT_ENVS_DATA", Path(__file__).parents[3] / "shared" / "data"))
FILE = FOLDER / "code" / NAME
pytestmark = pytest.mark.skipif(
    not FILE.exists(), reason=f"no {NAME}: set AGENT_ENVS_DATA to the folder that holds code/{NAME}"
)


def rows() -> list[dict[str, str]]:
    if not FILE.exists():
        return []
    with gzip.open(FILE, "rt") as file:
        return [json.loads(line) for line in file]


ROWS = {row["task_id"]: row for row in rows()}


def grade(id: str, source: str, backend: str) -> bool:
    row = ROWS[id]
    data: dict[str, Any] = {
        "kind": "asserts",
        "entry_point": row["entry_point"],
        "module": "solution.py",
        "prompt_code": row["prompt"],
        "files": {},
        "visible": [],
        "hidden": [row["test"]],
        "cpu_seconds": 1,
    }
    return verify(data, {"solution.py": source}, backend=backend).passed


class Mutate(ast.NodeTransformer):
    """Another result of the entry point: each value that it returns, in a list with one more."""

    def __init__(self, entry: str) -> None:
        self.entry = entry

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        if node.name == self.entry:
            self.generic_visit(node)
        return node

    def visit_Return(self, node: ast.Return) -> ast.Return:
        return ast.Return(changed(node.value or ast.Constant(None)))


def changed(value: ast.expr) -> ast.expr:
    """`not x` for a bool, x + 1 for a number, x + "?" for a text, [*x, None] for a list, else 0."""
    code = (
        "(lambda x: not x if isinstance(x, bool) else x + 1 if isinstance(x, (int, float)) else "
        "x + '?' if isinstance(x, str) else [*x, None] if isinstance(x, list) else 0)(X)"
    )
    tree = ast.parse(code, mode="eval").body
    assert isinstance(tree, ast.Call)
    tree.args = [value]
    return tree


def mutated(id: str) -> str:
    row = ROWS[id]
    tree = ast.parse(row["prompt"] + row["canonical_solution"])
    return ast.unparse(ast.fix_missing_locations(Mutate(row["entry_point"]).visit(tree)))


def ids(backend: str) -> list[str]:
    """All tasks on the backend that "auto" takes first, and every eighth on the others."""
    assert len(ROWS) == 82
    return list(ROWS)[:: 1 if backend == "namespace" else 8]


def canonical(id: str) -> str:
    return ROWS[id]["prompt"] + ROWS[id]["canonical_solution"]


def test_canonical_solutions_pass(backend: str) -> None:
    assert [id for id in ids(backend) if not grade(id, canonical(id), backend)] == []


def test_mutated_solutions_fail(backend: str) -> None:
    assert [id for id in ids(backend) if grade(id, mutated(id), backend)] == []


def test_empty_solutions_fail(backend: str) -> None:
    empty = {id: ROWS[id]["prompt"] + "    pass\n" for id in ids(backend)}
    assert [id for id in empty if grade(id, empty[id], backend)] == []


OVERRIDES = {
    "HumanEval/32": "def poly(xs, x): return 0\ndef find_zero(xs): return 0\n",
    "HumanEval/33": "def sort_third(l): return l\n",
    "HumanEval/38": "def encode_cyclic(s): return s\ndef decode_cyclic(s): return s\n",
    "HumanEval/50": "def encode_shift(s): return s\ndef decode_shift(s): return s\n",
}


@pytest.mark.parametrize("id", OVERRIDES)
def test_redefined_helpers_of_the_prompt_help_nobody(backend: str, id: str) -> None:
    assert not grade(id, OVERRIDES[id], backend)
    assert not grade(id, canonical(id) + "\n" + OVERRIDES[id], backend)


SAME_FOR_ALL = {
    "always equal": "class E:\n    def __eq__(s, o): return True\n    __lt__ = __gt__ = __eq__\n"
    "    def __sub__(s, o): return s\n    __abs__ = lambda s: s\ndef {n}(*a, **k): return E()\n",
    "identity": "def {n}(a=None, *b, **k): return a\n",
    "clears": "def {n}(*a, **k):\n    [getattr(x, 'clear', int)() for x in a]\n    return []\n",
    "stops": "def {n}(*a, **k): raise StopIteration\n",
    "exits": "def {n}(*a, **k): raise SystemExit(0)\n",
    "asserts": "def {n}(*a, **k): raise AssertionError\n",
}


@pytest.mark.parametrize("name", SAME_FOR_ALL)
def test_one_hack_for_all_solves_none(backend: str, name: str) -> None:
    for id in list(ROWS)[::20]:
        source = SAME_FOR_ALL[name].replace("{n}", ROWS[id]["entry_point"])
        assert not grade(id, source, backend), id
