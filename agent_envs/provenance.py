"""What an episode was played with, so that two results can be compared."""

import hashlib
import platform
import sys
from functools import cache
from importlib import import_module, metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np

if TYPE_CHECKING:
    from agent_envs.env import ToolEnv

_KEPT = "_provenance"


def provenance(env: "ToolEnv") -> dict[str, Any]:
    """Versions, and hashes of source and data, of everything that decides an env's rewards.

    Worked out once an env; the seed stands in the trajectory itself.
    """
    known: dict[str, Any] | None = vars(env).get(_KEPT)
    if known is None:
        known = vars(env)[_KEPT] = _work_out(env)
    return known


def _work_out(env: "ToolEnv") -> dict[str, Any]:
    verifier = env.verifier or type(env).__module__
    return {
        "package": {"version": _version("agent-envs"), "hash": _package_hash()},
        "env": {
            "id": env.spec.id if env.spec else "",
            "class": f"{type(env).__module__}:{type(env).__qualname__}",
            "arguments": _arguments(env),
            "version": env.version,
            "hash": module_hash(type(env).__module__),
        },
        "verifier": {"module": verifier, "hash": module_hash(verifier)},
        "tasks": {
            "source": type(env.tasks).__qualname__,
            "version": env.tasks.version,
            "hash": env.tasks.digest(),
        },
        "protocol": {
            "name": env.protocol.name,
            "version": env.protocol.version,
            "hash": module_hash(type(env.protocol).__module__),
        },
        "python": sys.version.split()[0],
        "platform": platform.platform(),
        "gymnasium": gymnasium.__version__,
        "numpy": np.__version__,
    }


def _arguments(env: "ToolEnv") -> dict[str, Any]:
    """What the env was made with; of given tasks the hash stands elsewhere, the gold nowhere."""
    arguments = dict(env.spec.kwargs) if env.spec else {}
    arguments.pop("tasks", None)
    return arguments


@cache
def module_hash(name: str) -> str:
    """A hash of a module's source file; empty where it has none."""
    path = getattr(import_module(name), "__file__", None)
    return _hash(Path(path).read_bytes()) if path and path.endswith(".py") else ""


@cache
def _package_hash() -> str:
    """A hash of the core's source: what is common to all environments."""
    files = sorted(Path(__file__).parent.glob("*.py"))
    return _hash(b"".join(file.read_bytes() for file in files))


@cache
def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]
