"""Inspect: its runner, transcript and log, with its scripted model."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from inspect_ai import eval as run
from inspect_ai.model import ModelOutput, ModelUsage, get_model

from agent_envs.adapters.hosted import make, rows
from agent_envs.adapters.inspect_ai import episodes
from tests.adapters.direct import BANK, CALCULATOR, ERRORS, NOISE, Played, play_row

Reply = Callable[[list[Any], list[Any]], Any]


def scripted(reply: Reply) -> Any:
    """Inspect's mock model, its outputs a function of the conversation and the tools."""

    def counted(messages: list[Any], tools: list[Any], *_: Any) -> Any:
        made = reply(messages, tools)
        made.usage = ModelUsage()  # which it would count with a table from the network
        return made

    return get_model("mockllm/model", custom_outputs=counted)


def evaluated(task: Any, reply: Reply, folder: Path, **settings: Any) -> Any:
    """The log of a run."""
    settings = {"display": "none", "log_dir": str(folder), **settings}
    [log] = run(task, model=scripted(reply), **settings)
    return log


def output(turn: Any) -> Any:
    """A turn as Inspect's models give it; one call a message, since each is a turn there."""
    if isinstance(turn, str):
        return ModelOutput.from_content("mock", turn)
    return ModelOutput.for_tool_call("mock", turn.name, turn.arguments)


def one_by_one(played: Played) -> list[Any]:
    """Calls and, last, the answer."""
    return [*(call for call, _ in played.calls), played.answer]


@pytest.mark.parametrize("env_id", [CALCULATOR, BANK])
def test_epochs_are_the_same_as_by_hand(env_id: str, tmp_path: Path) -> None:
    chosen: dict[str, Any] = {"split": "heldout", "n": 2, "seed": 5}
    errors = reaching(env_id)
    played = [
        play_row(env_id, row["task"], row["seed"], errors, fault_rate=NOISE, tool_docs=False)
        for row in rows(env_id, **chosen)
    ]
    by_prompt = {p.opening[-1]["content"]: p for p in played}
    offered: set[str] = set()

    def reply(messages: list[Any], tools: list[Any]) -> Any:
        offered.update(tool.name for tool in tools)
        by_hand = by_prompt[messages[0].content]
        return output(one_by_one(by_hand)[sum(m.role == "assistant" for m in messages)])

    task = episodes(env_id, fault_rate=NOISE, **chosen)
    log = evaluated(task, reply, tmp_path, epochs=2)
    assert log.status == "success", log.error
    assert offered == set(make(env_id).tools)
    assert len(log.samples) == 4
    for sample in log.samples:
        by_hand = by_prompt[sample.messages[0].content]
        value = sample.scores["verdict"].value
        assert (value["reward"], bool(value["passed"])) == (by_hand.reward, by_hand.passed)
        told = [message for message in sample.messages if message.role == "tool"]
        check_results(by_hand, told)


def reaching(env_id: str) -> list[Any]:
    """The erroneous calls that Inspect lets through: it judges names and arguments itself."""
    tools = make(env_id).tools
    called = [move[0] for move in ERRORS if isinstance(move, list)]
    sound = [c for c in called if c.name in tools and not tools[c.name].problem(c.arguments)]
    return [[call] for call in sound]


def check_results(by_hand: Played, told: list[Any]) -> None:
    """What the env said is what the model read, in Inspect's form where it is an error."""
    assert len(told) == len(by_hand.calls)
    for (_, result), message in zip(by_hand.calls, told, strict=True):
        if result.error == "timeout":
            assert message.error.type == "timeout"
        elif result.error:
            assert message.error.message == result.content.removeprefix("error: ")
        else:
            assert (message.text, message.error) == (result.content, None)


def test_what_inspect_refuses_itself_never_reaches_the_env(tmp_path: Path) -> None:
    turns = iter([*(move[0] for move in ERRORS if isinstance(move, list)), "no idea"])
    log = evaluated(episodes(n=1), lambda *_: output(next(turns)), tmp_path)
    [sample] = log.samples
    told = [message for message in sample.messages if message.role == "tool"]
    assert [message.error.type for message in told] == ["parsing"] * len(ERRORS)


def test_what_is_no_answer_goes_on(tmp_path: Path) -> None:
    turns = iter(
        [
            ModelOutput.from_content("mock", "<tool_call>{}</tool_call>"),
            ModelOutput.from_content("mock", "12", stop_reason="max_tokens"),
            ModelOutput.from_content("mock", "no idea"),
        ]
    )
    log = evaluated(episodes(n=1), lambda *_: next(turns), tmp_path)
    [sample] = log.samples
    told = [message.text for message in sample.messages if message.role == "user"][1:]
    assert len(told) == 2 and "token limit" in told[1]
    assert sample.scores["verdict"].value == {"reward": 0.0, "passed": 0}


def test_limits_of_either_side_end_it_graded(tmp_path: Path) -> None:
    def forever(*_: Any) -> Any:
        return ModelOutput.for_tool_call("mock", "calculate", {"expression": "1+1"})

    for kwargs, settings in (({"max_turns": 3}, {}), ({}, {"message_limit": 6})):
        log = evaluated(episodes(n=1, **kwargs), forever, tmp_path, **settings)
        [sample] = log.samples
        assert sample.error is None
        assert sample.scores["verdict"].value == {"reward": 0.0, "passed": 0}
        assert sum(message.role == "tool" for message in sample.messages) in (2, 3)


def test_an_environment_that_fails_is_an_error_and_no_score(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from agent_envs.errors import BackendUnavailable

    def down(self: Any, task: Any) -> None:
        raise BackendUnavailable("start the daemon")

    monkeypatch.setattr(type(make(BANK)), "setup", down)
    log = evaluated(episodes(BANK, n=1), lambda *_: output("x"), tmp_path)
    [sample] = log.samples
    assert "start the daemon" in sample.error.message
    assert not sample.scores
    assert json.loads(log.model_dump_json())["status"] == "error"
