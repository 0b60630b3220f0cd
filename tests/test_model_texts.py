"""Tool calls as real models write them, read by the `hermes` protocol.

Each text is what a model's chat template makes of one call of `calculate`, with the tokenizer's
special tokens and, as most servers hand it over, without. It is parsed, or refused with an error
that says what to write; it is never an answer, and never half of a call.
"""

import gymnasium
import pytest

import agent_envs  # noqa: F401
from agent_envs.protocol import Hermes
from agent_envs.turns import Malformed, ToolCall

CALL = ToolCall("calculate", {"expression": "1+1"})
JSON = '{"name": "calculate", "arguments": {"expression": "1+1"}}'
LLAMA = '{"name": "calculate", "parameters": {"expression": "1+1"}}'
XML = "<function=calculate>\n<parameter=expression>\n1+1\n</parameter>\n</function>"

PARSED = {
    "Qwen2.5": f"<tool_call>\n{JSON}\n</tool_call>",
    "Qwen3, thinking": f"<think>\nI add.\n</think>\n\n<tool_call>\n{JSON}\n</tool_call>",
    "Qwen3, thinking opened by its template": f"I add.\n</think>\n\n<tool_call>{JSON}</tool_call>",
    "Hermes 2 and 3": '<tool_call>\n{"arguments": {"expression": "1+1"}, "name": "calculate"}\n'
    "</tool_call>",
    "Hermes, on one line": f"<tool_call>{JSON}</tool_call>",
    "words before": f"Let me work that out.\n<tool_call>\n{JSON}\n</tool_call>",
    "words after": f"<tool_call>\n{JSON}\n</tool_call>\nI wait for the result.",
    "Hermes, told to think": f"<scratch_pad>\n</scratch_pad>\n<tool_call>{JSON}</tool_call>",
}

REFUSED = {
    "Llama 3.1": LLAMA,
    "Llama 3.1, raw": f"<|python_tag|>{LLAMA}<|eom_id|>",
    "Llama 3.1, a list": f"[{LLAMA}, {LLAMA}]",
    "Llama 3.1, a built-in tool": '<|python_tag|>calculate.call(expression="1+1")',
    "Llama 3.1, user-defined tags": '<function=calculate>{"expression": "1+1"}</function>',
    "Llama 3.2 and 4, like Python": '[calculate(expression="1+1")]',
    "Llama 4, several": '[calculate(expression="1+1"), calculate(expression="2+2")]',
    "Mistral, to version 3": f'[TOOL_CALLS] [{JSON[:-1]}, "id": "abcdefghi"}}]',
    "Mistral, to version 3, stripped": f'[{JSON[:-1]}, "id": "abcdefghi"}}]',
    "Mistral, newer": '[TOOL_CALLS]calculate[ARGS]{"expression": "1+1"}',
    "Mistral, newer, stripped": 'calculate{"expression": "1+1"}',
    "Mistral, words before": f"I add. [TOOL_CALLS] [{JSON}]",
    "Qwen3-Coder and Qwen3.5": f"<tool_call>\n{XML}\n</tool_call>",
    "Qwen3-Coder, tag forgotten": XML,
    "Qwen2, function calling of old": '✿FUNCTION✿: calculate\n✿ARGS✿: {"expression": "1+1"}',
    "Qwen, braces doubled": f"<tool_call>\n{{{JSON}}}\n</tool_call>",
    "Qwen, tag never closed": f"<tool_call>\n{JSON}",
    "Qwen, tag never opened": f"{JSON}\n</tool_call>",
    "Qwen, tags forgotten": JSON,
    "Qwen, in a fence": f"```json\n{JSON}\n```",
    "Qwen, tags in a fence": f"```\n<tool_call>\n{JSON}\n</tool_call>\n```",
    "Qwen, as text twice": '<tool_call>\n"{\\"name\\": \\"calculate\\"}"\n</tool_call>',
    "Qwen, Python for JSON": "<tool_call>\n{'name': 'calculate', 'arguments': {}}\n</tool_call>",
    "Qwen, parameters for arguments": f"<tool_call>\n{LLAMA}\n</tool_call>",
    "Qwen, a list in the tags": f"<tool_call>\n[{JSON}]\n</tool_call>",
    "OpenAI's form": f'{{"type": "function", "function": {JSON}}}',
    "GLM-4.5": "<tool_call>calculate\n<arg_key>expression</arg_key>\n<arg_value>1+1</arg_value>\n"
    "</tool_call>",
    "Gemma": '<|tool_call>call:calculate{expression:<|"|>1+1<|"|>}<tool_call|>',
    "Gemma, stripped": "call:calculate{expression:1+1}",
    "Phi-4": f"<|tool_call|>[{JSON}]<|/tool_call|>",
    "LFM2": "<|tool_call_start|>[calculate(expression='1+1')]<|tool_call_end|>",
    "GPT-OSS": ' to=functions.calculate<|channel|>commentary json<|message|>{"expression": "1+1"}',
    "DeepSeek": "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>calculate\n"
    '```json\n{"expression": "1+1"}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>',
    "DeepSeek, stripped": 'functioncalculate\n```json\n{"expression": "1+1"}\n```',
    "InternLM": f"<|action_start|><|plugin|>{LLAMA}<|action_end|>",
    "Granite": f"<|tool_call|>[{JSON}]",
    "Functionary": f"<function_calls>[{JSON}]</function_calls>",
    "invoke": '<invoke name="calculate"><parameter name="expression">1+1</parameter></invoke>',
    "a tool that there is not": '{"name": "snapshot", "parameters": {}}',
}

