"""`agent-envs play`, from a pipe."""

from pathlib import Path
from typing import Any

import pytest

SUM = ("play", "agent/Calculator-v0", "--task", "calculator/0/heldout/000")  # 76 + 23
CHARS = ("play", "agent/CalculatorChars-v0", "--task", "chars/0/heldout/000")


def lines(*typed: str) -> str:
    """Standard input that has these lines."""
    return "\n".join(typed) + "\n"


@pytest.mark.parametrize(
    "call",
    [
        "calculate 76+23",
        "calculate(76+23)",
        'calculate(expression="76+23")',
        'calculate {"expression": "76+23"}',
        '<tool_call>{"name": "calculate", "arguments": {"expression": "76+23"}}</tool_call>',
    ],
)
def test_every_way_to_call_and_the_answer(call: str, cli: Any) -> None:
    ran = cli(*SUM, stdin=lines(call, "99"))
    assert ran.code == 0 and ran.err == ""
    assert "Work out 76 + 23." in ran.out
    assert "<tool_response>\n99\n</tool_response>" in ran.out
    assert "[passed, reward 1; ended by: answer]" in ran.out


def test_the_chars_protocol(cli: Any) -> None:
    ran = cli(*CHARS, stdin=lines("calculate 1+1", "B1+1|", ":say 99", ":say 2|"))
    assert ran.out.count("\n2|\n") == 2
    assert "\n?|\n" in ran.out
    assert "[not passed, reward 0; ended by: answer]" in ran.out


@pytest.mark.parametrize("answer", ["99", " 99 ", "99|", ":say 99|"])
def test_the_answer_in_the_chars_protocol(answer: str, cli: Any) -> None:
    ran = cli(*CHARS, stdin=lines(answer))
    assert "[passed, reward 1; ended by: answer]" in ran.out


def test_a_call_without_its_end_is_no_answer(cli: Any) -> None:
    ran = cli(*CHARS, "--json", stdin=lines("B76+23", "99"))
    assert ran.json["episodes"][0]["passed"] and ran.json["episodes"][0]["turns"] == 2


BANK = ("play", "bank_of_a_test:mine/Bank-v0")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("move a.txt work", "a.txt is in work, 1 times"),
        ("move  a.txt  work  3", "a.txt is in work, 3 times"),
        ('move "my file" \'the "folder"\'', 'my file is in the "folder", 1 times'),
        ("move(a.txt, work)", "a.txt is in work, 1 times"),
        ("move({1, 2}, 1e999)", "{1, 2} is in 1e999, 1 times"),
        ("look", "nothing"),
    ],
)
def test_several_arguments_in_order(line: str, said: str, cli: Any, own_folder: Path) -> None:
    ran = cli(*BANK, stdin=lines(line))
    assert f"<tool_response>\n{said}\n</tool_response>" in ran.out


@pytest.mark.parametrize(
    "line",
    [
        "move",
        "move a.txt",
        "move a.txt work often",
        "move a.txt work 2 more",
        "move a.txt it's",
        'move a.txt print("my file")',
        "move a\\ file work",
    ],
)
def test_a_call_that_cannot_be_read_costs_no_turn(line: str, cli: Any, own_folder: Path) -> None:
    ran = cli(*BANK, "--json", stdin=lines(line, "look at it", "yes"))
    assert f"cannot read {line}; write move(name=..., folder=..., times=...)" in ran.err
    assert "cannot read look at it; write look()" in ran.err
    assert ran.json["episodes"][0]["turns"] == 1


def test_what_is_no_json_value_is_text(cli: Any, own_folder: Path) -> None:
    huge = "0x" + "f" * 5000
    ran = cli(*BANK, stdin=lines(f"move(a, b, {huge})", "move(a, b, 1e999)", ":history", "yes"))
    assert ran.code == 0 and "[passed" in ran.out
    assert ran.out.count("argument `times` must be an integer") == 4


def test_json_is_one_object_and_the_game_is_on_standard_error(cli: Any) -> None:
    ran = cli(
        *SUM, "--json", stdin=lines("98", ":reset", "calculate 1", "99", ":reset", "calculate 1")
    )
    wrong, right = ran.json["episodes"]
    assert ran.json["id"] == "agent/Calculator-v0"
    assert (wrong["passed"], wrong["reward"], wrong["turns"]) == (False, 0.0, 1)
    assert (right["passed"], right["reward"], right["turns"]) == (True, 1.0, 2)
    assert right["task_id"] == "calculator/0/heldout/000" and right["end_reason"] == "answer"
    assert "Work out 76 + 23." in ran.err


