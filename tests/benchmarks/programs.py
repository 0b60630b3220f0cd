"""The programs that a benchmark runs, a process each, and the peers' virtual environments."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
SERVE = Path(__file__).parent / "peers" / "serve.py"
SCRATCH = ROOT / "build" / "bench"

PEERS = {
    "skyrl_gsm8k": ["skyrl-gym==0.4.0"],
    "textarena_guess": ["textarena==0.7.4"],
    "gem_math": ["gem-llm==0.1.0", "datasets==5.2.0", "pylatexenc==2.11"],
}
"""What each module in peers/ needs. GEM's wheel does not ask for all that its MathEnv imports."""


def interpreter(name: str, requirements: list[str]) -> Path:
    """The Python of a peer's own virtual environment, made where it is missing or out of date."""
    folder = SCRATCH / name
    python, stamp = folder / "bin" / "python", folder / "installed.txt"
    wanted = "\n".join(requirements)
    if not (stamp.exists() and stamp.read_text() == wanted):
        print(f"Installing {', '.join(requirements)} into {folder}", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        pip = [str(python), "-m", "pip", "install", "-qq", "--disable-pip-version-check"]
        if subprocess.run([*pip, *requirements]).returncode:
            raise SystemExit(f"pip could not install {wanted!r}: see above; it needs the network")
        stamp.write_text(wanted)
    return python


class Program:
    """A process of `serve.py`, waiting for requests except while it measures."""

    def __init__(self, name: str, python: Path, log: Path) -> None:
        self.name, self.log = name, log
        self.process = subprocess.Popen(
            [python, SERVE, name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log.open("w"),
            text=True,
            env=surroundings(ours=name == "ours"),
        )
        self._read()

    def ask(self, **request: Any) -> dict[str, Any]:
        """The reply to a request; see `serve.py`."""
        assert self.process.stdin is not None
        print(json.dumps(request), file=self.process.stdin, flush=True)
        return self._read()

    def close(self) -> None:
        """End the process."""
        self.process.communicate()

    def _read(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"{self.name} failed:\n{self.log.read_text()[-3000:]}")
        reply: dict[str, Any] = json.loads(line)
        return reply


def surroundings(ours: bool) -> dict[str, str]:
    """The environment variables of a program: no network, no threads, the same hashes."""
    out = {name: x for name, x in os.environ.items() if name != "PYTHONPATH"}
    out |= {"PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    return out | ({"PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests'}"} if ours else {})


@contextmanager
def programs() -> Iterator[dict[str, Program]]:
    """All programs, running."""
    SCRATCH.mkdir(parents=True, exist_ok=True)
    pythons = {name: interpreter(name, wanted) for name, wanted in PEERS.items()}
    with ExitStack() as stack:
        running = {}
        for name, python in {"ours": Path(sys.executable), **pythons}.items():
            running[name] = Program(name, python, SCRATCH / f"{name}.log")
            stack.callback(running[name].close)
        yield running


def one_core() -> str:
    """Keep this process and its children on the last core that it may use."""
    if not hasattr(os, "sched_setaffinity"):
        return "not pinned"
    core = max(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {core})
    return f"pinned to core {core}"


def imports(module: str) -> dict[str, float]:
    """The quickest of three imports, each in a fresh interpreter, as a `rate` and a `wall` rate."""
    command = [sys.executable, "-c", _IMPORT.format(module)]
    options: dict[str, Any] = {"env": surroundings(True), "cwd": ROOT, "text": True}
    times = [json.loads(subprocess.check_output(command, **options)) for _ in range(3)]
    return {"rate": 1 / min(cpu for cpu, _ in times), "wall": 1 / min(wall for _, wall in times)}


_IMPORT = """
import time
cpu, wall = time.process_time(), time.perf_counter()
import {}
print([time.process_time() - cpu, time.perf_counter() - wall])
"""
