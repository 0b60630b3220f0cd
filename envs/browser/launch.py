"""Starts Chromium behind a wall: run as a program by the driver, never imported.

    python launch.py DOOR BYTES GROUP BUBBLEWRAP UID EXECUTABLE ARGUMENTS...

Each process may allocate BYTES, and all are in the cgroup that GROUP is the entry of, if any. Then
it makes a network of its own with nothing in it but a socket that listens, hands that socket to
the host through the abstract address DOOR, and becomes bubblewrap around Chromium. So a browser
reaches the host's server through a socket made on its side, and nothing else of the host's
network. UID is whom to run as where the host is root, and -1 elsewhere. The last line on standard
error says what a machine lacks. Without a BUBBLEWRAP there is no wall and no network: what connects
to DOOR is then only to be known.
"""

import ctypes
import fcntl
import os
import resource
import socket
import struct
import sys
from pathlib import Path

PORT = 8000
"""Where the listening socket is, in the network of its own."""
_CLONE_NEWUSER, _CLONE_NEWNET = 0x10000000, 0x40000000
_SIOCSIFFLAGS, _IFF_UP_RUNNING = 0x8914, 0x41


def main() -> None:
    """Limits, wall, door, Chromium."""
    door, allowed, group, bubblewrap, uid, executable, *arguments = sys.argv[1:]
    _limit_memory(int(allowed), group)
    try:
        with socket.socket(socket.AF_UNIX) as host:
            host.connect(f"\0{door}")  # before: such addresses belong to a network
            if not bubblewrap:
                os.execv(executable, [executable, *arguments])
            _own_network(int(uid) >= 0)
            with _listening() as listening:
                socket.send_fds(host, [b"1"], [listening.fileno()])
    except OSError as error:
        sys.exit(f"agent-envs: no namespaces: {error}")
    command = [bubblewrap, *_wall(executable, int(uid)), *arguments]
    try:
        os.execvp(command[0], command)
    except OSError as error:
        sys.exit(f"agent-envs: no bwrap: {error}")


def _limit_memory(allowed: int, group: str) -> None:
    """For this process and all that it starts."""
    if group:
        Path(group).write_text("0")
    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    allowed = allowed if most == resource.RLIM_INFINITY else min(allowed, most)
    resource.setrlimit(resource.RLIMIT_DATA, (allowed, allowed))


def _own_network(is_root: bool) -> None:
    """A network namespace, in a user namespace where only that is allowed."""
    user, group = os.getuid(), os.getgid()
    flags = _CLONE_NEWNET if is_root else _CLONE_NEWNET | _CLONE_NEWUSER
    if ctypes.CDLL(None, use_errno=True).unshare(flags):
        number = ctypes.get_errno()
        raise OSError(number, f"unshare: {os.strerror(number)}")
    if not is_root:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1")


def _listening() -> socket.socket:
    """A socket on the loopback device, which is switched on first."""
    with socket.socket() as any_socket:
        request = struct.pack("16sh22x", b"lo", _IFF_UP_RUNNING)
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, request)
    listening = socket.socket()
    listening.bind(("127.0.0.1", PORT))
    listening.listen(128)
    return listening


def _wall(executable: str, uid: int) -> list[str]:
    """bubblewrap's arguments: system files, a browser, and a /tmp of its own."""
    command = ["--ro-bind", "/usr", "/usr", "--tmpfs", "/usr/local", "--tmpfs", "/usr/src"]
    for folder in ("/bin", "/lib", "/lib32", "/lib64"):
        if os.path.islink(folder):
            command += ["--symlink", os.readlink(folder), folder]
        elif os.path.isdir(folder):
            command += ["--ro-bind", folder, folder]
    for folder in ("/etc/fonts", "/etc/alternatives"):
        command += ["--ro-bind-try", folder, folder]
    for folder in ("/tmp", "/dev/shm"):
        wide_open = ["--perms", "1777", "--size", str(1 << 30), "--tmpfs", folder]
        command += ["--dev", "/dev", *wide_open] if folder == "/dev/shm" else wide_open
    program = os.path.realpath(executable)
    if not program.startswith("/usr/"):
        command += ["--ro-bind", os.path.dirname(program), "/opt/browser"]
        program = f"/opt/browser/{os.path.basename(program)}"
    command += ["--proc", "/proc", "--unshare-pid", "--unshare-ipc", "--unshare-uts"]
    command += ["--die-with-parent", "--new-session", "--clearenv"]
    for name, value in (("HOME", "/tmp"), ("PATH", "/usr/bin:/bin"), ("LANG", "C.UTF-8")):
        command += ["--setenv", name, value]
    if uid < 0:
        return [*command, "--unshare-user", "--cap-drop", "ALL", "--", program]
    command += ["--cap-drop", "ALL", "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
    become = ["setpriv", "--reuid", str(uid), "--regid", str(uid), "--clear-groups"]
    return [*command, "--", *become, "--no-new-privs", "--inh-caps=-all", program]


if __name__ == "__main__":
    main()
