"""The policy behind a server: every way in which a server answers, or does not."""

import json
import logging
import threading
import time
from collections.abc import Callable
from typing import Any

import gymnasium
import pytest

from agent_envs import BackendUnavailable, rollout
from agent_envs.models import ModelError, OpenAIPolicy
from agent_envs.models import openai as openai_module
from agent_envs.policy import Answer
from agent_envs.trajectory import Trajectory
from tests.models.chat_server import Body, ChatServer, Say, completion, error

CALCULATOR = "agent/Calculator-v0"
KEY = "sk-a-key-that-nobody-may-see"
ASK = [{"role": "user", "content": "Go."}]


@pytest.fixture(autouse=True)
def quick_and_direct(monkeypatch: pytest.MonkeyPatch) -> None:
    """Back-off without the waiting, and no proxy of the machine's."""
    monkeypatch.setattr(openai_module, "pause", lambda attempt, after, rng: 0.001)
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.delenv(name, raising=False)


def ask(policy: OpenAIPolicy, key: str = "k", within: float = 20.0) -> Any:
    """The one answer to one request."""
    policy.submit(key, ASK)
    return wait(policy, within)[0][1]


def wait(policy: OpenAIPolicy, within: float = 20.0) -> list[Answer]:
    until = time.monotonic() + within
    while time.monotonic() < until:
        if answers := policy.collect(0.05):
            return answers
    raise AssertionError("no answer")


def in_turn(*said: Say | Body) -> Callable[[Body], Say | Body]:
    """Answers one after the other; the last one for good."""
    left = list(said)
    return lambda body: left.pop(0) if len(left) > 1 else left[0]


def play(server: ChatServer, native: bool = True, **options: Any) -> Trajectory:
    """An episode of the calculator."""
    env: Any = gymnasium.make(CALCULATOR, split="heldout", level=1, tool_docs=not native)
    tools = env.tool_schemas if native else None
    with OpenAIPolicy("m", server.url, tools=tools, **options) as policy:
        tasks = env.tasks.split("heldout", 1)[:1]
        [episode] = rollout(env, policy, tasks, progress=False)
    env.close()
    return episode


def calculate(expression: str) -> tuple[str, str]:
    return "calculate", json.dumps({"expression": expression})


# -- what is sent ---------------------------------------------------------------------------------


def test_native_calls_go_round_in_the_apis_own_form() -> None:
    answers = in_turn(
        completion(None, [calculate("2+3"), calculate("4*5")], reason="tool_calls"),
        completion("7"),
    )
    with ChatServer(answers) as server:
        episode = play(server, api_key=KEY, body={"temperature": 0.5})
    assert not server.problems and episode.end_reason == "answer"
    first, second = server.requests
    assert first["tools"][0]["function"]["name"] == "calculate" and first["temperature"] == 0.5
    assert [m["role"] for m in first["messages"]] == ["user"], "no tool docs beside native tools"
    assert [m["role"] for m in second["messages"]] == ["user", "assistant", "tool", "tool"]
    assert [m["content"] for m in second["messages"][2:]] == ["5", "20"]
    assert second["messages"][: len(first["messages"])] == first["messages"]
    assert {h["Authorization"] for h in server.headers} == {f"Bearer {KEY}"}
    assert server.connections == 1, "the connection is kept"


def test_text_calls_go_round_as_text() -> None:
    call = '<tool_call>{"name": "calculate", "arguments": {"expression": "2+3"}}</tool_call>'
    with ChatServer(in_turn(completion(call + call), completion("7"))) as server:
        episode = play(server, native=False)
    assert not server.problems and episode.end_reason == "answer"
    assert "tools" not in server.requests[1] and "Authorization" not in server.headers[0]
    system, user, assistant, results = server.requests[1]["messages"]
    assert "calculate" in system["content"] and assistant["content"] == call + call
    response = "<tool_response>\n5\n</tool_response>"
    assert results == {"role": "user", "content": f"{response}\n{response}"}


def test_request_seeds_differ_and_come_again() -> None:
    seeds = []
    for _ in range(2):
        with ChatServer(in_turn(completion(None, [calculate("1+1")]), completion("7"))) as server:
            play(server, seed=3)
        seeds.append([request["seed"] for request in server.requests])
    assert seeds[0] == seeds[1] and len(set(seeds[0])) == 2


ODD_TURNS: dict[str, Body] = {
    "arguments that are no JSON": completion(None, [("calculate", '{"expression": 1+')]),
    "arguments that are no object": completion(None, [("calculate", "[1, 2]")]),
    "no arguments": completion(None, [("calculate", "")]),
    "a tool that there is not": completion(None, [("rm -rf /", "{}")]),
    "a name that is none": completion(None, [("", "{}")]),
    "more calls than a turn may have": completion(None, [calculate("1+1")] * 65),
    "nothing at all": completion(None),
    "a lone surrogate": completion("\ud83d <tool_call>"),
    "cut off": completion("I think", reason="length"),
    "cut off in a call": completion(None, [("calculate", '{"expr')], reason="length"),
    "a call as text": completion("<tool_call>{}</tool_call>"),
}


