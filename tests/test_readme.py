"""The README's Python runs as it stands, in order; its environment is the one that is tested."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
NOT_ENFORCED = "ignore:the namespace sandbox has no"
"""What a sandbox says where no cgroup can be made."""
BLOCKS = re.findall(r"```python\n(.*?)```", README, re.S)


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What all blocks print, run one after the other as one script."""
    script = tmp_path_factory.mktemp("readme") / "bank_env.py"
    script.write_text("\n".join(BLOCKS))
    done = subprocess.run(
        [sys.executable, "-W", "error", "-W", NOT_ENFORCED, str(script)],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def test_every_block_runs(ran: str) -> None:
    assert "<tool_response>" in ran
    assert "30 of 30" in ran, "the scripted policy of the README solves every held-out sum"
    assert "timeout [1, 2, 3]" in ran, "the sandbox goes back, and outlives an endless loop"
    assert ran.endswith("99 None\nTrue\n"), "the native calls of the README solve its task"


def test_the_readmes_environment_is_the_tested_one() -> None:
    code = (ROOT / "tests" / "bank_env.py").read_text().split('"""\n\n', 1)[1]
    assert code.strip() in README


def test_the_two_commands_are_named() -> None:
    for command in ("make demo", "make test"):
        assert command in README
