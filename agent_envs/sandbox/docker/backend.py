"""The backend: sessions of a zygote that a container holds."""

import os
import platform
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from agent_envs.errors import BackendUnavailable
from agent_envs.sandbox.backends import Capabilities, Lack, setup_for
from agent_envs.sandbox.cgroup import MemoryGroup
from agent_envs.sandbox.channel import Channel, Outcome, SessionLost, new_base
from agent_envs.sandbox.docker.container import Container, ContainerLimits, Start
from agent_envs.sandbox.docker.groups import new_group_below
from agent_envs.sandbox.docker.image import look_into
from agent_envs.sandbox.host import Zygote, zygote
from agent_envs.sandbox.inner import landlock
from agent_envs.sandbox.inner.numbers import AUDIT_ARCH
from agent_envs.sandbox.inner.setup import LANDLOCK, Setup
from agent_envs.sandbox.interpreter import Inside
from agent_envs.sandbox.settings import Limits

IMAGE = "python:3.11-slim-bookworm"
"""Unless AGENT_ENVS_DOCKER_IMAGE names another."""
ENDING_SECONDS = 0.2
"""How much later than its sessions' a container's end may be seen."""


class Docker:
    """Sessions in containers of an image; see the package's docstring.

    `name` is what `Sandbox` and environments are given, once it is in `BACKENDS` under it.
    """

    def __init__(
        self, image: str = "", limits: ContainerLimits | None = None, *, name: str = "docker"
    ) -> None:
        self.name = name
        self._image = image
        self.start_container = Start(limits or ContainerLimits())
        self._grouped = False
        self.advice = (
            "the engine must let containers use seccomp filters of their own, pidfds and Landlock: "
            "use docker 20.10 or later on Linux 6.2 or later"
        )

    @property
    def image(self) -> str:
        """The name of the image."""
        return self._image or os.environ.get("AGENT_ENVS_DOCKER_IMAGE") or IMAGE

    def lacks(self) -> Lack | None:
        """What no engine could make up for."""
        if platform.system() != "Linux":
            return Lack("this is not Linux", "use a Linux machine")
        if platform.machine() not in AUDIT_ARCH:
            known = ", ".join(AUDIT_ARCH)
            return Lack(f"no system call table for {platform.machine()}", f"use one of {known}")
        return None

    def inside(self, interpreter: str | None, packages: tuple[str, ...]) -> Inside:
        """As `look_into` has it: `interpreter` is a path in the image."""
        return look_into(self.image, interpreter, packages)

    def start(self, inside: Inside, limits: Limits) -> Channel:
        """Clone a session from the zygote in the container of this choice."""
        source = zygote(LANDLOCK, inside, self.start_container)
        setup = setup_for(LANDLOCK, inside, limits, new_base("/tmp"))
        container = source.servant
        assert isinstance(container, Container)
        group = new_group_below(container.pid, container.id, limits.total_memory)
        self._grouped = group is not None
        return InContainer(source, setup, group)

    def capabilities(self) -> Capabilities:
        """What it enforces here, once it has been tried."""
        return Capabilities(
            self.name,
            isolated=True,
            unprivileged_uid=True,
            workspace_bytes="watched",
            entries="watched",
            total_memory=self._grouped,
            landlock=landlock.abi(),
        )


class InContainer(Channel):
    """A session in a container. That the container ends is never the model's doing: then the next
    request raises BackendUnavailable, once, and after that the session counts as lost."""

    def __init__(self, source: Zygote, setup: Setup, group: MemoryGroup | None) -> None:
        self.source = source
        self.told = False
        super().__init__(source, setup, None, group)

    def ask(self, do: str, fds: Sequence[int] = (), **fields: Any) -> dict[str, Any]:
        """A request and its reply. Raises SessionLost, BackendUnavailable."""
        with self._blaming():
            return super().ask(do, fds, **fields)

    def call(self, order: Mapping[str, Any], seconds: float, most: int) -> Outcome:
        """Run code or a command. Raises SessionLost, BackendUnavailable."""
        with self._blaming():
            return super().call(order, seconds, most)

    @contextmanager
    def _blaming(self) -> Iterator[None]:
        try:
            yield
        except SessionLost:
            if self.told or not self._container_ended():
                raise
            self.told = True
            raise BackendUnavailable(
                "docker: the container has ended, with its engine or by somebody's command: see "
                "that the engine runs (docker info)"
            ) from None

    def _container_ended(self) -> bool:
        """Whether it did so by itself: not by `close_zygotes`."""
        deadline = time.monotonic() + ENDING_SECONDS
        while self.source.alive() and time.monotonic() < deadline:
            time.sleep(0.01)
        return self.source.control.fileno() >= 0 and not self.source.alive()
