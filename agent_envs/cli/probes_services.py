"""Probes of databases, browsers, containers and graphics processors."""

import os
import re
import shutil
import sqlite3
import sys
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from agent_envs.cli.probes import TIMEOUT, Found, apt, install, output, package, python, sudo

_DEVICES = """
import ctypes
try:
    cuda = ctypes.CDLL("libcuda.so.1")
except OSError:
    raise SystemExit("no CUDA driver") from None
code = cuda.cuInit(0)
if code:
    raise SystemExit(f"the driver is there, but cuInit gave {code}")
count, name, device = ctypes.c_int(), ctypes.create_string_buffer(100), ctypes.c_int()
cuda.cuDeviceGetCount(ctypes.byref(count))
for number in range(count.value):
    cuda.cuDeviceGet(ctypes.byref(device), number)
    cuda.cuDeviceGetName(name, 100, device)
    print(name.value.decode())
"""
"""Ask the CUDA driver for its devices, which torch would need seconds to be imported for."""

_BROWSERS = (
    "chromium-headless-shell",
    "chromium",
    "chromium-browser",
    "google-chrome",
)


def sqlite() -> Found:
    """The SQLite that Python was built with."""
    return Found(True, f"{sqlite3.sqlite_version}, part of Python")


def postgres() -> Found:
    """The server's programs, which Debian keeps off the path."""
    places = [shutil.which("postgres"), *sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))]
    programs = [str(place) for place in places if place]
    if not programs:
        return Found(False, "no server programs", apt("postgresql"), optional=True)
    program = programs[-1]
    return Found(True, f"{output(program, '--version')} at {program}", optional=True)


def chromium() -> Found:
    """A Chromium that starts: the system's, or one that playwright has fetched."""
    failed = ""
    for program in [*filter(None, map(shutil.which, _BROWSERS)), *_of_playwright()]:
        try:
            return Found(True, f"{output(program, '--version')} at {program}")
        except (OSError, RuntimeError) as error:
            failed = f"{program} does not start: {error}"
    return Found(False, failed or "none found", _get_chromium())


def _get_chromium() -> str:
    """Debian has it as a package; elsewhere playwright fetches its own."""
    release = Path("/etc/os-release")
    if release.exists() and re.search(r"^ID=debian$", release.read_text(), re.M):
        return apt("chromium-headless-shell")
    return f"{python()} -m playwright install --with-deps chromium-headless-shell"


def _of_playwright() -> list[str]:
    caches = (Path.home() / ".cache", Path.home() / "Library" / "Caches")
    own = os.environ.get("PLAYWRIGHT_BROWSERS_PATH")
    places = [Path(own)] if own else [cache / "ms-playwright" for cache in caches]
    names = ("headless_shell", "chrome-headless-shell", "chrome", "Chromium")
    found = (path for place in places for path in sorted(place.glob("chromium*/**/*")))
    return [str(path) for path in found if path.name in names and path.is_file()]


def docker_sdk() -> Found:
    """The docker SDK."""
    if _docker_client() is None:
        return Found(False, "not installed", install("docker"))
    return package("docker>=7.1", "docker")


def _docker_client() -> Any:
    """The SDK's class, or None; a folder called docker in the working directory has none."""
    try:
        from docker import DockerClient  # type: ignore
    except ImportError:
        return None
    return DockerClient


def docker_daemon() -> Found:
    """Whether a daemon answers, be it the SDK or the docker program that asks."""
    try:
        return Found(True, f"version {_daemon_version()}")
    except Exception as error:  # the SDK wraps what it meets in errors of its own
        if "ermission denied" in str(error):
            fix = 'sudo usermod -aG docker "$USER", then log in again'
            return Found(False, "no permission to ask it", fix)
        return Found(False, f"none answers: {error}", _get_daemon())


def _get_daemon() -> str:
    if not shutil.which("dockerd"):
        return apt("docker.io")
    return f"{sudo()}systemctl start docker" if shutil.which("systemctl") else f"{sudo()}dockerd"


def _daemon_version() -> str:
    client_class, program = _docker_client(), shutil.which("docker")
    if client_class is None:
        if program is None:
            raise RuntimeError("there is neither the SDK nor a docker program to ask with")
        return output(program, "version", "--format", "{{.Server.Version}}")
    with closing(client_class.from_env(timeout=TIMEOUT)) as client:
        return str(client.version()["Version"])


def torch() -> Found:
    """torch, and whether its build fits the machine; it is not imported."""
    found = package("torch>=2.6", "train")
    if not found.ok:
        return found
    built_for = _torch_cuda()
    if built_for is None and cuda_devices().ok:
        fix = f"{python()} -m pip install --force-reinstall torch"
        return Found(False, f"{found.detail}, built without CUDA, but there is a GPU", fix)
    return Found(True, f"{found.detail}, {f'CUDA {built_for}' if built_for else 'CPU only'}")


def _torch_cuda() -> str | None:
    """The CUDA version in torch/version.py, as text: `cuda: Optional[str] = '12.8'`."""
    spec = find_spec("torch")
    if spec is None or spec.origin is None:
        return None
    text = Path(spec.origin).with_name("version.py").read_text()
    match = re.search(r"^cuda\b.*= *['\"]([0-9.]+)['\"]", text, re.M)
    return match[1] if match else None


def cuda_devices() -> Found:
    """The devices that the CUDA driver offers to this process."""
    fix = "only for a GPU: install its driver; in a container, start it with --gpus all"
    try:
        names = output(sys.executable, "-I", "-S", "-c", _DEVICES).splitlines()
    except RuntimeError as error:
        return Found(False, str(error), fix, optional=True)
    if not names:
        return Found(False, "the driver has none", fix, optional=True)
    return Found(True, f"{len(names)}: {', '.join(names)}", optional=True)
