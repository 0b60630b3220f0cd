"""`agent-envs eval --policy openai:MODEL`, against a strict server."""

import json
import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent_envs.models import openai as openai_module
from agent_envs.trajectory import read_trajectories
from tests.models.chat_server import Body, ChatServer, Say, completion, error

CALCULATOR = "agent/Calculator-v0"
SUMS = ("eval", CALCULATOR, "--level", "0", "--policy", "openai:fake")
KEY = "sk-a-key-that-nobody-may-see"


@pytest.fixture(autouse=True)
def quick_and_direct(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openai_module, "pause", lambda attempt, after, rng: 0.001)
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


def solver(wrong: Callable[[str], bool] = lambda prompt: False) -> Callable[[Body], Say | Body]:
    """A model that adds with the tool, and then says what the tool said, or nonsense."""

    def answer(body: Body) -> Body:
        messages = body["messages"]
        prompt = next(m["content"] for m in messages if m["role"] == "user")
        if messages[-1]["role"] == "tool":
            return completion("nonsense" if wrong(prompt) else messages[-1]["content"])
        numbers = re.findall("[0-9]+", prompt)
        call = json.dumps({"expression": "+".join(numbers)})
        return completion(None, [("calculate", call)], usage=(100, 20))

    return answer


def test_a_model_is_scored_and_its_cost_counted(cli: Any, tmp_path: Path) -> None:
    with ChatServer(solver()) as server:
        url = ("--base-url", server.url)
        ran = cli(*SUMS, *url, "--price-in", "1", "--price-out", "10", "--json")
        text = cli(*SUMS, *url, "--out", str(tmp_path)).out
    told = ran.json
    assert ran.code == 0 and not server.problems
    assert (told["episodes"], told["success_rate"], told["turns"]) == (30, 1.0, 2.0)
    assert told["usage"] == {
        "requests": 60, "retries": 0, "prompt_tokens": 3300, "cached_tokens": 0,
        "completion_tokens": 750, "untold": 0,
    }  # fmt: skip
    assert told["cost"] == pytest.approx((3300 * 1 + 750 * 10) / 1e6)
    assert told["played_by"]["served"] == {"model": "fake-1"}
    assert "60 requests and 0 retries; 3,300 tokens read, 750 written" in text
    episode = next(iter(read_trajectories(tmp_path / "trajectories.jsonl")))
    assert episode.provenance["policy"]["name"] == "openai:fake"
    assert episode.provenance["policy"]["usage"]["requests"] == 2


def test_no_cost_without_counts(cli: Any) -> None:
    with ChatServer(lambda body: completion("7", usage=None)) as server:
        prices = ("--price-in", "1", "--price-out", "10", "--json")
        told = cli(*SUMS, "--base-url", server.url, "--episodes", "2", *prices).json
    assert told["cost"] is None and told["usage"]["untold"] == 2


def test_failures_are_counted_and_kept_out_of_the_scores(cli: Any) -> None:
    sound, lock, seen = solver(), threading.Lock(), set[str]()

    def answer(body: Body) -> Say | Body:
        prompt = body["messages"][0]["content"]
        with lock:
            number = 0 if prompt in seen else len(seen) + 1
            seen.add(prompt)
        if number and number % 5 == 0:
            return Say(raw=b"garbage")
        if number and number % 5 == 1:
            return completion("", reason="content_filter")
        return error(429, "later", retry_after="0") if number else sound(body)

    with ChatServer(answer) as server:
        told = cli(*SUMS, "--base-url", server.url, "--json").json
    assert (told["episodes"], told["invalid"], told["success_rate"]) == (30, 12, 1.0)
    assert told["usage"]["retries"] == 18 and told["end_reasons"]["policy_error"] == 12
    reasons = told["invalid_because"]
    assert sum(reasons.values()) == 12 and len(reasons) == 2
    assert any("content filter" in reason for reason in reasons)


def test_stopped_by_the_server_it_goes_on_where_it_was(cli: Any, tmp_path: Path) -> None:
    hard = solver(wrong=lambda prompt: "7" in prompt)
    asked, lock = [0], threading.Lock()

    def breaks_down(body: Body) -> Say | Body:
        with lock:
            asked[0] += 1
        return hard(body) if asked[0] <= 41 else error(401, "expired")

    command = (*SUMS, "--group", "2", "--workers", "3", "--json", "--out")
    with ChatServer(hard) as server:
        whole = cli(*command, str(tmp_path / "whole"), "--base-url", server.url).json
    with ChatServer(breaks_down) as server:
        ran = cli(*command, str(tmp_path / "part"), "--base-url", server.url)
        assert ran.code == 1 and "expired" in ran.err and "--resume goes on" in ran.err
        assert ran.json["complete"] is False and ran.json["invalid"] == 0
        kept = ran.json["episodes"]
    with ChatServer(hard) as server:  # at another address
        out = ("--base-url", server.url, "--resume")
        told = cli(*command, str(tmp_path / "part"), *out).json
        again = len(server.requests)
    assert 10 <= kept <= 20 and again == 2 * (60 - kept), "only what was missing is asked again"
    same = {"seconds": 0, "played_by": 0, "usage": 0}
    assert told | same == whole | same and 0 < told["success_rate"] < 1
    assert told["usage"]["requests"] == 120


