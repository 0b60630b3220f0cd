"""A folder that `agent-envs eval --resume` cannot go on with is refused, and left as it is."""

import json
from pathlib import Path
from typing import Any

import pytest

SUMS = ("eval", "agent/Calculator-v0", "--level", "0")


@pytest.fixture
def folder(cli: Any, tmp_path: Path) -> Path:
    """The folder of a finished evaluation, see `resumed`."""
    assert cli(*SUMS, "--episodes", "4", "--out", str(tmp_path)).code == 0
    return tmp_path


def resumed(cli: Any, folder: Path) -> Any:
    """The evaluation gone on with; nothing in the folder may change when it is refused."""
    before = {file.name: file.read_bytes() for file in folder.iterdir()}
    ran = cli(*SUMS, "--episodes", "4", "--out", str(folder), "--resume", "--json")
    if ran.code:
        assert before == {file.name: file.read_bytes() for file in folder.iterdir()}
        assert ran.err == f"agent-envs: {ran.json['error']}\n"
    return ran


def test_the_folder_itself_is_not_damaged(cli: Any, folder: Path) -> None:
    assert resumed(cli, folder).json["episodes"] == 4


SUMMARIES = {
    "empty": "",
    "deep": "[" * 100_000,
    "a list": "[]",
    "bytes": "\udcff",
    "arguments": '{"arguments": [], "provenance": {}, "seconds": 1}',
    "provenance": '{"arguments": {}, "provenance": 5, "seconds": 1}',
    "no seconds": '{"arguments": {}, "provenance": {}}',
    **{
        f"seconds {x[:9]}": f'{{"arguments": {{}}, "provenance": {{}}, "seconds": {x}}}'
        for x in ("NaN", "Infinity", "1e999", "-1", "null", '"1"', "[]", "9" * 400, "9" * 5000)
    },
}


@pytest.mark.parametrize("name", SUMMARIES)
def test_a_damaged_summary_is_refused(name: str, cli: Any, folder: Path) -> None:
    text = SUMMARIES[name].encode(errors="surrogateescape")
    (folder / "summary.json").write_bytes(text)
    ran = resumed(cli, folder)
    assert ran.code == 2 and "no evaluation to resume (summary.json: " in ran.err


def test_arguments_of_another_form_are_other_arguments(cli: Any, folder: Path) -> None:
    told = json.loads((folder / "summary.json").read_text())
    told["arguments"]["seed"] = [{"a": "b" * 1000}]
    (folder / "summary.json").write_text(json.dumps(told))
    ran = resumed(cli, folder)
    assert ran.code == 2 and "begun with seed" in ran.err and len(ran.err) < 400


ROWS: dict[str, dict[str, Any]] = {
    "id": {"episode_id": [1]},
    "id of a number": {"episode_id": 1},
    "error": {"error": 5},
    "error in a list": {"error": ["x"]},
    "end reason": {"end_reason": ["x"]},
    "task": {"task": "x"},
    "turns": {"turns": {}},
    "turn": {"turns": [5]},
    "verdict": {"verdict": [1]},
}
INFO: dict[str, Any] = {"messages": [], "verdict": None}


def turn(reward: Any = 0.0, call: Any = None, **result: Any) -> dict[str, Any]:
    """A turn of one call, as a line has it."""
    plain = {"content": "", "error": None, "fault": None, "truth": None}
    info = {**INFO, "calls": [[call, {**plain, **result}]]}
    action = {"text": "", "sample": None, "cut": False, "calls": None}
    return {"action": action, "observation": "", "reward": reward, "info": info}


ROWS |= {
    f"{name} {value!r:.9}": {"turns": [turn(**{name: value})]}
    for name, value in [
        *[("reward", x) for x in ("x", None, [1.0], float("nan"), float("inf"), 10**400, 1e308)],
        *[(name, x) for name in ("error", "fault") for x in (5, ["x"], "odd")],
        ("content", 5),
        ("call", 5),
    ]
}


@pytest.mark.parametrize("name", ROWS)
def test_a_line_that_is_no_trajectory_is_named(name: str, cli: Any, folder: Path) -> None:
    file = folder / "trajectories.jsonl"
    lines = file.read_text().splitlines()
    lines[2] = json.dumps(json.loads(lines[2]) | ROWS[name])
    file.write_text("\n".join(lines) + "\n")
    ran = resumed(cli, folder)
    assert ran.code == 1 and f"{file}:3: " in ran.err and "mend or remove" in ran.err


@pytest.mark.parametrize("line", ["{}", "5", "[" * 100_000, "x", "", "\udcff", "9" * 5000])
def test_a_damaged_line_is_named(line: str, cli: Any, folder: Path) -> None:
    file = folder / "trajectories.jsonl"
    file.write_bytes(f"{line}\n".encode(errors="surrogateescape") + file.read_bytes())
    ran = resumed(cli, folder)
    assert ran.code == 1 and f"{file}:1: " in ran.err and "mend or remove" in ran.err


@pytest.mark.parametrize("name", ["zzz", "4.0", "0.1", "x:0.0", "00.0", ""])
def test_an_episode_of_another_evaluation_is_refused(name: str, cli: Any, folder: Path) -> None:
    file = folder / "trajectories.jsonl"
    foreign = json.loads(file.read_text().splitlines()[0]) | {"episode_id": name}
    file.write_text(file.read_text() + json.dumps(foreign) + "\n")
    ran = resumed(cli, folder)
    assert ran.code == 1 and f"{file}:5: no episode {name!r} of " in ran.err


def test_an_episode_of_another_task_is_refused(cli: Any, folder: Path) -> None:
    file = folder / "trajectories.jsonl"
    lines = file.read_text().splitlines()
    first, second = map(json.loads, lines[:2])
    lines[1] = json.dumps(second | {"task": first["task"]})
    file.write_text("\n".join(lines) + "\n")
    ran = resumed(cli, folder)
    assert ran.code == 1 and f"{file}:2: no episode " in ran.err and first["task"]["id"] in ran.err
