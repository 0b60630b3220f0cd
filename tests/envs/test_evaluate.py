"""The calculator's arithmetic: beside Python's own, under hostile texts, and how it is written."""

import ast
import operator
import random
import re
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from agent_envs.envs.calculator.evaluate import (
    MAX_DECIMALS,
    MAX_DEPTH,
    MAX_DIGITS,
    MAX_LENGTH,
    MAX_TOKENS,
    SIGNIFICANT,
    evaluate,
    render,
)
from agent_envs.errors import ToolError

LIMIT = 10**MAX_DIGITS
CANONICAL = re.compile(r"(?!-0$)-?(?:0|[1-9][0-9]*)(?:\.[0-9]*[1-9])?")
OPERATORS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
FUNCTIONS: dict[str, Callable[..., Any]] = {"abs": abs, "min": min, "max": max, "round": round}


def reference(expression: str) -> Fraction:
    """What Python's grammar and its Fractions make of it; OverflowError beyond our bounds."""
    source = f"({expression})"

    def value(node: ast.expr) -> Fraction:
        match node:
            case ast.Constant():
                result = Fraction(ast.get_source_segment(source, node) or "")
            case ast.UnaryOp(op=ast.USub(), operand=inner):
                result = -value(inner)
            case ast.UnaryOp(op=ast.UAdd(), operand=inner):
                result = value(inner)
            case ast.BinOp(left=left, op=ast.Pow(), right=right):
                result = power(value(left), value(right))
            case ast.BinOp(left=left, op=op, right=right):
                result = Fraction(OPERATORS[type(op)](value(left), value(right)))
            case ast.Call(func=ast.Name(id="round"), args=[inner, places]):
                result = Fraction(round(value(inner), int(value(places))))
            case ast.Call(func=ast.Name(id=name), args=arguments):
                result = Fraction(FUNCTIONS[name](*map(value, arguments)))
            case _:
                raise SyntaxError(ast.dump(node))
        if abs(result.numerator) >= LIMIT or result.denominator >= LIMIT:
            raise OverflowError
        return result

    return value(ast.parse(source, mode="eval").body)


def power(base: Fraction, exponent: Fraction) -> Fraction:
    """Exact, and an OverflowError long before the result fills the memory."""
    if exponent.denominator != 1:
        raise TypeError
    if max(abs(base.numerator), base.denominator) > 1 and abs(exponent) > 10_000:
        raise OverflowError
    return Fraction(base ** int(exponent))


WHOLE = st.integers(0, 999).map(str)
DECIMAL = st.from_regex(r"[0-9]{1,3}\.[0-9]{0,4}|\.[0-9]{1,3}", fullmatch=True)
SPACE = st.sampled_from(["", "", " ", "  ", "\t", "\n"])
SIGNS = st.sampled_from(["+", "-", "*", "/", "//", "%", "**"])


def _larger(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.tuples(inner, SPACE, SIGNS, SPACE, inner).map("".join),
        st.tuples(st.sampled_from("+-"), SPACE, inner).map("".join),
        st.tuples(SPACE, inner, SPACE).map(lambda x: f"({''.join(x)})"),
        inner.map(lambda x: f"abs({x})"),
        st.tuples(inner, st.integers(-3, 5)).map(lambda x: f"round({x[0]}, {x[1]})"),
        inner.map(lambda x: f"round({x})"),
        st.tuples(st.sampled_from(["min", "max"]), st.lists(inner, min_size=2, max_size=4)).map(
            lambda x: f"{x[0]}({','.join(x[1])})"
        ),
    )


EXPRESSIONS = st.recursive(WHOLE | DECIMAL, _larger, max_leaves=12)


