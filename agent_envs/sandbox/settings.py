"""What a sandbox is asked for: limits, an interpreter, packages."""

import functools
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields
from typing import Any

from agent_envs.errors import seconds_of, whole

MEGABYTE = 1 << 20
LARGEST_MODULES = 150_000
"""Bytes of all sources together, as JSON."""
BYTES = frozenset({"memory", "total_memory", "output", "workspace", "snapshot_files"})
"""The limits that are counted in bytes."""


@dataclass(frozen=True)
class Limits:
    """What model code may use. Bytes, seconds and counts; all hold from the first call on."""

    seconds: float = 10.0
    """Wall time of a call."""
    cpu_seconds: int = 10
    """CPU time of each process."""
    memory: int = 512 * MEGABYTE
    """Address space of each process."""
    total_memory: int = 1024 * MEGABYTE
    """All processes, files and frozen copies together, where a cgroup can be made."""
    processes: int = 64
    """Processes and threads at once, beside the frozen copies."""
    output: int = 64 * 1024
    """Of each of stdout and stderr of a call; one that writes a megabyte more is ended."""
    workspace: int = 32 * MEGABYTE
    """All files of the workspace, /tmp and /dev/shm together."""
    entries: int = 4096
    """Files and folders."""
    open_files: int = 256
    """Descriptors of each process."""
    snapshot_files: int = 256 * MEGABYTE
    """File contents that all snapshots of a sandbox hold together."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name == "seconds":
                seconds_of("Limits: seconds", value)
            else:
                whole(f"Limits: {field.name}", value, 1, "bytes" if field.name in BYTES else "")

    def rlimits(self) -> dict[str, int]:
        """What `setrlimit` is told, by names without RLIMIT_."""
        return {
            "AS": self.memory,
            "CPU": self.cpu_seconds,
            "FSIZE": self.workspace,
            "NOFILE": self.open_files,
            "CORE": 0,
            "MEMLOCK": 0,
            "MSGQUEUE": 0,
        }


def check_given(
    interpreter: Any, packages: Any, modules: Any, limits: Any, strict: Any, max_snapshots: Any
) -> None:
    """Raise ValueError for an argument of `Sandbox` that cannot be, saying what can."""
    if interpreter is not None and not isinstance(interpreter, str):
        raise ValueError(f"interpreter={interpreter!r}: the path of a Python as text, or None")
    if isinstance(packages, str) or not isinstance(packages, Collection):
        raise ValueError(f"packages={packages!r}: a list of names or folders, such as ['numpy']")
    for one in packages:
        if not isinstance(one, str) or not one:
            raise ValueError(f"packages: {one!r} in it; each is a name or a folder, as text")
    _check_modules(modules)
    if not isinstance(limits, Limits | None):
        raise ValueError(f"limits={limits!r}: Limits(seconds=..., memory=...), or None")
    if strict not in (True, False):
        raise ValueError(f"strict={strict!r}: True or False")
    whole("max_snapshots", max_snapshots, 0)


def _check_modules(modules: Any) -> None:
    if not isinstance(modules, Mapping):
        raise ValueError(f"modules={modules!r}: sources by name, such as {{'mine': 'x = 1'}}")
    for name, source in modules.items():
        if not (isinstance(name, str) and all(map(str.isidentifier, name.split(".")))):
            raise ValueError(f"modules: {name!r} in it is no name of a module")
        if not isinstance(source, str):
            raise ValueError(f"modules: {name!r} is {type(source).__name__}, and not its source")
    _check_sources(tuple(modules.items()))


@functools.lru_cache(32)
def _check_sources(sources: tuple[tuple[str, str], ...]) -> None:
    """What takes time: once for all sandboxes that have the same."""
    for name, source in sources:
        try:
            compile(source, name, "exec")
        except (SyntaxError, ValueError) as error:
            raise ValueError(f"modules: {name!r} does not compile: {error}") from None
    if len(json.dumps(sources)) > LARGEST_MODULES:
        raise ValueError(
            f"modules: over {LARGEST_MODULES} bytes; put them in a folder and name it in packages"
        )
