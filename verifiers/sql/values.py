"""Values as databases give them, in a form in which equal means equal in type and value."""

import math
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, TypeAlias

RELATIVE, ABSOLUTE = 1e-6, 1e-9
"""How far a number may be off in a column that is declared as float."""


@dataclass(frozen=True)
class Typed:
    """A value of a type that JSON has not, as the engine writes it: a date, an interval."""

    type: str
    text: str


Value: TypeAlias = None | bool | int | float | Decimal | str | bytes | Typed
Key: TypeAlias = tuple[str, Any]


def canonical(value: Value) -> Key:
    """Kind and value: equal for two values that are the same, and never for two of other kinds.

    Whole and decimal numbers are one kind, since a sum of integers is a decimal in some engines;
    binary floats are another. Raises TypeError for what no engine gives.
    """
    match value:
        case None:
            return "null", None
        case bool():
            return "bool", value
        case int():
            return "number", Fraction(value)
        case Decimal():
            return ("number", Fraction(value)) if value.is_finite() else ("float", str(value))
        case float():
            return "float", value + 0.0 if math.isfinite(value) else str(value)
        case str():
            return "text", value
        case bytes():
            return "bytes", value
        case Typed():
            return f"typed {value.type}", value.text
    raise TypeError(f"no SQL value: a {type(value).__name__}")


def is_fractional(value: Value) -> bool:
    """Whether it is a float, or a decimal with something behind the point."""
    if isinstance(value, Decimal):
        return value.is_finite() and value != value.to_integral_value()
    return isinstance(value, float)


def close(one: Value, other: Value) -> bool:
    """Whether two values agree in a column that is declared as float."""
    if canonical(one) == canonical(other):
        return True
    a, b = as_float(one), as_float(other)
    return (
        a is not None and b is not None and math.isclose(a, b, rel_tol=RELATIVE, abs_tol=ABSOLUTE)
    )


def as_float(value: Value) -> float | None:
    """The number as a float; None for what is no number, or has no float."""
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None
