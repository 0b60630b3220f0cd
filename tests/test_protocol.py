"""Protocols: what real models and hostile ones write, read into calls, answers and Malformed."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agent_envs.episode import MAX_CALLS
from agent_envs.protocol import PROTOCOLS, Chars, Hermes, Protocol
from agent_envs.tool import Tool, tool
from agent_envs.turns import Malformed, Message, Move, ToolCall, ToolResult


class Desk:
    """Some tools."""

    @tool
    def find(self, text: str, near: str | None = None) -> str:
        """Find a text."""
        return text

    @tool
    def add(self, a: int, b: int) -> str:
        """Add."""
        return str(a + b)

    @tool
    def now(self) -> str:
        """What time it is."""
        return "noon"

    @tool
    def wait(self, seconds: int = 1) -> str:
        """Wait."""
        return ""

    @tool
    def say(self, words: list[str] | str = "") -> str:
        """Say."""
        return ""


TOOLS = {t.name: t for t in vars(Desk).values() if isinstance(t, Tool)}
HERMES = Hermes(TOOLS, {})
CHARS = Chars(TOOLS, {"F": "find", "é": "say"})


def call(text: Any = "x", name: str = "find", **more: Any) -> str:
    """A call of `find` as the Hermes format has it."""
    body = json.dumps({"name": name, "arguments": {"text": text}} | more, ensure_ascii=False)
    return f"<tool_call>\n{body}\n</tool_call>"


def find(text: Any = "x", call_id: str = "") -> ToolCall:
    """The same call, read."""
    return ToolCall("find", {"text": text}, call_id)


READ: list[tuple[str, Move]] = [
    ("68", "68"),
    (" \n68\t\n", "68"),
    ("{}", "{}"),
    ('{"name": "find"}', '{"name": "find"}'),
    ("```python\nprint(1)\n```", "```python\nprint(1)\n```"),
    ("an answer \0 with \u2028 in it", "an answer \0 with \u2028 in it"),
    (call(), [find()]),
    ('<tool_call>{"name":"find","arguments":{"text":"x"}}</tool_call>', [find()]),
    (
        '<tool_call> \r\n\t{"arguments":{"text":"x"},\n"name":"find"} \n </tool_call>  ',
        [find()],
    ),
    ('<tool_call>{"name": "now"}</tool_call>', [ToolCall("now", {})]),
    ('<tool_call>{"name": "", "arguments": []}</tool_call>', [ToolCall("", [])]),  # type: ignore[arg-type]
    ('<tool_call>{"name": "f", "arguments": "{}"}</tool_call>', [ToolCall("f", "{}")]),  # type: ignore[arg-type]
    (call(id="call_1"), [find(call_id="call_1")]),
    (call(id=7), [find()]),
    (call(id=None), [find()]),
    # several calls, and text around them
    (f"{call('a')}\n{call('b')}", [find("a"), find("b")]),
    (call("a") + call("b") + call("a"), [find("a"), find("b"), find("a")]),
    (
        f"I look twice.\n\n{call('a')} and then {call('b')}\nThe answer is 7.",
        [find("a"), find("b")],
    ),
    (call() + "</tool_call>", [find()]),
    # thinking
    (f"<think>Call {call('no')}? Yes.</think>\n\n{call()}", [find()]),
    (f"It was prefilled. {call('no')}</think>{call()}", [find()]),
    (f"<think>{call('no')}</think>\n\n68", "68"),
    ("<think>\n\n</think>\n\n68", "68"),
    ("<think>a</think>b<think>c</think> d", "d"),
    ("<think> <tool_call> and ``` are for later </think>" + call(), [find()]),
    (f"<tool_call></think>{call()}", [find()]),
    # tags inside JSON strings
    (call("<tool_call>{}</tool_call>"), [find("<tool_call>{}</tool_call>")]),
    (call("</tool_call>"), [find("</tool_call>")]),
    (call("<think>"), [find("<think>")]),
    (call("a</think>b"), [find("a</think>b")]),
    (f"<think>ok</think>{call('a</think>b')}", [find("a</think>b")]),
    (f"ok</think>{call('a</think>b')}{call('c')}", [find("a</think>b"), find("c")]),
    (
        f"<think>{call('no</think>')} no</think>{call('<tool_call> </think>')}",
        [find("<tool_call> </think>")],
    ),
    (call('a "quoted" \\ </think> one'), [find('a "quoted" \\ </think> one')]),
    # code fences
    (f"```\n{call('no')}\n```\n{call()}", [find()]),
    (f"{call()}\n```json\n{call('no')}\n```", [find()]),
    (f"```a``` is inline, ```b``` too: {call()}", [find()]),
    (f"`````\n```\n{call('no')}\n```\n`````\n{call()}", [find()]),
    (f"```\n<think>\n```\n{call()}", [find()]),
    (call("```python\nx\n```"), [find("```python\nx\n```")]),
    (call("```") + call("```") + call("x"), [find("```"), find("```"), find()]),
    (f"one ` or two `` are no fence {call()}", [find()]),
    # what JSON may say
    (call("\ud7ff é 東京 🙂 \u2028"), [find("\ud7ff é 東京 🙂 \u2028")]),
    ('<tool_call>{"name":"find","arguments":{"text":"\\ud83d\\ude42"}}</tool_call>', [find("🙂")]),
    ('<tool_call>{"name":"find","arguments":{"text":"\\u0000"}}</tool_call>', [find("\0")]),
    (call([1.5, None, True, {"a": []}]), [find([1.5, None, True, {"a": []}])]),
    (call(10**3000), [find(10**3000)]),
    ("\n".join(map(call, range(MAX_CALLS))), [find(i) for i in range(MAX_CALLS)]),
]


@pytest.mark.parametrize(("text", "move"), READ, ids=range(len(READ)))
def test_a_turn_is_read(text: str, move: Move) -> None:
    assert HERMES.parse(text) == move


UNCLOSED = "<tool_call> is not closed by </tool_call> right after its JSON object"
NO_OBJECT = "no JSON object inside <tool_call>: "
FENCED = "a tool call inside a code fence is not run"
SHAPE = 'a tool call is {"name": "...", "arguments": {...}}'

MALFORMED: list[tuple[str, str]] = [
    ("", "an empty turn"),
    (" \n", "an empty turn"),
    ("<think>hm</think>", "an empty turn"),
    ("<think>hm</think>\n\n", "an empty turn"),
    ("<think>hm", "<think> is not closed"),
    ("<think>", "<think> is not closed"),
    (f"<think>perhaps {call()}", "<think> is not closed"),
    (f"<think>a</think><think>perhaps {call()}", "<think> is not closed"),
    (f"{call()}<think>and now", "<think> is not closed"),
    ("</tool_call>", "</tool_call> without <tool_call>"),
    ("68</tool_call>", "</tool_call> without <tool_call>"),
    # cut off, at every place
    ("<tool_call>", NO_OBJECT + "Expecting value at the end of the text"),
    ("<tool_call>\n", NO_OBJECT + "Expecting value at the end of the text"),
    ('<tool_call>{"name', NO_OBJECT + "Unterminated string starting at '\"name'"),
    ('<tool_call>{"name": "find", "arg', NO_OBJECT + "Unterminated string"),
    ('<tool_call>{"name": "find", "arguments": {"text": "x"}', NO_OBJECT + "Expecting ',' delim"),
    ('<tool_call>{"name": "find"}', UNCLOSED),
    ('<tool_call>{"name": "find"}</tool_', UNCLOSED),
    (f'{call()}<tool_call>{{"name', NO_OBJECT),
    # other things inside the tags
    ("<tool_call></tool_call>", NO_OBJECT + "Expecting value at '</tool_call>'"),
    ("<tool_call>find('x')</tool_call>", NO_OBJECT + "Expecting value at \"find('x')</tool_call\""),
    (
        "<tool_call>\n<function=find>\n<parameter=text>\nx</function></tool_call>",
        NO_OBJECT + "Expecting value at '<function=find>",
    ),
    (
        '<tool_call>```json\n{"name": "find"}\n```</tool_call>',
        NO_OBJECT + "Expecting value at '```",
    ),
    ('<tool_call>{"name": "find"}```</tool_call>', UNCLOSED),
    ("<tool_call>{'name': 'find'}</tool_call>", NO_OBJECT + "Expecting property name"),
    ('<tool_call>{"name": "find",}</tool_call>', NO_OBJECT),
    ('<tool_call>{"name": "find"} {"name": "find"}</tool_call>', UNCLOSED),
    ('<tool_call>{"name": "find"}}</tool_call>', UNCLOSED),
    ('<tool_call>{"name": "find"} I call it</tool_call>', UNCLOSED),
    (f"<tool_call>{call()}</tool_call>", NO_OBJECT + "Expecting value at '<tool_call>"),
    ('<tool_call>{"text": "a\nb"}</tool_call>', NO_OBJECT + "Invalid control character at '\\nb\""),
    ('<tool_call>{"text": "a\\qb"}</tool_call>', NO_OBJECT + "Invalid \\escape at '\\\\qb\""),
    ("<tool_call>[]</tool_call>", SHAPE),
    ("<tool_call>null</tool_call>", SHAPE),
    ('<tool_call>"find"</tool_call>', SHAPE),
    ("<tool_call>{}</tool_call>", SHAPE),
    ('<tool_call>{"arguments": {}}</tool_call>', SHAPE),
    ('<tool_call>{"name": null}</tool_call>', SHAPE),
    ('<tool_call>{"name": ["find"]}</tool_call>', SHAPE),
    ('<tool_call>{"name": "find", "parameters": {}}</tool_call>', "not 'parameters'"),
    ('<tool_call>{"type": "function", "name": "f"}</tool_call>', "not 'type'"),
    # in code fences
    (f"```\n{call()}\n```", FENCED),
    (f"```json\n{call()}", FENCED),
    (f"```{call()}```", FENCED),
    (f"````\n```\n{call()}\n```\n````", FENCED),
    (f"``` `` {call()}", FENCED),
    (f"```\n{call()}\n```\nthe answer is 5", FENCED),
    # what is no JSON
    (call(0).replace("0", "NaN"), NO_OBJECT + "NaN is not JSON"),
    (call(0).replace("0", "-Infinity"), NO_OBJECT + "-Infinity is not JSON"),
    (call(0).replace("0", "1e999"), NO_OBJECT + "the number 1e999 is too large"),
    (call(0).replace("0", "-1e999"), NO_OBJECT + "the number -1e999 is too large"),
    (call(0).replace("0", "9" * 5000), NO_OBJECT + f"the number {'9' * 20}... has over 4,000"),
    (call(0).replace("0", '0, "text": 1'), NO_OBJECT + "the key 'text' stands twice"),
    (call().replace('"name"', '"name": "a", "name"'), NO_OBJECT + "the key 'name' stands twice"),
    (call(0).replace("0", '"\\ud800"'), NO_OBJECT + "a lone surrogate"),
    (call(0).replace("0", '{"\\udfff": 1}'), NO_OBJECT + "a lone surrogate"),
    (call("\ud800"), "the turn holds a lone surrogate"),
    ("\udfff", "the turn holds a lone surrogate"),
    (call(0).replace("0", "[" * 200_000), NO_OBJECT),
    (call(0).replace("0", "[" * 200_000 + "]" * 200_000), NO_OBJECT + "arrays or objects nested"),
    (call(0).replace("0", "[" * 200 + "]" * 200), NO_OBJECT + "arrays or objects nested over 100"),
    (call(0).replace("0", '{"a":' * 101 + "1" + "}" * 101), NO_OBJECT + "arrays or objects nested"),
    (call() * (MAX_CALLS + 1), f"more than {MAX_CALLS} calls"),
]


@pytest.mark.parametrize(("text", "reason"), MALFORMED, ids=range(len(MALFORMED)))
def test_a_malformed_turn_says_why(text: str, reason: str) -> None:
    move = HERMES.parse(text)
    assert isinstance(move, Malformed) and reason in move.reason
    assert_sound(move)


def assert_sound(move: Move) -> None:
    """What every move is like, whatever the text was."""
    if isinstance(move, Malformed):
        assert 0 < len(move.reason) <= 400
        assert move.reason.isprintable() and move.reason.encode()
    elif isinstance(move, str):
        assert move and move == move.strip()
        move.encode()
    else:
        assert 0 < len(move) <= MAX_CALLS
        for one in move:
            json.dumps([one.name, one.arguments, one.id], allow_nan=False).encode()


@pytest.mark.parametrize("text", ["", "68", call(), "<think>"])
@pytest.mark.parametrize("protocol", [HERMES, CHARS])
def test_a_cut_turn_is_malformed(protocol: Protocol, text: str) -> None:
    assert protocol.parse(text, cut=True) == Malformed(
        "the turn was cut off by the token limit; be shorter"
    )


FRAGMENTS = [
    "<tool_call>",
    "</tool_call>",
    "<think>",
    "</think>",
    "```",
    "````",
    "`",
    '"',
    "\\",
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\n",
    " ",
    "\\u",
    "\\ud800",
    "\ud800",
    "\0",
    "é",
    "1e999",
    "NaN",
    '{"name": "find", "arguments": {"text": "',
    '"}}',
    call(),
    call("</think>"),
    call("```"),
]
texts = st.lists(st.sampled_from(FRAGMENTS) | st.text(max_size=5), max_size=20).map("".join)


@given(texts)
@example("<tool_call>" * 30 + "</think>")
def test_no_text_raises(text: str) -> None:
    for protocol in (HERMES, CHARS):
        move = protocol.parse(text)
        assert move == protocol.parse(text)
        if protocol is HERMES:
            assert_sound(move)


json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text() | st.sampled_from(FRAGMENTS).filter(str.isprintable),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip
# Outside calls: no tag, no fence, no quote. Anything else may stand around them.
prose = st.text(st.characters(exclude_characters="<`", exclude_categories=["Cs"]), max_size=20)


@given(st.lists(st.tuples(prose, json_values), min_size=1, max_size=4), prose, st.booleans())
def test_calls_are_read_as_they_were_written(
    written: list[tuple[str, Any]], after: str, ascii_only: bool
) -> None:
    text = ""
    for before, value in written:
        body = json.dumps({"name": "find", "arguments": {"text": value}}, ensure_ascii=ascii_only)
        text += f"{before}<tool_call>{body}</tool_call>"
    expected = [find(value) for _, value in written]
    assert HERMES.parse(text + after) == expected
    assert HERMES.parse(f"<think>{text}</think>{text}") == expected
    assert HERMES.parse(f"thought {text}</think>{after}") == HERMES.parse(after)
    fenced = HERMES.parse(f"``````````\n{text}\n``````````")
    assert isinstance(fenced, Malformed)


LONG = [
    "`" * 3 + "a" + "```" * 300_000,
    "```a``` " * 120_000 + call(),
    "`" * 500_000 + "x" + "`" * 499_999 + call(),
    "```` ``` " * 100_000 + call(),
    "<tool_call>" * 90_000,
    "<tool_call>" * 90_000 + "</think>",
    "<tool_call>[" * 80_000 + "</think>" + call(),
    '<tool_call>["' * 70_000 + "</think>" + call(),
    '<tool_call>["",' * 64 + " " * 900_000 + "</think>" + call(),
    ("<tool_call>" + "</think>") * 50_000,
    "</think>" * 120_000 + call(),
    "<think>" * 140_000,
    call("</think>") * 20_000,
    call() * 20_000,
    call() * 20_000 + "</think>" + call(),
    "<tool_call>" + " " * 10**6,
    '<tool_call>{"name": "a"}' + " " * 10**6,
    '<tool_call>{"name": "' + "\\u0041" * 160_000,
    '<tool_call>{"name": ' + "1" * 10**6,
    '<tool_call>{"name": ' + "1" * 10**6 + ".5",
    '<tool_call>{"name": [' + "{}," * 300_000,
    call("x" * 10**6),
    call("<tool_call></think>```" * 40_000),
    call("é" * 300_000 + "</think>") * 3,
]


@pytest.mark.parametrize("text", LONG, ids=range(len(LONG)))
def test_a_megabyte_takes_no_square_of_its_length(text: str) -> None:
    """With a step for each pair of places this would take minutes."""
    assert_sound(HERMES.parse(text))
    CHARS.parse(text)


def test_results_as_text_and_as_messages() -> None:
    calls = [find(call_id="c1"), ToolCall("now", {})]
    results = [ToolResult("a\nb"), ToolResult("error: no", "failed")]
    assert HERMES.say(calls, results) == (
        "<tool_response>\na\nb\n</tool_response>\n<tool_response>\nerror: no\n</tool_response>"
    )
    assert HERMES.messages(calls, results) == [
        {"role": "tool", "name": "find", "content": "a\nb", "tool_call_id": "c1"},
        {"role": "tool", "name": "now", "content": "error: no"},
    ]
    assert HERMES.refuse("an empty turn") == "error: an empty turn"
    with pytest.raises(ValueError):
        HERMES.messages(calls, results[:1])


def test_hermes_docs() -> None:
    lines = HERMES.docs.split("\n")
    schemas = [json.loads(line) for line in lines if line.startswith("{")]
    assert schemas == [t.schema["function"] for t in TOOLS.values()]
    example_call = next(line for line in lines if line.startswith("<tool_call>"))
    assert HERMES.parse(example_call.replace("{...}", "{}")) == [ToolCall("...", {})]
    assert Hermes({}, {}).docs == ""


CHARS_READ: list[tuple[str, Move]] = [
    ("F23+45|", [ToolCall("find", {"text": "23+45"})]),
    ("F|", [ToolCall("find", {"text": ""})]),
    ("éa b|", [ToolCall("say", {"words": "a b"})]),
    ("68|", "68"),
    ("f68|", "f68"),
    (" 68|", " 68"),
    ("FF|", [ToolCall("find", {"text": "F"})]),
    ('F{"text": "<tool_call>"}|', [ToolCall("find", {"text": '{"text": "<tool_call>"}'})]),
]


@pytest.mark.parametrize(("text", "move"), CHARS_READ)
def test_chars_are_read(text: str, move: Move) -> None:
    assert CHARS.parse(text) == move


@pytest.mark.parametrize("text", ["", "|", "||", "F", "F1", "68", "F1|\n", "F1||", "F1|2|", "|F1|"])
def test_chars_are_strict(text: str) -> None:
    assert CHARS.parse(text) == Malformed("a turn ends with its only |")


def test_chars_refuse_a_lone_surrogate() -> None:
    assert isinstance(CHARS.parse("F\ud800|"), Malformed)


def test_results_in_chars() -> None:
    calls = [find(), find(call_id="c")]
    results = [ToolResult("68"), ToolResult("error: whatever", "timeout")]
    assert CHARS.say(calls, results) == "68|?|"
    assert [m["content"] for m in CHARS.messages(calls, results)] == ["68|", "?|"]
    assert [m["role"] for m in CHARS.messages(calls, results)] == ["tool", "tool"]
    assert CHARS.refuse("whatever") == "?|" and CHARS.docs == ""


@pytest.mark.parametrize(
    ("letters", "message"),
    [
        ({}, "needs `letters`"),
        ({"": "find"}, "'' must be a single character"),
        ({"FI": "find"}, "'FI' must be a single character"),
        ({"|": "find"}, r"'\|' must be a single character other than \|"),
        ({"F": "lose"}, r"'F' is for the tool 'lose'; there are \['find'"),
        ({"F": "add"}, "'add' cannot be called with one text"),
        ({"F": "now"}, "'now' cannot be called with one text"),
        ({"F": "wait"}, "'wait' cannot be called with one text"),
    ],
)
def test_bad_letters(letters: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Chars(TOOLS, letters)


def test_a_protocol_of_ones_own_needs_three_methods() -> None:
    class Lines(Protocol):
        name, version, docs = "lines", "1", ""

        def read(self, text: str) -> Move:
            return text or Malformed("empty")

        def say(self, calls: Sequence[ToolCall], results: Sequence[ToolResult]) -> str:
            return "\n".join(r.content for r in results)

        def messages(
            self, calls: Sequence[ToolCall], results: Sequence[ToolResult]
        ) -> list[Message]:
            return [{"role": "tool", "content": r.content} for r in results]

    lines = Lines(TOOLS, {})
    assert lines.parse("a") == "a" and lines.refuse("x") == "error: x"
    assert isinstance(lines.parse("a", cut=True), Malformed)
    assert isinstance(lines.parse("\ud800"), Malformed)


def test_protocols_by_name() -> None:
    assert PROTOCOLS == {"hermes": Hermes, "chars": Chars}
    assert [p.name for p in PROTOCOLS.values()] == list(PROTOCOLS)
