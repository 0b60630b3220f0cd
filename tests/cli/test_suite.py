"""`agent-envs bench --suite`."""

import json
from pathlib import Path
from typing import Any

import gymnasium
import pytest

import agent_envs
from agent_envs.cli import suite
from tests.models.chat_server import ChatServer, completion, error

CALCULATOR = "agent/Calculator-v0"
SUITE = ("bench", "--suite", CALCULATOR)


def test_the_tasks_are_fixed() -> None:
    env: Any = gymnasium.make(CALCULATOR)
    tasks = suite.chosen(env.tasks.split(suite.SPLIT))
    assert len({task.id for task in tasks}) == 100
    assert suite.digest(tasks) == "e3723d8bff8fe664", "other tasks are another suite.VERSION"
    levels = [task.level for task in tasks]
    assert {levels.count(level) for level in set(levels)} == {20}, "spread over the levels"
    shuffled = list(reversed(env.tasks.split(suite.SPLIT)))
    assert suite.chosen(shuffled) == tasks and suite.chosen(tasks[:7]) != []


def test_levels_with_few_tasks_leave_their_share_to_the_others() -> None:
    env: Any = gymnasium.make(CALCULATOR)
    chosen = suite.chosen(env.tasks.split(suite.SPLIT), 400)
    levels = [task.level for task in chosen]
    assert len(chosen) == 400 and levels.count(0) == 30 and levels.count(1) in (92, 93)


@pytest.mark.parametrize(("policy", "rate"), [("oracle", 1.0), ("null", 0.0), ("random", 0.0)])
def test_a_policy_gets_a_row_for_each_condition(policy: str, rate: float, cli: Any) -> None:
    ran = cli(*SUITE, "--policy", policy, "--tasks", "10", "--samples", "2", "--json")
    told = ran.json
    assert ran.code == 0 and told["complete"] is True
    assert [row["name"] for row in told["rows"]] == ["Calculator-v0-clean", "Calculator-v0-noisy"]
    for row in told["rows"]:
        assert (row["episodes"], row["invalid"], row["success_rate"]) == (20, 0, rate)
        assert row["pass_at"]["2"]["rate"] == rate and row["tasks"]["count"] == 10
        assert row["provenance"]["env"]["arguments"]["max_turns"] == 16
        assert set(row["by_level"]) == {"0", "1", "2", "3", "4"}
    assert told["rows"][0]["faults"] == {} != told["rows"][1]["faults"] or policy == "null"
    assert told["mean_success"] == rate
    assert told["suite"]["full"] is False and told["suite"]["version"] == suite.VERSION
    assert told["machine"]["agent_envs"] == agent_envs.__version__


def test_the_whole_suite_is_told_from_a_part_of_it(cli: Any) -> None:
    told = cli(*SUITE, "--policy", "null", "--json").json
    assert told["suite"]["full"] is True
    assert [row["episodes"] for row in told["rows"]] == [400, 400]


def test_it_is_gone_on_with(cli: Any, tmp_path: Path) -> None:
    command = (*SUITE, "--tasks", "10", "--samples", "2", "--json", "--out", str(tmp_path))
    whole = cli(*command).json
    assert json.loads((tmp_path / "bench.json").read_text()) == whole
    assert cli(*command).code == 2, "the folder is in use"
    file = tmp_path / "Calculator-v0-noisy" / "trajectories.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join(lines[:7]))
    again = cli(*command, "--resume").json
    for one in (whole, again):
        for row in one["rows"]:
            row["seconds"] = 0
    assert again == whole


def test_a_model_plays_within_the_budget(cli: Any) -> None:
    with ChatServer(lambda body: completion("7")) as server:
        command = ("--policy", "openai:fake", "--base-url", server.url, "--tasks", "5")
        told = cli(
            *SUITE, *command, "--samples", "1", "--price-in", "1", "--price-out", "1", "--json"
        )
    assert told.json["rows"][0]["cost"] == pytest.approx(5 * 15 / 1e6)
    assert {request["max_tokens"] for request in server.requests} == {suite.MAX_TOKENS}
    assert all("tools" in request for request in server.requests)


def test_a_line_that_cannot_be_measured_is_told(cli: Any) -> None:
    with ChatServer(lambda body: error(401, "no such key")) as server:
        command = ("--policy", "openai:fake", "--base-url", server.url, "--tasks", "2", "--json")
        ran = cli(*SUITE, *command)
    assert ran.code == 1 and ran.json["complete"] is False and ran.json["mean_success"] is None
    assert all("no such key" in row["error"] for row in ran.json["rows"])


def test_for_people(cli: Any) -> None:
    out = cli(*SUITE, "--tasks", "5", "--samples", "2").out
    assert "in part: not to be compared" in out and "pass@2" in out
    assert "Calculator-v0-noisy" in out and "mean success 100.0%" in out


def test_the_workshops_alphabet_is_left_out_unless_asked_for() -> None:
    assert suite.LEFT_OUT <= set(agent_envs.ids())
