"""What an image's Python is asked, as its standard input has it: `python3 -c SOURCE QUESTION`.

It runs there by itself, on a Python of any version, and prints one JSON object.
"""

from __future__ import annotations

import json
import os
import re
import sys
from typing import Any

LANDLOCK_CREATE_RULESET = 444  # the same number on every architecture


def landlock() -> int:
    """The kernel's Landlock version; 0 where it has none, or ctypes is missing."""
    try:
        import ctypes

        return max(0, int(ctypes.CDLL(None).syscall(LANDLOCK_CREATE_RULESET, None, 0, 1)))
    except Exception:
        return 0


def missing(modules: list[str]) -> list[str]:
    """Those that cannot be imported."""
    lacking = []
    for name in modules:
        try:
            __import__(name)
        except Exception:
            lacking.append(name)
    return lacking


def installed(names: list[str]) -> dict[str, list[str]]:
    """Files, folders that they are in, modules and lacks of packages, with what they require."""
    try:
        from importlib import metadata
    except ImportError:  # before Python 3.8, which is too old anyhow
        return {"files": [], "sites": [], "modules": [], "no_packages": []}
    files: set[str] = set()
    seen: set[str] = set()
    modules: list[str] = []
    lacking: list[str] = []
    todo = list(names)
    while todo:
        name = todo.pop()
        plain = re.sub(r"[-_.]+", "-", name).lower()
        if plain in seen:
            continue
        seen.add(plain)
        try:
            found = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            lacking += [name] if name in names else []
            continue
        wanted = [line for line in found.requires or [] if "extra ==" not in line]
        todo += [re.split(r"[\s\[<>=!~;(]", line, maxsplit=1)[0] for line in wanted]
        tops = {file.parts[0] for file in found.files or [] if file.parts[0] != ".."}
        tops = {top for top in tops if not top.endswith((".pth", "__pycache__"))}
        files |= {os.path.realpath(str(found.locate_file(top))) for top in tops}
        if name in names:
            listed = (found.read_text("top_level.txt") or name.replace("-", "_")).split()
            modules += [module for module in listed if not module.startswith("_")]
    sites = sorted({os.path.dirname(path) for path in files})
    return {"files": sorted(files), "sites": sites, "modules": modules, "no_packages": lacking}


def answer(question: dict[str, list[str]]) -> dict[str, Any]:
    """All of it."""
    told: dict[str, Any] = {
        "version": sys.version_info[:2],
        "python": os.path.realpath(sys.executable),
        "prefix": sys.base_prefix,
        "search": os.environ.get("PATH", os.defpath),
        "landlock": landlock(),
        "no_modules": missing(question["modules"]),
    }
    told.update(installed(question["packages"]))
    return told


if __name__ == "__main__":
    print(json.dumps(answer(json.loads(sys.argv[1]))))
