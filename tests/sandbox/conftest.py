"""Sandboxes for tests: each on every backend that works here, skipped with the reason elsewhere."""

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from agent_envs.sandbox import Sandbox, probe
from agent_envs.sandbox.probe import warn_once

ALL = ("namespace", "landlock", "subprocess")
ISOLATED = ("namespace", "landlock")
Make = Callable[..., Sandbox]


def works(name: str) -> str:
    """A backend's name; skips where a dry run does not work. Its warnings have a test of their
    own."""
    report = probe(name)
    if not report.capabilities:
        pytest.skip(f"{name}: {report.why}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warn_once(report.capabilities)
    return name


@pytest.fixture(params=ALL)
def backend(request: pytest.FixtureRequest) -> str:
    """Each backend in turn."""
    return works(request.param)


@pytest.fixture(params=ISOLATED)
def isolated(request: pytest.FixtureRequest) -> str:
    """Each backend that isolates, in turn."""
    return works(request.param)


@pytest.fixture
def namespace() -> str:
    """The strongest backend."""
    return works("namespace")


@pytest.fixture
def make() -> Iterator[Make]:
    """Makes sandboxes that are closed when the test is over."""
    made: list[Sandbox] = []

    def one(*arguments: Any, **options: Any) -> Sandbox:
        made.append(Sandbox(*arguments, **options))
        return made[-1]

    yield one
    for box in made:
        box.close()


@pytest.fixture
def box(backend: str, make: Make) -> Sandbox:
    """A sandbox on each backend."""
    return make(backend)
