"""`@tool`: hints to schemas, bad signatures, the judging of arguments, samples."""

import functools
import json
import random
import types
import typing
from collections.abc import Callable
from typing import Annotated, Any, Literal, Optional, Union, get_args, get_origin

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_envs.sampling import sample
from agent_envs.tool import Tool, tool


def tool_of(**hints: Any) -> Tool:
    """A tool whose parameters have these hints."""
    names = ", ".join(["self", *hints])
    made: dict[str, Any] = {}
    exec(f"def act({names}): 'Do it.'", made)
    made["act"].__annotations__ = hints
    return tool(made["act"])


def from_source(source: str, **names: Any) -> Tool:
    """A tool from the text of a function, in a module with these names."""
    made = {"tool": tool, "Any": Any, "Literal": Literal, "Annotated": Annotated, **names}
    exec(source, made)
    return tool(made["f"])


STRING, INTEGER, NUMBER = {"type": "string"}, {"type": "integer"}, {"type": "number"}
BOOLEAN, NULL = {"type": "boolean"}, {"type": "null"}
AB = {"type": "string", "enum": ["a", "b"]}

HINTS: list[tuple[Any, dict[str, Any]]] = [
    (str, STRING),
    (int, INTEGER),
    (float, NUMBER),
    (bool, BOOLEAN),
    (None, NULL),
    ("int", INTEGER),
    (Literal["a", "b"], AB),
    (Literal["a"], {"type": "string", "enum": ["a"]}),
    (Literal[1, 2], {"type": "integer", "enum": [1, 2]}),
    (Literal[True], {"type": "boolean", "enum": [True]}),
    (Literal[None], NULL),
    (Literal["a", "b", None], {"anyOf": [AB, NULL]}),
    (
        Literal[1, True],
        {"anyOf": [{"type": "integer", "enum": [1]}, {"type": "boolean", "enum": [True]}]},
    ),
    (Optional[int], {"anyOf": [INTEGER, NULL]}),  # noqa: UP045
    (Union[int, str], {"anyOf": [INTEGER, STRING]}),  # noqa: UP007
    (int | float | None, {"anyOf": [INTEGER, NUMBER, NULL]}),
    (Literal["a", "b", None] | None, {"anyOf": [AB, NULL]}),
    (list[str], {"type": "array", "items": STRING}),
    (list[None], {"type": "array", "items": NULL}),
    (typing.List[str], {"type": "array", "items": STRING}),  # noqa: UP006
    (list["int"], {"type": "array", "items": INTEGER}),
    (list[list[int]], {"type": "array", "items": {"type": "array", "items": INTEGER}}),
    (list[int | None], {"type": "array", "items": {"anyOf": [INTEGER, NULL]}}),
    (dict[str, float], {"type": "object", "additionalProperties": NUMBER}),
    (typing.Dict[str, float], {"type": "object", "additionalProperties": NUMBER}),  # noqa: UP006
    (
        dict[str, list[bool]],
        {"type": "object", "additionalProperties": {"type": "array", "items": BOOLEAN}},
    ),
    (Annotated[int, "how many"], {"type": "integer", "description": "how many"}),
    (Annotated[Annotated[int, "a number"], "how many"], INTEGER | {"description": "how many"}),
    (Annotated[int, ["not a text"]], INTEGER),
    (Annotated[int, "how many", ""], INTEGER | {"description": "how many"}),
    (
        Annotated[int | str, "which"] | None,
        {"anyOf": [{"anyOf": [INTEGER, STRING], "description": "which"}, NULL]},
    ),
    (
        list[Annotated[str, "a city"]],
        {"type": "array", "items": {"type": "string", "description": "a city"}},
    ),
    (
        Annotated[int | None, "how many"],
        {"anyOf": [INTEGER, NULL], "description": "how many"},
    ),
]


@pytest.mark.parametrize(("hint", "schema"), HINTS, ids=[repr(h) for h, _ in HINTS])
def test_schema_of_a_hint(hint: Any, schema: dict[str, Any]) -> None:
    made = tool_of(x=hint)
    assert made.params == {"x": schema}
    assert_valid_for_openai(made.schema)


