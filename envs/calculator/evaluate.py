"""Exact arithmetic on text that nobody trusts.

    expression = a number, or a name with arguments, or one of these, from loosest to tightest:
                 a + b  a - b,  a * b  a / b  a // b  a % b,  -a  +a,  a ** b,  (a)

Precedences, floor division and rounding (half to even) are Python's. Numbers are exact: `0.1+0.2`
is `0.3`. Size is checked before any work that could grow with it, so that every text is answered
within a millisecond.
"""

import math
import operator
import re
from collections.abc import Callable
from decimal import ROUND_HALF_EVEN, Context
from fractions import Fraction
from typing import TypeAlias

from agent_envs.errors import ToolError

Value: TypeAlias = int | Fraction

MAX_LENGTH = 400
"""Characters of an expression."""
MAX_TOKENS = 200
MAX_DEPTH = 64
"""Open parentheses, signs, function calls and right-hand sides at one place."""
MAX_DIGITS = 200
"""Digits of an integer, and of the numerator and denominator of a fraction in lowest terms."""
MAX_DECIMALS = 30
"""Digits after the point that `render` writes out; values that need more are rounded."""
SIGNIFICANT = 15
"""Digits that `render` leaves of a rounded value, not counting leading zeros."""

_LIMIT = 10**MAX_DIGITS
_LIMIT_BITS = _LIMIT.bit_length()
_UNIT = 10**MAX_DECIMALS
_ROOT = 10**35
_TOKEN = re.compile(r"[0-9]+(?:\.[0-9]*)?|\.[0-9]+|//|\*\*|[A-Za-z_][A-Za-z_0-9]*|[^ \t\r\n]")
_SIGN = 30


def evaluate(expression: str) -> Value:
    """The value of an expression: an int where it is whole, else a Fraction.

    Raises ToolError, with a message for whoever wrote it, if it is malformed, too large, or has no
    value. The root of a number that is no square is cut to at least 35 significant digits.
    """
    if len(expression) > MAX_LENGTH:
        raise ToolError(f"too long: at most {MAX_LENGTH} characters; split it into several calls")
    tokens = _TOKEN.findall(expression)
    if len(tokens) > MAX_TOKENS:
        raise ToolError(f"too long: at most {MAX_TOKENS} symbols; split it into several calls")
    tokens.append("")
    parser = _Parser(tokens)
    try:
        value = parser.value(0, 0)
    except ZeroDivisionError:
        raise ToolError("division by zero") from None
    parser.expect("")
    return value