@pytest.mark.parametrize("name", ODD_TURNS)
def test_what_the_model_does_wrong_costs_it_a_turn(name: str) -> None:
    with ChatServer(in_turn(ODD_TURNS[name], completion("7"))) as server:
        episode = play(server)
    assert not server.problems, "what follows is a conversation that the server takes"
    assert episode.valid and episode.end_reason == "answer" and len(episode.turns) == 2
    assert all(result.error for _, result in episode.turns[0].info["calls"])


def test_a_call_without_a_name_and_one_with_a_strange_id() -> None:
    odd = completion(None, [("x", "{}"), ("y", "{}")])
    calls = odd["choices"][0]["message"]["tool_calls"]
    calls[0]["function"] = {"arguments": {"already": "an object"}}
    calls[1]["id"] = calls[0]["id"] = "same"
    with ChatServer(in_turn(odd, completion("7"))) as server:
        episode = play(server)
    assert not server.problems and episode.valid and len(episode.turns) == 2


# -- what a server does wrong ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "first",
    [
        error(429, "slow down", retry_after="0"),
        error(500, "oops"),
        error(503, "loading"),
        error(529, "overloaded"),
        Say(raw=b"<html>bad gateway</html>", status=502),
        Say(hang_up=True),
        Say(completion("no"), length=100_000),
        Say({"error": {"code": 502, "message": "upstream"}}),
        Say(completion("late"), after=5.0),
        Say(completion("dripping"), drip=0.1),
    ],
    ids=lambda said: f"{said.status}-{said.length}-{said.after}-{said.drip}-{said.hang_up}",
)
def test_what_may_pass_is_tried_again(first: Say) -> None:
    with (
        ChatServer(in_turn(first, completion("yes"))) as server,
        OpenAIPolicy("m", server.url, timeout=2.0) as policy,
    ):
        policy._answered = True  # a server that has answered before
        assert ask(policy).text == "yes"
        assert len(server.requests) == 2
        usage = policy.spent("k")
    assert (usage.requests, usage.retries, usage.prompt_tokens, usage.completion_tokens) == (
        1, 1, 10, 5,
    )  # fmt: skip