class Shop:
    """A class with tools, as an environment has them."""

    def __init__(self) -> None:
        self.orders: list[tuple[str, float]] = []

    @tool
    def order(
        self, good: Literal["tea", "rice"], amount: float = 1, note: str | None = None
    ) -> str:
        """Order some of a good.

        It comes at once.

        Args:
            good: What to order.
            amount (float): How much of it,
                in kilograms: 0.5 is fine.

        Returns:
            What was ordered.
        """
        self.orders.append((good, amount))
        return f"{amount} of {good}"

    @tool(name="how-many")
    def count(self) -> str:
        """How many orders there are."""
        return str(len(self.orders))


def test_a_whole_schema() -> None:
    assert Shop.order.schema == {
        "type": "function",
        "function": {
            "name": "order",
            "description": "Order some of a good.\n\nIt comes at once.\n\n"
            "Returns:\n    What was ordered.",
            "parameters": {
                "type": "object",
                "properties": {
                    "good": {
                        "type": "string",
                        "enum": ["tea", "rice"],
                        "description": "What to order.",
                    },
                    "amount": {
                        "type": "number",
                        "description": "How much of it, in kilograms: 0.5 is fine.",
                        "default": 1,
                    },
                    "note": {"anyOf": [STRING, NULL], "default": None},
                },
                "required": ["good"],
                "additionalProperties": False,
            },
        },
    }
    assert Shop.order.required == ("good",)
    assert_valid_for_openai(Shop.order.schema)
    assert_valid_for_openai(Shop.count.schema)


def test_a_tool_is_a_descriptor() -> None:
    shop = Shop()
    assert isinstance(Shop.order, Tool) and repr(Shop.order) == "<Tool order(good, amount, note)>"
    assert shop.order("tea", amount=2) == "2 of tea"
    assert Shop.order.fn(shop, good="rice") == "1 of rice"
    assert shop.count() == "2" and Shop().count() == "0"
    assert Shop.count.name == "how-many"
    assert Shop.count.__doc__ == "How many orders there are."


def test_a_subclass_can_call_the_tool_it_replaces() -> None:
    class Loud(Shop):
        @tool
        def order(self, good: str) -> str:
            """Order."""
            return str(super().order(good)).upper()

    assert Loud().order("tea") == "1 OF TEA"
    assert Shop.order.required == ("good",) and Shop.order.params.keys() != Loud.order.params.keys()


def test_hints_that_are_text() -> None:
    source = """
from __future__ import annotations
def f(self: NotYetThere, x: list[int] | None, unit: Literal['c'] = 'c') -> NotYetThere:
    'Do.'
"""
    made = from_source(source)
    assert made.params["x"] == {"anyOf": [{"type": "array", "items": INTEGER}, NULL]}
    assert made.params["unit"] == {"type": "string", "enum": ["c"], "default": "c"}


def test_a_wrapped_method_keeps_its_signature_and_its_module() -> None:
    source = """
from __future__ import annotations
Unit = Literal['c', 'f']
def f(self, unit: Unit): 'Do.'
f = logged(f)
"""

    def logged(fn: Callable[..., str]) -> Callable[..., str]:
        @functools.wraps(fn)
        def wrapper(*args: Any, **kwargs: Any) -> str:
            return fn(*args, **kwargs)

        return wrapper

    made = from_source(source, logged=logged)
    assert made.name == "f" and made.params["unit"] == {"type": "string", "enum": ["c", "f"]}


def test_keyword_only_parameters_and_positional_self() -> None:
    made = from_source("def f(self, /, *, x: int, y: int = 2): 'Do.'")
    assert made.required == ("x",)
    assert made.problem({"x": 1}) is None


