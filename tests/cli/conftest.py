"""Running a command as a user does, in this process."""

import io
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium
import pytest

from agent_envs import registry
from agent_envs.cli import main


@dataclass
class Ran:
    """What a command left: its exit code and what it wrote."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Standard output as the one JSON object that it must be."""
        value = json.loads(self.out)
        assert isinstance(value, dict)
        return value


Run = Callable[..., Ran]


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """`cli("eval", "agent/Calculator-v0", stdin="...")`."""

    def run(*arguments: str, stdin: str = "") -> Ran:
        monkeypatch.setattr("sys.stdin", io.StringIO(stdin))
        capsys.readouterr()
        code = main(arguments)
        return Ran(code, *capsys.readouterr())

    return run


BANK = """
from agent_envs import Task, ToolEnv, Verdict, register, tool
from agent_envs.task import TaskList

class Bank(ToolEnv):
    tasks = TaskList([Task("only", "train", "Move it.")])

    @tool
    def move(self, name: str, folder: str, times: int = 1) -> str:
        \"\"\"Move a file.\"\"\"
        return f"{name} is in {folder}, {times} times"

    @tool
    def look(self) -> str:
        \"\"\"Look around.\"\"\"
        return "nothing"

    def grade(self, answer):
        return Verdict({"answer": float(answer == "yes")}, self.weights, answer == "yes")

    @staticmethod
    def oracle(task, messages):
        return "yes"

register("mine/Bank-v0", "bank_of_a_test:Bank")
register("mine/Gone-v0", "bank_of_a_test:Bank", nothing_of_the_kind=1)
"""


@pytest.fixture
def own_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """A current folder that is on no path, with an env in `bank_of_a_test.py`."""
    (tmp_path / "bank_of_a_test.py").write_text(BANK)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    known, modules = dict(gymnasium.registry), set(sys.modules)
    monkeypatch.setattr(registry, "_ids", [one for one in registry._ids if one[:5] != "mine/"])
    gymnasium.registry.pop("mine/Bank-v0", None)  # another module's of that name
    yield tmp_path
    gymnasium.registry.clear()
    gymnasium.registry.update(known)
    for name in set(sys.modules) - modules:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]
