"""A Chromium in a container, for machines that have none, or cannot shut one in.

    docker build -t agent-envs/browser -f docker/browser.Dockerfile docker
    gymnasium.make("agent/Browser-v0", isolation="container")

The container has no network, no capability, a read-only root, and a folder of the host's, read-only
too, with two Unix sockets that the host listens at. Through `front` requests come out to the server
of the sites. Through `cdp` Chromium speaks CDP with Playwright's driver, which takes the host's end
for a pipe to a program of its own (`pump.py`). So no port is opened on the host, nothing else there
finds a browser to drive, and a page finds none inside.

A container ends with its Chromium, with the driver, and with this process; the engine removes it.
What a crash of both leaves is removed at the next start, by label, as the sandbox's containers are.
"""

import contextlib
import os
import shlex
import shutil
import socket
import threading
from pathlib import Path
from typing import Any

from agent_envs.envs.browser import memory
from agent_envs.errors import BackendUnavailable
from agent_envs.sandbox.docker.container import ContainerLimits, connected, meeting_place
from agent_envs.sandbox.docker.engine import HOST_LABEL, engine, remove, sweep, this_host
from agent_envs.sandbox.identity import SMALL_RANGE, peer

IMAGE = "agent-envs/browser"
"""Unless AGENT_ENVS_BROWSER_IMAGE names another: sh, socat and chromium-headless-shell are used."""
PORT = 8000
"""Where the sites are, in the container: all that its loopback device has."""
LIMITS = ContainerLimits(memory=memory.LIMITS.here, processes=4096, workspaces=2 << 30)
_SECONDS = 30
_SEEN_AT = "/agent-envs"
_BEGIN = f"""\
for one in socat chromium-headless-shell
do command -v $one >/dev/null || {{ echo "$one: not found" >&2; exit 127; }}
done
socat TCP-LISTEN:{PORT},bind=127.0.0.1,fork,reuseaddr UNIX-CONNECT:{_SEEN_AT}/front &
socat -u OPEN:/dev/null TCP:127.0.0.1:{PORT},retry={_SECONDS * 20},interval=0.05 &&
chromium-headless-shell --version >/dev/null &&
exec socat UNIX-CONNECT:{_SEEN_AT}/cdp EXEC:"sh {_SEEN_AT}/chromium",fdin=3,fdout=4
"""
"""What the container does. It connects when the sites can be reached and Chromium can start: what
it lacks is said until then."""


class Container:
    """A container with a Chromium, as the host has it. Its methods take their time."""

    def __init__(self, switches: list[str]) -> None:
        """Make the folder; `switches` are Chromium's, which speaks CDP through a pipe."""
        self._lock = threading.Lock()
        self._id = ""
        self._folder = _new_folder()
        self._write("begin", _BEGIN)
        self._write("chromium", f"exec chromium-headless-shell {shlex.join(switches)}\n")
        self.front = self._listening("front")
        """Where the server of the sites is to listen."""
        self._cdp = self._listening("cdp")
        self._chromium: socket.socket | None = None
        self.pid = 0
        """Its first process, where it has started and the host can see that."""

    @property
    def address(self) -> str:
        """For `pump.py`."""
        return str(self._folder / "cdp")

    def start(self) -> None:
        """Start it, and wait until it has connected. Raises BackendUnavailable."""
        with self._lock, engine() as client:
            sweep(client)
            made = client.containers.create(**self._options(_find(client)))
            self._id = made.id
            try:
                self._chromium = connected(made, self._cdp)
            except BackendUnavailable as error:
                raise BackendUnavailable(str(error).replace("the zygote", "Chromium")) from None
            self.pid = peer(self._chromium)
            os.chmod(self.address, 0o600)

    def hand_over(self) -> None:
        """Give Chromium's end to the `pump.py` that the driver has started meanwhile."""
        assert self._chromium is not None, "start() comes first"
        self._cdp.settimeout(_SECONDS)
        with self._cdp, self._chromium as chromium, self._cdp.accept()[0] as pump:
            socket.send_fds(pump, [b"1"], [chromium.fileno()])

    def end(self) -> None:
        """Remove it and the folder, once it has started if it is about to."""
        with self._lock:
            if self._id:
                with contextlib.suppress(BackendUnavailable), engine() as client:
                    _remove(client, self._id)
            self._id = ""
            for one in filter(None, (self.front, self._cdp, self._chromium)):
                one.close()
            shutil.rmtree(self._folder, ignore_errors=True)

    def _write(self, name: str, text: str) -> None:
        file = self._folder / name
        file.write_text(text)
        file.chmod(0o644)

    def _listening(self, name: str) -> socket.socket:
        """A socket that the container's uid may connect to."""
        listening = socket.socket(socket.AF_UNIX)
        listening.bind(str(self._folder / name))
        os.chmod(self._folder / name, 0o666)
        listening.listen(128)
        return listening

    def _options(self, image: str) -> dict[str, Any]:
        """All that makes it what it is."""
        from docker.types import LogConfig, Mount

        uid = SMALL_RANGE[os.getpid() % len(SMALL_RANGE)]
        owner = f"mode=700,uid={uid},gid={uid}"
        return {
            "image": image,
            "entrypoint": "sh",
            "command": [f"{_SEEN_AT}/begin"],
            "environment": {"HOME": "/tmp", "LANG": "C.UTF-8"},
            "working_dir": "/tmp",
            "user": f"{uid}:{uid}",
            "read_only": True,
            "tmpfs": {"/tmp": f"rw,nosuid,nodev,noexec,size={LIMITS.workspaces},{owner}"},
            "mounts": [Mount(_SEEN_AT, str(self._folder), "bind", read_only=True)],
            "network_mode": "none",
            "ipc_mode": "none",
            "cap_drop": ["ALL"],
            "security_opt": ["no-new-privileges"],
            "log_config": LogConfig(type="none"),
            "healthcheck": {"test": ["NONE"]},
            "stop_signal": "SIGKILL",
            "auto_remove": True,
            "labels": {HOST_LABEL: this_host()},
            **LIMITS.options(),
        }


def _new_folder() -> Path:
    """A folder that both sides see, as long as the browser lives. Those of ended processes go."""
    with meeting_place() as brief:
        folder = Path(f"{brief}-browser")
        folder.mkdir()
        folder.chmod(0o711)
        return folder


def _find(client: Any) -> str:
    """The image's id. Nothing is fetched: that is for whoever pays for it."""
    from docker.errors import ImageNotFound

    name = os.environ.get("AGENT_ENVS_BROWSER_IMAGE") or IMAGE
    try:
        return str(client.images.get(name).id)
    except ImageNotFound:
        raise BackendUnavailable(
            f"docker: there is no image {name!r} here: docker build -t {IMAGE} -f "
            "docker/browser.Dockerfile docker, or set AGENT_ENVS_BROWSER_IMAGE to one that has "
            "chromium-headless-shell and socat"
        ) from None


def _remove(client: Any, id: str) -> None:
    """End a container, which may have ended by itself."""
    from docker.errors import NotFound

    with contextlib.suppress(NotFound):
        remove(client.containers.get(id))
