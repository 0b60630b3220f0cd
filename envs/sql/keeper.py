"""Keeps a private PostgreSQL server as long as its host lives: a process of its own, as a script.

    python -c SOURCE '{"bin": ..., "base": ..., "password": ..., "options": [...]}'

It makes the cluster, starts the server, and waits: when its standard input ends, which the host's
end does however it comes, or the server does, it removes the folder. The server dies with it.
"""

import contextlib
import ctypes
import json
import os
import resource
import select
import shutil
import signal
import subprocess
import sys
from typing import Any

STOP_SECONDS = 10
ADDRESS_SPACE = 1 << 30
"""Bytes of each server process: a query that wants more is told that memory is out."""
PR_SET_PDEATHSIG = 1


def make(options: dict[str, Any]) -> None:
    """Make the cluster. Only its administrator's password opens it."""
    base = options["base"]
    secret = f"{base}/password"
    with open(secret, "w", opener=lambda p, flags: os.open(p, flags, 0o600)) as file:
        file.write(options["password"])
    subprocess.run(
        [
            f"{options['bin']}/initdb", "--pgdata", f"{base}/data", "--encoding", "UTF8",
            "--locale", "C", "--username", options["user"], "--pwfile", secret, "--auth", "md5",
            "--no-sync",
        ],
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )  # fmt: skip
    os.unlink(secret)


def start(options: dict[str, Any]) -> subprocess.Popen[bytes]:
    """Start the server, which gets a signal to stop at once when this process ends."""
    libc = ctypes.CDLL(None)

    def before_exec() -> None:
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGQUIT)
        resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))

    command = [f"{options['bin']}/postgres", "-D", f"{options['base']}/data"]
    for name, value in options["settings"].items():
        command += ["-c", f"{name}={value}"]
    with open(f"{options['base']}/log", "wb") as log:
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=before_exec
        )


def stop(server: subprocess.Popen[bytes]) -> None:
    """Stop it without ceremony."""
    with contextlib.suppress(ProcessLookupError):
        server.send_signal(signal.SIGQUIT)
    try:
        server.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()


def main() -> None:
    """Keep a server until the host is gone."""
    options = json.loads(sys.argv[1])
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    try:
        make(options)
        server = start(options)
        print("started", flush=True)
        select.select([sys.stdin, os.pidfd_open(server.pid)], [], [])
        stop(server)
    except subprocess.CalledProcessError as error:
        print(f"initdb: {error.stderr.strip()[-500:]}", flush=True)
    finally:
        shutil.rmtree(options["base"], ignore_errors=True)


if __name__ == "__main__":
    main()
