"""`agent-envs bench`."""

from collections.abc import Iterator
from typing import Any

import gymnasium
import pytest

import agent_envs
from agent_envs import (
    BackendUnavailable,
    Malformed,
    SnapshotUnsupported,
    Task,
    ToolCall,
    ToolEnv,
    Verdict,
    tool,
)
from agent_envs.cli import bench
from agent_envs.cli.bench import FIGURES, record
from agent_envs.cli.common import as_text
from agent_envs.task import TaskList
from agent_envs.turns import Message, Move


class Stubborn(ToolEnv):
    """An env that refuses to be captured."""

    tasks = TaskList([Task("only", "train", "Say yes.")])

    @tool
    def look(self, where: list[str]) -> str:
        """Look around."""
        return "nothing"

    def save(self) -> Any:
        raise SnapshotUnsupported("an open socket")

    def grade(self, answer: str | None) -> Verdict:
        return Verdict({"answer": float(answer == "yes")}, self.weights, answer == "yes")

    @staticmethod
    def oracle(task: Task, messages: list[Message]) -> Move:
        looked = messages[-1]["role"] == "tool"
        return "yes" if looked else [ToolCall("look", {"where": ["up", "down"]})]


class Silent(Stubborn):
    """An env without a gold solution."""

    oracle = staticmethod(ToolEnv.oracle)


@pytest.fixture
def registered() -> Iterator[None]:
    gymnasium.register("test/Stubborn-v0", lambda **arguments: Stubborn(**arguments))
    gymnasium.register("test/Silent-v0", lambda **arguments: Silent(**arguments))
    yield
    del gymnasium.registry["test/Stubborn-v0"], gymnasium.registry["test/Silent-v0"]


def test_every_id_has_its_four_figures(cli: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "ROUNDS", 1)
    ran = cli("bench", "--seconds", "0.1", "--json")
    assert ran.code == 0
    assert [row["id"] for row in ran.json["rows"]] == agent_envs.ids()
    for row in ran.json["rows"]:
        assert all(row[name] > 0 for name in FIGURES), row
        assert row["error"] is None
    assert ran.json["machine"]["cpus"] >= 1


def test_for_people(cli: Any) -> None:
    ran = cli("bench", "agent/CalculatorChars-v0", "--seconds", "0.05")
    head, row = ran.out.splitlines()
    assert head.split() == ["steps/s", "resets/s", "snapshots/s", "rollbacks/s"]
    assert row.split()[0] == "agent/CalculatorChars-v0" and len(row.split()) == 5


def test_what_cannot_be_measured_is_said(cli: Any, registered: None) -> None:
    ran = cli("bench", "test/Stubborn-v0", "test/Silent-v0", "--seconds", "0.05", "--json")
    stubborn, silent = ran.json["rows"]
    assert ran.code == 1
    assert stubborn["steps_per_s"] > 0 and stubborn["resets_per_s"] > 0
    assert stubborn["snapshots_per_s"] is stubborn["rollbacks_per_s"] is None
    assert silent["steps_per_s"] is None and "no oracle" in silent["error"]
    assert "no oracle" in cli("bench", "test/Silent-v0", "--seconds", "0.05").out


def test_what_cannot_be_made_does_not_stop_the_others(cli: Any, registered: None) -> None:
    def down(**arguments: Any) -> ToolEnv:
        raise BackendUnavailable("the daemon is down: start it")

    gymnasium.register("test/Down-v0", down)
    try:
        ran = cli("bench", "test/Down-v0", "test/Stubborn-v0", "--seconds", "0.05", "--json")
    finally:
        del gymnasium.registry["test/Down-v0"]
    down_row, row = ran.json["rows"]
    assert ran.code == 1 and down_row["error"] == "the daemon is down: start it"
    assert row["error"] is None and row["steps_per_s"] > 0


@pytest.mark.parametrize("env_id", ["agent/Calculator-v0", "agent/CalculatorChars-v0"])
def test_turns_are_played_as_text_and_pass(env_id: str) -> None:
    env: Any = gymnasium.make(env_id)
    for task in env.tasks.split("heldout")[::40]:
        script = record(env, task, seed=1)
        assert all(play == env.step and isinstance(turn, str) for play, turn in script.turns)
        assert env.render().endswith("[passed, reward 1]")


MOVES: list[Move] = [
    [ToolCall("calculate", {"expression": 'a "quoted" </tool_call> \\ é'})],
    [ToolCall("calculate", {"expression": "1"}), ToolCall("calculate", {"expression": "2"})],
    "68",
]


@pytest.mark.parametrize("move", MOVES)
def test_a_move_is_written_so_that_the_protocol_reads_it_back(move: Move) -> None:
    env: Any = gymnasium.make("agent/Calculator-v0")
    text = as_text(env, move)
    assert text is not None and env.protocol.parse(text) == move


def test_what_a_protocol_cannot_write_is_none() -> None:
    env: Any = gymnasium.make("agent/CalculatorChars-v0")
    assert as_text(env, "68") == "68|"
    assert as_text(env, [ToolCall("calculate", {"expression": "1+1"})]) == "B1+1|"
    assert as_text(env, MOVES[1]) is None
    assert as_text(env, Malformed("cut")) is None
