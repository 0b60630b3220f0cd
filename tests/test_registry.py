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


@pytest.mark.parametrize("env_id", [one for one in agent_envs.ids() if one.startswith("agent/")])
@pytest.mark.parametrize(
    ("arguments", "error", "said"),
    [
        ({"tasks": "none.jsonl"}, FileNotFoundError, "no such file.* .jsonl file, or a list"),
        ({"tasks": 5}, ValueError, "tasks=5"),
        ({"level": "0"}, ValueError, "a whole number"),
        ({"level": 99}, KeyError, "levels: "),
        ({"split": "tets"}, KeyError, "train.*heldout"),
        ({"fault_rate": "a"}, ValueError, "'a'; a number from 0 to 1"),
        ({"protocol": "x"}, ValueError, "chars.*hermes"),
        ({"max_turns": "3"}, ValueError, "from 1 up"),
        ({"tool_docs": "no"}, ValueError, "True or False"),
        ({"render_mode": "x"}, ValueError, "ansi"),
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore:.*render_mode:UserWarning")  # Gymnasium says it too
def test_every_env_refuses_what_cannot_be(
    env_id: str, arguments: Any, error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        gymnasium.make(env_id, **arguments)


def test_a_name_of_tasks_that_is_misspelt() -> None:
    with pytest.raises(FileNotFoundError, match="did you mean 'miniwob'"):
        gymnasium.make("agent/Browser-v0", tasks="minwob")


@pytest.mark.parametrize(
    "arguments",
    [{"page_chars": x} for x in ("x", None, 1e9, 3)]
    + [{"patience": x} for x in ("x", 0, True, float("inf"))]
    + [{"isolation": x} for x in ("jail", 5, ["shared"])],
    ids=str,
)
def test_arguments_of_the_browser_that_do_not_fit(arguments: Any) -> None:
    with pytest.raises(ValueError, match=next(iter(arguments))):
        gymnasium.make("agent/Browser-v0", **arguments)


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
