"""Several processes learn what one would have learned."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

ROOT = Path(__file__).parents[2]


def start(count: int, out: Path) -> None:
    """Run `together.py` in so many processes, as `torchrun` would; each must end well."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    shared = os.environ | {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    shared |= {"WORLD_SIZE": str(count), "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    command = [sys.executable, "-m", "tests.baselines.together", str(out)]
    running = [
        subprocess.Popen(
            command, cwd=ROOT, env=shared | {"RANK": str(rank)}, stderr=subprocess.PIPE, text=True
        )
        for rank in range(count)
    ]
    try:
        said = [process.communicate(timeout=240)[1] for process in running]
    finally:
        for process in running:
            process.kill()
            process.wait()
    assert all(process.returncode == 0 for process in running), "\n".join(said)


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What one and what two processes have left."""
    folder = tmp_path_factory.mktemp("together")
    for count in (1, 2):
        start(count, folder)
    return folder


def test_two_processes_one_and_accumulation_have_the_same_gradient(out: Path) -> None:
    found = [g for count in (1, 2) for g in torch.load(out / f"gradients-{count}.pt")]
    for other in found[1:]:
        assert other.keys() == found[0].keys()
        for name, gradient in found[0].items():
            assert (other[name] - gradient).abs().max() <= 1e-6, name
    assert max(g.abs().max() for g in found[0].values()) > 1e-3


def test_processes_that_stopped_go_on_as_if_they_had_not(out: Path) -> None:
    def numbers(name: str) -> list[dict[str, Any]]:
        lines = (out / name / "metrics.jsonl").read_text().splitlines()
        rows = [json.loads(line) for line in lines]
        return [{k: v for k, v in r.items() if not k.startswith(("seconds", "held"))} for r in rows]

    rows = numbers("whole")
    assert [row["update"] for row in rows] == [0, 1, 2, 3]
    assert all(row["episodes"] == 6 and row["grad_norm"] > 1e-3 for row in rows[1:])
    assert numbers("stopped") == rows
