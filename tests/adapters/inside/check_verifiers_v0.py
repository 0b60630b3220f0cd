"""verifiers 0.3's legacy environments: its own runner and client, with a scripted model behind."""

import asyncio
import json
import os
from typing import Any

import pytest
from verifiers.legacy.types import (  # noqa: TID251
    ClientConfig,
)

from agent_envs.adapters.hosted import make
from agent_envs.adapters.verifiers_v0 import load_environment
from tests.adapters.chat_server import serving
from tests.adapters.direct import BANK, CALCULATOR, ERRORS, NOISE, Played, play_row

os.environ.setdefault("NO_KEY", "none")


def as_message(move: Any) -> dict[str, Any]:
    """A turn as an API gives it."""
    if isinstance(move, str):
        return {"content": move}
    made = [{"name": call.name, "arguments": json.dumps(call.arguments)} for call in move]
    numbered = enumerate(made)
    return {"tool_calls": [{"id": f"c{i}", "type": "function", "function": f} for i, f in numbered]}


def outputs(env: Any, reply: Any, n: int = -1, group: int = 1) -> list[Any]:
    """What verifiers says of the rollouts."""
    with serving(reply) as url:
        client = ClientConfig(api_base_url=url, api_key_var="NO_KEY")
        given = {"num_examples": n, "rollouts_per_example": group}
        columns = ["episode_passed"]
        results = asyncio.run(
            env.evaluate(client=client, model="script", state_columns=columns, **given)
        )
    found: list[Any] = results["outputs"]
    return found


class Script:
    """Repeats what was played by hand, found by the task's prompt."""

    def __init__(self, played: list[Played]) -> None:
        self.by_prompt = {p.opening[-1]["content"]: p for p in played}
        self.shown: list[tuple[Played, list[dict[str, Any]]]] = []
        self.offered: list[str] = []

    def __call__(self, messages: list[dict[str, Any]], body: dict[str, Any]) -> dict[str, Any]:
        self.offered = [tool["function"]["name"] for tool in body["tools"]]
        prompt = next(m["content"] for m in messages if m["role"] == "user")
        played = self.by_prompt[prompt]
        self.shown.append((played, messages))
        turn = sum(m["role"] == "assistant" for m in messages)
        return as_message(played.moves[turn])


@pytest.mark.parametrize("env_id", [CALCULATOR, BANK])
def test_groups_are_the_same_as_by_hand(env_id: str) -> None:
    env = load_environment(env_id, split="heldout", n=2, seed=5, fault_rate=NOISE)
    rows = [row["info"] for row in env.get_dataset()]
    played = [
        play_row(env_id, row["task_id"], row["seed"], ERRORS, fault_rate=NOISE, tool_docs=False)
        for row in rows
    ]
    script = Script(played)
    found = outputs(env, script, group=2)
    assert set(script.offered) == set(make(env_id).tools)
    assert len(found) == 4
    assert sorted(o["reward"] for o in found) == sorted(p.reward for p in played for _ in range(2))
    for output in found:
        by_hand = script.by_prompt[output["prompt"][-1]["content"]]
        assert output["reward"] == by_hand.reward
        assert output["episode_passed"] == by_hand.passed
        said = [m for m in output["completion"] if m["role"] != "assistant"]
        assert [m["content"] for m in said] == [m["content"] for ms in by_hand.messages for m in ms]
        assert output["stop_condition"] == "has_final_env_response"


def test_bad_json_costs_a_turn_and_runs_nothing() -> None:
    def broken(messages: Any, body: Any) -> dict[str, Any]:
        function = {"name": "calculate", "arguments": '{"expression": "1+1"'}
        return {"tool_calls": [{"id": "c", "type": "function", "function": function}]}

    [output] = outputs(load_environment(CALCULATOR, n=1, max_turns=2), broken)
    told = [m["content"] for m in output["completion"] if m["role"] == "tool"]
    assert len(told) == 2 and all("JSON object" in text for text in told)
    assert output["reward"] == 0.0


def test_a_call_in_the_text_is_refused_and_an_answer_that_was_cut_is_none() -> None:
    said = iter(
        [
            {"content": '<tool_call>{"name": "calculate", "arguments": {}}</tool_call>'},
            {"content": "12", "finish_reason": "length"},
            {"content": "<tool_call>"},
            {"content": "I do not know."},
        ]
    )
    [output] = outputs(load_environment(CALCULATOR, n=1), lambda *_: next(said))
    told = [m["content"] for m in output["completion"] if m["role"] == "user"]
    assert len(told) == 3
    assert "call the tool itself" in told[0] and "token limit" in told[1]
    assert output["reward"] == 0.0


def test_what_verifiers_ends_is_graded_without_an_answer() -> None:
    env = load_environment(CALCULATOR, n=1)
    env.max_turns = 1
    function = {"name": "calculate", "arguments": '{"expression": "1+1"}'}
    call = {"tool_calls": [{"id": "c", "type": "function", "function": function}]}
    [output] = outputs(env, lambda *_: call)
    assert (output["reward"], output["episode_passed"]) == (0.0, False)
