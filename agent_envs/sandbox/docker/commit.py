"""A sandbox as an image: the portable form of what is in it.

    commit(box, "my/episode:7")          # push it, look into it with docker run, keep it
    box = resume("my/episode:7")

The image has the workspace's files and folders at /workspace, and the sandbox's history. A running
interpreter is in no image: `resume` plays the history again, which brings back files, names and
links alike, and refuses what comes out differently.
"""

import io
import json
import tarfile
from typing import Any

from agent_envs.sandbox.backends import BACKENDS
from agent_envs.sandbox.docker.backend import Docker
from agent_envs.sandbox.docker.engine import HOST_LABEL, engine, remove, this_host
from agent_envs.sandbox.docker.image import InImage, find
from agent_envs.sandbox.sandbox import Sandbox

HISTORY = "agent-envs-history.json"


def commit(box: Sandbox, image: str) -> str:
    """Make an image of a sandbox of this backend, without ending it. Returns the image's id.

    Raises ValueError for other backends, SandboxFileError for a file that cannot be read,
    BackendUnavailable where the engine refuses.
    """
    inside = box._inside
    if not isinstance(inside, InImage):
        raise ValueError(f"a sandbox of the docker backend, not {box.capabilities.backend}")
    archive = pack(box)
    repository, _, tag = image.rpartition(":") if ":" in image.split("/")[-1] else (image, "", "")
    with engine() as client:
        made = client.containers.create(
            inside.image, ["none"], network_mode="none", labels={HOST_LABEL: this_host()}
        )
        try:
            made.put_archive("/", archive)
            changes = f'LABEL {HOST_LABEL}=""'  # a container of the image is not this process's
            return str(made.commit(repository, tag or "latest", changes=changes).id)
        finally:
            remove(made)


def pack(box: Sandbox) -> bytes:
    """Files, folders and history, as a tar archive."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        add(tar, "workspace", None)
        for entry in box.list_files():
            if entry.kind in ("file", "folder"):
                data = box.read_file(entry.path) if entry.kind == "file" else None
                add(tar, f"workspace/{entry.path}", data)
        add(tar, HISTORY, json.dumps(box.history()).encode())
    return buffer.getvalue()


def add(tar: tarfile.TarFile, name: str, data: bytes | None) -> None:
    """A file, or without data a folder, that everybody may read."""
    info = tarfile.TarInfo(name)
    info.mode = 0o755 if data is None else 0o644
    if data is None:
        info.type = tarfile.DIRTYPE
        tar.addfile(info)
    else:
        info.size = len(data)
        tar.addfile(info, io.BytesIO(data))


def resume(image: str, **options: Any) -> Sandbox:
    """A sandbox as it was when `commit` made this image; `options` are those of `Sandbox`.

    Raises ValueError for an image without a history, SnapshotUnsupported at a result that differs.
    """
    name = f"docker:{image}"
    BACKENDS.setdefault(name, Docker(image, name=name))
    actions = read_history(image)
    box = Sandbox(name, **options)
    try:
        box.replay(actions)
    except BaseException:
        box.close()
        raise
    return box


def read_history(image: str) -> list[dict[str, Any]]:
    """The history in an image."""
    from docker.errors import NotFound

    with engine() as client:
        found = find(client, image)
        made = client.containers.create(
            found.id, ["none"], network_mode="none", labels={HOST_LABEL: this_host()}
        )
        try:
            parts, _ = made.get_archive(f"/{HISTORY}")
            data = b"".join(parts)
        except NotFound:
            raise ValueError(f"image {image!r} has no history: `commit` did not make it") from None
        finally:
            remove(made)
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        file = tar.extractfile(HISTORY)
        return list(json.load(file)) if file else []
