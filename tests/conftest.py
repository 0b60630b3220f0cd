"""What every test may use: the size of a soak, and Hypothesis without a clock."""

import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import settings

# The environments beside the tests can be made by id, here and in every worker.
sys.path.insert(0, str(Path(__file__).parent))

SOAK_SHARE = 50

settings.register_profile("full", deadline=None, print_blob=True)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--full`."""
    parser.addoption("--full", action="store_true", help="soaks at their full count")


def pytest_configure(config: pytest.Config) -> None:
    """Draw the same examples on every machine, new ones under `--full`; never with a deadline."""
    settings.load_profile("full" if config.getoption("full") else "ci")


def pytest_report_header() -> list[str]:
    """Say what is left out."""
    return [] if find_spec("torch") else ["no torch: tests/baselines is left out"]


@pytest.fixture
def rounds(request: pytest.FixtureRequest) -> int:
    """How often a test marked `soak(count)` repeats: count under `--full`, else a fiftieth."""
    mark = request.node.get_closest_marker("soak")
    if mark is None or not mark.args:
        raise pytest.UsageError(f"{request.node.nodeid} uses rounds: mark it soak(count)")
    count: int = mark.args[0]
    return count if request.config.getoption("full") else max(1, count // SOAK_SHARE)