@settings(max_examples=600)
@given(EXPRESSIONS.filter(lambda text: len(text) <= MAX_LENGTH))
@example("-2**2")
@example("2**-1")
@example("2**-1**2")
@example("2**3**2")
@example("7//-2*3%-4")
@example("-7%3")
@example("2**-3*4")
@example("0**-1")
@example("1**(10**100)")
@example("(1/3)**-99")
@example("9**9**9")
@example("4**.5")
@example("round(2.675, 2)")
@example("round(1234, -2)")
def test_it_agrees_with_python(expression: str) -> None:
    try:
        wanted = reference(expression)
    except ZeroDivisionError:
        with pytest.raises(ToolError, match="division by zero"):
            evaluate(expression)
    except OverflowError:
        with pytest.raises(ToolError, match="too large"):
            evaluate(expression)
    except TypeError:
        with pytest.raises(ToolError, match="whole number"):
            evaluate(expression)
    else:
        found = evaluate(expression)
        assert found == wanted
        assert type(found) is (int if wanted.denominator == 1 else Fraction)


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ("23+45", "68"),
        ("0.1+0.2", "0.3"),
        ("1/3", "0.333333333333333"),
        ("2/3", "0.666666666666667"),
        ("-1/3", "-0.333333333333333"),
        ("10/4", "2.5"),
        ("10/5", "2"),
        ("5.", "5"),
        (".50", "0.5"),
        ("-0", "0"),
        ("-0.0", "0"),
        ("007", "7"),
        ("- - 3", "3"),
        ("3--5", "8"),
        ("-7//2", "-4"),
        ("7%-3", "-2"),
        ("7.5%2", "1.5"),
        ("10**20/3", "33333333333333333333"),
        ("2*10**20/3", "66666666666666666667"),
        ("1.05**40", "7.03998871212465"),
        ("floor(-1.5)", "-2"),
        ("ceil(-1.5)", "-1"),
        ("round(2.5)", "2"),
        ("round(-7/3, 2)", "-2.33"),
        ("max(1, 3, 2) - min(4, 5)", "-1"),
        ("max(1,000, 5)", "5"),
        ("sqrt(144)", "12"),
        ("sqrt(0.25)", "0.5"),
        ("sqrt(2)", "1.4142135623731"),
        ("sqrt(2)**2", "2"),
        ("sqrt(10**99 + 1)", "31622776601683793319988935444327185337195551393252"),
    ],
)
def test_values(expression: str, text: str) -> None:
    assert render(evaluate(expression)) == text


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("", "expected a number, not the end"),
        ("   ", "expected a number, not the end"),
        ("23+", "expected a number, not the end"),
        ("*3", "expected a number, not '*'"),
        ("2 3", "expected an operator, not '3'"),
        ("1.2.3", "expected an operator, not '.3'"),
        (".", "expected a number, not '.'"),
        ("23+45=", "expected an operator, not '='"),
        ("2^3", "expected an operator, not '^'"),
        ("1e5", "expected an operator, not 'e5'"),
        ("1_000", "expected an operator, not '_000'"),
        ("1,000+5", "expected an operator, not ','; write 1000 for 1,000"),
        ("(2+3", "expected an operator or a ), not the end"),
        ("(2 3)", "expected an operator or a ), not '3'"),
        ("()", "expected a number, not ')'"),
        ("2+3)", "expected an operator, not ')'"),
        ("abs 3", "expected a ( after the function's name, not '3'"),
        ("abs", "expected a ( after the function's name, not the end"),
        ("abs()", "expected a number, not ')'"),
        ("abs(1, 2)", "abs takes one number, not 2"),
        ("max(1)", "max takes two or more numbers, not 1"),
        ("round(1, 2, 3)", "round takes one or two numbers, not 3"),
        ("round(1.5, 0.5)", "n must be a whole number"),
        ("round(1.5, 31)", "at most 30"),
        ("sqrt(-1)", "a negative number has no square root"),
        ("2**0.5", "an exponent must be a whole number"),
        ("1/0", "division by zero"),
        ("5//(2-2)", "division by zero"),
        ("5%0.0", "division by zero"),
        ("0**-2", "division by zero"),
        ("x+1", "unknown name 'x'; there are abs, ceil, floor, max, min, round, sqrt"),
        ("__import__('os')", "unknown name '__import__'"),
        ("(1).__class__", "expected an operator, not '.'"),
        ("٣+٤", "expected a number, not '٣'"),
        ("３", "expected a number, not '３'"),
        ("1\u00a0+ 2", r"expected an operator, not '\xa0'"),
        ("1\x00", r"expected an operator, not '\x00'"),
        ("\ud800", r"expected a number, not '\ud800'"),
        ("inf", "unknown name 'inf'"),
        ("nan", "unknown name 'nan'"),
        ("1 if 2 else 3", "expected an operator, not 'if'"),
        ("[1]", "expected a number, not '['"),
        ("'1'", 'expected a number, not "\'"'),
    ],
)
def test_messages_say_what_is_wrong(expression: str, message: str) -> None:
    with pytest.raises(ToolError, match=re.escape(message)):
        evaluate(expression)


@pytest.mark.parametrize(
    "expression",
    [
        "9**9**9",
        "9**9**9**9**9",
        "(((2**500)**500)**500)**500",
        "2**665",
        "2**-665",
        "(1/3)**500",
        "7" * (MAX_DIGITS + 1),
        "0." + "0" * MAX_DIGITS + "1",
        f"{'9' * 190}*{'9' * 190}",
        "1/(10**150+1) + 1/(10**150+3)",
        "sqrt(2)**6",
        f"-{LIMIT - 1} - 1",
    ],
)
def test_what_grows_too_large_is_refused(expression: str) -> None:
    with pytest.raises(ToolError, match=f"at most {MAX_DIGITS} digits"):
        evaluate(expression)


