"""Provenance: the same in every process, another one where something differs, nothing private."""

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import gymnasium
import pytest

import agent_envs
from agent_envs import Task, TaskSource, ToolEnv, Verdict
from agent_envs.provenance import provenance

TESTS = Path(__file__).parent
BANK = "bank_env:mine/Bank-v0"


@pytest.fixture(autouse=True, scope="module")
def _importable() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(TESTS))
        yield


def of(env_id: str, **arguments: Any) -> dict[str, Any]:
    """The provenance of an env of an id."""
    env = gymnasium.make(env_id, **arguments).unwrapped
    assert isinstance(env, ToolEnv)
    return provenance(env)


def strings(value: Any) -> Iterator[str]:
    """All strings in plain data, keys included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for name, inner in value.items():
            yield name
            yield from strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from strings(inner)


@pytest.mark.parametrize("env_id", [BANK, *agent_envs.ids()])
def test_what_it_holds(env_id: str) -> None:
    found = of(env_id)
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert found.keys() == {
        *("package", "env", "verifier", "tasks", "protocol"),
        *("python", "platform", "gymnasium", "numpy"),
    }
    assert found["env"]["id"] == env_id.rpartition(":")[2]
    assert found["package"]["version"] == agent_envs.__version__
    for part in ("package", "env", "verifier", "tasks", "protocol"):
        assert len(found[part]["hash"]) == 16, part
    for text in strings(found):
        assert "/root" not in text and str(Path.home()) not in text and not os.path.isabs(text)


def test_arguments_are_in_it_and_tasks_are_not() -> None:
    gold = {"id": "SECRET-ID", "split": "mine", "prompt": "SECRET-PROMPT", "data": "SECRET-GOLD"}
    found = of(
        BANK,
        tasks=[gold],
        split="mine",
        fault_rate={"wrong": 0.25, "error": 0.5},
        max_turns=5,
        protocol="hermes",
    )
    assert "SECRET" not in json.dumps(found)
    assert found["env"]["arguments"] == {
        "split": "mine",
        "level": None,
        "fault_rate": {"wrong": 0.25, "error": 0.5},
        "max_turns": 5,
        "max_calls": 32,
        "tool_docs": True,
    }
    assert found["tasks"]["source"] == "TaskList" and found["tasks"] != of(BANK)["tasks"]
    other = of(BANK, tasks=[gold | {"data": "OTHER-GOLD"}], split="mine")
    assert other["tasks"]["hash"] != found["tasks"]["hash"]


class OneTask(TaskSource):
    splits = ("train",)

    def load(self, split: str) -> Iterator[Task]:
        yield Task("t", split, "What?", data={"words": {"b", "a", "c"}, "raw": b"x"})


class Own(ToolEnv):
    """Takes arguments of its own."""

    tasks = OneTask()

    def __init__(self, folder: Any = None, **arguments: Any) -> None:
        self.extra = {k: arguments.pop(k) for k in [*arguments] if k not in ("split", "max_turns")}
        super().__init__(**arguments)

    def grade(self, answer: str | None) -> Verdict:
        return Verdict({"answer": 0.0}, self.weights, False)


def test_own_arguments_without_paths_and_passwords() -> None:
    private = {
        "path": "/home/ada/data.db",
        "windows": "C:\\Users\\ada",
        "url": "postgresql://ada:hunter2@localhost/shop",
        "where": Path("/home/ada"),
        "many": ["/home/ada/a", {"b": "/home/ada/b"}],
        "odd": "lone \ud800",
    }
    env = Own(**private, max_turns=3, name="v1.2-beta +x", size=3, rate=0.5, on=True, handler=print)
    found = provenance(env)["env"]["arguments"]
    text = json.dumps(found)
    assert "ada" not in text and "hunter2" not in text
    for name in private:
        assert "sha256:" in json.dumps(found[name])
    assert {k: found[k] for k in ("name", "size", "rate", "on", "max_turns", "handler")} == {
        "name": "v1.2-beta +x",
        "size": 3,
        "rate": 0.5,
        "on": True,
        "max_turns": 3,
        "handler": "builtin_function_or_method",
    }
    again = provenance(Own(**(private | {"path": "/home/ada/other.db"})))["env"]["arguments"]
    assert again["path"] != found["path"] and again["url"] == found["url"]


def test_an_env_that_no_spec_made() -> None:
    env = Own(split="train", max_turns=9)
    found = provenance(env)
    assert found["env"]["id"] == "" and found["env"]["arguments"]["max_turns"] == 9
    assert found["env"]["class"].endswith(":Own")
    assert provenance(env) is found, "worked out once"
    assert found["verifier"] == {
        "module": Own.__module__,
        "version": "",
        "hash": found["env"]["hash"],
    }


ENV = """
from agent_envs import Task, TaskSource, ToolEnv, Verdict
{imports}

