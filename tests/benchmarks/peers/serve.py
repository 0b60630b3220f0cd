"""Runs in a peer's interpreter: `python serve.py MODULE` times that module's measures on request.

A request is a line of JSON on standard input, a reply one on standard output:
{"measure": name, "seconds": s} gives {"rate": units a second of CPU time, "wall": of the clock's};
with "profile": true it gives {"functions": [[name, calls a unit, share of own time], ...]}.
"""

import cProfile
import importlib
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

Measure: TypeAlias = Callable[[int], int]
"""Does about so many units of work; returns how many it did."""

_LISTED = 16


def main() -> None:
    """Answer requests until standard input ends."""
    replies = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what a library prints is no reply
    measures: dict[str, Measure] = importlib.import_module(sys.argv[1]).MEASURES
    sizes: dict[str, int] = {}
    print(json.dumps({"measures": sorted(measures)}), file=replies)
    for line in sys.stdin:
        request = json.loads(line)
        name, measure = request["measure"], measures[request["measure"]]
        if name not in sizes:
            sizes[name] = size_for(measure, request["seconds"])
        answer = profiled if request.get("profile") else timed
        print(json.dumps(answer(measure, sizes[name])), file=replies)


def size_for(measure: Measure, seconds: float) -> int:
    """How many units take about so long; finding out warms the measure up."""
    size = 10
    while True:
        began = time.perf_counter()
        done = measure(size)
        spent = time.perf_counter() - began
        if spent > seconds / 4:
            return max(10, int(done / spent * seconds))
        size *= 2


def timed(measure: Measure, size: int) -> dict[str, float]:
    """Units a second, of CPU time and of wall time: others' work hardly moves the first."""
    wall, cpu = time.perf_counter(), time.process_time()
    done = measure(size)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return {"rate": done / cpu, "wall": done / wall}


def profiled(measure: Measure, size: int) -> dict[str, Any]:
    """The functions with the most time of their own, under cProfile, which slows small ones."""
    profile = cProfile.Profile()
    done: int = profile.runcall(measure, size)
    entries = sorted(profile.getstats(), key=lambda e: -e.inlinetime)
    total = sum(e.inlinetime for e in entries)
    return {
        "functions": [
            [_name(e.code), e.callcount / done, e.inlinetime / total] for e in entries[:_LISTED]
        ]
    }


def _name(code: Any) -> str:
    if isinstance(code, str):
        return code.strip("<>").removeprefix("built-in method ")
    path = Path(code.co_filename)
    return f"{path.parent.name}/{path.name}: {code.co_name}"


if __name__ == "__main__":
    main()
