"""`Sandbox("docker")`: sessions of a zygote that runs in a locked-down container.

    Sandbox("docker")                                    # the image of AGENT_ENVS_DOCKER_IMAGE
    BACKENDS["mine"] = Docker("my/image:1", name="mine")
    Sandbox("mine")

A container serves many sessions: one for each image, choice of packages and process of the host. A
call is a message over a Unix socket that the container was given, never a `docker exec`.

The container's walls: a read-only root; one tmpfs, limited in bytes; no network and no IPC; an
unprivileged uid without a capability, for the zygote too; no new privileges; a seccomp profile; the
engine's AppArmor profile; limits on processes, memory and CPU; no log. Between the sessions in it
stand those of the `landlock` backend, whose zygote it is: Landlock, seccomp, rlimits, and a memory
limit for each session below the container's own where the host is root. So one session sees nothing
of another, and what gets out of both walls is in a container without rights.

What it adds to `landlock`: files of an image instead of the host's, no names of host files, pids of
its own, and one limit for all sessions together. What it does not: bytes and files of a workspace
are watched, as there; the kernel is shared, and must have Landlock version 3 (6.2) or later.

The engine must be on the same kernel, since descriptors cross the socket: none on another machine,
and no Docker Desktop, which has a virtual machine. A container ends with the process that started
it, and the engine removes it; what a crash of both leaves is removed at the next start, by label. A
container that ends by itself or with its engine is our fault (`BackendUnavailable`), never the
model's.
"""

from agent_envs.sandbox.docker.backend import Docker
from agent_envs.sandbox.docker.container import ContainerLimits

__all__ = ["ContainerLimits", "Docker"]
