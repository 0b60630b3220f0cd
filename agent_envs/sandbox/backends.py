"""The backends: how a session is started, what it can do, and what a machine lacks for it."""

import os
import platform
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

from agent_envs.sandbox.cgroup import find_place, new_group
from agent_envs.sandbox.channel import Channel, new_base
from agent_envs.sandbox.host import zygote
from agent_envs.sandbox.identity import give_back, take_uid
from agent_envs.sandbox.inner import landlock
from agent_envs.sandbox.inner.numbers import AUDIT_ARCH
from agent_envs.sandbox.inner.setup import LANDLOCK, NAMESPACE, SUBPROCESS, Setup
from agent_envs.sandbox.interpreter import Inside, choose
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
            "limit on total memory (no writable cgroup with a memory controller)": (
                not self.total_memory
            ),
            "limit on workspace bytes and entries by the kernel": (
                "watched" in (self.workspace_bytes, self.entries)
            ),
        }
        return [what for what, lacking in lacks.items() if lacking]


class Lack(NamedTuple):
    """What a machine has not got, and the command or the advice that gets it."""

    what: str
    fix: str


class Backend(Protocol):
    """What `Sandbox` needs of a backend."""

    name: str
    advice: str
    """What to do where `lacks` knows of nothing and yet a dry run fails."""

    def lacks(self) -> Lack | None:
        """What the machine is known to lack, found out without trying."""

    def inside(self, interpreter: str | None, packages: tuple[str, ...]) -> Inside:
        """The interpreter and the packages asked for, as sessions will see them.

        Equal for equal arguments. Raises BackendUnavailable.
        """

    def start(self, inside: Inside, limits: Limits) -> Channel:
        """A fresh session. Raises BackendUnavailable."""

    def capabilities(self) -> Capabilities:
        """What it enforces here."""


class Local:
    """Sessions that are clones of a zygote on this machine: three strengths of the same tree."""

    def __init__(self, name: str, advice: str) -> None:
        self.name = name
        self.advice = advice

    def inside(self, interpreter: str | None, packages: tuple[str, ...]) -> Inside:
        """As `choose` has it."""
        return choose(interpreter, packages)

    def lacks(self) -> Lack | None:
        """Known obstacles, most telling first."""
        if platform.system() != "Linux":
            return Lack("this is not Linux", "use a Linux container or virtual machine")
        if platform.machine() not in AUDIT_ARCH:
            known = ", ".join(AUDIT_ARCH)
            return Lack(f"no system call table for {platform.machine()}", f"use one of {known}")
        if self.name == NAMESPACE:
            return namespaces_lack()
        if self.name == LANDLOCK and landlock.abi() < OLDEST_LANDLOCK:
            return Lack(
                f"Landlock version {OLDEST_LANDLOCK} (kernel 6.2; here it is {landlock.abi()})",
                "boot a newer kernel, with landlock among lsm= on its command line",
            )
        return None

    def start(self, inside: Inside, limits: Limits) -> Channel:
        """Clone a session from the zygote of this choice."""
        source = zygote(self.name, inside)
        alone = self.name == NAMESPACE
        setup = setup_for(self.name, inside, limits, "" if alone else new_base())
        uid = take_uid()
        if uid is not None and not alone:
            setup.rlimits["NPROC"] = limits.processes + MOST_FROZEN
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
"""Processes that a session's uid, if nobody else has it, may have beside those of a call, where no
namespace counts."""


def setup_for(strength: str, inside: Inside, limits: Limits, base: str) -> Setup:
    """What a session is told. `base`: a path for its folder, unless it has a mount of its own."""
    return Setup(
        strength,
        inside.read,
        inside.listed,
        limits.rlimits(),
        limits.processes,
        limits.workspace,
        limits.entries,
        limits.snapshot_files,
        base,
    )


def take_and_give() -> bool:
    """Whether there is an unprivileged uid to take."""
    uid = take_uid()
    give_back(uid)
    return uid is not None


def namespaces_lack() -> Lack | None:
    """What is known to forbid user namespaces, with the command that allows them."""
    for name, forbidding in (
        ("user.max_user_namespaces", "0"),
        ("kernel.unprivileged_userns_clone", "0"),
        ("kernel.apparmor_restrict_unprivileged_userns", "1"),
    ):
        value = sysctl(name)
        if value == forbidding and not (os.getuid() == 0 and name.startswith("kernel.")):
            allowed = "10000" if name.startswith("user.") else "1" if forbidding == "0" else "0"
            sudo = "" if os.getuid() == 0 else "sudo "
            return Lack(f"{name} is {value}", f"{sudo}sysctl -w {name}={allowed}")
    return None


def sysctl(name: str) -> str | None:
    """A kernel setting; None where there is no such."""
    try:
        return Path("/proc/sys", *name.split(".")).read_text().strip()
    except OSError:
        return None


ADVICE = {
    NAMESPACE: "in a container, start it with --security-opt seccomp=unconfined --security-opt "
    "systempaths=unconfined, or use a kernel and a user that may make user namespaces",
    LANDLOCK: "use a kernel from 6.2 on with Landlock and seccomp",
    SUBPROCESS: "use Linux",
}
BACKENDS: dict[str, Backend] = {name: Local(name, advice) for name, advice in ADVICE.items()}
"""By name, the strongest first."""
