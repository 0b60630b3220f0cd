"""What holds for every command: exit codes, one line for bad input, JSON, pipes."""

import os
import re
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import gymnasium
import pytest

import agent_envs
from agent_envs import registry
from agent_envs.cli import listing, main

ROOT = Path(agent_envs.__file__).parents[1]
CALCULATOR = "agent/Calculator-v0"
COMMANDS = ("list", "doctor", "play", "eval", "bench", "train", "demo")
DIGITS = "9" * 5000

BAD = {
    "no command": ([], "required: COMMAND"),
    "unknown command": (["dance"], "choose from"),
    "abbreviated option": (["eval", CALCULATOR, "--epis", "3"], "unrecognized arguments"),
    "unknown id": (["eval", "agent/Nothing-v0"], CALCULATOR),
    "unknown version": (["play", "agent/Calculator-v9"], CALCULATOR),
    "id with a slip": (["eval", "agent/Calcultor-v0"], f"(did you mean '{CALCULATOR}'?)"),
    "id without its namespace": (["play", "Calculator-v0"], f"(did you mean '{CALCULATOR}'?)"),
    "id in lower case": (["bench", "agent/sql-v0"], "(did you mean 'agent/SQL-v0'?)"),
    "option with a slip": (["eval", CALCULATOR, "--polciy=x"], "(did you mean '--policy'?)"),
    "option of no command": (["play", CALCULATOR, "--zzz"], "; agent-envs play --help"),
    "task with a slip": (
        ["play", CALCULATOR, "--task", "calculator/0/trian/007"],
        "(did you mean 'calculator/0/train/007'?)",
    ),
    "not an id": (["bench", "no such thing"], "no such thing"),
    "an env of others": (["eval", "CartPole-v1"], "no ToolEnv"),
    "split": (["eval", CALCULATOR, "--split", "dev"], "heldout"),
    "level": (["eval", CALCULATOR, "--level", "99"], "levels"),
    "fault kind": (["eval", CALCULATOR, "--fault-rate", "odd=0.1"], "truncated"),
    "fault rate": (["eval", CALCULATOR, "--fault-rate", "much"], "wrong=0.2"),
    "fault rates": (["eval", CALCULATOR, "--fault-rate", "wrong=0.9,stale=0.9"], "over 1"),
    "fault twice": (["eval", CALCULATOR, "--fault-rate", "wrong=.1,wrong=.2"], "stands twice"),
    "protocol": (["play", CALCULATOR, "--protocol", "xml"], "hermes"),
    "turns": (["play", CALCULATOR, "--max-turns", "0"], "max_turns"),
    "task": (["play", CALCULATOR, "--task", "none/such"], "no task"),
    "episodes": (["eval", CALCULATOR, "--episodes", "0"], "from 1 up"),
    "episodes as a word": (["eval", CALCULATOR, "--episodes", "all"], "whole number"),
    "seed": (["eval", CALCULATOR, "--seed", "-1"], "from 0 up"),
    "seed without end": (["eval", CALCULATOR, "--seed", DIGITS], "30 digits"),
    "seed of signs": (["eval", CALCULATOR, "--seed=+-1"], "whole number"),
    "group": (["eval", CALCULATOR, "--episodes", "5", "--group", "2"], "multiple"),
    "resume": (["eval", CALCULATOR, "--resume"], "--out"),
    "seconds": (["bench", "--seconds", "0"], "above 0"),
    "unknown id to measure": (["bench", CALCULATOR, "agent/Nope-v0"], "agent/Nope-v0"),
    "unknown id to list": (["list", "agent/Nope-v0"], CALCULATOR),
    "unknown module": (["eval", "module_that_is_not_there:some/Env-v0"], "no module"),
    "unknown part of a module": (["eval", "json.nothing:some/Env-v0"], "no module 'json.nothing'"),
    "module without the id": (["eval", "json:some/Env-v0"], CALCULATOR),
    "module without an id": (["list", "json:"], "registers no environment"),
    "seconds without end": (["bench", "--seconds", "inf"], "above 0"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_usage_is_one_line_that_says_what_to_do(name: str, cli: Any) -> None:
    arguments, hint = BAD[name]
    ran = cli(*arguments)
    assert (ran.code, ran.out) == (2, "")
    [line] = ran.err.splitlines()
    assert line.startswith("agent-envs: ") and hint in line


@pytest.mark.parametrize("name", BAD)
def test_under_json_an_error_is_the_one_object(name: str, cli: Any) -> None:
    ran = cli(*BAD[name][0], "--json")
    assert ran.code == 2
    assert list(ran.json) == ["error"]
    assert ran.err == f"agent-envs: {ran.json['error']}\n"


def test_an_env_of_a_module_in_the_current_folder(cli: Any, own_folder: Path) -> None:
    ran = cli("eval", "bank_of_a_test:mine/Bank-v0", "--split", "train", "--json")
    assert (ran.code, ran.err, ran.json["success_rate"]) == (0, "", 1.0)
    ran = cli("eval", "bank_of_a_test:mine/Nope-v0")
    assert ran.code == 2 and "no environment" in ran.err and "mine/Bank-v0" in ran.err


def test_the_installed_command_sees_the_current_folder_too(own_folder: Path) -> None:
    code = "import sys; sys.path.remove(''); from agent_envs.cli import main; sys.exit(main())"
    ran = subprocess.run(
        [sys.executable, "-c", code, "list", "bank_of_a_test:mine/Bank-v0"],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert (ran.returncode, ran.stderr) == (0, "") and "mine/Bank-v0" in ran.stdout


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("import package_that_nobody_has", "No module named 'package_that_nobody_has'"),
        ("x = (", "SyntaxError"),
        ("raise SystemExit(7)", "SystemExit: 7"),
        ("1 / 0", "division by zero"),
    ],
)
def test_a_module_that_breaks_says_why(source: str, why: str, cli: Any, own_folder: Path) -> None:
    (own_folder / "broken_of_a_test.py").write_text(source)
    ran = cli("eval", "broken_of_a_test:some/Env-v0", "--json")
    assert ran.code == 1 and "doctor" not in ran.err
    assert "the module 'broken_of_a_test' cannot be imported" in ran.json["error"]
    assert why in ran.json["error"]


def test_a_missing_package_is_named(cli: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_ids", [*registry._ids])
    registry.register("test/Lacking-v0", "package_that_nobody_has.env:Lacking")
    try:
        ran = cli("eval", "test/Lacking-v0")
    finally:
        del gymnasium.registry["test/Lacking-v0"]
    assert ran.code == 1
    assert "package_that_nobody_has" in ran.err and "doctor" in ran.err


def test_a_bug_is_shown_whole_and_under_json_is_an_object(cli: Any, monkeypatch: Any) -> None:
    def run(arguments: object) -> int:
        raise AssertionError("never so")

    monkeypatch.setattr(listing, "run", run)
    ran = cli("list", "--json")
    assert (ran.code, ran.json) == (1, {"error": "a bug: AssertionError: never so"})
    assert "Traceback" in ran.err


@pytest.mark.parametrize("command", COMMANDS)
def test_help(command: str, cli: Any) -> None:
    ran = cli(command, "--help")
    assert ran.code == 0
    assert f"usage: agent-envs {command}" in ran.out and "--json" in ran.out


@pytest.mark.parametrize(
    ("command", "defaults"),
    [
        ("eval", ("oracle", "heldout", "all", "0.0", "the environment's", "1", "0", "16")),
        ("play", ("train", "by chance", "0.0")),
        ("bench", ("all", "2.0")),
        ("list", ("all",)),
        ("train", ("runs/PRESET-SEED",)),
    ],
)
def test_help_tells_the_defaults(command: str, defaults: tuple[str, ...], cli: Any) -> None:
    out = " ".join(cli(command, "--help").out.split())
    told = re.findall(r"\(default: (.*?)\)", out)
    assert set(defaults) <= set(told) | {value.partition(",")[0] for value in told}
    assert not {"None", "False", "==SUPPRESS=="} & set(told)


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


@pytest.mark.parametrize("module", ["agent_envs", "agent_envs.cli"])
def test_as_a_module(module: str) -> None:
    ran = subprocess.run([sys.executable, "-m", module, "list"], capture_output=True, text=True)
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


@pytest.mark.parametrize("command", ["list", "list --json", "--help", "play agent/Calculator-v0"])
def test_streams_that_are_closed_are_no_error(command: str) -> None:
    line = f'exec "$0" -m agent_envs.cli {command} <&- >&-'
    ran = subprocess.run(["sh", "-c", line, sys.executable], stderr=subprocess.PIPE, text=True)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert subprocess.call(["sh", "-c", f"{line} 2>&-", sys.executable]) == 0


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full disk to write to")
def test_a_full_disk_is_one_line() -> None:
    with open("/dev/full", "w") as full:
        ran = subprocess.run(
            [sys.executable, "-m", "agent_envs.cli", "list"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert ran.returncode == 1
    assert len(ran.stderr.splitlines()) == 1 and "No space left" in ran.stderr


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
