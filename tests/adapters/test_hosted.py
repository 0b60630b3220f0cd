"""What the adapters share: datasets, and an env behind a host's native calls."""

import json
import subprocess
import sys
from typing import Any

import pytest

import agent_envs
from agent_envs.adapters.hosted import Hosted, make, rows
from agent_envs.errors import BackendUnavailable
from agent_envs.turns import ToolCall
from tests.adapters.direct import BANK, CALCULATOR, ERRORS, NOISE, TASKS, play

IDS = [CALCULATOR, BANK]


def started(env_id: str, seed: int = 3, **kwargs: Any) -> Hosted:
    """The id's task, begun."""
    hosted = Hosted(env_id, **kwargs)
    hosted.start(seed=seed, task=TASKS[env_id])
    return hosted


@pytest.mark.parametrize("seed", [3, 4])
@pytest.mark.parametrize("env_id", IDS)
def test_calls_and_an_answer_are_the_same_as_by_hand(env_id: str, seed: int) -> None:
    played = play(env_id, seed, ERRORS, fault_rate=NOISE, tool_docs=False)
    hosted = started(env_id, seed, fault_rate=NOISE)
    for call, result in played.calls:
        assert hosted.call(call.name, call.arguments, "c1") == result
    assert hosted.finish(played.answer) == played.reward
    assert hosted.verdict and hosted.verdict["passed"] == played.passed


@pytest.mark.parametrize("env_id", agent_envs.ids())
def test_every_id_has_rows_that_start_episodes(env_id: str) -> None:
    try:
        found = list(rows(env_id, n=2))
    except BackendUnavailable as error:
        pytest.skip(str(error))
    assert found == list(rows(env_id, n=2)) == json.loads(json.dumps(found))
    assert len({row["task"] for row in found}) == 2
    assert all(0 <= row["seed"] < 2**31 for row in found)
    hosted = Hosted(env_id)
    try:
        for row in found:
            assert hosted.start(seed=row["seed"], task=row["task"]) == row["prompt"]
    finally:
        hosted.env.close()


def test_rows_say_which_tools_there_are_where_asked() -> None:
    [row] = rows(BANK, n=1, tool_docs=True, level=0, seed=4)
    hosted = Hosted(BANK, tool_docs=True)
    assert hosted.start(seed=row["seed"], task=row["task"]) == row["prompt"]
    assert [message["role"] for message in row["prompt"]] == ["system", "user"]


def test_after_the_end_calls_are_over_and_the_reward_stays() -> None:
    hosted = started(CALCULATOR)
    reward = hosted.finish(play(CALCULATOR, 3).answer)
    assert reward == 1.0
    assert hosted.call("calculate", {"expression": "1"}).error == "limit"
    assert [r.error for r in hosted.calls([ToolCall("step", {})] * 2)] == ["limit"] * 2
    assert hosted.say("2") == []
    assert hosted.finish("wrong") == reward


def test_what_is_no_answer_is_said_and_goes_on() -> None:
    hosted = started(CALCULATOR)
    call = '<tool_call>{"name": "calculate", "arguments": {"expression": "1"}}</tool_call>'
    for text, cut, said in (
        (call, False, "call the tool itself"),
        ("<tool_call>", False, "no JSON object"),
        ("12", True, "token limit"),
    ):
        [message] = hosted.say(text, cut=cut)
        assert message["role"] == "user" and said in message["content"]
    assert (hosted.env.turn, hosted.env.calls) == (3, 0)
    assert hosted.say("12") == [] and hosted.env.ended


@pytest.mark.parametrize("text", ["<tool_call>", '<tool_call>{"name": "calculate"}</tool_call>'])
def test_finishing_with_no_answer_grades_without_one(text: str) -> None:
    hosted = started(CALCULATOR)
    assert hosted.finish(text) == 0.0
    assert hosted.env.ended and hosted.env.calls == 0


def test_a_new_episode_starts_at_nothing() -> None:
    hosted = started(CALCULATOR)
    assert hosted.finish(play(CALCULATOR, 3).answer) == 1.0
    hosted.start(seed=4, task=TASKS[CALCULATOR])
    assert (hosted.reward, hosted.failed, hosted.verdict) == (0.0, None, None)


def test_an_environment_that_fails_never_gives_a_reward(monkeypatch: pytest.MonkeyPatch) -> None:
    hosted = started(BANK)

    def down(**_: Any) -> None:
        raise BackendUnavailable("start the daemon")

    monkeypatch.setattr(hosted.env, "bound_tools", {"balance": down})
    assert hosted.call("balance", {"name": "ada"}).error == "failed"
    with pytest.raises(BackendUnavailable, match="start the daemon"):
        hosted.finish("1")


def test_other_environments_are_refused() -> None:
    with pytest.raises(TypeError, match="no ToolEnv"):
        make("CartPole-v1")


def test_no_adapter_is_imported_with_the_package() -> None:
    code = (
        "import sys, agent_envs, agent_envs.adapters.hosted, agent_envs.adapters.sessions\n"
        "print([m for m in sys.modules if m.startswith('agent_envs.adapters.')])\n"
        "print({'mcp', 'pydantic', 'torch', 'trl', 'openenv'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded, heavy = done.stdout.splitlines()
    assert heavy == "set()"
    assert loaded == "['agent_envs.adapters.hosted', 'agent_envs.adapters.sessions']"