def render(value: Value) -> str:
    """The one way in which a value is written: `-12`, `0.5`; no exponent, no needless zeros.

    What needs more than `MAX_DECIMALS` decimals is rounded, half to even, to `SIGNIFICANT`
    significant digits, but never before the point.
    """
    if isinstance(value, int):
        return str(value)
    top, bottom = value.numerator, value.denominator
    if _UNIT % bottom == 0:
        whole, rest = divmod(abs(top) * (_UNIT // bottom), _UNIT)
        text = f"{whole}.{rest:0{MAX_DECIMALS}}"
    else:
        digits = max(SIGNIFICANT, len(str(abs(top) // bottom)))
        context = Context(prec=digits, rounding=ROUND_HALF_EVEN)
        text = f"{context.divide(abs(top), bottom):f}"
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return f"-{text}" if top < 0 else text


class _Parser:
    """Precedence climbing over a list of tokens that ends with an empty one."""

    __slots__ = ("_at", "_tokens")

    def __init__(self, tokens: list[str]) -> None:
        self._tokens = tokens
        self._at = 0

    def value(self, loosest: int, depth: int) -> Value:
        """An operand, and all that follows it with operators at least as tight as `loosest`."""
        if depth > MAX_DEPTH:
            raise ToolError("nested too deeply; split it into several calls")
        left = self._operand(depth)
        while True:
            found = _OPERATORS.get(self._tokens[self._at])
            if found is None or found[0] < loosest:
                return left
            self._at += 1
            left = _settled(found[2](left, self.value(found[1], depth + 1)))

    def expect(self, token: str) -> None:
        """Go past this token."""
        found = self._tokens[self._at]
        if found != token:
            hint = "; write 1000 for 1,000" if found == "," else ""
            raise ToolError(f"expected {_WANTED[token]}, not {_show(found)}{hint}")
        self._at += 1

    def _operand(self, depth: int) -> Value:
        token = self._tokens[self._at]
        self._at += 1
        if "0" <= token[:1] <= "9":
            return _number(token)
        if token == "(":
            value = self.value(0, depth + 1)
            self.expect(")")
            return value
        if token == "-":
            return -self.value(_SIGN, depth + 1)
        if token == "+":
            return self.value(_SIGN, depth + 1)
        if token in _FUNCTIONS:
            return self._call(token, depth)
        if token[:1] == "." and len(token) > 1:
            return _number(token)
        raise ToolError(_not_an_operand(token))

    def _call(self, name: str, depth: int) -> Value:
        self.expect("(")
        arguments = [self.value(0, depth + 1)]
        while self._tokens[self._at] == ",":
            self._at += 1
            arguments.append(self.value(0, depth + 1))
        self.expect(")")
        function, counts, wanted = _FUNCTIONS[name]
        if len(arguments) not in counts:
            raise ToolError(f"{name} takes {wanted}, not {len(arguments)}")
        return _settled(function(*arguments))


def _number(token: str) -> Value:
    whole, _, decimals = token.partition(".")
    digits = int(whole + decimals)
    return _settled(Fraction(digits, 10 ** len(decimals)) if decimals else digits)


def _settled(value: Value) -> Value:
    """The value if it is within bounds, as an int if it is whole."""
    if not isinstance(value, int):  # asking for Fraction is ten times slower: it has a metaclass
        if value.denominator >= _LIMIT:
            raise ToolError(_TOO_LARGE)
        if value.denominator > 1 and -_LIMIT < value.numerator < _LIMIT:
            return value
        value = value.numerator
    if not -_LIMIT < value < _LIMIT:
        raise ToolError(_TOO_LARGE)
    return value


def _not_an_operand(token: str) -> str:
    if token[:1].isascii() and token.isidentifier():
        return f"unknown name {_show(token)}; there are {', '.join(sorted(_FUNCTIONS))}"
    return f"expected a number, not {_show(token)}"


def _show(token: str) -> str:
    return repr(token[:20]) if token else "the end"


def _divide(a: Value, b: Value) -> Value:
    return Fraction(a, b)


def _power(base: Value, exponent: Value) -> Value:
    """Refuses by the size of the result, which is known beforehand up to a factor of two."""
    if not isinstance(exponent, int):
        raise ToolError("an exponent must be a whole number; there is sqrt for square roots")
    bits = max(base.numerator.bit_length(), base.denominator.bit_length())
    if (bits - 1) * abs(exponent) > _LIMIT_BITS:
        raise ToolError(_TOO_LARGE)
    power: Value = base ** abs(exponent)
    return power if exponent >= 0 else Fraction(1, power)


def _round(value: Value, places: Value = 0) -> Value:
    if not isinstance(places, int) or abs(places) > MAX_DECIMALS:
        raise ToolError(f"round(x, n): n must be a whole number, at most {MAX_DECIMALS}")
    return value.__round__(places)


def _sqrt(value: Value) -> Value:
    if value < 0:
        raise ToolError("a negative number has no square root")
    top, bottom = value.numerator, value.denominator
    root = Fraction(math.isqrt(top), math.isqrt(bottom))
    if root * root == value:
        return root
    return Fraction(math.isqrt(top * bottom * _ROOT * _ROOT), bottom * _ROOT)


_TOO_LARGE = f"too large: numbers have at most {MAX_DIGITS} digits"

_WANTED = {"": "an operator", ")": "an operator or a )", "(": "a ( after the function's name"}

_OPERATORS: dict[str, tuple[int, int, Callable[[Value, Value], Value]]] = {
    # how tightly it binds, how tightly its right-hand side must, what it does
    "+": (10, 11, operator.add),
    "-": (10, 11, operator.sub),
    "*": (20, 21, operator.mul),
    "/": (20, 21, _divide),
    "//": (20, 21, operator.floordiv),
    "%": (20, 21, operator.mod),
    "**": (40, _SIGN, _power),
}

_ONE, _ONE_OR_TWO, _SEVERAL = range(1, 2), range(1, 3), range(2, MAX_TOKENS)

_FUNCTIONS: dict[str, tuple[Callable[..., Value], range, str]] = {
    # what it does, how many arguments it takes, the same in words
    "abs": (abs, _ONE, "one number"),
    "ceil": (math.ceil, _ONE, "one number"),
    "floor": (math.floor, _ONE, "one number"),
    "max": (max, _SEVERAL, "two or more numbers"),
    "min": (min, _SEVERAL, "two or more numbers"),
    "round": (_round, _ONE_OR_TWO, "one or two numbers"),
    "sqrt": (_sqrt, _ONE, "one number"),
}
