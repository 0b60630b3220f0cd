"""What holds for every command: exit codes, one line for bad input, JSON, pipes."""

import re
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest

import agent_envs
from agent_envs.cli import listing, main

CALCULATOR = "agent/Calculator-v0"
COMMANDS = ("list", "doctor", "play", "eval", "bench", "demo")

BAD = {
    "no command": ([], "required: COMMAND"),
    "unknown command": (["dance"], "choose from"),
    "abbreviated option": (["eval", CALCULATOR, "--epis", "3"], "unrecognized arguments"),
    "unknown id": (["eval", "agent/Nothing-v0"], CALCULATOR),
    "unknown version": (["play", "agent/Calculator-v9"], CALCULATOR),
    "not an id": (["bench", "no such thing"], "no such thing"),
    "an env of others": (["eval", "CartPole-v1"], "no ToolEnv"),
    "split": (["eval", CALCULATOR, "--split", "dev"], "heldout"),
    "level": (["eval", CALCULATOR, "--level", "99"], "levels"),
    "fault kind": (["eval", CALCULATOR, "--fault-rate", "odd=0.1"], "truncated"),
    "fault rate": (["eval", CALCULATOR, "--fault-rate", "much"], "wrong=0.2"),
    "fault rates": (["eval", CALCULATOR, "--fault-rate", "wrong=0.9,stale=0.9"], "over 1"),
    "protocol": (["play", CALCULATOR, "--protocol", "xml"], "hermes"),
    "turns": (["play", CALCULATOR, "--max-turns", "0"], "max_turns"),
    "task": (["play", CALCULATOR, "--task", "none/such"], "no task"),
    "episodes": (["eval", CALCULATOR, "--episodes", "0"], "from 1 up"),
    "episodes as a word": (["eval", CALCULATOR, "--episodes", "all"], "whole number"),
    "seed": (["eval", CALCULATOR, "--seed", "-1"], "from 0 up"),
    "group": (["eval", CALCULATOR, "--episodes", "5", "--group", "2"], "multiple"),
    "resume": (["eval", CALCULATOR, "--resume"], "--out"),
    "seconds": (["bench", "--seconds", "0"], "above 0"),
    "seconds without end": (["bench", "--seconds", "inf"], "above 0"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_usage_is_one_line_that_says_what_to_do(name: str, cli: Any) -> None:
    arguments, hint = BAD[name]
    ran = cli(*arguments)
    assert ran.code == 2
    assert ran.out == "" or name == "task"
    last = ran.err.splitlines()[-1]
    assert last.startswith("agent-envs: ") and hint in last
    assert "Traceback" not in ran.err


@pytest.mark.parametrize("name", BAD)
def test_under_json_an_error_is_the_one_object(name: str, cli: Any) -> None:
    ran = cli(*BAD[name][0], "--json")
    assert ran.code == 2
    assert list(ran.json) == ["error"]
    assert ran.err.splitlines()[-1] == f"agent-envs: {ran.json['error']}"


def test_a_missing_package_is_named(cli: Any) -> None:
    ran = cli("eval", "package_that_is_not_there:some/Env-v0")
    assert ran.code == 1
    assert "package_that_is_not_there" in ran.err and "doctor" in ran.err


@pytest.mark.parametrize("command", COMMANDS)
def test_help(command: str, cli: Any) -> None:
    ran = cli(command, "--help")
    assert ran.code == 0
    assert f"usage: agent-envs {command}" in ran.out and "--json" in ran.out


def test_help_lists_the_commands_and_version_is_the_packages(cli: Any) -> None:
    assert set(COMMANDS) <= set(re.findall(r"^    (\w+)  ", cli("--help").out, re.M))
    assert cli("--version").out == f"agent-envs {agent_envs.__version__}\n"


def test_warnings_are_one_line_on_standard_error(cli: Any, monkeypatch: Any) -> None:
    def run(arguments: object) -> int:
        warnings.warn("\033[33msomething\nis odd\033[0m", stacklevel=1)
        return 0

    monkeypatch.setattr(listing, "run", run)
    ran = cli("list")
    assert (ran.code, ran.out, ran.err) == (0, "", "agent-envs: warning: something is odd\n")


def test_what_the_system_refuses_is_one_line_too(cli: Any, tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    ran = cli("eval", CALCULATOR, "--episodes", "1", "--out", str(blocked / "below"))
    assert ran.code == 1
    assert len(ran.err.splitlines()) == 1 and str(blocked) in ran.err


def test_ctrl_c_before_anything_is_kept(cli: Any, monkeypatch: Any) -> None:
    def run(arguments: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(listing, "run", run)
    ran = cli("list", "--json")
    assert (ran.code, ran.json) == (130, {"error": "stopped"})


def test_main_takes_the_arguments_of_the_process(monkeypatch: Any, capsys: Any) -> None:
    monkeypatch.setattr("sys.argv", ["agent-envs", "list"])
    assert main() == 0
    assert CALCULATOR in capsys.readouterr().out


def test_as_a_module() -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "agent_envs.cli", "list"], capture_output=True, text=True
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    assert CALCULATOR in ran.stdout


def test_a_reader_that_goes_away_is_no_error() -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "agent_envs.cli", "list"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None and process.stderr is not None
    process.stdout.close()
    with process.stderr:
        assert process.stderr.read() == b""
    assert process.wait() == 141


def test_a_terminal_that_cannot_show_it_gets_escapes() -> None:
    code = (
        "import sys; from agent_envs.cli import main, listing\n"
        "listing.run = lambda arguments: print('caf\\u00e9') or 0\n"
        "sys.exit(main(['list']))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, env={"PYTHONIOENCODING": "ascii"}
    )
    assert (ran.returncode, ran.stdout) == (0, b"caf\\xe9\n")
