"""What this machine can do, found out by doing it: a dry run of a whole session."""

import functools
import warnings
from dataclasses import dataclass

from agent_envs.errors import BackendUnavailable, near
from agent_envs.sandbox.backends import BACKENDS, Backend, Capabilities
from agent_envs.sandbox.channel import SessionLost
from agent_envs.sandbox.docker import Docker
from agent_envs.sandbox.inner.setup import LANDLOCK, NAMESPACE, SUBPROCESS
from agent_envs.sandbox.interpreter import Inside
from agent_envs.sandbox.settings import Limits

DOCKER = "docker"
BACKENDS.update({DOCKER: Docker(), SUBPROCESS: BACKENDS.pop(SUBPROCESS)})
AUTO = (NAMESPACE, LANDLOCK, DOCKER)
"""What `backend="auto"` tries, the strongest first."""


class SandboxWarning(UserWarning):
    """A sandbox that is weaker than one might think."""


@dataclass(frozen=True)
class Report:
    """What a dry run of a backend showed."""

    backend: str
    works: bool
    why: str = ""
    """What does not work; "" if it works."""
    fix: str = ""
    """What to do about it."""
    capabilities: Capabilities | None = None

    def text(self) -> str:
        """What does not work, and what to do about it."""
        return f"{self.why}: {self.fix}" if self.fix else self.why


def probe(backend: str, inside: Inside | None = None) -> Report:
    """Start a session, run a call in it, snapshot and roll back; say what came of it.

    Raises ValueError for a backend that is not known. The answer is kept for this process.
    """
    try:
        return _probe(backend, inside or known(backend).inside(None, ()))
    except BackendUnavailable as error:
        return Report(backend, False, str(error))


@functools.cache
def _probe(name: str, inside: Inside) -> Report:
    backend = BACKENDS[name]
    lacking = backend.lacks()
    if lacking:
        return Report(backend.name, False, *lacking)
    try:
        dry_run(backend, inside)
    except (BackendUnavailable, SessionLost, OSError) as error:
        return Report(backend.name, False, str(error) or type(error).__name__, backend.advice)
    return Report(backend.name, True, capabilities=backend.capabilities())


def dry_run(backend: Backend, inside: Inside) -> None:
    """A call, a snapshot and a rollback in a session of its own. Raises what goes wrong."""
    channel = backend.start(inside, Limits())
    try:
        outcome = channel.call({"code": "6 * 7", "name": "<probe>"}, 30, 1000)
        if outcome.word.get("value") != "42":
            raise OSError(f"a call does not come back: {outcome.facts}")
        taken = channel.ask("snapshot")
        if "snapshot" not in taken or "back" not in channel.ask("rollback", snapshot=1):
            raise OSError(f"no snapshot can be taken: {taken}")
    finally:
        channel.close()


def probe_all() -> list[Report]:
    """A report on every backend, the strongest first."""
    return [probe(name) for name in BACKENDS]


def pick(
    name: str, interpreter: str | None = None, packages: tuple[str, ...] = (), *, strict: bool
) -> tuple[Backend, Inside, Capabilities]:
    """The backend that is asked for, or with "auto" the strongest that works.

    Raises BackendUnavailable with every reason. `strict` takes only one that enforces everything.
    """
    reasons: dict[str, list[str]] = {}
    for candidate in AUTO if name == "auto" else (name,):
        try:
            inside = known(candidate).inside(interpreter, packages)
        except BackendUnavailable as error:
            reasons.setdefault(str(error), []).append(candidate)
            continue
        report = probe(candidate, inside)
        lacking = report.capabilities.missing() if strict and report.capabilities else []
        if report.capabilities and not lacking:
            return BACKENDS[candidate], inside, report.capabilities
        why = report.text() or f"strict=True asks for: {'; '.join(lacking)}"
        reasons.setdefault(why, []).append(candidate)
    said = ". ".join(f"{', '.join(names)}: {why}" for why, names in reasons.items())
    hint = "; agent-envs doctor shows what there is" if name == "auto" else ""
    raise BackendUnavailable(f"no sandbox for untrusted code here. {said}{hint}")


def known(name: str) -> Backend:
    """The backend of a name. Raises ValueError, with the names that there are."""
    if name not in list(BACKENDS):
        hint = near(str(name), BACKENDS)
        raise ValueError(f"no backend {name!r}{hint}; there are auto, {', '.join(BACKENDS)}")
    return BACKENDS[name]


@functools.cache
def warn_once(capabilities: Capabilities) -> None:
    """Say what a sandbox does not enforce, the first time that it is used."""
    lacking = capabilities.missing()
    if capabilities.backend == SUBPROCESS:
        warnings.warn(
            "the subprocess backend has limits and no isolation at all: code in it can read and "
            "change whatever its user can, and use the network",
            SandboxWarning,
            stacklevel=4,
        )
    elif lacking:
        warnings.warn(
            f"the {capabilities.backend} sandbox has no {'; no '.join(lacking)}. "
            "strict=True refuses to run like that",
            SandboxWarning,
            stacklevel=4,
        )