def test_a_bad_line_costs_no_turn(cli: Any) -> None:
    typed = ["", "calculate(", ":nothing", ":rollback 1", ":rollback x", ":reset x y"]
    digits = "9" * 5000
    typed += ["calculate", f":reset {digits}", f":rollback {digits}", f":rollback 1 {digits}", "99"]
    ran = cli(*SUM, "--json", stdin=lines(*typed))
    assert ran.json["episodes"][0]["turns"] == 1
    assert "write calculate(expression=...)" in ran.err
    assert "no command ':nothing'; :help lists them" in ran.err
    assert "no snapshot 1, there are 0" in ran.err
    assert "'x' is not a whole number" in ran.err
    assert "no command ':reset x y'" in ran.err
    assert "cannot read calculate; write calculate(expression=...)" in ran.err
    assert ran.err.count("999'... is not a whole number from 0 up (of at most 30 digits)") == 3


def test_rollback_brings_state_noise_and_reward_back(cli: Any) -> None:
    noisy = (*SUM, "--seed", "4", "--fault-rate", "1")
    typed = [
        ":snapshot",
        "calculate 76+23",
        ":rollback 1",
        "calculate 76+23",
        "99",
        ":rollback 1",
        "1",
    ]
    ran = cli(*noisy, "--json", stdin=lines(*typed))
    results = [line for line in ran.err.splitlines() if line.isdecimal()]
    assert len(results) == 2 and results[0] == results[1] != "99"
    passed, failed = ran.json["episodes"]
    assert (passed["turns"], passed["passed"]) == (2, True)
    assert (failed["turns"], failed["passed"], failed["reward"]) == (1, False, 0.0)


def test_rollback_with_a_seed_changes_the_noise(cli: Any) -> None:
    noisy = (*SUM, "--seed", "4", "--fault-rate", "1")
    typed = [":snapshot"]
    for seed in range(12):
        typed += [f":rollback 1 {seed}", "calculate 76+23"]
    ran = cli(*noisy, stdin=lines(*typed))
    results = {line for line in ran.out.splitlines() if line.isdecimal()}
    assert len(results) > 1 and "99" not in results


def test_faults_are_told_at_the_end_only(cli: Any) -> None:
    ran = cli(*SUM, "--fault-rate", "1", stdin=lines("calculate 76+23", "99"))
    before, _, after = ran.out.partition("[passed")
    assert "injected" not in before
    told = "[injected: wrong result of calculate(expression='76+23'); the truth was 99]"
    assert told in after


def test_commands_that_show(cli: Any) -> None:
    ran = cli(*SUM, stdin=lines(":help", ":tools", "calculate 1+1", ":history"))
    assert ":rollback N [SEED]" in ran.out
    assert "calculate(expression: string)\n      Work out an arithmetic" in ran.out
    assert "> calculate(expression='1+1')\n<tool_response>\n2\n</tool_response>" in ran.out


def test_after_the_end_only_commands(cli: Any) -> None:
    ran = cli(*SUM, "--json", stdin=lines("99", "99", ":reset", "99"))
    assert "the episode is over: :reset" in ran.err
    assert len(ran.json["episodes"]) == 2


def test_quit_stops_before_the_end_of_input(cli: Any) -> None:
    assert cli(*SUM, "--json", stdin=lines(":quit", "99")).json["episodes"] == []


def test_the_seed_chooses_the_task(cli: Any) -> None:
    first = cli("play", "agent/Calculator-v0", "--seed", "5").out
    assert first == cli("play", "agent/Calculator-v0", "--seed", "5").out
    assert (
        f"{first}> :reset 5\n{first.partition(chr(10))[2]}"
        == cli("play", "agent/Calculator-v0", "--seed", "5", stdin=lines(":reset 5")).out
    )


def test_the_turn_limit(cli: Any) -> None:
    ran = cli(*SUM, "--max-turns", "1", stdin=lines("calculate 1"))
    assert "[not passed, reward 0; ended by: max_turns]" in ran.out


def test_nothing_steers_the_terminal(cli: Any) -> None:
    ran = cli(*SUM, stdin=lines("calculate(1 + \x1b[31m)", ":say \x1b[2J", ":history"))
    assert "\x1b" not in ran.out and "\\x1b[2J" in ran.out
