"""A thousand episodes in containers: no container, volume, network or image layer is left."""

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent_envs.sandbox import Limits, Sandbox, close_zygotes
from agent_envs.sandbox.docker.commit import commit
from agent_envs.sandbox.docker.engine import engine
from tests.sandbox.conftest import works
from tests.sandbox.engine import end_engine, running
from tests.sandbox.leftovers import descriptors, wait_until

SMALL = Limits(workspace=8 << 20, entries=500, total_memory=256 << 20)
RENEWED = 100
"""Episodes after which the container is given up, and another one made."""

the_engine = pytest.fixture(scope="session", autouse=True)(end_engine)


@pytest.fixture
def docker() -> Iterator[str]:
    """The backend, and no container of it before and after."""
    name = works("docker")
    close_zygotes()
    yield name
    close_zygotes()


def held() -> dict[str, Any]:
    """All that the engine keeps, and what its layers take on disk by name."""
    layers = running().folder / "data" / "image"
    with engine() as client:
        return {
            "containers": [one.id for one in client.containers.list(all=True)],
            "volumes": [one.id for one in client.volumes.list()],
            "networks": sorted(one.name for one in client.networks.list()),
            "images": sorted(one.id for one in client.images.list(all=True)),
            "layers": sorted(str(path) for path in layers.glob("*/layerdb/*/*") if path.is_dir()),
        }


def episode(name: str, n: int) -> None:
    """A session with a branch; now and then a timeout, leftovers, a fork, an image."""
    with Sandbox(name, limits=SMALL) as box:
        box.run_python(f"x = {n}; open('f', 'w').write('{n}')")
        before = box.snapshot()
        box.run_python("x = -1; open('g', 'w').close()")
        if n % 10 == 0:
            assert box.run_python("while True: pass", seconds=0.05).ended == "timeout"
        if n % 25 == 0:
            box.run_python("import os\nfor i in range(9):\n  if os.fork() == 0: os.setsid()")
        if n % 50 == 0:
            image = commit(box, "agent-envs/soak:1")
            with engine() as client:
                client.images.remove(image, force=True)
        box.rollback(before)
        assert box.run_python("x, open('f').read()").value == f"({n}, '{n}')"


@pytest.mark.soak(1000)
def test_a_thousand_episodes_leave_nothing(docker: str, rounds: int) -> None:
    before, opened = held(), len(descriptors())
    mounts = mounts_of_engine()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for n in range(rounds):
            episode(docker, n)
            if n % RENEWED == RENEWED - 1:
                close_zygotes()
    close_zygotes()
    assert wait_until(lambda: held() == before), (before, held())
    assert len(descriptors()) <= opened
    assert mounts_of_engine() <= mounts


def mounts_of_engine() -> int:
    """How many mounts this process's engine holds."""
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    return sum(f" {running().folder}/" in line for line in lines)
