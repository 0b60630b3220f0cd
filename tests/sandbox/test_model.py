"""Random operations against a plain model: interpreter and files are what a dict says."""

import copy
from dataclasses import dataclass, field

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent_envs.sandbox import Limits, Sandbox, SandboxSnapshot

NAMES = ("a", "b", "d/c", "d/e/f")
OPERATIONS = 300


@dataclass
class Model:
    """What a sandbox should hold."""

    variables: dict[str, int] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)


def operation() -> st.SearchStrategy[tuple[str, str, int]]:
    """(what, name, number), the changes more often than the rest."""
    kinds = "set write append outside remove fail late command".split()
    kinds += "snapshot rollback rollback release look".split()
    return st.tuples(st.sampled_from(kinds), st.sampled_from(NAMES), st.integers(0, 99))


class Driver:
    """Does an operation to a sandbox and to its model."""

    def __init__(self, box: Sandbox) -> None:
        self.box = box
        self.model = Model()
        self.taken: list[tuple[SandboxSnapshot, Model]] = []
        box.run_python("import os\nv = {}")
        self.keep()

    def keep(self) -> None:
        """Take a snapshot."""
        self.taken.append((self.box.snapshot(), copy.deepcopy(self.model)))

    def do(self, what: str, name: str, number: int) -> None:
        """One operation."""
        getattr(self, what)(name, number)

    def set(self, name: str, number: int) -> None:
        assert self.box.run_python(f"v[{name!r}] = {number}").ok
        self.model.variables[name] = number

    def write(self, name: str, number: int, mode: str = "w") -> None:
        folder = name.rpartition("/")[0] or "."
        code = f"os.makedirs({folder!r}, exist_ok=True)\nwith open({name!r}, {mode!r}) as f: "
        assert self.box.run_python(code + f"f.write('{number}')").ok
        old = self.model.files.get(name, "") if mode == "a" else ""
        self.model.files[name] = old + str(number)

    def append(self, name: str, number: int) -> None:
        self.write(name, number, "a")

    def outside(self, name: str, number: int) -> None:
        self.box.write_file(name, str(number) * 3)
        self.model.files[name] = str(number) * 3

    def remove(self, name: str, number: int) -> None:
        there = name in self.model.files
        assert self.box.exec(["rm", name]).ok == there
        self.model.files.pop(name, None)

    def fail(self, name: str, number: int) -> None:
        assert self.box.run_python(f"v[{name!r}] = {number}\n1 / 0").ended == "error"
        self.model.variables[name] = number

    def late(self, name: str, number: int) -> None:
        code = f"v[{name!r}] = -1\nwith open('late', 'w') as f: f.write('{number}')\nos.abort()"
        assert self.box.run_python(code).ended == "killed"
        self.model.files["late"] = str(number)

    def command(self, name: str, number: int) -> None:
        assert self.box.exec(f"printf {number} > out").ok
        self.model.files["out"] = str(number)

    def snapshot(self, name: str, number: int) -> None:
        self.keep()

    def rollback(self, name: str, number: int) -> None:
        snapshot, model = self.taken[number % len(self.taken)]
        self.box.rollback(snapshot)
        self.model = copy.deepcopy(model)

    def release(self, name: str, number: int) -> None:
        if len(self.taken) > 1:
            snapshot, _ = self.taken.pop(number % len(self.taken))
            self.box.release(snapshot)

    def look(self, name: str = "", number: int = 0) -> None:
        """Compare everything."""
        assert self.box.run_python("sorted(v.items())").value == str(
            sorted(self.model.variables.items())
        )
        files = [entry.path for entry in self.box.list_files() if entry.kind == "file"]
        assert files == sorted(self.model.files)
        for path in files:
            assert self.box.read_file(path).decode() == self.model.files[path]


@pytest.mark.parametrize("max_snapshots", [64, 3], ids=["copies", "replay"])
@given(data=st.data())
@settings(max_examples=1, suppress_health_check=list(HealthCheck), deadline=None)
def test_300_random_operations(backend: str, max_snapshots: int, data: st.DataObject) -> None:
    count = OPERATIONS if max_snapshots > 3 else OPERATIONS // 6
    with Sandbox(backend, max_snapshots=max_snapshots, limits=Limits(entries=500)) as box:
        driver = Driver(box)
        for one in data.draw(st.lists(operation(), min_size=count, max_size=count)):
            driver.do(*one)
        driver.look()
        assert max_snapshots > 3 or box.dropped > 0 or len(driver.taken) <= 3
