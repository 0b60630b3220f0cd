"""What runs around a graded package, in its sandbox: a table of the objects that tests hold.

Plain values cross as copies; everything else stays here and crosses as its number in the table.
"""

import builtins
import contextlib
import importlib
import inspect
import operator
import os
import sys
from collections.abc import Callable
from typing import Any

from agent_envs.verifiers.unit_tests.codec import NotPlain, pack, unpack
from agent_envs.verifiers.unit_tests.graded import builtin_name, home, text_of

objects: list[Any] = []
numbers: dict[int, int] = {}
OPERATORS: dict[str, Callable[..., Any]] = {
    **{name: getattr(builtins, name) for name in ("len", "list", "str", "repr", "bool", "hash")},
    **{name: getattr(builtins, name) for name in ("next", "abs", "int", "float", "format")},
    **{name: getattr(operator, name) for name in ("eq", "ne", "lt", "le", "gt", "ge", "neg")},
    **{name: getattr(operator, name) for name in ("add", "sub", "mul", "truediv", "floordiv")},
    **{name: getattr(operator, name) for name in ("mod", "pow", "and_", "or_", "xor", "contains")},
    **{name: getattr(operator, name) for name in ("getitem", "setitem", "delitem")},
    "enter": lambda x: type(x).__enter__(x),
    "exit": lambda x: type(x).__exit__(x, None, None, None),
}


def do(order: list[Any]) -> dict[str, Any]:
    """One question of a test's: what to do, and to what."""
    what, *tree = order
    try:
        value = DO[what](*unpack(tree, lookup))
    except Exception as error:
        return raised(error, is_next=tree[:1] == ["next"])
    try:
        return {"value": pack(value, show)}
    except NotPlain as error:
        return {"broken": f"the value cannot be read: {error}"}


def raised(error: Exception, *, is_next: bool) -> dict[str, Any]:
    """An exception as an answer. Only to `next` a StopIteration is what it says."""
    ended = is_next and type(error) is StopIteration
    name = "StopIteration" if ended else builtin_name(error)
    own = {"object": show(error)} if not is_builtin(type(error)) else {}
    return {"raised": name, "text": text_of(error), **own}


def load(name: str) -> Any:
    """Import a module of the package."""
    if home() not in sys.path:
        sys.path.insert(0, home())
    os.chdir(home())
    return importlib.import_module(name)


def early(names: list[str], attributes: list[tuple[str, str]]) -> tuple[Any, ...]:
    """Import modules and look up their functions and classes, all at once, as far as that goes:
    what raises an exception is left out, to be asked for again."""
    modules = {}
    found = []
    for name in names:
        with contextlib.suppress(Exception):
            modules[name] = load(name)
    for name, attribute in attributes:
        with contextlib.suppress(Exception):
            value = getattr(modules[name], attribute)
            if callable(value):
                found.append((name, attribute, value))
    return modules, found


def invoke(target: Any, name: str | None, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call an object, or one of its methods."""
    return (target if name is None else getattr(target, name))(*args, **kwargs)


def operate(name: str, *operands: Any) -> Any:
    """Apply an operator."""
    return OPERATORS[name](*operands)


DO: dict[str, Callable[..., Any]] = {
    "early": early,
    "import": load,
    "get": getattr,
    "set": setattr,
    "call": invoke,
    "operate": operate,
}


def lookup(tree: dict[str, Any]) -> Any:
    """The object that a number stands for."""
    return objects[tree["ref"]]


def number_of(value: Any) -> int:
    """An object's place in the table, where it stays."""
    if id(value) not in numbers:
        numbers[id(value)] = len(objects)
        objects.append(value)
    return numbers[id(value)]


def show(value: Any) -> dict[str, Any]:
    """What a test is told of an object."""
    number = number_of(value)
    if inspect.ismodule(value):
        return {"ref": number, "module": value.__name__, "package": hasattr(value, "__path__")}
    if inspect.isclass(value):
        return {"ref": number, "class": value.__name__, **about(value)}
    return {"ref": number, "of": show(type(value))}


def about(kind: type) -> dict[str, Any]:
    """A class's bases (built-in exceptions by name, other built-ins not at all) and methods."""
    bases: list[Any] = [b for b in kind.__bases__ if not is_builtin(b) or issubclass(b, Exception)]
    names = [name for name in dir(kind) if not name.startswith("__")]
    methods = [name for name in names if inspect.isfunction(getattr(kind, name, None))]
    shown = [base.__name__ if is_builtin(base) else show(base) for base in bases]
    return {"bases": shown, "methods": methods}


def is_builtin(kind: type) -> bool:
    """Whether a class is the language's own."""
    return kind.__module__ == "builtins"
