"""A real model on a real server: `transformers serve` with SmolLM2-135M, on a CPU.

Skipped unless `build/serve` is a virtual environment that has them; docs/benchmark.md says how it
is made.
"""

import json
import os
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent_envs.cli import main
from agent_envs.trajectory import read_trajectories

BUILD = Path(__file__).parents[2] / "build"
PYTHON, WEIGHTS = BUILD / "serve" / "bin" / "python", BUILD / "smollm2"

pytestmark = pytest.mark.skipif(
    not (PYTHON.exists() and (WEIGHTS / "config.json").exists()),
    reason="no build/serve and build/smollm2: see docs/benchmark.md",
)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The base URL of a running server."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = tmp_path_factory.mktemp("server") / "log"
    command = [str(PYTHON.with_name("transformers")), "serve", str(WEIGHTS), "--device", "cpu"]
    quiet = {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    with log.open("wb") as output:
        server = subprocess.Popen(
            [*command, "--port", str(port), "--host", "127.0.0.1"],
            env={**os.environ, **quiet},
            stdout=output,
            stderr=output,
        )
    try:
        _wait_for(f"http://127.0.0.1:{port}/health", server, log)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        server.kill()
        server.wait()


def _wait_for(address: str, server: "subprocess.Popen[bytes]", log: Path) -> None:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    for _ in range(600):
        try:
            with opener.open(address, timeout=5):
                return
        except (urllib.error.URLError, OSError):
            assert server.poll() is None, log.read_text()
            time.sleep(0.5)
    raise AssertionError(log.read_text())


@pytest.mark.parametrize("tools", ["text", "native"])
def test_a_real_model_plays_and_is_gone_on_with(
    tools: str, url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = [
        *("eval", "agent/Calculator-v0", "--level", "0", "--episodes", "2", "--max-turns", "2"),
        *("--policy", f"openai:{WEIGHTS}", "--base-url", url, "--tools", tools, "--json"),
        *("--temperature", "0", "--max-tokens", "12", "--workers", "2", "--out", str(tmp_path)),
        *("--price-in", "1", "--price-out", "1"),
    ]
    assert main(command) == 0
    told: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert (told["episodes"], told["invalid"]) == (2, 0)
    usage = told["usage"]
    assert usage["requests"] >= 2 and usage["untold"] == 0
    assert usage["completion_tokens"] <= 12 * usage["requests"] + 4 < usage["prompt_tokens"]
    assert told["cost"] == (usage["prompt_tokens"] + usage["completion_tokens"]) / 1e6

    file = tmp_path / "trajectories.jsonl"
    whole = {e.episode_id: e for e in read_trajectories(file)}
    assert all(e.turns[0].action.text for e in whole.values()), "the model said something"
    file.write_bytes(file.read_bytes().splitlines(keepends=True)[0])
    assert main([*command, "--resume"]) == 0
    again = {e.episode_id: e for e in read_trajectories(file)}
    assert {name: e.messages() for name, e in again.items()} == {
        name: e.messages() for name, e in whole.items()
    }, "at temperature 0 the missing episode is played as it had been"