MALFORMED: dict[str, Say] = {
    "no JSON": Say(raw=b"<html>hello</html>"),
    "empty": Say(raw=b""),
    "a list": Say([]),
    "nested too deeply": Say(raw=b"[" * 100_000),
    "no choices": Say({"object": "chat.completion", "choices": []}),
    "no message": Say({"choices": [{"finish_reason": "stop"}]}),
    "content that is a number": Say({"choices": [{"message": {"content": 7}}]}),
    "calls that are text": Say({"choices": [{"message": {"content": "", "tool_calls": "x"}}]}),
    "a call without a function": Say({"choices": [{"message": {"tool_calls": [{"id": "x"}]}}]}),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_an_answer_that_is_none_ends_that_episode_alone(name: str) -> None:
    with ChatServer(in_turn(completion("1"), MALFORMED[name], completion("2"))) as server:
        with OpenAIPolicy("m", server.url) as policy:
            assert ask(policy).text == "1"
            failed = ask(policy)
            assert isinstance(failed, ModelError) and "no chat completion" in str(failed)
            assert ask(policy).text == "2"


def test_a_conversation_that_is_too_long_ends_as_at_a_token_limit() -> None:
    messages = (
        "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens",
        "the request exceeds the available context size, try increasing it",
        "prompt is too long: 210000 tokens > 200000 maximum",
        "Input is longer than the maximum number of tokens",
    )
    for message in messages:
        turns = in_turn(completion(None, [calculate("1+1")]), error(400, message))
        with ChatServer(turns) as server:
            episode = play(server)
        assert (episode.end_reason, episode.valid, episode.reward) == ("token_limit", True, 0.0)


@pytest.mark.parametrize(
    "filtered",
    [
        completion("Once upon", reason="content_filter"),
        error(400, "The response was filtered", "content_filter"),
        error(403, "Your input was flagged by moderation"),
    ],
)
def test_a_content_filter_ends_the_episode_which_does_not_count(filtered: Say | Body) -> None:
    with ChatServer(in_turn(completion(None, [calculate("1+1")]), filtered)) as server:
        episode = play(server)
    assert (episode.end_reason, episode.valid) == ("policy_error", False)
    assert "content filter" in str(episode.error)


@pytest.mark.parametrize(
    "refused",
    [
        error(401, f"Incorrect API key provided: {KEY}", "invalid_api_key"),
        error(404, "The model `m` does not exist", "model_not_found"),
        error(429, "You exceeded your current quota", "insufficient_quota"),
        Say(status=302, headers={"Location": "http://elsewhere.example/v1"}, raw=b""),
    ],
    ids=lambda said: str(said.status),
)
def test_what_every_request_meets_stops_the_run_at_once(
    refused: Say, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    with ChatServer(in_turn(refused)) as server, OpenAIPolicy("m", server.url, api_key=KEY) as p:
        p.submit("k", ASK)
        with pytest.raises(BackendUnavailable) as stopped:
            for _ in range(200):
                p.collect(0.05)
        assert len(server.requests) == 1
        assert KEY not in str(stopped.value) + repr(p) + caplog.text + json.dumps(p.describe())
        assert str(refused.status) in str(stopped.value)


def test_a_server_that_is_not_there() -> None:
    with ChatServer(in_turn(completion("x"))) as gone:
        pass
    with OpenAIPolicy("m", gone.url) as policy:
        policy.submit("k", ASK)
        with pytest.raises(BackendUnavailable, match="no answer from 127.0.0.1"):
            for _ in range(200):
                policy.collect(0.05)


def test_a_server_that_goes_away_ends_one_episode_and_then_the_run() -> None:
    with (
        ChatServer(in_turn(completion("1"), error(500, "oops"))) as server,
        OpenAIPolicy("m", server.url, retries=1) as policy,
    ):
        assert ask(policy).text == "1"
        failures = [ask(policy) for _ in range(19)]
        assert all(str(f) == "HTTP 500: oops" for f in failures)
        with pytest.raises(BackendUnavailable, match="HTTP 500"):
            ask(policy)


def test_a_wait_that_is_too_long_is_not_waited_for() -> None:
    turns = in_turn(completion("1"), error(429, "tomorrow", retry_after="86400"))
    with ChatServer(turns) as server, OpenAIPolicy("m", server.url) as policy:
        ask(policy)
        assert str(ask(policy)) == "HTTP 429: tomorrow" and len(server.requests) == 2


# -- many at a time -------------------------------------------------------------------------------


def test_requests_run_at_the_same_time_up_to_the_limit() -> None:
    meet = threading.Barrier(3)

    def answer(body: Body) -> Body:
        meet.wait(20)
        return completion(body["messages"][-1]["content"])

    with ChatServer(answer) as server, OpenAIPolicy("m", server.url, concurrency=3) as policy:
        for n in range(9):
            policy.submit(n, [{"role": "user", "content": str(n)}])
        got: dict[Any, str] = {}
        while len(got) < 9:
            got |= {key: action.text for key, action in wait(policy)}  # type: ignore[union-attr]
        assert got == {n: str(n) for n in range(9)}
        assert server.most_at_once == 3


def test_cancelled_requests_are_broken_off_and_never_answered() -> None:
    let_go = threading.Event()

    def answer(body: Body) -> Body:
        if body["messages"][-1]["content"] == "Slow.":
            let_go.wait(20)
        return completion(body["messages"][-1]["content"])

    slow = [{"role": "user", "content": "Slow."}]
    with ChatServer(answer) as server, OpenAIPolicy("m", server.url, concurrency=1) as policy:
        policy.submit("a", slow)
        while not server.at_once:
            time.sleep(0.005)
        policy.cancel("a")
        policy.submit("b", ASK)  # there is one thread: it must have been freed
        assert [(key, getattr(a, "text", None)) for key, a in wait(policy)] == [("b", "Go.")]
        let_go.set()


def test_a_connection_that_the_server_closed_meanwhile_is_no_failure() -> None:
    with (
        ChatServer(lambda body: Say(completion("x"), then_close=True)) as server,
        OpenAIPolicy("m", server.url, retries=0, concurrency=1) as policy,
    ):
        assert [ask(policy).text for _ in range(3)] == ["x", "x", "x"]
        assert (server.connections, policy.usage.retries) == (3, 0)


# -- arguments ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"base_url": "localhost:8000/v1"}, "http://host:port/v1"),
        ({"base_url": "http://me:secret@host/v1"}, "no user"),
        ({"base_url": "http://host/v1?key=secret"}, "no user"),
        ({"base_url": "http://host/v 1"}, "no spaces"),
        ({"api_key": "two\nlines-secret"}, "line break"),
        ({"api_key": " "}, "empty"),
        ({"body": {"messages": []}}, "not yours"),
        ({"concurrency": 0}, "concurrency"),
    ],
)
def test_arguments_that_are_none(change: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError) as refused:
        OpenAIPolicy("m", **{"base_url": "http://host/v1", **change})
    assert said in str(refused.value) and "secret" not in str(refused.value)
