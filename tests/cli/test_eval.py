"""`agent-envs eval`."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import pytest

from agent_envs import BackendUnavailable, Task, ToolCall, ToolEnv, Verdict, tool
from agent_envs.cli.plan import Again, Done, Plan, Player
from agent_envs.task import TaskList
from agent_envs.trajectory import read_trajectories
from agent_envs.turns import Message, Move

CALCULATOR = "agent/Calculator-v0"
SUMS = ("eval", CALCULATOR, "--level", "0")
NOISY = (*SUMS, "--fault-rate", "wrong=0.2,timeout=0.2", "--policy", "oracle")


class Flaky(ToolEnv):
    """Its tool breaks down on every third task; answering is worth a half, shaping a quarter."""

    tasks = TaskList([Task(f"t{n}", "heldout", f"Task {n}.", n, level=n % 2) for n in range(6)])
    weights = {"answer": 0.5, "shape": 0.25}
    broken = True

    @tool
    def work(self) -> str:
        """Work."""
        if self.broken and self.task.data % 3 == 2:
            raise BackendUnavailable("the daemon is down: start it")
        self.pay("shape", 1.0)
        return "done"

    def grade(self, answer: str | None) -> Verdict:
        return Verdict({"answer": float(answer == "yes")}, self.weights, answer == "yes")

    @staticmethod
    def oracle(task: Task, messages: list[Message]) -> Move:
        if messages[-1]["role"] == "tool":
            return "yes" if task.data else "no"
        return [ToolCall("work", {})]


@pytest.fixture
def flaky() -> Iterator[str]:
    gymnasium.register("test/Flaky-v0", lambda **arguments: Flaky(**arguments))
    yield "test/Flaky-v0"
    del gymnasium.registry["test/Flaky-v0"]


def by_id(folder: Path) -> dict[str, Any]:
    """The episodes in a folder, as JSON."""
    episodes = list(read_trajectories(folder / "trajectories.jsonl"))
    told = {episode.episode_id: episode.to_dict() for episode in episodes}
    assert len(told) == len(episodes), "an episode stands twice"
    return told


def test_the_oracle_solves_every_task_once(cli: Any) -> None:
    ran = cli("eval", CALCULATOR, "--json")
    told = ran.json
    assert ran.code == 0 and ran.err == ""
    assert (told["episodes"], told["invalid"], told["complete"]) == (430, 0, True)
    assert told["success_rate"] == told["mean_reward"] == 1.0
    assert told["turns"] == told["calls"] + 1 > 2
    assert {n: part["episodes"] for n, part in told["by_level"].items()} == {
        "0": 30, "1": 100, "2": 100, "3": 100, "4": 100,
    }  # fmt: skip
    assert told["end_reasons"] == {"answer": 430}
    assert told["errors"] == told["faults"] == {}
    assert told["provenance"]["env"]["id"] == CALCULATOR
    assert told["arguments"]["split"] == "heldout" and told["arguments"]["seed"] == 0
    assert told["seconds"] > 0


@pytest.mark.parametrize("policy", ["null", "random"])
def test_who_does_not_solve_is_not_paid(policy: str, cli: Any) -> None:
    told = cli("eval", CALCULATOR, "--policy", policy, "--episodes", "60", "--json").json
    assert (told["episodes"], told["success_rate"], told["mean_reward"]) == (60, 0.0, 0.0)


def test_every_cheat_plays_all_episodes(cli: Any) -> None:
    told = cli(*SUMS, "--policy", "cheats", "--episodes", "5", "--json").json
    cheats: Any = gymnasium.make(CALCULATOR).unwrapped
    assert list(told["by_cheat"]) == list(cheats.cheats)
    assert all(part["episodes"] == 5 for part in told["by_cheat"].values())
    assert told["episodes"] == 5 * len(told["by_cheat"])
    assert told["success_rate"] == told["mean_reward"] == 0.0


def test_faults_are_counted_by_kind(cli: Any) -> None:
    told = cli(*NOISY, "--episodes", "200", "--json").json
    assert set(told["faults"]) == {"wrong", "timeout"}
    assert 50 < sum(told["faults"].values()) < 110
    assert told["errors"] == {}, "an injected time-out is no error of the policy"


def test_tasks_come_in_order_and_over_again(cli: Any, tmp_path: Path) -> None:
    cli(*SUMS, "--episodes", "64", "--group", "2", "--out", str(tmp_path))
    env: Any = gymnasium.make(CALCULATOR)
    tasks = env.tasks.split("heldout", 0)
    episodes = by_id(tmp_path)
    assert len(episodes) == 64
    for name, episode in episodes.items():
        task, member = (int(part) for part in name.split("."))
        assert episode["task"]["id"] == tasks[task % len(tasks)].id
        assert member in (0, 1) and episode["group_id"] == str(task)
    assert len({episode["seed"] for episode in episodes.values()}) == 64


def test_the_same_seed_gives_the_same_episodes_whatever_the_workers(
    cli: Any, tmp_path: Path
) -> None:
    for folder, seed, workers in (("a", "3", "1"), ("b", "3", "7"), ("c", "4", "7")):
        out = str(tmp_path / folder)
        cli(*NOISY, "--episodes", "100", "--seed", seed, "--workers", workers, "--out", out)
    assert by_id(tmp_path / "a") == by_id(tmp_path / "b") != by_id(tmp_path / "c")


def test_the_folder_has_what_json_prints(cli: Any, tmp_path: Path) -> None:
    told = cli(*NOISY, "--episodes", "10", "--out", str(tmp_path), "--json").json
    assert json.loads((tmp_path / "summary.json").read_text()) == told
    assert sorted(file.name for file in tmp_path.iterdir()) == [
        "summary.json",
        "trajectories.jsonl",
    ]


def test_a_folder_in_use_is_refused(cli: Any, tmp_path: Path) -> None:
    command = (*SUMS, "--episodes", "4", "--out", str(tmp_path))
    assert cli(*command).code == 0
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    ran = cli(*command)
    assert ran.code == 2 and "--resume" in ran.err
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before


@pytest.mark.parametrize("kept", [0, 1, 69, 128])
def test_resumed_is_as_if_it_had_never_stopped(kept: int, cli: Any, tmp_path: Path) -> None:
    command = (*NOISY, "--episodes", "150", "--json", "--out")
    whole = cli(*command, str(tmp_path / "whole")).json
    part = tmp_path / "part"
    cli(*command, str(part))
    lines = (part / "trajectories.jsonl").read_bytes().splitlines(keepends=True)
    broken = b"".join(lines[:kept]) + lines[kept][:50]
    (part / "trajectories.jsonl").write_bytes(broken)

    ran = cli(*command, str(part), "--resume")
    assert ran.code == 0 and "is broken off" in ran.err
    assert by_id(part) == by_id(tmp_path / "whole")
    assert ran.json | {"seconds": 0} == whole | {"seconds": 0}
    assert (part / "trajectories.jsonl").read_bytes().startswith(b"".join(lines[:kept]))


def test_cheats_are_resumed_too(cli: Any, tmp_path: Path) -> None:
    command = (*SUMS, "--policy", "cheats", "--episodes", "3", "--json", "--out", str(tmp_path))
    whole = cli(*command).json
    file = tmp_path / "trajectories.jsonl"
    file.write_bytes(b"".join(file.read_bytes().splitlines(keepends=True)[:10]))
    assert cli(*command, "--resume").json | {"seconds": 0} == whole | {"seconds": 0}


def test_nothing_left_to_resume(cli: Any, tmp_path: Path) -> None:
    command = (*SUMS, "--episodes", "4", "--out", str(tmp_path), "--json")
    whole = cli(*command).json
    again = cli(*command, "--resume").json
    assert again | {"seconds": 0} == whole | {"seconds": 0}
    assert again["seconds"] > whole["seconds"], "the seconds of all runs"


def test_resume_begins_where_there_is_nothing(cli: Any, tmp_path: Path) -> None:
    ran = cli(*SUMS, "--episodes", "4", "--out", str(tmp_path / "new"), "--resume", "--json")
    assert ran.json["episodes"] == 4


@pytest.mark.parametrize(
    "changed",
    [
        ["--seed", "1"],
        ["--episodes", "5"],
        ["--policy", "null"],
        ["--split", "train"],
        ["--fault-rate", "0.5"],
        ["--max-turns", "9"],
    ],
)
def test_resume_wants_the_same_arguments(changed: list[str], cli: Any, tmp_path: Path) -> None:
    out = ("--out", str(tmp_path))
    cli(*SUMS, "--episodes", "4", *out)
    ran = cli(*SUMS, "--episodes", "4", *out, *changed, "--resume")
    assert ran.code == 2
    assert changed[0].strip("-").replace("-", "_") in ran.err and "same arguments" in ran.err


def test_resume_wants_the_same_code(cli: Any, tmp_path: Path) -> None:
    command = (*SUMS, "--episodes", "4", "--out", str(tmp_path))
    cli(*command)
    told = json.loads((tmp_path / "summary.json").read_text())
    told["provenance"]["verifier"]["hash"] = "another"
    (tmp_path / "summary.json").write_text(json.dumps(told))
    ran = cli(*command, "--resume")
    assert ran.code == 2 and "another verifier" in ran.err


def test_resume_of_something_else(cli: Any, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    ran = cli(*SUMS, "--out", str(tmp_path), "--resume")
    assert ran.code == 2 and "no evaluation" in ran.err
    assert [file.name for file in tmp_path.iterdir()] == ["notes.txt"]


def test_what_broke_on_our_side_is_invalid_and_not_scored(cli: Any, flaky: str) -> None:
    told = cli("eval", flaky, "--json").json
    assert (told["episodes"], told["invalid"]) == (6, 2)
    assert told["invalid_because"] == {"the daemon is down: start it": 2}
    assert told["success_rate"] == 0.75  # of tasks 0, 1, 3 and 4 all but the first
    assert told["mean_reward"] == pytest.approx(0.75 * 0.5 + 0.25)
    assert told["end_reasons"] == {"answer": 4, "infrastructure": 2}
    level = told["by_level"]["0"]
    assert (level["episodes"], level["success_rate"], level["mean_reward"]) == (3, 0.5, 0.5)
    assert level["pass_at"]["1"]["tasks"] == 2


def test_where_nothing_is_valid_it_has_failed(
    cli: Any, flaky: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Flaky, "tasks", TaskList([Flaky.tasks["t2"]]))
    ran = cli("eval", flaky, "--json")
    assert ran.code == 1 and "the daemon is down" in ran.err
    assert ran.json["success_rate"] is ran.json["mean_reward"] is ran.json["turns"] is None


def test_invalid_episodes_are_played_again_where_asked(
    cli: Any, flaky: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ("eval", flaky, "--json", "--out", str(tmp_path))
    assert cli(*command).json["invalid"] == 2
    assert cli(*command, "--resume").json["invalid"] == 2, "they are kept unless asked"
    before = by_id(tmp_path)
    monkeypatch.setattr(Flaky, "broken", False)
    assert cli(*command, "--redo-invalid").code == 2
    again = cli(*command, "--resume", "--redo-invalid").json
    assert (again["episodes"], again["invalid"]) == (6, 0)
    after = by_id(tmp_path)
    assert {name for name in after if after[name] != before[name]} == {"2.0", "5.0"}


def test_an_env_without_cheats_says_so(cli: Any, flaky: str) -> None:
    ran = cli("eval", flaky, "--policy", "cheats")
    assert ran.code == 2 and "ships no cheats" in ran.err


def test_for_people(cli: Any, flaky: str) -> None:
    out = cli("eval", flaky).out
    assert "test/Flaky-v0, oracle on heldout: 6 episodes in" in out
    assert "all             6    75.0%  30.1% to 95.4%    0.625" in out
    assert "invalid   2 (33.3%): the daemon is down: start it 2" in out
    assert "every_number" in cli(*SUMS, "--policy", "cheats", "--episodes", "1").out


def test_several_splits_are_told_apart(cli: Any) -> None:
    ran = cli("eval", CALCULATOR, "--split", "heldout, adversarial", "--json")
    told = ran.json
    assert set(told["by_split"]) == {"heldout", "adversarial"}
    assert told["by_split"]["heldout"]["episodes"] == 430
    assert sum(part["episodes"] for part in told["by_split"].values()) == told["episodes"]
    assert told["arguments"]["split"] == "heldout,adversarial"
    out = cli("eval", CALCULATOR, "--split", "heldout,adversarial").out
    assert "heldout, level 0" in out and "adversarial, all" in out
    assert cli("eval", CALCULATOR, "--split", "heldout,none").code == 2


def test_several_samples_give_pass_at_k(cli: Any, tmp_path: Path) -> None:
    (tmp_path / "half.py").write_text(HALF)
    command = ("eval", CALCULATOR, "--level", "0", "--policy", "python:half:policy=7")
    sys.path.insert(0, str(tmp_path))
    try:
        told = cli(*command, "--group", "4", "--json").json
    finally:
        sys.path.remove(str(tmp_path))
        sys.modules.pop("half", None)
    assert told["success_rate"] == told["pass_at"]["1"]["rate"] == 0.5
    assert told["pass_at"]["2"]["rate"] == pytest.approx(1 - 1 / 6)  # two of four pass
    assert told["pass_at"]["4"]["rate"] == 1.0 and set(told["pass_at"]) == {"1", "2", "4"}
    low, high = told["interval"]
    assert low == pytest.approx(0.3315, abs=1e-4) and high == pytest.approx(0.6685, abs=1e-4)
    assert told["by_level"]["0"]["pass_at"]["2"]["tasks"] == 30
    assert told["played_by"] == {"name": "python:half:policy=7"}


HALF = """
from agent_envs.policy import Policy, oracle