BAD: list[tuple[str, str]] = [
    ("def f(self, x): 'D.'", "@tool f: parameter `x` has no type hint; write x: str"),
    ("def f(self, *xs: int): 'D.'", r"takes \*xs: int; name every parameter"),
    ("def f(self, **xs: int): 'D.'", r"takes \*\*xs: int; name every parameter"),
    ("def f(self, x: int, /): 'D.'", "`x` is positional-only; drop the /"),
    ("async def f(self): 'D.'", "is async; a tool is a plain def"),
    ("async def f(self):\n 'D.'\n yield 1", "is async; a tool is a plain def"),
    ("def f(self):\n 'D.'\n yield 1", "is a generator; a tool returns"),
    ("def f(self): pass", "needs a docstring that says what it does"),
    ("def f(self): '  '", "needs a docstring that says what it does"),
    ("def f(self, x: int):\n 'Args:\\n  x: A number.'", "needs a docstring"),
    ("def f(): 'D.'", "first parameter must be self"),
    ("def f(x: int): 'D.'", "first parameter must be self"),
    ("def f(*self): 'D.'", "first parameter must be self"),
    ("def f(*, self): 'D.'", "first parameter must be self"),
    ("def f(this, self: int): 'D.'", "first parameter must be self, and no other"),
    ("f = staticmethod(lambda x: x)", "goes on a plain method"),
    ("f = classmethod(lambda x: x)", "goes on a plain method"),
    ("f = 'name'", "goes on a plain method, as @tool or @tool"),
    ("class f: 'D.'", "goes on a plain method"),
    ("f = lambda self: 1", "name '<lambda>': use 1 to 64 of the characters"),
    ("def f\u00e9(self): 'D.'\nf = f\u00e9", "use 1 to 64 of the characters a-z"),
    ("def f(self, gr\u00f6\u00dfe: int): 'D.'", "parameter 'gr\u00f6\u00dfe': use 1 to 64"),
    ("def f(self, x: Any): 'D.'", "`x` has a hint that is not supported, typing.Any; use str"),
    ("def f(self, x: object): 'D.'", "not supported, <class 'object'>"),
    ("def f(self, x: list): 'D.'", r"not supported, <class 'list'>.*list\[T\]"),
    ("def f(self, x: dict): 'D.'", r"not supported, <class 'dict'>.*dict\[str, T\]"),
    ("def f(self, x: list[int, str]): 'D.'", r"not supported, list\[int, str\]"),
    ("def f(self, x: dict[int, str]): 'D.'", r"not supported, dict\[int, str\]"),
    ("def f(self, x: tuple[int, int]): 'D.'", r"not supported, tuple\[int, int\]"),
    ("def f(self, x: list[set[int]]): 'D.'", r"not supported, set\[int\]"),
    ("def f(self, x: int | bytes): 'D.'", "not supported, <class 'bytes'>"),
    ("def f(self, x: Annotated[bytes, 'b']): 'D.'", "not supported, <class 'bytes'>"),
    ("def f(self, x: [int]): 'D.'", "not supported"),
    ("def f(self, x: 3): 'D.'", "not supported, 3"),
    ("def f(self, x: Literal[b'a']): 'D.'", r"has Literal\[b'a'\]; use strings"),
    ("def f(self, x: Literal[1.5]): 'D.'", r"has Literal\[1.5\]; use strings"),
    ("def f(self, x: Literal[[1]]): 'D.'", r"has Literal\[\[1\]\]; use strings"),
    ("def f(self, x: Literal[()]): 'D.'", "not supported"),
    ("def f(self, x: 'Nowhere'): 'D.'", "`x` has a hint that cannot be resolved, 'Nowhere'"),
    ("def f(self, x: 'int |'): 'D.'", "`x` has a hint that cannot be resolved"),
    ("def f(self, x: '1 / 0'): 'D.'", "cannot be resolved.*division by zero"),
    (
        "from __future__ import annotations\ndef f(self, x: list[Nowhere]): 'D.'",
        r"`x` has a hint that cannot be resolved, 'list\[Nowhere\]'.*names that the module defines",
    ),
    ("def f(self, x: int = None): 'D.'", "the default of `x` must be an integer, not null"),
    ("def f(self, x: int = 2.0): 'D.'", "the default of `x` must be an integer, not 2.0"),
    ("def f(self, x: int = True): 'D.'", "the default of `x` must be an integer, not true"),
    ("def f(self, x: float = float('nan')): 'D.'", "the default of `x` must be a finite number"),
    ("def f(self, x: Literal['a'] = 'b'): 'D.'", "`x` must be 'a', not the string 'b'"),
    ("def f(self, x: list[int] = (1,)): 'D.'", "the default of `x` must be an array"),
    ("def f(self, x: list[int] = []): 'D.'", "default of `x` would be shared by all calls"),
    ("def f(self, x: dict[str, int] = {}): 'D.'", "default of `x` would be shared by all calls"),
    ("def f(self):\n 'D.\\n\\nArgs:\\n  y: No.'", r"Args describes \['y'\], which are no param"),
    ("def f(self, x: int):\n 'D.\\n\\nArgs:\\n  the x'", "cannot read 'the x' under Args"),
    ("def f(self, x: int):\n 'D.\\n\\nArgs:\\n  x: a\\n  b'", "cannot read 'b' under Args"),
    (
        "def f(self, x: Annotated[int, 'a']):\n 'D.\\n\\nArgs:\\n  x: b.'",
        "`x` is described in its hint and in Args; keep one",
    ),
    ("def f(self): 'A lone \\ud800.'", "cannot be written as JSON"),
]


