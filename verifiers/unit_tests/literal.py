"""Python literals as tasks write them: what `ast.literal_eval` reads, and nan, inf, frozenset."""

import ast
import math
from typing import Any, Literal

NUMBERS = {"nan": math.nan, "inf": math.inf}
COLLECTIONS = {"set": set, "frozenset": frozenset}
ATTEMPTS = 100


def parse(text: str, mode: Literal["exec", "eval"] = "exec") -> Any:
    """`ast.parse`, from any number of threads.

    In CPython 3.11 they share a counter of the tree's depth, and one that takes turns with another
    may find it wrong: SystemError, "AST constructor recursion depth mismatch".
    """
    for _ in range(ATTEMPTS):
        try:
            return ast.parse(text, mode=mode)
        except SystemError:
            continue
    return ast.parse(text, mode=mode)


def literal(text: str) -> Any:
    """The value of a literal. Raises ValueError for anything else."""
    try:
        return _value(parse(text.strip(), "eval").body)
    except (SyntaxError, TypeError, RecursionError) as error:
        raise ValueError(f"no literal: {text[:80]!r}: {error}") from None


def _value(node: ast.expr) -> Any:
    match node:
        case ast.Name(id) if id in NUMBERS:
            return NUMBERS[id]
        case ast.UnaryOp(ast.USub(), operand):
            return -_value(operand)
        case ast.Call(ast.Name(id), arguments, []) if id in COLLECTIONS and len(arguments) < 2:
            return COLLECTIONS[id](*map(_value, arguments))
        case ast.Tuple(items):
            return tuple(map(_value, items))
        case ast.List(items):
            return list(map(_value, items))
        case ast.Set(items):
            return set(map(_value, items))
        case ast.Dict(keys, values) if None not in keys:
            return {_value(k): _value(v) for k, v in zip(keys, values, strict=True) if k}
        case _:
            return ast.literal_eval(node)
