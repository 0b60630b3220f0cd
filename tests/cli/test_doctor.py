"""`agent-envs doctor`: findings are real, a probe that breaks is one, and every gap has a fix."""

import os
import platform
import sqlite3
import subprocess
import sys
import tomllib
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

import gymnasium
import numpy
import pytest

from agent_envs import sandbox
from agent_envs.cli import doctor, probes, probes_linux, probes_services
from agent_envs.cli.probes import Found

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
STATES = {"ok", "missing", "optional"}


def test_findings(cli: Any) -> None:
    ran = cli("doctor", "--json")
    assert ran.code == 0 and ran.err == ""
    areas = ran.json["areas"]
    assert list(areas) == list(doctor.REQUIREMENTS)
    for area in areas.values():
        assert isinstance(area["ready"], bool)
        for check in area["checks"]:
            assert check["status"] in STATES and check["found"]
            assert bool(check["fix"]) == (check["status"] != "ok"), check
            assert "could not be found out" not in check["found"], check
    core = {check["name"]: check["found"] for check in areas["core"]["checks"]}
    assert core["python"].startswith(platform.python_version())
    assert (core["gymnasium"], core["numpy"]) == (gymnasium.__version__, numpy.__version__)
    assert (
        sqlite3.sqlite_version in {c["name"]: c for c in areas["sql"]["checks"]}["SQLite"]["found"]
    )


def test_for_people(cli: Any) -> None:
    out = cli("doctor").out
    for area in doctor.REQUIREMENTS:
        assert any(line.startswith(f"{area}: ") for line in out.splitlines())
    assert "core: ready" in out


def test_the_packages_are_those_of_the_project_file() -> None:
    extras = PROJECT["optional-dependencies"]
    wanted = {"core": PROJECT["dependencies"]} | {
        name: extra for name, extra in extras.items() if name not in ("all", "dev")
    }
    plain = {
        name: {r.partition(";")[0].partition(",")[0].replace("[binary]", "") for r in requirements}
        for name, requirements in wanted.items()
    }
    listed = {name: set(packages) for name, packages in doctor.REQUIREMENTS.items()}
    assert listed.pop("testing") <= set(extras["dev"])
    assert listed == plain


