"""The registry: ids whose envs come without wrappers, and folders that register themselves."""

from pathlib import Path
from typing import Any

import gymnasium
import pytest

import agent_envs
from agent_envs import ToolEnv, registry

FOLDER = """
from agent_envs.registry import register
register("found/{name}-v0", "nowhere:Nothing", max_turns=3)
"""


def test_make_gives_the_env_itself() -> None:
    for env_id in ("agent/Calculator-v0", "agent_envs:agent/Calculator-v0"):
        env = gymnasium.make(env_id)
        assert isinstance(env, ToolEnv) and env.unwrapped is env
        assert env.spec is not None and env.spec.max_episode_steps is None


def test_arguments_that_were_registered_hold_unless_make_says_otherwise() -> None:
    env: Any = gymnasium.make("agent/CalculatorChars-v0")
    assert (env.protocol.name, env.max_turns) == ("chars", 4)
    env = gymnasium.make("agent/CalculatorChars-v0", max_turns=7)
    assert (env.protocol.name, env.max_turns) == ("chars", 7)


def test_ids_are_sorted_and_named_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_ids", [])
    monkeypatch.setattr("gymnasium.envs.registration.registry", {})
    for env_id in ("mine/B-v0", "mine/A-v0"):
        agent_envs.register(env_id, "nowhere:Nothing")
    with pytest.warns(UserWarning, match="Overriding environment mine/A-v0"):
        agent_envs.register("mine/A-v0", "somewhere:Else")
    assert agent_envs.ids() == ["mine/A-v0", "mine/B-v0"]
    assert gymnasium.spec("mine/A-v0").entry_point == "somewhere:Else"


def test_folders_register_themselves_and_a_broken_one_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "found_envs"
    for name, text in {
        "first": FOLDER.format(name="First"),
        "broken": "import a_backend_that_is_missing",
        "last": FOLDER.format(name="Last"),
    }.items():
        (package / name).mkdir(parents=True)
        (package / name / "__init__.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(registry, "_ids", [])
    with pytest.warns(UserWarning, match=r"found_envs\.broken is not available: .*is_missing"):
        registry.discover("found_envs")
    assert agent_envs.ids() == ["found/First-v0", "found/Last-v0"]
    assert gymnasium.spec("found/Last-v0").kwargs == {"max_turns": 3}
    with pytest.raises(ModuleNotFoundError, match="nowhere"):
        gymnasium.make("found/First-v0")
    for env_id in agent_envs.ids():
        del gymnasium.registry[env_id]
