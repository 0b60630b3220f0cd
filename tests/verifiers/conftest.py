"""The backends that isolate, and no sandbox left waiting after the tests of a file."""

import warnings
from collections.abc import Iterator

import pytest

from agent_envs.sandbox import probe
from agent_envs.sandbox.probe import warn_once
from agent_envs.verifiers.unit_tests import close_kept


@pytest.fixture(params=["namespace", "landlock"])
def backend(request: pytest.FixtureRequest) -> str:
    """Each in turn, skipped with the reason where it does not work."""
    report = probe(request.param)
    if not report.capabilities:
        pytest.skip(f"{request.param}: {report.why}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warn_once(report.capabilities)
    return str(request.param)


@pytest.fixture(scope="module", autouse=True)
def no_boxes_left() -> Iterator[None]:
    """Ends the sandboxes that are kept for tests."""
    yield
    close_kept()
