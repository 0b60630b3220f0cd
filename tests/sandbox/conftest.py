"""Sandboxes for tests: each on every backend that works here, skipped with the reason elsewhere."""

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from agent_envs.sandbox import Sandbox, probe
from agent_envs.sandbox.probe import warn_once
from tests.sandbox import engine

ALL = ("namespace", "landlock", "docker", "subprocess")
ISOLATED = ("namespace", "landlock", "docker")
Make = Callable[..., Sandbox]
ELSEWHERE_ON_DOCKER = {
    "test_host_that_is_ended_leaves_nothing",
    "test_killed_servants_take_everything_with_them",
    "test_close_leaves_the_zygote_and_nothing_else",
    "test_lost_session_is_the_models_failure",
    "test_session_that_cannot_start_ends_no_other",
    "test_snapshot_outlives_any_number_of_branches",
    "test_nsjail_69_199_no_cgroup_is_left_or_can_be_made_inside",
    "test_langbot_69_nsjail_196_a_cgroup_that_cannot_be_written_is_no_cgroup",
    "test_skyrl_1194_ctrl_c_leaves_no_sandbox",
    "test_folders_are_seen_read_only",
}
"""What they look at is in other places there: test_docker.py looks."""
SLOW_ON_DOCKER = {
    "test_chain_of_5000_folders_neither_breaks_nor_stalls",
    "test_a_hundred_nested_snapshots",
    "test_isolate_72_84_158_cpu_time_is_a_calls_own",
    "test_bubblewrap_142_555_nothing_can_be_typed_into_the_hosts_terminal",
    "test_cpu_time_is_told_whoever_uses_it",
    "test_odd_names_survive_everything",
    "test_llm_sandbox_147_every_limit_makes_the_difference",
    "test_300_random_operations",
}
"""About what is the same code as in landlock: with the soaks."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is not for docker, and what is slow there but for `--full`."""
    slow = [item for item in items if is_on_docker(item, SLOW_ON_DOCKER)]
    for item in slow:
        item.add_marker(pytest.mark.soak)
    left_out = [] if config.getoption("full") else slow
    items[:] = [
        item
        for item in items
        if item not in left_out and not is_on_docker(item, ELSEWHERE_ON_DOCKER)
    ]


def is_on_docker(item: pytest.Item, names: set[str]) -> bool:
    """Whether a test is one of these, with docker for its backend."""
    call = getattr(item, "callspec", None)
    backends = {call.params.get("backend"), call.params.get("isolated")} if call else set()
    return "docker" in backends and getattr(item, "originalname", "") in names


def works(name: str) -> str:
    """A backend's name; skips where a dry run does not work. Its warnings have a test of their
    own."""
    if name == "docker":
        engine.running()
    report = probe(name)
    if not report.capabilities:
        pytest.skip(f"{name}: {report.why}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warn_once(report.capabilities)
    return name


the_engine = pytest.fixture(scope="session", autouse=True)(engine.end_engine)


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