@pytest.mark.parametrize(("source", "message"), BAD, ids=[s for s, _ in BAD])
def test_a_bad_signature_is_a_type_error(source: str, message: str) -> None:
    with pytest.raises(TypeError, match=message) as caught:
        from_source(source)
    assert str(caught.value).startswith("@tool ")


@pytest.mark.parametrize("name", ["", "a b", "a.b", "é", "a\n", "x" * 65, 3])
def test_a_bad_name(name: Any) -> None:
    with pytest.raises(TypeError, match="use 1 to 64 of the characters"):
        tool(name=name)(Shop.count.fn)
    assert tool(name="x" * 64)(Shop.count.fn).name == "x" * 64


NAN, INF, HUGE = float("nan"), float("inf"), 10**5000

VALUES: list[tuple[Any, list[Any], list[tuple[Any, str]]]] = [
    (
        str,
        ["", "é\n", "x" * 10**6],
        [(1, "a string, not 1"), (None, "a string, not null"), (["a"], "a string, not an array")],
    ),
    (
        int,
        [0, -5, HUGE],
        [(True, "an integer, not true"), (2.0, "an integer, not 2.0"), ("2", "the string '2'")],
    ),
    (
        float,
        [0, 1.5, -1e308, 10**300],
        [(INF, "inf"), (NAN, "nan"), (HUGE, "a very large integer"), (False, "number, not false")],
    ),
    (bool, [True, False], [(1, "true or false, not 1"), ("true", "not the string 'true'")]),
    (None, [None], [(False, "must be null, not false"), ({}, "not an object")]),
    (
        Literal["a", 1],
        ["a", 1],
        [(True, "'a' or 1, not true"), (1.0, "not 1.0"), ("b", "string 'b'"), ([], "an array")],
    ),
    (Literal["a", "b"], ["b"], [("c", "`x` must be one of 'a', 'b', not the string 'c'")]),
    (int | None, [None, 3], [("3", "an integer or null, not the string '3'")]),
    (
        list[int] | str,
        [[], [1, 2], "s"],
        [([1, "2"], "`x[1]` must be an integer, not the string '2'"), ({}, "integer) or a string")],
    ),
    (
        list[list[int]],
        [[], [[]], [[1], [2, 3]]],
        [([[1], [2, None]], "`x[1][1]` must be an integer, not null"), ((), "not a tuple")],
    ),
    (
        dict[str, list[float]],
        [{}, {"k": [1, 2.5]}],
        [
            ({"k": [True]}, "`x['k'][0]` must be a finite number, not true"),
            ({1: []}, "an object with strings as its keys"),
            ([], "an object (each value an array (each item a finite number)), not an array"),
        ],
    ),
    (
        Literal["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"],
        ["j"],
        [("k", "'g', 'h' and 2 more")],
    ),
]


@pytest.mark.parametrize(("hint", "good", "bad"), VALUES, ids=[repr(v[0]) for v in VALUES])
def test_values(hint: Any, good: list[Any], bad: list[tuple[Any, str]]) -> None:
    made = tool_of(x=hint)
    for value in good:
        assert made.problem({"x": value}) is None
    for value, message in bad:
        assert message in (made.problem({"x": value}) or "")


@pytest.mark.parametrize(
    "value", [np.float64(1.5), np.int64(3), np.str_("a"), b"a", (1,), object()]
)
def test_values_that_json_never_gives_are_named_by_their_type(value: Any) -> None:
    made = tool_of(x=str | int | float | list[int])
    assert f"not a {type(value).__name__}" in (made.problem({"x": value}) or "")


@pytest.mark.parametrize("arguments", [None, [], "{}", 3, True, HUGE, [["x", 1]]], ids=range(7))
def test_arguments_that_are_no_object(arguments: Any) -> None:
    problem = tool_of(x=int).problem(arguments)
    assert problem and problem.startswith("the arguments must be a JSON object, not ")


