"""The layout that DESIGN asks for: links, import cost, who is seen by whom, what is declared."""

import os
import pkgutil
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import grimp
import gymnasium
import pytest

import agent_envs

ROOT = Path(__file__).parents[1]
LINKED = ("baselines", "envs", "verifiers")
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
LINTER: dict[str, Any] = PROJECT["tool"]["importlinter"]
EXTRAS: dict[str, list[str]] = PROJECT["project"]["optional-dependencies"]
HEAVY = {"docker", "playwright", "sqlalchemy", "torch"}
BESIDE_THE_CORE = {*LINKED, "adapters", "cli", "models", "sandbox", "viewer"}


def env_folders() -> set[str]:
    """The folders in envs/ that hold Python files."""
    return {file.parent.name for file in (ROOT / "envs").glob("*/*.py")}


def names(requirements: list[str]) -> set[str]:
    """The package names in a list of requirements."""
    return {re.split(r"[\[<>=!~; ]", requirement, maxsplit=1)[0] for requirement in requirements}


@pytest.fixture(scope="module")
def graph() -> grimp.ImportGraph:
    """The import graph as the contracts in pyproject.toml see it."""
    return grimp.build_graph(
        *LINTER["root_packages"], include_external_packages=True, cache_dir=None
    )


@pytest.mark.parametrize("name", LINKED)
def test_link_survived_the_checkout(name: str) -> None:
    link = ROOT / "agent_envs" / name
    assert link.is_symlink(), (
        f"agent_envs/{name} is not a link. On Windows turn developer mode on, then: "
        f"git config core.symlinks true; git checkout -- agent_envs/{name}"
    )
    assert os.readlink(link) == f"../{name}"
    assert link.resolve() == ROOT / name and link.is_dir(), f"the folder {name}/ is missing"


@pytest.mark.parametrize("name", [*LINKED, "docker"])
def test_folder_is_no_package_of_its_own(name: str) -> None:
    assert not (ROOT / name / "__init__.py").exists(), (
        f"{name}/__init__.py would hide other people's package {name} in this checkout: delete it"
    )


def test_what_compose_starts_is_closed_and_its_files_are_there() -> None:
    docker = ROOT / "docker"
    text = (docker / "compose.yaml").read_text()
    parts = re.split(r"^  (\w+):\n", text.partition("\nservices:\n")[2], flags=re.MULTILINE)
    services = dict(zip(parts[1::2], parts[2::2], strict=True))
    assert services.keys() == {"postgresql", "served"}
    for name, service in services.items():
        assert "\n    security_opt: [no-new-privileges]\n" in service, name
        assert re.findall(r'ports: \["(.*?):\d+:\d+"\]', service) == ["127.0.0.1"], name
        assert "\n    healthcheck:\n" in service, f"up --wait would not wait for {name}"
    bound = re.findall(r'volumes: \["\./(.*?):', text)
    built = re.findall(r"dockerfile: docker/(\S+)", text)
    assert (bound, built) == (["postgresql.sql"], ["server.Dockerfile"])
    assert all((docker / name).is_file() for name in bound + built)


def test_every_env_folder_is_discovered() -> None:
    package = pkgutil.iter_modules([str(ROOT / "agent_envs" / "envs")])
    assert {module.name for module in package} == env_folders(), "a folder lacks its __init__.py"


@pytest.mark.parametrize("folder", sorted(env_folders()))
def test_env_folder_registers_an_id(folder: str) -> None:
    entries = [str(gymnasium.spec(id).entry_point) for id in agent_envs.ids()]
    assert any(entry.startswith(f"agent_envs.envs.{folder}.") for entry in entries), entries


def run_python(code: str) -> subprocess.CompletedProcess[str]:
    """Run code in a fresh interpreter at the root of the checkout."""
    return subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )


def test_importing_says_nothing() -> None:
    result = run_python("import agent_envs")
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


