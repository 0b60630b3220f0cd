"""What an image has inside: found out by starting its Python once."""

import functools
import inspect
import json
import os
from dataclasses import dataclass
from typing import Any

from agent_envs.errors import BackendUnavailable
from agent_envs.sandbox.docker import asked
from agent_envs.sandbox.docker.engine import HOST_LABEL, Words, engine, remove, this_host
from agent_envs.sandbox.interpreter import ALWAYS_SEEN, OLDEST, Inside

READ_LABEL = "agent-envs.read"
"""A label of an image: more folders of it that model code may read, with : between them."""
SYSTEM_FILES = ("/etc/ld.so.cache", "/etc/alternatives")
OLDEST_LANDLOCK = 3


@dataclass(frozen=True)
class InImage(Inside):
    """An interpreter of an image, and what model code sees of the image's files."""

    image: str
    """Its id: a name may stand for another image later."""
    search: str
    """PATH, as the image has it."""
    folders: tuple[str, ...]
    """Folders of the host that are seen at the same place, read-only."""


@functools.cache
def look_into(image: str, interpreter: str | None, packages: tuple[str, ...]) -> InImage:
    """The interpreter of an image, and packages: names of what is installed in it, or folders of
    the host. The answer is kept for this process.

    Raises BackendUnavailable, saying what the image lacks.
    """
    names = [package for package in packages if os.sep not in package]
    folders = tuple(os.path.realpath(p) for p in packages if os.sep in p)
    for folder in folders:
        if not os.path.exists(folder):
            raise BackendUnavailable(f"packages: there is no {folder}")
    with engine() as client:
        found = find(client, image)
        answer = ask(client, found.id, image, [interpreter or "python3"], names)
    check(image, answer)
    read = [*ALWAYS_SEEN, *SYSTEM_FILES, answer["prefix"], answer["python"], *folders]
    read += [*answer["files"], *filter(None, found.labels.get(READ_LABEL, "").split(":"))]
    return InImage(
        answer["python"],
        tuple(dict.fromkeys(read)),
        tuple(answer["sites"]),
        (*folders, *answer["sites"]),
        tuple(answer["modules"]),
        found.id,
        answer["search"],
        folders,
    )


def find(client: Any, image: str) -> Any:
    """The image of a name. Nothing is fetched: that is for whoever pays for it."""
    from docker.errors import ImageNotFound

    try:
        return client.images.get(image)
    except ImageNotFound:
        raise BackendUnavailable(
            f"docker: there is no image {image!r} here: docker pull {image}, or set "
            "AGENT_ENVS_DOCKER_IMAGE to one that has Python"
        ) from None


def ask(client: Any, id: str, name: str, python: list[str], packages: list[str]) -> dict[str, Any]:
    """Run `asked` in a container that may do nothing. Raises BackendUnavailable."""
    from docker.errors import APIError
    from docker.types import LogConfig

    from agent_envs.sandbox.inner.modules import USUAL  # late: the host has no other use for it

    question = json.dumps({"modules": USUAL, "packages": packages})
    container = client.containers.create(
        id,
        [*python[1:], "-c", inspect.getsource(asked), question],
        entrypoint=python[0],
        user="65534:65534",
        network_mode="none",
        read_only=True,
        cap_drop=["ALL"],
        security_opt=["no-new-privileges", "seccomp=unconfined"],
        pids_limit=64,
        log_config=LogConfig(type="none"),
        healthcheck={"test": ["NONE"]},
        labels={HOST_LABEL: this_host()},
    )
    try:
        with Words(container) as words:
            container.start()
            out, err = words.read()
    except APIError as error:
        raise BackendUnavailable(
            f"docker: image {name!r} cannot run {python[0]} ({error.explanation}): use one that "
            f"has Python {OLDEST[0]}.{OLDEST[1]} or newer for this machine, or say "
            "Sandbox(interpreter='/path/in/the/image')"
        ) from None
    finally:
        remove(container)
    try:
        answer: dict[str, Any] = json.loads(out)
    except ValueError:
        last = (err.strip() or out.strip() or "it says nothing").splitlines()[-1]
        raise BackendUnavailable(f"docker: Python in image {name!r} fails: {last}") from None
    return answer


def check(image: str, answer: dict[str, Any]) -> None:
    """Refuse an image, or a kernel, that lacks something, by name."""
    version, lacking = tuple(answer["version"]), []
    if version < OLDEST:
        lacking.append(f"Python {OLDEST[0]}.{OLDEST[1]} (it has {version[0]}.{version[1]})")
    lacking += [f"Python's module {name}" for name in answer["no_modules"]]
    lacking += [f"the package {name} (pip install it there)" for name in answer["no_packages"]]
    if lacking:
        raise BackendUnavailable(f"docker: image {image!r} lacks {', '.join(lacking)}")
    if answer["landlock"] < OLDEST_LANDLOCK:
        raise BackendUnavailable(
            f"docker: in containers the kernel has Landlock version {answer['landlock']}, and "
            f"sessions need {OLDEST_LANDLOCK} to be kept apart: use Linux 6.2 or later, with "
            "landlock among lsm= on its command line"
        )
