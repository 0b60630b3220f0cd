"""Probes of databases, browsers, containers and graphics processors."""

import json
import os
import re
import shutil
import socket
import sqlite3
import sys
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from agent_envs.cli.probes import TIMEOUT, Found, apt, install, output, package, python, sudo
from agent_envs.cli.probes_linux import sandbox

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
        from docker import DockerClient
    except ImportError:
        return None
    return DockerClient


def docker_daemon() -> Found:
    """Whether a daemon answers, be it the SDK or the docker program that asks."""
    try:
        told = _daemon()
    except Exception as error:  # the SDK wraps what it meets in errors of its own
        if "ermission denied" in str(error):
            fix = 'sudo usermod -aG docker "$USER", then log in again'
            return Found(False, f"no permission to ask it: {_address()}", fix)
        return Found(False, f"none answers: {error}", _get_daemon())
    kind = "rootless, " if any("rootless" in one for one in told["SecurityOptions"] or []) else ""
    return Found(True, f"{kind}version {told['ServerVersion']} at {_address()}")


def docker_cgroups() -> Found:
    """Which cgroups the daemon limits containers with."""
    try:
        told = _daemon()
    except Exception:
        return Found(False, "no daemon to ask", _get_daemon(), optional=True)
    version, driver = told.get("CgroupVersion", "1"), told["CgroupDriver"]
    unlimited = [name for name in ("MemoryLimit", "PidsLimit", "CpuCfsQuota") if not told.get(name)]
    if driver == "none" or unlimited:
        fix = "mount cgroups, and see that the daemon may use them: docker info names what it lacks"
        return Found(False, f"containers have no {', '.join(unlimited) or 'limits'}", fix)
    return Found(True, f"v{version}, by {driver}")


def docker_image() -> Found:
    """Whether the image that sessions start from is there."""
    if sys.platform != "linux":
        return Found(False, "this is no Linux", "use a Linux machine: it must have the same kernel")
    from agent_envs.sandbox.docker import Docker  # it imports on Linux only

    image = Docker().image
    client_class = _docker_client()
    if client_class is None:
        return Found(False, "no SDK to ask with", install("docker"))
    try:
        _reach()
        with closing(client_class.from_env(timeout=TIMEOUT)) as client:
            tags = {tag for one in client.images.list() for tag in one.tags}
    except Exception:
        return Found(False, "no daemon to ask", _get_daemon())
    if image in tags or f"{image}:latest" in tags:
        return Found(True, image)
    fix = f"docker pull {image}, or set AGENT_ENVS_DOCKER_IMAGE to one that has Python 3.11"
    return Found(False, f"no {image}; there are {len(tags)} others", fix)


def docker_sandbox() -> Found:
    """Whether a session can be played in a container."""
    image = docker_image() if docker_sdk().ok and docker_daemon().ok else docker_daemon()
    return sandbox("docker") if image.ok else Found(False, "nothing to try it with", image.fix)


def _get_daemon() -> str:
    if not shutil.which("dockerd"):
        return apt("docker.io")
    return f"{sudo()}systemctl start docker" if shutil.which("systemctl") else f"{sudo()}dockerd"


def _address() -> str:
    return os.environ.get("DOCKER_HOST") or "unix:///var/run/docker.sock"


def _reach() -> None:
    """Raise what a connection to the daemon's socket raises: the SDK would leave one open."""
    kind, _, path = _address().partition("://")
    if kind == "unix" and hasattr(socket, "AF_UNIX"):
        with socket.socket(socket.AF_UNIX) as sock:
            sock.settimeout(TIMEOUT)
            sock.connect(path)


def _daemon() -> dict[str, Any]:
    """What a daemon says of itself."""
    client_class, program = _docker_client(), shutil.which("docker")
    if client_class is None:
        if program is None:
            raise RuntimeError("there is neither the SDK nor a docker program to ask with")
        return dict(json.loads(output(program, "info", "--format", "{{json .}}")))
    _reach()
    with closing(client_class.from_env(timeout=TIMEOUT)) as client:
        return dict(client.info())


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