ANSWERS = [
    "2",
    "The answer is 2.",
    "calculate",
    "I used calculate(1+1), and it says 2",
    "f(x) = (x)",
    '{"name": "Ada", "age": 36}',
    '{"name": "Ada"}',
    "[1, 2, 3]",
    '["calculate"]',
    "[]",
    "{}",
    "def function(x): return [x]",
    "<b>function</b>",
    '```json\n{"total": 2}\n```',
    "SELECT name FROM tools WHERE (name = 'calculate')",
]


@pytest.fixture(scope="module")
def protocol() -> Hermes:
    """The calculator's."""
    protocol = gymnasium.make("agent/Calculator-v0").unwrapped.protocol  # type: ignore[attr-defined]
    assert isinstance(protocol, Hermes)
    return protocol


@pytest.mark.parametrize("model", PARSED)
def test_calls_are_parsed(model: str, protocol: Hermes) -> None:
    assert protocol.parse(PARSED[model]) == [CALL]


@pytest.mark.parametrize("model", PARSED)
def test_two_calls_are_two(model: str, protocol: Hermes) -> None:
    text = PARSED[model]
    call = text[text.index("<tool_call>") : text.index("</tool_call>") + len("</tool_call>")]
    assert protocol.parse(f"{text}\n{call}") == [CALL, CALL]


@pytest.mark.parametrize("model", REFUSED)
def test_other_forms_are_refused_and_never_an_answer(model: str, protocol: Hermes) -> None:
    for text in (REFUSED[model], f"<think>\nHm.\n</think>\n\n{REFUSED[model]}\n"):
        move = protocol.parse(text)
        assert isinstance(move, Malformed), move
        assert "tool_call" in move.reason or "tool call" in move.reason


@pytest.mark.parametrize("model", [*PARSED, *REFUSED])
def test_cut_anywhere_it_is_no_answer(model: str, protocol: Hermes) -> None:
    text = {**PARSED, **REFUSED}[model]
    for at in range(1, len(text) + 1):
        assert isinstance(protocol.parse(text[:at], cut=True), Malformed)


@pytest.mark.parametrize("model", PARSED)
def test_a_call_in_mid_thought_is_not_run(model: str, protocol: Hermes) -> None:
    call = PARSED[model].rpartition("</think>")[2]
    assert protocol.parse(f"<think>\nMaybe {call}?\n</think>\n\n2") == "2"
    assert isinstance(protocol.parse(f"<think>\nMaybe {call}?"), Malformed)


@pytest.mark.parametrize("text", ANSWERS)
def test_answers_are_answers(text: str, protocol: Hermes) -> None:
    assert protocol.parse(text) == text


@pytest.mark.parametrize("model", REFUSED)
def test_in_an_episode_it_costs_a_turn_and_says_what_to_write(model: str) -> None:
    env = gymnasium.make("agent/Calculator-v0")
    env.reset(seed=1)
    observation, reward, terminated, truncated, info = env.step(REFUSED[model])
    assert (reward, terminated, truncated) == (0.0, False, False)
    assert observation.startswith("error: ")
    assert info["calls"][0][0] is None and info["calls"][0][1].error == "parse"
