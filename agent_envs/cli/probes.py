"""What every probe of `doctor` uses: what it gives, and the commands that it may advise."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

TIMEOUT = 5.0
"""How long a probe waits for a program or a daemon that does not answer, in seconds."""


@dataclass(frozen=True)
class Found:
    """What a probe found: whether it works, what is there, and how to get what is not."""

    ok: bool
    detail: str
    fix: str = ""
    optional: bool = False
    """Whether an area is ready without it."""


def package(requirement: str, extra: str | None) -> Found:
    """Whether a package is installed, and new enough for `name>=version`. Imports nothing.

    `extra` is the one that brings it, if any does."""
    name, _, least = requirement.partition(">=")
    fix = install(extra) if extra else f"{python()} -m pip install {shlex.quote(requirement)}"
    try:
        version = metadata.version(name)
    except metadata.PackageNotFoundError:
        return Found(False, "not installed", fix)
    if _numbers(version) < _numbers(least):
        return Found(False, f"{version}, older than {least}", f"{fix} --upgrade")
    return Found(True, version)


def install(extra: str) -> str:
    """The command that installs an extra into the running interpreter."""
    root = Path(__file__).parents[2]
    in_checkout = (root / "pyproject.toml").is_file()
    target = f"{root}[{extra}]" if in_checkout else f"agent-envs[{extra}]"
    editable = "--editable " if in_checkout else ""
    return f"{python()} -m pip install {editable}{shlex.quote(target)}"


def python() -> str:
    """This interpreter, as a shell takes it."""
    return shlex.quote(sys.executable)


def apt(packages: str) -> str:
    """The command that installs Debian packages; elsewhere, the advice to find their like."""
    if not shutil.which("apt-get"):
        return f"install {packages} with the system's package manager"
    return f"{sudo()}apt-get install {packages}"


def sudo() -> str:
    """What goes before a command that root must run."""
    return "" if hasattr(os, "geteuid") and os.geteuid() == 0 else "sudo "


def output(*command: str) -> str:
    """What a program prints, without white space around it.

    Raises OSError where it cannot be run, and RuntimeError where it does not end in time, or fails:
    then with its last line on standard error.
    """
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=TIMEOUT, check=False
        )
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"no answer within {TIMEOUT:g} s") from None
    if done.returncode:
        said = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise RuntimeError(said[-1])
    return done.stdout.strip()


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"[0-9]+", version.partition("+")[0])[:3])
