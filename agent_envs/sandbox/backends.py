"""The backends: how a session is started, what it can do, and what a machine lacks for it."""

import os
import platform
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from agent_envs.sandbox.cgroup import find_place, new_group
from agent_envs.sandbox.channel import Channel, new_base
from agent_envs.sandbox.host import zygote
from agent_envs.sandbox.identity import give_back, take_uid
from agent_envs.sandbox.inner import landlock
from agent_envs.sandbox.inner.numbers import AUDIT_ARCH
from agent_envs.sandbox.inner.setup import LANDLOCK, NAMESPACE, SUBPROCESS, Setup
from agent_envs.sandbox.interpreter import Inside
from agent_envs.sandbox.settings import Limits

OLDEST_LANDLOCK = 3
"""Before it, files could be truncated by path."""


@dataclass(frozen=True)
class Capabilities:
    """What a sandbox enforces on this machine. See the package's docstring for what it means."""

    backend: str
    isolated: bool
    """No network, host files and other processes out of reach; not for `subprocess`."""
    unprivileged_uid: bool
    """Model code runs as a user that owns nothing on this machine."""
    workspace_bytes: str
    """`enforced` by the kernel, or `watched`: measured a few times a second."""
    entries: str
    """As for bytes."""
    total_memory: bool
    """A cgroup limits all processes and frozen copies together."""
    landlock: int
    """The kernel's Landlock version; 0 is none."""

    def missing(self) -> list[str]:
        """What `strict=True` asks for and this has not got."""
        lacks = {
            "isolation": not self.isolated,
            "a limit on total memory (no writable cgroup with a memory controller)": (
                not self.total_memory
            ),
            "a limit on workspace bytes and entries by the kernel": (
                "watched" in (self.workspace_bytes, self.entries)
            ),
        }
        return [what for what, lacking in lacks.items() if lacking]


class Backend(Protocol):
    """What `Sandbox` needs of a backend; `docker` will be another."""

    name: str

    def lacks(self) -> str:
        """What the machine lacks, and the command that gets it; "" if nothing is known to."""

    def start(self, inside: Inside, limits: Limits) -> Channel:
        """A fresh session. Raises BackendUnavailable."""

    def capabilities(self) -> Capabilities:
        """What it enforces here."""


class Local:
    """Sessions that are clones of a zygote on this machine: three strengths of the same tree."""

    def __init__(self, name: str) -> None:
        self.name = name

    def lacks(self) -> str:
        """Known obstacles, most telling first."""
        if platform.system() != "Linux":
            return "this is not Linux: use a Linux container or virtual machine"
        if platform.machine() not in AUDIT_ARCH:
            return f"no system call table for {platform.machine()} (there are x86_64, aarch64)"
        if self.name == NAMESPACE:
            return namespaces_lack()
        if self.name == LANDLOCK and landlock.abi() < OLDEST_LANDLOCK:
            return (
                f"Landlock version {OLDEST_LANDLOCK} (kernel 6.2; here it is {landlock.abi()}): "
                "boot a newer kernel, with landlock among lsm= on its command line"
            )
        return ""

    def start(self, inside: Inside, limits: Limits) -> Channel:
        """Clone a session from the zygote of this choice."""
        source = zygote(self.name, inside)
        alone = self.name == NAMESPACE
        processes = {} if alone else {"NPROC": limits.processes + MOST_FROZEN}
        setup = Setup(
            self.name,
            inside.read,
            inside.listed,
            limits.rlimits() | processes,
            limits.processes,
            limits.workspace,
            limits.entries,
            limits.snapshot_files,
            "" if alone else new_base(),
        )
        uid = take_uid()
        if uid is None:
            setup.rlimits.pop("NPROC", None)  # it would count the user's other processes too
        try:
            group = new_group(limits.total_memory)
        except BaseException:
            give_back(uid)
            raise
        return Channel(source, setup, uid, group)

    def capabilities(self) -> Capabilities:
        """What it enforces here."""
        alone = self.name == NAMESPACE
        kept = "enforced" if alone else "watched"
        return Capabilities(
            self.name,
            isolated=self.name != SUBPROCESS,
            unprivileged_uid=os.getuid() != 0 or alone or take_and_give(),
            workspace_bytes=kept,
            entries=kept,
            total_memory=find_place() is not None,
            landlock=0 if self.name == SUBPROCESS else landlock.abi(),
        )


MOST_FROZEN = 1024
"""Processes that a session's uid may have beside those of a call, where no namespace counts."""


def take_and_give() -> bool:
    """Whether there is an unprivileged uid to take."""
    uid = take_uid()
    give_back(uid)
    return uid is not None


def namespaces_lack() -> str:
    """What is known to forbid user namespaces, with the command that allows them."""
    for name, forbidding in (
        ("user.max_user_namespaces", "0"),
        ("kernel.unprivileged_userns_clone", "0"),
        ("kernel.apparmor_restrict_unprivileged_userns", "1"),
    ):
        value = sysctl(name)
        if value == forbidding and not (os.getuid() == 0 and name.startswith("kernel.")):
            allowed = "10000" if name.startswith("user.") else "1" if forbidding == "0" else "0"
            return f"{name} is {value}: sudo sysctl -w {name}={allowed}"
    return ""


def sysctl(name: str) -> str | None:
    """A kernel setting; None where there is no such."""
    try:
        return Path("/proc/sys", *name.split(".")).read_text().strip()
    except OSError:
        return None


BACKENDS: dict[str, Backend] = {name: Local(name) for name in (NAMESPACE, LANDLOCK, SUBPROCESS)}
"""By name. `docker` is added by its own module."""
