"""What the host asks of a session: plain data, so that it crosses a socket as JSON."""

from dataclasses import dataclass, field

NAMESPACE, LANDLOCK, SUBPROCESS = "namespace", "landlock", "subprocess"


@dataclass(frozen=True)
class Setup:
    """A session's walls and limits."""

    strength: str
    """`namespace`, `landlock` or `subprocess`."""
    read: tuple[str, ...] = ()
    """Host paths that stay readable at the same place."""
    listed: tuple[str, ...] = ()
    """Host folders whose names may be listed (`landlock`)."""
    rlimits: dict[str, int] = field(default_factory=dict)
    """RLIMIT names without the prefix, for every process."""
    processes: int = 64
    """How many of them model code may have at once."""
    workspace: int = 32 << 20
    """Bytes of all its files."""
    entries: int = 4096
    """Files and folders."""
    kept: int = 256 << 20
    """Bytes of file contents that all snapshots together may hold."""
    base: str = ""
    """The session's folder, to be made, where it has no mount of its own."""

    @property
    def alone(self) -> bool:
        """Whether the session has namespaces of its own."""
        return self.strength == NAMESPACE

    @property
    def walled(self) -> bool:
        """Whether anything at all keeps model code in."""
        return self.strength != SUBPROCESS
