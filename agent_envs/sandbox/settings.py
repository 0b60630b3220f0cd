"""What a sandbox is asked for: limits, an interpreter, packages."""

from dataclasses import dataclass, fields

MEGABYTE = 1 << 20


@dataclass(frozen=True)
class Limits:
    """What model code may use. Bytes, seconds and counts; all hold from the first call on."""

    seconds: float = 10.0
    """Wall time of a call."""
    cpu_seconds: int = 10
    """CPU time of each process."""
    memory: int = 512 * MEGABYTE
    """Address space of each process."""
    total_memory: int = 1024 * MEGABYTE
    """All processes, files and frozen copies together, where a cgroup can be made."""
    processes: int = 64
    """Processes and threads at once, beside the frozen copies."""
    output: int = 64 * 1024
    """Of each of stdout and stderr of a call; one that writes a megabyte more is ended."""
    workspace: int = 32 * MEGABYTE
    """All files of the workspace, /tmp and /dev/shm together."""
    entries: int = 4096
    """Files and folders."""
    open_files: int = 256
    """Descriptors of each process."""
    snapshot_files: int = 256 * MEGABYTE
    """File contents that all snapshots of a sandbox hold together."""

    def __post_init__(self) -> None:
        for field in fields(self):
            if not getattr(self, field.name) > 0:
                raise ValueError(f"Limits({field.name}=...) must be above 0")

    def rlimits(self) -> dict[str, int]:
        """What `setrlimit` is told, by names without RLIMIT_."""
        return {
            "AS": self.memory,
            "CPU": self.cpu_seconds,
            "FSIZE": self.workspace,
            "NOFILE": self.open_files,
            "CORE": 0,
            "MEMLOCK": 0,
            "MSGQUEUE": 0,
        }