def test_missing_extra_and_wrong_arguments_are_all_named() -> None:
    made = tool_of(a=int, b=Literal["x"], c=str)
    assert made.problem({"b": "y", "c": "", "d": 1, "e": 2}) == (
        "missing argument `a` (an integer); unknown argument 'd', 'e' (there are: a, b, c); "
        "argument `b` must be 'x', not the string 'y'"
    )
    assert Shop.count.problem({"x": 1}) == "unknown argument 'x' (there are: none)"
    assert Shop.count.problem({}) is None
    assert "missing" in (Shop.order.problem({"amount": 1}) or "")


@pytest.mark.parametrize(
    "arguments",
    [
        {"x": "y" * 10**6},
        {"x" * 10**6: 1},
        {"\ud800\0\n`'\"" * 1000: 1, "x": 1},
        {f"\U000e0001{i}" * 50: i for i in range(10_000)},
        {"x": {"\ud800" * 10**6: {"\0" * 10**6: ["z" * 10**6]}}},
        {"x": {"\ud800" * 10**6: {"\0" * 10**6: [-HUGE]}}},
        {3: 1, None: 2, ("a",): 3},
    ],
    ids=range(7),
)
def test_a_problem_is_short_and_clean_whatever_the_arguments(arguments: Any) -> None:
    long: Any = Literal["a" * 1000]
    problem = tool_of(x=dict[str, dict[str, list[long]]]).problem(arguments)
    assert problem and len(problem) <= 400
    assert problem.encode() and problem.isprintable()


def test_a_long_part_of_a_problem_hides_no_other() -> None:
    long: Any = Literal[tuple(f"{i}" * 100 for i in range(9))]
    problem = tool_of(a=str, b=int, c=str).problem(dict.fromkeys(map(str, range(10**5))))
    assert problem and problem.endswith("(there are: a, b, c)")
    problem = tool_of(a=long).problem({"a": 3})
    assert problem and problem.endswith("..., not 3")
    problem = tool_of(a=int, b=int).problem({"a": "x" * 10**6, "b": None})
    assert problem and problem.endswith("`b` must be an integer, not null")


@pytest.mark.parametrize(
    "hint", [str, list[int], list[list[int]], dict[str, int], Literal[1] | None]
)
def test_deep_values_do_not_overflow(hint: Any) -> None:
    made, deep, deep_object = tool_of(x=hint), list[Any](), dict[str, Any]()
    for _ in range(100_000):
        deep, deep_object = [deep], {"k": deep_object}
    assert made.problem({"x": deep})
    assert made.problem({"x": deep_object})
    assert "not an array" in (made.problem(deep) or "")


def fits(value: Any, hint: Any) -> bool:
    """What the hints mean, said once more and plainly."""
    args = get_args(hint)
    if get_origin(hint) is Annotated:
        return fits(value, args[0])
    if get_origin(hint) is Literal:
        return any(type(value) is type(x) and value == x for x in args)
    if get_origin(hint) in (Union, types.UnionType):
        return any(fits(value, x) for x in args)
    if get_origin(hint) is list:
        return type(value) is list and all(fits(x, args[0]) for x in value)
    if get_origin(hint) is dict:
        return type(value) is dict and all(fits(x, args[1]) for x in value.values())
    if hint is float:
        return type(value) in (int, float) and abs(value) <= 1.7976931348623157e308
    return type(value) is (type(None) if hint is None else hint)


