"""Which Python runs inside, and what it sees of the host: found out by starting it."""

import functools
import importlib.metadata
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from agent_envs.errors import BackendUnavailable
from agent_envs.sandbox.identity import give_back, take_uid

FLAGS = ("-s", "-P", "-S", "-B")
"""No user site, no folder of the script, no site-packages, no .pyc files. (Not -I: that would
ignore the fixed hash seed.)"""
OLDEST = (3, 11)
SYSTEM = "/usr/bin/python3"
ALWAYS_SEEN = ("/usr",)
ASK = """import json, os, sys
print(json.dumps([sys.version_info[:2], os.path.realpath(sys.executable), sys.base_prefix]))"""
SECONDS = 30
OURS = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
"""This package, with tasks and their solutions: model code does not see it, wherever it lies."""


@dataclass(frozen=True)
class Inside:
    """An interpreter, and what model code sees of the host's files: all of it read-only."""

    python: str
    read: tuple[str, ...]
    """Folders and files."""
    listed: tuple[str, ...]
    """Folders of which only the names may be seen."""
    path: tuple[str, ...]
    """At the end of `sys.path`, as site-packages are."""
    warm: tuple[str, ...]
    """Modules that the zygote imports before the first session."""
    modules: tuple[tuple[str, str], ...] = field(default=(), kw_only=True)
    """Names and sources of modules that it makes then."""


@functools.cache
def choose(interpreter: str | None, packages: tuple[str, ...]) -> Inside:
    """The interpreter asked for, or this one, or the system's: the first that works inside.

    `packages`: names of installed packages (with what they require), or folders for `sys.path`.
    The answer is kept for this process. Raises BackendUnavailable, with what to do, if no
    interpreter works or a package cannot be seen.
    """
    python, prefix = _find(interpreter)
    folders = [os.path.realpath(p) for p in packages if os.sep in p]
    names = [p for p in packages if os.sep not in p]
    found = files_of(names)
    sites = sorted({os.path.dirname(path) for path in found})
    outside = [] if _is_seen(prefix) else [prefix]
    if not _is_seen(python) and not python.startswith(prefix + "/"):
        outside.append(python)
    _check_readable([*folders, *found])
    seen = dict.fromkeys([*ALWAYS_SEEN, *outside, *folders, *sorted(found)])
    read = tuple(place for one in seen for place in without(one, OURS))
    warm = tuple(module for name in names for module in modules_of(name))
    return Inside(python, read, tuple(sites), (*folders, *sites), warm)


def without(place: str, hidden: str) -> list[str]:
    """Places that show all that one shows, but for what is hidden in it."""
    if place == hidden:
        return []
    if not hidden.startswith(f"{place}/"):
        return [place]
    below = sorted(path for path in Path(place).iterdir() if path.exists())
    return [shown for path in below for shown in without(str(path), hidden)]


def _is_seen(path: str) -> bool:
    return path == "/usr" or path.startswith("/usr/")


def _find(interpreter: str | None) -> tuple[str, str]:
    tried = []
    own = os.path.realpath(sys.executable)
    for python in [interpreter] if interpreter else [own, SYSTEM]:
        try:
            return ask(python)
        except ValueError as error:
            tried.append(f"{python}: {error}")
    raise BackendUnavailable(
        f"no Python for the sandbox ({'; '.join(tried)}). It must be {OLDEST[0]}.{OLDEST[1]} or "
        "newer and readable by everybody: apt-get install python3, or "
        "Sandbox(interpreter='/path/to/python3')"
    )


def ask(python: str) -> tuple[str, str]:
    """The real path and the prefix of an interpreter, started as model code would start it.

    Raises ValueError if it cannot be, or is too old.
    """
    uid = take_uid()
    identity = {} if uid is None else {"user": uid, "group": uid, "extra_groups": []}
    try:
        done = subprocess.run(
            [python, *FLAGS, "-c", ASK],
            capture_output=True,
            text=True,
            timeout=SECONDS,
            env={},
            cwd="/",
            check=True,
            **identity,  # type: ignore[call-overload]
        )
    except (OSError, subprocess.SubprocessError) as error:
        detail = error.strerror if isinstance(error, OSError) else "it does not start"
        raise ValueError(f"{detail} (as an unprivileged user)" if uid else detail) from None
    finally:
        give_back(uid)
    version, path, prefix = json.loads(done.stdout)
    if tuple(version) < OLDEST:
        raise ValueError(f"version {version[0]}.{version[1]} is too old")
    return path, prefix


def files_of(names: Iterable[str]) -> list[str]:
    """The top folders and files of installed packages, and of all that they require."""
    todo, seen, found = list(names), set(), []
    while todo:
        name = todo.pop()
        if _plain(name) in seen:
            continue
        seen.add(_plain(name))
        try:
            distribution = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            if name in names:
                raise BackendUnavailable(
                    f"package {name!r} is not installed here: pip install {name}, or give the "
                    "folder that it is in"
                ) from None
            continue
        needed = [line for line in distribution.requires or [] if "extra ==" not in line]
        todo += [re.split(r"[\s\[<>=!~;(]", line, maxsplit=1)[0] for line in needed]
        tops = {file.parts[0] for file in distribution.files or [] if file.parts[0] != ".."}
        places = [os.path.realpath(str(distribution.locate_file(top))) for top in tops]
        found += [place for place in places if not place.endswith((".pth", "__pycache__"))]
    return found


def modules_of(name: str) -> list[str]:
    """What an installed package is imported as."""
    listed = importlib.metadata.distribution(name).read_text("top_level.txt")
    modules = (listed or name.replace("-", "_")).split()
    return [module for module in modules if not module.startswith("_")]


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _check_readable(paths: Iterable[str]) -> None:
    """Refuse what an unprivileged user cannot read, with the folder that is in the way."""
    for path in paths:
        if not os.path.exists(path):
            raise BackendUnavailable(f"packages: there is no {path}")
        if os.getuid() != 0:
            continue
        for folder in [*reversed(Path(path).parents), Path(path)]:
            wanted = 0o005 if folder == Path(path) and folder.is_dir() else 0o001
            wanted = 0o004 if folder.is_file() else wanted
            if os.stat(folder).st_mode & wanted != wanted:
                raise BackendUnavailable(
                    f"packages: {path} cannot be read by the unprivileged user that model code "
                    f"runs as: chmod o+rx {folder}, or install it elsewhere"
                )
