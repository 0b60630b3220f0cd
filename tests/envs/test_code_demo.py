"""The coding part of `agent-envs demo`."""

from typing import Any

import pytest

from agent_envs.cli import coding
from agent_envs.errors import BackendUnavailable
from agent_envs.sandbox import probe_all

WORKS = any(r.works for r in probe_all() if r.backend in ("namespace", "landlock"))


@pytest.mark.skipif(not WORKS, reason="no sandbox for untrusted code works on this machine")
def test_what_is_shown_really_happens() -> None:
    said: list[str] = []
    told = coding.coding(said.append)
    assert told is not None and told["undone"] and told["passed"]
    assert told["failing"] != told["right"] == "3 of 3 visible tests pass" != told["wrong"]
    text = "\n".join(said)
    assert [text.count(told[name]) for name in ("failing", "wrong", "right")] == [1, 1, 1]
    assert text.index("-- snapshot") < text.index(told["wrong"]) < text.index("-- rollback")
    assert text.index("-- rollback") < text.index(told["right"]) < text.index("passed, reward 1")
    assert "NO" not in text.split() and max(map(len, text.splitlines())) <= 100


def test_without_a_sandbox_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def down(*args: Any, **kwargs: Any) -> None:
        raise BackendUnavailable("no sandbox works here: do this")

    monkeypatch.setattr("agent_envs.envs.code.env.Workspace", down)
    said: list[str] = []
    assert coding.coding(said.append) is None
    assert "Left out: no sandbox works here: do this" in "\n".join(said)