def test_looking_for_packages_imports_none() -> None:
    heavy = "{'torch', 'playwright', 'sqlalchemy', 'ray', 'transformers'}"
    code = (
        "import sys; from agent_envs.cli import main; main(['doctor', '--json'])\n"
        f"print(sorted({heavy} & set(sys.modules)), file=sys.stderr)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (ran.returncode, ran.stderr) == (0, "[]\n")


def test_a_probe_that_breaks_is_a_finding(cli: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> Found:
        raise RuntimeError("the\nprobe broke")

    monkeypatch.setitem(doctor.PROBES["sql"], "SQLite", broken)
    ran = cli("doctor", "--json")
    check = ran.json["areas"]["sql"]["checks"][0]
    assert ran.code == 0
    assert check["status"] == "missing" and "RuntimeError: the probe broke" in check["found"]


def findings(*working: str) -> dict[str, dict[str, Found]]:
    """Findings of what backends need, of which only the named ones work."""
    names = {
        "code": ("namespace", "landlock"),
        "docker": ("SDK", "daemon"),
    }
    return {a: {n: Found(n in working, "") for n in listed} for a, listed in names.items()}


@pytest.mark.parametrize(
    ("working", "backend"),
    [
        (("namespace", "landlock", "SDK", "daemon"), "namespace"),
        (("landlock", "SDK", "daemon"), "landlock"),
        (("SDK", "daemon"), "docker"),
        (("SDK",), None),
        ((), None),
    ],
)
def test_the_best_backend(working: tuple[str, ...], backend: str | None) -> None:
    assert doctor.sandbox_backend(findings(*working)) == backend


def test_a_package() -> None:
    assert probes.package("numpy>=1.0", "sql") == Found(True, numpy.__version__)
    old = probes.package("numpy>=999.1", "sql")
    assert not old.ok and "older than 999.1" in old.detail and "--upgrade" in old.fix
    none = probes.package("a-package-that-nobody-has>=1", "sql")
    assert not none.ok and "[sql]" in none.fix and sys.executable in none.fix


def test_what_no_extra_brings_is_installed_by_itself() -> None:
    found = probes.package("a-package-that-nobody-has>=1", None)
    assert found.fix.endswith("-m pip install 'a-package-that-nobody-has>=1'")


def test_what_the_conformance_kit_needs(cli: Any) -> None:
    testing = cli("doctor", "--json").json["areas"]["testing"]
    [check] = testing["checks"]
    assert (check["name"], check["found"]) == ("hypothesis", metadata.version("hypothesis"))
    assert testing["ready"]


def test_versions_are_compared_as_numbers() -> None:
    major, minor = (int(part) for part in numpy.__version__.split(".")[:2])
    assert probes.package(f"numpy>={major}.{minor}", "sql").ok
    assert not probes.package(f"numpy>={major}.{minor + 10}", "sql").ok


@pytest.mark.skipif(sys.platform != "linux", reason="Linux only")
@pytest.mark.parametrize("backend", ["namespace", "landlock"])
def test_a_sandbox_works_if_a_session_can_be_played(
    backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = probes_linux.sandbox(backend)
    assert found.ok == sandbox.probe(backend).works
    assert found.ok or found.fix
    report = sandbox.Report(backend, False, "it has no walls", "build some")
    monkeypatch.setattr(sandbox, "probe", lambda name: report)
    assert probes_linux.sandbox(backend) == Found(False, "it has no walls", "build some")


@pytest.mark.parametrize(
    "probe",
    [
        partial(probes_linux.sandbox, "namespace"),
        probes_linux.bubblewrap,
        probes_linux.cgroups,
    ],
)
def test_elsewhere_than_on_linux(probe: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    found = probe()
    assert not found.ok and "Linux" in found.detail and found.fix


@pytest.fixture
def programs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """`programs(name, script)` puts a program on an otherwise empty path."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("PLAYWRIGHT_BROWSERS_PATH", str(tmp_path / "browsers"))

    def add(name: str, script: str) -> Path:
        program = tmp_path / name
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        return program

    return add


def test_a_browser_counts_if_it_starts(programs: Any) -> None:
    assert probes_services.chromium().detail == "none found"
    programs("chromium-browser", "echo 'install the snap' >&2; exit 1")
    assert "does not start: install the snap" in probes_services.chromium().detail
    own = programs("browsers/chromium-1200/chrome-linux/chrome", "echo Chromium 150.0")
    assert probes_services.chromium() == Found(True, f"Chromium 150.0 at {own}")
    programs("chromium", "echo Chromium 149.0")
    assert probes_services.chromium().detail.startswith("Chromium 149.0 at ")


def test_a_program_that_hangs_is_given_up(programs: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probes, "TIMEOUT", 0.2)
    programs("chromium", "exec /bin/sleep 60")
    found = probes_services.chromium()
    assert not found.ok and "no answer within 0.2 s" in found.detail


def test_a_docker_folder_is_no_sdk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "docker").mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    try:
        metadata.version("docker")
    except metadata.PackageNotFoundError:
        assert not probes_services.docker_sdk().ok
    else:
        assert probes_services.docker_sdk().ok


def test_a_daemon_that_does_not_answer(
    programs: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nobody.sock")
    programs("docker", "echo 'Cannot connect' >&2; exit 1")
    found = probes_services.docker_daemon()
    assert not found.ok and "none answers" in found.detail and found.fix


@pytest.mark.skipif(bool(os.environ.get("CUDA_VISIBLE_DEVICES")), reason="there may be a GPU")
def test_cuda_devices_are_what_the_driver_says() -> None:
    found = probes_services.cuda_devices()
    assert found.ok == any(Path("/dev").glob("nvidia[0-9]*"))
    assert found.ok or found.fix
