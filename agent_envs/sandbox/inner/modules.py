"""The modules that are there before the first session, so that they cost no session anything."""

import importlib
import sys
import types
from collections.abc import Iterable, Mapping

USUAL = """argparse ast base64 bisect calendar collections contextlib copy csv ctypes dataclasses
    datetime decimal difflib enum fractions functools glob gzip hashlib heapq inspect io itertools
    json math numbers operator os pathlib pickle pprint queue random re secrets shutil
    statistics string struct subprocess tempfile textwrap threading time traceback types typing
    unittest uuid zlib""".split()


def warm(names: Iterable[str]) -> str:
    """Import modules. Returns what went wrong, if anything."""
    for name in names:
        try:
            importlib.import_module(name)
        except Exception as error:
            return f"import {name}: {type(error).__name__}: {error}"
    return ""


def define(sources: Mapping[str, str]) -> str:
    """Make modules of sources, in their order, with the packages above them. Returns what went
    wrong, if anything."""
    for name, source in sources.items():
        if name in sys.modules:
            return f"module {name}: there is one of that name"
        try:
            code = compile(source, name, "exec")
            exec(code, vars(_new(name)))
        except (Exception, SystemExit) as error:
            return f"module {name}: {type(error).__name__}: {error}"
    return ""


def _new(name: str) -> types.ModuleType:
    """An empty module that can be imported by its name."""
    module = sys.modules[name] = types.ModuleType(name)
    above, _, last = name.rpartition(".")
    if above:
        setattr(sys.modules.get(above) or _package(above), last, module)
    return module


def _package(name: str) -> types.ModuleType:
    package = _new(name)
    package.__path__ = []
    return package
