"""Every adapter against the real framework, in a virtual environment of its own.

By default the frameworks that install in seconds; AGENT_ENVS_ADAPTERS=all runs the others too.
"""

import re

import pytest

from tests.adapters import matrix


@pytest.mark.parametrize("name", sorted(matrix.FRAMEWORKS))
def test_adapter_against_the_real_framework(name: str) -> None:
    if name not in matrix.chosen():
        pytest.skip(f"{matrix.CHOSEN}=all, or ={name}, runs it")
    try:
        done = matrix.check(name)
    except matrix.NoNetwork as error:
        pytest.skip(f"no package index in reach: {str(error)[:200]}")
    assert done.returncode == 0, f"{done.stdout[-6000:]}\n{done.stderr[-2000:]}"
    assert re.search(r"\d+ passed", done.stdout) and " skipped" not in done.stdout


def test_what_can_be_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(matrix.CHOSEN, raising=False)
    assert "mcp" in matrix.chosen() and "trl" not in matrix.chosen()
    monkeypatch.setenv(matrix.CHOSEN, "trl,mcp")
    assert matrix.chosen() == {"trl", "mcp"}
    monkeypatch.setenv(matrix.CHOSEN, "nothing")
    with pytest.raises(ValueError, match="one of"):
        matrix.chosen()


def test_every_check_is_run() -> None:
    folder = matrix.ROOT / "tests" / "adapters" / "inside"
    assert {f.name for f in folder.glob("check_*.py")} == {
        framework.check for framework in matrix.FRAMEWORKS.values()
    }