def test_bounds_are_as_stated() -> None:
    assert evaluate("9" * MAX_DIGITS) == LIMIT - 1
    assert evaluate(f"-{LIMIT - 1}") == 1 - LIMIT
    assert evaluate("2**664") == 2**664
    assert evaluate("1" + "+1" * (MAX_TOKENS // 2 - 1)) == MAX_TOKENS // 2
    assert evaluate("(" * MAX_DEPTH + "1" + ")" * MAX_DEPTH) == 1
    assert evaluate("1".ljust(MAX_LENGTH)) == 1
    for text in ["1" + "+1" * (MAX_TOKENS // 2), "1".ljust(MAX_LENGTH + 1)]:
        with pytest.raises(ToolError, match="too long"):
            evaluate(text)
    for text in ["(" * 65 + "1" + ")" * 65, "-" * 65 + "1", "abs(" * 65 + "1" + ")" * 65]:
        with pytest.raises(ToolError, match="nested too deeply"):
            evaluate(text)
    with pytest.raises(ToolError, match="nested too deeply"):
        evaluate("1" + "**1" * 65)


HOSTILE = [
    "(" * 200_000,
    "(" * 200_000 + "1" + ")" * 200_000,
    "-" * 200_000 + "1",
    "9" * 5_000,
    "1" * 1_000_000,
    "1+" * 500_000 + "1",
    "é中😀" * 300_000,
    "\x00",
    "1\x00+1",
    "\ud800\udfff",
    "1e999",
    "0x10",
    "1j",
    "True",
    "().__class__.__mro__[1].__subclasses__()",
    "__import__('os').system('id')",
    "eval('1')",
    "lambda: 1",
    "{}",
    "1;2",
    "1\\\n+2",
    "# 1",
    "f'{1}'",
]


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: ascii(text[:20]))
def test_hostile_texts_are_refused(text: str) -> None:
    with pytest.raises(ToolError) as caught:
        evaluate(text)
    message = str(caught.value)
    assert 0 < len(message) < 200
    assert message.encode()


def test_random_texts_mean_what_python_says_or_nothing() -> None:
    rng = random.Random(0)
    pieces = [*"0123456789.+-*/%(), =e_x", "//", "**", "abs(", "max(", "sqrt(", "99", "é", "\0"]
    understood = 0
    for _ in range(10_000):
        text = "".join(rng.choices(pieces, k=rng.randint(1, 9)))
        try:
            value = evaluate(text)
        except ToolError:
            continue
        understood += 1
        assert CANONICAL.fullmatch(render(value))
        if "sqrt" not in text:
            assert reference(re.sub(r"(?<![0-9.])0+(?=[0-9])", "", text)) == value
    assert understood > 500


@given(st.text())
def test_any_text_is_answered(text: str) -> None:
    try:
        value = evaluate(text)
    except ToolError as error:
        assert str(error).encode()
    else:
        assert re.search("[0-9]", text, re.ASCII)
        assert CANONICAL.fullmatch(render(value))


VALUES = st.one_of(
    st.integers(-LIMIT + 1, LIMIT - 1),
    st.decimals(allow_nan=False, allow_infinity=False, places=4).map(Fraction),
    st.fractions(max_denominator=10**12),
    st.builds(Fraction, st.integers(-(10**40), 10**40), st.integers(1, LIMIT - 1)),
)


@given(VALUES)
@example(Fraction(1, 10**30))
@example(Fraction(1, 10**31))
@example(Fraction(10**15 - 1, 10**15) + Fraction(1, 10**40))
@example(Fraction(10**20) + Fraction(1, 3))
def test_a_value_is_written_in_one_way(value: Fraction) -> None:
    whole = int(value) if value == int(value) else value
    text = render(whole)
    assert CANONICAL.fullmatch(text)
    assert len(text) < 500
    assert render(-whole) == ("0" if whole == 0 else text[1:] if text[0] == "-" else f"-{text}")
    written = Fraction(text)
    if 10**MAX_DECIMALS % Fraction(value).denominator == 0:
        assert written == value
    else:
        digits = max(SIGNIFICANT, len(str(abs(int(value)))))
        assert abs(written - value) <= abs(value) * Fraction(1, 2 * 10 ** (digits - 1))
        assert len(text.lstrip("-0.").replace(".", "")) <= digits


def test_halves_are_rounded_to_even() -> None:
    zeros = "0." + "0" * 19
    assert render(Fraction(1000000000000005, 10**35)) == zeros + "1"
    assert render(Fraction(1000000000000015, 10**35)) == zeros + "100000000000002"


@given(st.fractions(min_value=0, max_denominator=10**9))
def test_roots(value: Fraction) -> None:
    number = f"({value.numerator}/{value.denominator})"
    assert evaluate(f"sqrt({number}**2)") == value
    root = Fraction(evaluate(f"sqrt{number}"))
    assert root * root <= value < (root + root / 10**34 + Fraction(1, LIMIT)) ** 2