def test_resume_wants_the_same_model_asked_the_same_way(cli: Any, tmp_path: Path) -> None:
    with ChatServer(solver()) as server:
        command = ("--episodes", "2", "--base-url", server.url, "--out", str(tmp_path))
        assert cli(*SUMS, *command).code == 0
        for changed in (("--temperature", "0.5"), ("--tools", "text"), ("--body", '{"top_k": 1}')):
            ran = cli(*SUMS, *command, *changed, "--resume")
            assert ran.code == 2 and "same arguments" in ran.err


def test_the_key_is_sent_and_told_to_nobody(
    cli: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", KEY)
    answers: list[Say | Body] = [
        error(400, f"bad parameter; your key is {KEY}"),
        completion(f"{len(KEY)}"),
    ]
    with ChatServer(lambda body: answers.pop(0) if len(answers) > 1 else answers[0]) as server:
        command = (*SUMS, "--base-url", server.url, "--episodes", "3", "--workers", "1")
        ran = cli(*command, "--api-key-env", "MY_KEY", "--out", str(tmp_path), "--json")
    assert {headers["Authorization"] for headers in server.headers} == {f"Bearer {KEY}"}
    assert ran.json["invalid_because"] == {
        "ModelError('HTTP 400: bad parameter; your key is [key]')": 1
    }
    files = "".join(file.read_text() for file in tmp_path.iterdir())
    assert KEY not in ran.out + ran.err + files


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((), "--base-url"),
        (("--base-url", "nonsense"), "http://host:port/v1"),
        (("--base-url", "http://u:secret@h/v1"), "no user"),
        (("--base-url", "http://127.0.0.1:9/v1", "--api-key-env", "secret"), "the name of an env"),
        (("--base-url", "http://127.0.0.1:9/v1", "--body", "[secret]"), "--body"),
        (("--base-url", "http://127.0.0.1:9/v1", "--body", '{"model": 1}'), "not yours"),
        (("--base-url", "http://127.0.0.1:9/v1", "--protocol", "chars"), "--tools text"),
        (("--base-url", "http://127.0.0.1:9/v1", "--price-in", "nan"), "from 0 up"),
        (("--base-url", "http://127.0.0.1:9/v1", "--request-timeout", "0"), "timeout over 0"),
    ],
)
def test_options_that_do_not_fit(options: tuple[str, ...], said: str, cli: Any) -> None:
    ran = cli(*SUMS, *options)
    assert ran.code == 2 and said in ran.err and ran.err.count("\n") == 1
    assert "secret" not in ran.err or "--body" in options


def test_a_server_is_for_models(cli: Any) -> None:
    ran = cli("eval", CALCULATOR, "--policy", "null", "--base-url", "http://127.0.0.1:9/v1")
    assert ran.code == 2 and "openai:MODEL" in ran.err


def test_parquet_has_a_row_an_episode(cli: Any, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    with ChatServer(solver(wrong=lambda prompt: "7" in prompt)) as server:
        command = ("--base-url", server.url, "--group", "2", "--parquet", "--out", str(tmp_path))
        told = cli(*SUMS, *command, "--json").json
    rows = parquet.read_table(tmp_path / "episodes.parquet").to_pylist()
    episodes = {e.episode_id: e for e in read_trajectories(tmp_path / "trajectories.jsonl")}
    assert len(rows) == 60 and {row["episode_id"] for row in rows} == set(episodes)
    assert sum(row["passed"] for row in rows) / 60 == told["success_rate"]
    for row in rows:
        episode = episodes[row["episode_id"]]
        assert json.loads(row["messages"]) == episode.messages()
        assert (row["reward"], row["seed"], row["tags"]) == (
            episode.reward, episode.seed, list(episode.task.tags),
        )  # fmt: skip
        assert row["prompt_tokens"] == 110 and dict(row["components"])["answer"] == row["reward"]


def test_parquet_without_pyarrow_says_what_to_do(
    cli: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    monkeypatch.setitem(__import__("sys").modules, "pyarrow.parquet", None)
    ran = cli("eval", CALCULATOR, "--parquet", "--out", str(tmp_path / "x"))
    assert ran.code == 1 and "pip install pyarrow" in ran.err and not (tmp_path / "x").exists()
    assert cli("eval", CALCULATOR, "--parquet").code == 2