class Tasks(TaskSource):
    splits = ("train",)
    def load(self, split):
        yield Task("t", split, "What?")

class Env({base}):
    tasks = Tasks()
    def grade(self, answer):
        return Verdict({{"answer": 0.0}}, self.weights, False)
"""


def package(folder: Path, name: str, **files: str) -> Any:
    """The class Env of a package with these files."""
    files = {"env": ENV.format(imports="", base="ToolEnv"), "__init__": ""} | files
    (folder / name).mkdir()
    for file, content in files.items():
        (folder / name / f"{file}.py").write_text(content)
    importlib.invalidate_caches()
    return importlib.import_module(f"{name}.env").Env


def test_a_hash_sees_the_files_beside_an_env_and_its_bases(tmp_path: Path) -> None:
    def hash_of(kind: Any) -> str:
        return str(provenance(kind())["env"]["hash"])

    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(tmp_path))
        first = package(tmp_path, "provenance_a", helper="x = 1")
        same = package(tmp_path, "provenance_b", helper="x = 1")
        other = package(tmp_path, "provenance_c", helper="x = 2")
        assert hash_of(first) == hash_of(same) != hash_of(other)
        children = []
        for name, base in (("provenance_d", "provenance_a"), ("provenance_e", "provenance_c")):
            source = ENV.format(imports=f"import {base}.env", base=f"{base}.env.Env")
            children.append(package(tmp_path, name, env=source))
        assert len({hash_of(kind) for kind in (first, other, *children)}) == 4
        (tmp_path / "provenance_f.py").write_text(ENV.format(imports="", base="ToolEnv"))
        (tmp_path / "provenance_g.py").write_text(ENV.format(imports="", base="ToolEnv"))
        importlib.invalidate_caches()
        alone = importlib.import_module("provenance_f").Env
        before = hash_of(alone)
        assert len(before) == 16
        (tmp_path / "unrelated.py").write_text("y = 3")
        assert hash_of(alone) == before


SCRIPT = """
import json, sys
sys.path[:0] = sys.argv[1:3]
import gymnasium, agent_envs
from agent_envs.provenance import provenance
import test_provenance
envs = [gymnasium.make(id).unwrapped for id in sys.argv[3:]] + [test_provenance.Own()]
print(json.dumps([provenance(env) for env in envs]))
"""


def test_it_is_the_same_in_every_process(tmp_path: Path) -> None:
    ids = [BANK, *agent_envs.ids()]
    command = [sys.executable, "-c", SCRIPT, str(TESTS.parent), str(TESTS), *ids]
    running = [
        subprocess.Popen(
            command,
            cwd=folder,
            env=os.environ | {"PYTHONHASHSEED": hash_seed, "LC_ALL": "C"},
            stdout=subprocess.PIPE,
        )
        for folder, hash_seed in ((tmp_path, "1"), (TESTS, "2"))
    ]
    first, second = (json.loads(process.communicate()[0]) for process in running)
    assert first == second
    assert first[:-1] == [of(env_id) for env_id in ids]
