"""Stands in for a Chromium that is in a container: run as a program by the driver, never imported.

    python pump.py ADDRESS

The driver speaks CDP with a program of its own through the descriptors 3 and 4. The container's
end of that talk is a socket, which the host hands over at the Unix socket ADDRESS.
"""

import contextlib
import os
import socket
import sys
import threading

READ_HERE, WRITE_HERE = 3, 4
_CHUNK = 1 << 16


def main() -> None:
    """Fetch the socket, and copy both ways until an end is closed."""
    with socket.socket(socket.AF_UNIX) as host:
        host.connect(sys.argv[1])
        [chromium] = socket.recv_fds(host, 1, 1)[1]
    threading.Thread(target=_copy, args=(chromium, WRITE_HERE)).start()
    _copy(READ_HERE, chromium)


def _copy(source: int, sink: int) -> None:
    """What comes from one goes to the other; the end of one is the end of all."""
    with contextlib.suppress(OSError):
        while data := os.read(source, _CHUNK):
            while data:
                data = data[os.write(sink, data) :]
    os._exit(0)


if __name__ == "__main__":
    main()
