"""What loads files of tests and runs one of them, in their sandbox."""

import ast
import importlib
import inspect
import sys
import types
import unittest
from typing import Any

from agent_envs.verifiers.unit_tests.asking import detail, home
from agent_envs.verifiers.unit_tests.remote import Finder, early, question

loaded: dict[str, types.ModuleType] = {}
failed: dict[str, str] = {}


def load(order: dict[str, Any]) -> None:
    """Import files of tests; what they import of the package is asked for, at first all at once."""
    sys.path.insert(0, home())
    finder = Finder(order["tops"])
    sys.meta_path.insert(0, finder)
    names, attributes = imports_of(order["paths"], finder)
    modules, found = question("early", names, attributes)
    early.update({(name, ""): module for name, module in modules.items()})
    early.update({(name, attribute): value for name, attribute, value in found})
    for path in order["paths"]:
        try:
            loaded[path] = importlib.import_module(path.removesuffix(".py").replace("/", "."))
        except Exception as error:
            failed[path] = f"it cannot be imported: {detail(error)}"
    early.clear()


def imports_of(paths: list[str], finder: Finder) -> tuple[list[str], list[tuple[str, str]]]:
    """Which modules of the package files import, and which attributes from these."""
    names: dict[str, None] = {}
    attributes: dict[tuple[str, str], None] = {}
    for path in paths:
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.Import):
                names |= dict.fromkeys(n for alias in node.names for n in parents(alias.name))
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names |= dict.fromkeys(parents(node.module))
                attributes |= dict.fromkeys((node.module, alias.name) for alias in node.names)
    mine = [name for name in names if finder.owns(name)]
    return mine, [pair for pair in attributes if finder.owns(pair[0])]


def parents(name: str) -> list[str]:
    """`a`, `a.b` and `a.b.c` of `a.b.c`."""
    parts = name.split(".")
    return [".".join(parts[: n + 1]) for n in range(len(parts))]


def parsed(path: str) -> ast.Module:
    """A file's tree; an empty one where it is no Python, which its import will say."""
    try:
        with open(f"{home()}/{path}", "rb") as file:
            return ast.parse(file.read())
    except (OSError, SyntaxError, ValueError):
        return ast.Module([], [])


def run_test(order: dict[str, Any]) -> None:
    """Run one test: `test_a`, or `TestClass.test_a`, of unittest or plain. A skip is an exception.

    Raises TypeError for a test that returns something: nobody would run what that is.
    """
    if order["path"] in failed:
        raise ImportError(failed[order["path"]])
    tests = loaded[order["path"]]
    holder: Any = None
    target: Any = tests
    for part in order["name"].split("."):
        holder, target = target, getattr(target, part)
    if hasattr(tests, "setUpModule"):
        tests.setUpModule()
    if inspect.isclass(holder) and issubclass(holder, unittest.TestCase):
        holder.setUpClass()
        holder(target.__name__).debug()
        return
    result = getattr(holder(), target.__name__)() if inspect.isclass(holder) else target()
    if result is not None:
        raise TypeError(f"the test returns a {type(result).__name__}")