def bigger(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Hints made of hints."""
    return st.one_of(
        inner.map(lambda t: list[t]),  # type: ignore[valid-type]
        inner.map(lambda t: dict[str, t]),  # type: ignore[valid-type]
        inner.map(lambda t: Annotated[t, "what it is"]),
        st.lists(inner, min_size=1, max_size=3).map(lambda ts: Union[tuple(ts)]),  # noqa: UP007
    )


options = st.lists(st.sampled_from(["a", "é", "", 0, 1, True, False, None]), min_size=1, max_size=4)
hints = st.recursive(
    st.sampled_from([str, int, float, bool, None]) | options.map(lambda xs: Literal[tuple(xs)]),
    bigger,
    max_leaves=6,
)
scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.just("a")
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
seeds = st.integers(0, 2**32)


@given(hints, values)
def test_a_value_fits_its_schema_exactly_if_it_fits_the_hint(hint: Any, value: Any) -> None:
    assert (tool_of(x=hint).problem({"x": value}) is None) == fits(value, hint)


@given(hints, hints, seeds)
def test_samples_of_another_hint_are_judged_right(hint: Any, other: Any, seed: int) -> None:
    value = sample(tool_of(x=other).params["x"], random.Random(seed))
    assert (tool_of(x=hint).problem({"x": value}) is None) == fits(value, hint)


@given(hints, seeds)
def test_a_sample_fits(hint: Any, seed: int) -> None:
    made = tool_of(x=hint, y=str)
    value = sample(made.params["x"], random.Random(seed))
    assert fits(value, hint)
    arguments = sample(made.schema["function"]["parameters"], random.Random(seed))
    assert made.problem(arguments) is None
    assert json.loads(json.dumps(arguments, ensure_ascii=False, allow_nan=False)) == arguments
    assert_valid_for_openai(made.schema)


@given(values)
def test_no_json_makes_problem_raise(value: Any) -> None:
    for made in (Shop.order, Shop.count, tool_of(x=list[dict[str, int | None]])):
        for arguments in (value, {"x": value}, {"good": value}, {"x": [value]}):
            problem = made.problem(arguments)
            assert problem is None or 0 < len(problem) <= 400
            if problem:
                problem.encode()


def test_samples_are_varied_and_repeatable() -> None:
    rng = random.Random(0)
    texts = [sample(STRING, rng) for _ in range(300)]
    again = random.Random(0)
    assert texts == [sample(STRING, again) for _ in texts]
    assert len(set(texts)) > 150 and max(map(len, texts)) < 50
    kinds: list[Callable[[str], bool]] = [
        str.isdigit,
        lambda t: not t.isascii(),
        lambda t: "+" in t,
    ]
    assert all(any(kind(t) for t in texts) for kind in kinds) and "" in texts
    optional = [sample(Shop.order.schema["function"]["parameters"], rng) for _ in range(50)]
    assert {frozenset(a) for a in optional} >= {
        frozenset({"good"}),
        frozenset({"good", "amount", "note"}),
    }


@pytest.mark.parametrize("schema", [{}, {"type": "date"}, {"description": "anything"}])
def test_no_sample_for_an_unknown_schema(schema: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="no sample for the schema"):
        sample(schema, random.Random(0))


def assert_valid_for_openai(schema: Any) -> None:
    """The form of a function tool: plain JSON, the known keys, a type or anyOf at every place."""
    assert json.loads(json.dumps(schema, allow_nan=False)) == schema
    assert schema.keys() == {"type", "function"} and schema["type"] == "function"
    function = schema["function"]
    assert function.keys() == {"name", "description", "parameters"}
    assert isinstance(function["description"], str) and function["description"]
    assert 1 <= len(function["name"]) <= 64
    parameters = function["parameters"]
    assert parameters.keys() == {"type", "properties", "required", "additionalProperties"}
    assert parameters["type"] == "object" and parameters["additionalProperties"] is False
    assert set(parameters["required"]) <= parameters["properties"].keys()
    for name, inner in parameters["properties"].items():
        assert ("default" in inner) == (name not in parameters["required"])
        assert_valid_schema({k: v for k, v in inner.items() if k != "default"})


def assert_valid_schema(schema: Any) -> None:
    """A JSON schema with no more than we need of the language."""
    allowed = {"type", "enum", "anyOf", "items", "additionalProperties", "description"}
    assert type(schema) is dict and schema.keys() <= allowed
    assert isinstance(schema.get("description", ""), str)
    if "anyOf" in schema:
        assert schema.keys() <= {"anyOf", "description"} and len(schema["anyOf"]) > 1
        for inner in schema["anyOf"]:
            assert_valid_schema(inner)
        return
    assert ("items" in schema) == (schema["type"] == "array")
    assert ("additionalProperties" in schema) == (schema["type"] == "object")
    for key in {"items", "additionalProperties"} & schema.keys():
        assert_valid_schema(schema[key])
    if "enum" in schema:
        kind = {"string": str, "integer": int, "boolean": bool}[schema["type"]]
        assert schema["enum"] and all(type(x) is kind for x in schema["enum"])
