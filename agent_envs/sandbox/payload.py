"""Contents on their way into a session or out of it, in memory of a size that the host fixes."""

import fcntl
import os
from types import TracebackType

SEALS = fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL
CHUNK = 1 << 20


class Payload:
    """A piece of memory with a descriptor, that holds `data`, or has room for so many bytes."""

    def __init__(self, data: bytes = b"", *, room: int = 0) -> None:
        self.fd = os.memfd_create("payload", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        view = memoryview(data)
        while view:
            view = view[os.write(self.fd, view[:CHUNK]) :]
        if room:
            os.ftruncate(self.fd, room)
        fcntl.fcntl(self.fd, fcntl.F_ADD_SEALS, SEALS)

    def read(self, size: int) -> bytes:
        """The first `size` bytes, or all there are."""
        parts = []
        done = 0
        while done < size and (part := os.pread(self.fd, min(CHUNK, size - done), done)):
            parts.append(part)
            done += len(part)
        return b"".join(parts)

    def __enter__(self) -> "Payload":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        os.close(self.fd)