def test_importing_costs_gymnasium_and_numpy_only() -> None:
    result = run_python(
        "import sys, gymnasium, numpy\n"
        "before = set(sys.modules)\n"
        "import agent_envs\n"
        "print(*sorted(set(sys.modules) - before))\n"
        f"print({HEAVY!r} & set(sys.modules))"
    )
    assert result.returncode == 0, result.stderr
    new, heavy = result.stdout.splitlines()
    assert heavy == "set()"
    loaded = new.split()
    tops = {name.partition(".")[0] for name in loaded} - sys.stdlib_module_names
    assert tops <= {"agent_envs", "gymnasium", "numpy"}, tops
    in_env_folders = [name for name in loaded if re.match(r"agent_envs\.envs\.\w+\.", name)]
    assert not in_env_folders, "an environment's __init__ only registers: nothing heavy"


def test_public_names_are_sorted_and_there() -> None:
    constants_first = sorted(set(agent_envs.__all__), key=lambda name: (not name.isupper(), name))
    assert agent_envs.__all__ == constants_first
    for name in agent_envs.__all__:
        assert hasattr(agent_envs, name), name


def test_version_is_the_same_everywhere() -> None:
    assert agent_envs.__version__ == PROJECT["project"]["version"]


def test_dependencies_and_extras() -> None:
    assert names(PROJECT["project"]["dependencies"]) == {"gymnasium", "numpy"}
    parts = {"browser", "code", "docker", "hf", "miniwob", "ray", "sql", "train"}
    assert set(EXTRAS) == parts | {"all", "dev", "vllm"}, "vllm pins much: by its name alone"
    assert EXTRAS["all"] == [f"agent-envs[{','.join(e for e in EXTRAS if e in parts)}]"]


ELSEWHERE = {"ray", "vllm"}
"""Extras that are installed in environments of their own."""


def test_what_ci_runs_is_pinned() -> None:
    lines = (ROOT / "constraints.txt").read_text().lower().replace("_", "-").splitlines()
    pinned = {line.partition("==")[0] for line in lines if "==" in line}
    used = [
        requirement
        for name, extra in EXTRAS.items()
        if name not in ELSEWHERE
        for requirement in extra
    ]
    assert names(PROJECT["project"]["dependencies"] + used) - {"agent-envs"} <= pinned


@pytest.mark.parametrize("top", ["agent_envs", *LINKED])
def test_import_contracts_see_every_module(top: str, graph: grimp.ImportGraph) -> None:
    files = [f for f in (ROOT / top).rglob("*.py") if not f.is_symlink()]
    relative = [f.relative_to(ROOT).with_suffix("") for f in files]
    dotted = [".".join(p.parts).removesuffix(".__init__") for p in relative]
    prefix = "" if top == "agent_envs" else "agent_envs."
    assert {prefix + name for name in dotted} <= graph.modules


def test_each_package_beside_the_core_has_a_contract() -> None:
    packages = [p.parent.name for p in (ROOT / "agent_envs").glob("*/__init__.py")]
    beside = {f"agent_envs.{name}" for name in packages}
    protected = {m for c in LINTER["contracts"] for m in c.get("protected_modules", [])}
    assert beside <= protected, "say in pyproject.toml who may import it"


def is_core(module: str) -> bool:
    """Whether a module of any package belongs to the core."""
    parts = module.split(".")
    return parts[0] == "agent_envs" and not BESIDE_THE_CORE & set(parts[1:2])


def test_core_imports_what_is_declared(graph: grimp.ImportGraph) -> None:
    for module in filter(is_core, graph.modules):
        imported = {m.partition(".")[0] for m in graph.find_modules_directly_imported_by(module)}
        allowed = {"agent_envs", "gymnasium", "numpy"}
        if module.startswith("agent_envs.testing"):
            allowed |= {"hypothesis"}
        extra = imported - sys.stdlib_module_names - allowed
        assert not extra, f"{module} imports {extra}"
