"""What an episode was played with, so that two results can be compared."""

import hashlib
import os
import platform
import re
from collections.abc import Iterable
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from agent_envs.env import ToolEnv
from agent_envs.plain import to_plain

_KEPT = "_provenance"
_ELSEWHERE = frozenset({"protocol", "tasks", "render_mode", "max_snapshots"})
_WORDS = re.compile(r"[\w.+ -]{0,64}")


def provenance(env: ToolEnv) -> dict[str, Any]:
    """Versions, and hashes of source and data, of everything that decides an env's rewards.

    Plain JSON, without gold, paths and passwords. Worked out once an env; the seed stands in the
    trajectory itself.
    """
    known: dict[str, Any] | None = vars(env).get(_KEPT)
    if known is None:
        known = vars(env)[_KEPT] = _work_out(env)
    return known


def _work_out(env: ToolEnv) -> dict[str, Any]:
    kind = type(env)
    verifier = env.verifier or kind.__module__
    own_hash = _hash_around(_modules(kind))
    return {
        "package": {
            "version": import_module("agent_envs").__version__,
            "hash": _package_hash(),
        },
        "env": {
            "id": env.spec.id if env.spec else "",
            "class": f"{kind.__module__}:{kind.__qualname__}",
            "arguments": _arguments(env),
            "version": env.version,
            "hash": own_hash,
        },
        "verifier": {
            "module": verifier,
            "version": str(getattr(import_module(verifier), "VERSION", "")),
            "hash": _hash_of(_sources(verifier)) if env.verifier else own_hash,
        },
        "tasks": {
            "source": type(env.tasks).__qualname__,
            "version": env.tasks.version,
            "hash": env.tasks.digest(),
        },
        "protocol": {
            "name": env.protocol.name,
            "version": env.protocol.version,
            "hash": _hash_of([_source(type(env.protocol).__module__)]),
        },
        "python": platform.python_version(),
        "platform": platform.platform(),
        "gymnasium": gymnasium.__version__,
        "numpy": np.__version__,
    }


def _arguments(env: ToolEnv) -> dict[str, Any]:
    """What the env was made with, defaults included where `ToolEnv` has them."""
    own = {
        "split": env.split,
        "level": env.level,
        "fault_rate": env.faults.to_plain(),
        "max_turns": env.max_turns,
        "max_calls": env.max_calls,
        "tool_docs": env.tool_docs,
    }
    more = {k: v for k, v in env._made_with[1].items() if k not in own and k not in _ELSEWHERE}
    return own | {name: _shown(to_plain(value, _named)) for name, value in more.items()}


def _named(value: Any) -> str:
    return str(os.fspath(value)) if isinstance(value, os.PathLike) else type(value).__qualname__


def _shown(value: Any) -> Any:
    """An argument for the record: a text that may be a path or a password stands as a hash."""
    if isinstance(value, dict):
        return {name: _shown(x) for name, x in value.items()}
    if isinstance(value, list):
        return [_shown(x) for x in value]
    if isinstance(value, str) and not _WORDS.fullmatch(value):
        return f"sha256:{_hash(value.encode(errors='backslashreplace'))}"
    return value


def _modules(kind: type[ToolEnv]) -> tuple[str, ...]:
    """Where a class is from, and its bases up to ToolEnv."""
    return tuple(base.__module__ for base in kind.__mro__[: kind.__mro__.index(ToolEnv)])


@cache
def _hash_around(modules: tuple[str, ...]) -> str:
    """A hash of modules, and of what lies beside them where they are in a package."""
    files: set[Path] = set()
    for module in modules:
        file = _source(module)
        if file is not None:
            in_package = bool(import_module(module).__package__)
            files.update(file.parent.glob("*.py") if in_package else [file])
    return _hash_of(files)


@cache
def _package_hash() -> str:
    """A hash of the core's source: what is common to all environments."""
    return _hash_of(Path(__file__).parent.glob("*.py"))


def _source(module: str) -> Path | None:
    """A module's source file, if it has one."""
    file = getattr(import_module(module), "__file__", None)
    return Path(file) if file and file.endswith(".py") else None


def _sources(module: str) -> list[Path]:
    """The files of a module: its own, or all of a package's."""
    file = _source(module)
    if file is None:
        return []
    return list(file.parent.glob("*.py")) if file.name == "__init__.py" else [file]


def _hash_of(files: Iterable[Path | None]) -> str:
    """A hash of files, by their names and contents; empty where there are none."""
    there = sorted((f for f in files if f and f.is_file()), key=lambda f: (f.parent.name, f.name))
    content = [part for f in there for part in (f.name.encode(), f.read_bytes())]
    return _hash(b"\0".join(content)) if content else ""


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]
