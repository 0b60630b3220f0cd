"""The engine: how it is asked, and what is wrong when it does not answer."""

import os
import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from agent_envs.errors import BackendUnavailable

SECONDS = 60
"""How long the engine may take to answer."""
HOST_LABEL = "agent-envs.host"
DEFAULT_ADDRESS = "unix:///var/run/docker.sock"


@contextmanager
def engine() -> Iterator[Any]:
    """A client of the engine at DOCKER_HOST. Raises BackendUnavailable, with what to do, for
    whatever goes wrong with it inside the `with` too."""
    try:
        from docker.errors import DockerException
        from requests.exceptions import RequestException

        from docker import DockerClient
    except ImportError:
        message = "docker: the SDK is not installed: pip install 'agent-envs[docker]'"
        raise BackendUnavailable(message) from None
    reach(os.environ.get("DOCKER_HOST") or DEFAULT_ADDRESS)
    try:
        with closing(DockerClient.from_env(timeout=SECONDS)) as client:
            yield client
    except (DockerException, RequestException) as error:
        said = getattr(error, "explanation", None) or str(error)
        raise BackendUnavailable(f"docker: the engine says: {said}") from error


def reach(address: str) -> None:
    """Connect to the engine's socket, and say what to do where that fails. (The SDK would leave
    the socket open.) Addresses of other kinds are left to the SDK."""
    kind, _, path = address.partition("://")
    if kind != "unix":
        return
    with socket.socket(socket.AF_UNIX) as sock:
        try:
            sock.connect(path)
        except PermissionError:
            raise BackendUnavailable(
                f'docker: no permission to use {path}: sudo usermod -aG docker "$USER", then log '
                "in again"
            ) from None
        except OSError as error:
            raise BackendUnavailable(
                f"docker: no engine at {path} ({error.strerror}): start it (sudo systemctl start "
                "docker, or sudo dockerd), install it (apt-get install docker.io), or set "
                "DOCKER_HOST"
            ) from None


def this_host() -> str:
    """This process, so that nobody takes another one for it: for a container's label."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text()[:8]
    return f"{boot} {os.readlink('/proc/self/ns/pid')} {os.getpid()} {started(os.getpid())}"


def started(pid: int) -> str | None:
    """When a process was started, in ticks since the boot; None where there is none."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    return stat.rpartition(")")[2].split()[19]


def sweep(client: Any) -> list[str]:
    """Remove the containers of processes that are no more. Returns their ids.

    Only those of this boot and this pid namespace: others cannot be told from the living.
    """
    boot, space, *_ = this_host().split()
    removed = []
    ours = {"label": HOST_LABEL}
    for container in client.containers.list(all=True, filters=ours, ignore_removed=True):
        words = container.labels[HOST_LABEL].split()
        if words[:2] == [boot, space] and started(int(words[2])) != words[3]:
            remove(container)
            removed.append(container.id)
    return removed


def remove(container: Any) -> None:
    """End a container and remove it, with its volumes; nothing where that is done already."""
    from docker.errors import APIError, NotFound

    try:
        container.remove(force=True, v=True)
    except NotFound:
        return
    except APIError as error:
        if error.status_code != 409:  # the engine is about it
            raise
        container.wait(condition="removed")


class Words:
    """What a container writes from now on, where no log keeps it. To be used before its start."""

    def __init__(self, container: Any) -> None:
        streams = {"stdout": 1, "stderr": 1, "stream": 1}
        self._socket = container.attach_socket(params=streams)

    def __enter__(self) -> "Words":
        return self

    def read(self) -> tuple[str, str]:
        """All of stdout and stderr, up to its end."""
        from docker.utils.socket import frames_iter

        got = {1: b"", 2: b""}
        for stream, data in frames_iter(self._socket, tty=False):
            got[stream] += data
        return got[1].decode("utf-8", "replace"), got[2].decode("utf-8", "replace")

    def __exit__(self, *exception: object) -> None:
        response = getattr(self._socket, "_response", None)
        if response is not None:
            response.close()  # else the connection would stay open
        self._socket.close()
