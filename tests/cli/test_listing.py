"""`agent-envs list`."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import pytest

import agent_envs
import agent_envs.envs
from agent_envs import registry


def test_every_id_with_its_figures(cli: Any) -> None:
    ran = cli("list", "--json")
    assert ran.code == 0 and ran.json["unavailable"] == []
    assert [env["id"] for env in ran.json["environments"]] == agent_envs.ids()
    for listed in ran.json["environments"]:
        if not listed["id"].startswith("agent/"):
            continue  # another test's
        env: Any = gymnasium.make(listed["id"])
        paragraph = (type(env).__doc__ or "").split("\n\n")[0]
        assert listed["about"] == " ".join(paragraph.split())
        assert listed["splits"] == {s: len(env.tasks.split(s)) for s in env.tasks.splits}
        assert [tool.partition("(")[0] for tool in listed["tools"]] == list(env.tools)
        assert listed["protocol"] == env.protocol.name


def test_for_people(cli: Any) -> None:
    out = cli("list").out
    assert "agent/CalculatorChars-v0  (chars protocol)" in out
    assert "calculate(expression: string)" in out
    assert "heldout 430" in out


def test_it_is_whole_and_fits_a_terminal(cli: Any) -> None:
    ids = [env_id for env_id in agent_envs.ids() if env_id.startswith("agent/")]
    lines = cli("list", *ids).out.splitlines()
    assert max(map(len, lines)) <= 80
    text = " ".join(" ".join(lines).split())
    for listed in cli("list", *ids, "--json").json["environments"]:
        assert listed["about"] in text and listed["about"].endswith(".")
        assert all(any(tool in line for line in lines) for tool in listed["tools"])


def test_those_that_are_asked_for(cli: Any, own_folder: Path) -> None:
    calculator = "agent/Calculator-v0"
    ran = cli("list", "bank_of_a_test:mine/Bank-v0", calculator, calculator, "--json")
    bank, other = ran.json["environments"]
    assert (bank["id"], other["id"]) == ("bank_of_a_test:mine/Bank-v0", calculator)
    assert bank["splits"] == {"train": 1} and ran.json["unavailable"] == []


@pytest.mark.parametrize("times", [1, 2])
def test_all_of_a_module(times: int, cli: Any, own_folder: Path) -> None:
    for _ in range(times):  # it registers at the first import only
        ran = cli("list", "bank_of_a_test:", "--json")
    assert [env["id"] for env in ran.json["environments"]] == ["bank_of_a_test:mine/Bank-v0"]
    [gone] = ran.json["unavailable"]
    assert gone["id"] == "bank_of_a_test:mine/Gone-v0" and "nothing_of_the_kind" in gone["error"]
    assert "agent/Calculator-v0" in cli("list", "agent_envs:").out


def test_who_has_no_docstring(cli: Any, own_folder: Path) -> None:
    def about() -> str:
        ran = cli("list", "bank_of_a_test:mine/Bank-v0", "--json")
        return str(ran.json["environments"][0]["about"])

    assert about() == "(no description)"
    module = sys.modules["bank_of_a_test"]
    module.__doc__ = "\n    Banks.\n\n    And more."
    assert about() == "Banks."
    module.__dict__["Bank"].__doc__ = "\n    A bank,\n    for a test."
    assert about() == "A bank, for a test."


def test_a_package_describes_its_envs(cli: Any, own_folder: Path) -> None:
    package = own_folder / "bank_package_of_a_test"
    package.mkdir()
    (package / "__init__.py").write_text('"""All about banks."""\nfrom . import env')
    source = (own_folder / "bank_of_a_test.py").read_text()
    (package / "env.py").write_text(source.replace("bank_of_a_test:", f"{package.name}.env:"))
    assert "\n    All about banks.\n" in cli("list", f"{package.name}:mine/Bank-v0").out


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """A folder that cannot be imported, and an id whose class cannot."""
    folder = tmp_path / "broken_for_a_test"
    folder.mkdir()
    (folder / "__init__.py").write_text("import a_package_that_nobody_has\n")
    paths = [*agent_envs.envs.__path__, str(tmp_path)]
    monkeypatch.setattr(agent_envs.envs, "__path__", paths)
    monkeypatch.setattr(registry, "_ids", [*registry._ids])
    registry.register("test/Gone-v0", "another_package_that_nobody_has.env:Gone")
    yield
    del gymnasium.registry["test/Gone-v0"]


def test_what_is_not_available_says_why(cli: Any, broken: None) -> None:
    ran = cli("list", "--json")
    assert ran.code == 0
    assert len(ran.json["environments"]) == len(agent_envs.ids()) - 1
    gone, folder = ran.json["unavailable"]
    assert gone["id"] == "test/Gone-v0" and "another_package_that_nobody_has" in gone["error"]
    assert "broken_for_a_test" in folder["error"]
    assert "a_package_that_nobody_has" in folder["error"]


def test_what_is_not_available_for_people(cli: Any, broken: None) -> None:
    out = cli("list").out
    assert "test/Gone-v0 is not available: " in out
    assert "a folder is not available: " in out
