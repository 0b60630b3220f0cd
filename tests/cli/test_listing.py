"""`agent-envs list`."""

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
        env: Any = gymnasium.make(listed["id"])
        assert listed["about"] == (type(env).__doc__ or "").splitlines()[0]
        assert listed["splits"] == {s: len(env.tasks.split(s)) for s in env.tasks.splits}
        assert [tool.partition("(")[0] for tool in listed["tools"]] == list(env.tools)
        assert listed["protocol"] == env.protocol.name


def test_for_people(cli: Any) -> None:
    out = cli("list").out
    assert "agent/CalculatorChars-v0  (chars protocol)" in out
    assert "calculate(expression: string)" in out
    assert "heldout 430" in out


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