class Half(Policy):
    # Right in the episodes of a group with an even number.
    def __init__(self, env):
        self.gold = oracle(type(env), env.tasks)
        self.submit, self.cancel = self.gold.submit, self.gold.cancel

    def submit(self, key, messages): ...

    def collect(self, timeout):
        return [(k, "no" if int(k[-1]) % 2 else a) for k, a in self.gold.collect(timeout)]

def policy(env, text):
    assert text == "7"
    return Half(env)
"""


@pytest.mark.parametrize(
    ("policy", "code", "said"),
    [
        ("python:no_such_module:f", 2, "no module"),
        ("python:json:nothing", 2, "no function"),
        ("python:json:dumps", 1, "made no policy"),
        ("python:json", 2, "python:MODULE:FUNCTION"),
        ("openai:", 2, "openai:MODEL"),
        ("gpt", 2, "one of oracle"),
    ],
)
def test_policies_that_are_none(policy: str, code: int, said: str, cli: Any) -> None:
    ran = cli(*SUMS, "--policy", policy)
    assert ran.code == code and said in ran.err


def plan_of(tasks: Any, group: int = 1) -> Plan:
    players = (Player("", None), Player("b", None))  # type: ignore[arg-type]
    return Plan("x", "x", {}, tasks, group, 0, players, ("heldout",), {})


def test_what_is_done_is_known_in_little_memory() -> None:
    plan = plan_of(Again(Flaky.tasks.split("heldout"), 10**10), 2)
    done = Done(plan)
    for n in [1, 0, 3, 2, *range(4, 2000)]:
        done.add(f"b:{n // 2}.{n % 2}")
    assert "b:999.1" in done and "b:1000.0" not in done and "0.0" not in done
    assert not done._beyond["b"] and done._before == {"": 0, "b": 2000}
    for wrong in ("b:999.1", "c:1.0", "1", "1.2", "01.0", "-1.0", "x.0", f"{10**10}.0", "9" * 9999):
        with pytest.raises(ValueError, match="no episode"):
            done.add(wrong)


def test_ten_billion_episodes_start_at_once(tmp_path: Path) -> None:
    limit = 1 << 30
    code = (
        "import resource, sys; from agent_envs.cli import main;"
        f"resource.setrlimit(resource.RLIMIT_AS, ({limit}, {limit}));"
        "sys.exit(main(sys.argv[1:]))"
    )
    file = tmp_path / "out" / "trajectories.jsonl"
    command = [sys.executable, "-c", code, *SUMS, "--episodes", str(10**10), "--json"]
    process = subprocess.Popen(
        [*command, "--out", str(file.parent)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    while not file.exists() or file.stat().st_size < 50_000:
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert json.loads(out)["success_rate"] == 1.0 and "of 10000000000 episodes" in err


def test_ctrl_c_keeps_what_was_done(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "agent_envs.cli", *NOISY, "--episodes", "1000000", "--json"]
    file = tmp_path / "out" / "trajectories.jsonl"
    process = subprocess.Popen(
        [*command, "--out", str(file.parent)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    while not file.exists() or file.stat().st_size < 100_000:
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    told = json.loads(out)
    assert told["complete"] is False and told["success_rate"] == 1.0
    assert 0 <= len(by_id(file.parent)) - told["episodes"] <= 1
    assert f"stopped after {told['episodes']} of 1000000 episodes" in err and "--resume" in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ('{"max_calls": 0, "protocol": "hermes"}', "--protocol"),
        ('{"max_cals": 0}', "max_cals"),
        ("[1]", "no JSON object"),
    ],
)
def test_other_arguments_of_make_that_are_none(given: str, said: str, cli: Any) -> None:
    ran = cli(*SUMS, "--make", given)
    assert ran.code == 2 and said in ran.err


def test_other_arguments_of_make_stay_with_the_results(cli: Any, tmp_path: Path) -> None:
    command = (*SUMS, "--policy", "oracle", "--episodes", "20", "--out", str(tmp_path))
    ran = cli(*command, "--make", '{"max_calls": 0}', "--json")
    assert ran.code == 0
    told = json.loads(ran.out)
    assert told["arguments"]["max_calls"] == 0
    played = list(read_trajectories(tmp_path / "trajectories.jsonl"))
    results = [result for t in played for turn in t.turns for _, result in turn.info["calls"]]
    assert results and all(result.error for result in results), "no env lets a call through"
    ran = cli(*command, "--make", '{"max_calls": 9}', "--resume")
    assert ran.code == 2 and "max_calls" in ran.err
