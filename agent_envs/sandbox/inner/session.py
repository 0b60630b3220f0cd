"""How a session begins: a clone of the zygote builds its walls, forks the first state from inside
them, gives up what it no longer needs, and becomes the supervisor."""

import gc
import os
import resource
import signal
import socket
from dataclasses import dataclass

from agent_envs.sandbox.inner import landlock, rooms, seccomp, state, system
from agent_envs.sandbox.inner.forks import OURS
from agent_envs.sandbox.inner.handle import State
from agent_envs.sandbox.inner.processes import Processes
from agent_envs.sandbox.inner.restore import empty_folder
from agent_envs.sandbox.inner.setup import Setup
from agent_envs.sandbox.inner.signals import Notifications
from agent_envs.sandbox.inner.states import States
from agent_envs.sandbox.inner.supervisor import Supervisor
from agent_envs.sandbox.inner.watch import Gone, Watch
from agent_envs.sandbox.inner.wire import receive, send

INSIDE_UID = 1000
READY = b"ready"
IGNORED = (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP)
"""What a terminal sends to all of the host's group, and zygote and supervisors do not mind."""
PLACES = ("workspace", "tmp", "shm")
SYSTEM_FOLDERS = ("/lib", "/lib64", "/bin")
DEVICES = ("/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")


@dataclass(frozen=True)
class Ground:
    """What the walls stand on."""

    folder: int
    """The folder that holds workspace, tmp and shm."""
    proc: int
    workspace: str
    tmp: str
    read: tuple[str, ...]
    write: tuple[str, ...]
    base: str = ""
    """A folder on a file system of the host that must be removed at the end."""


def run(
    host: socket.socket,
    lifeline: int,
    filters: dict[str, bytes],
    uid: int,
    gid: int,
    late: dict[str, str] | None,
) -> None:
    """A session, from its first message to its end. Never returns.

    It runs as `uid` and `gid`. With a user namespace it is theirs already; without, it takes them
    on, unless it has them. `late` is what the zygote has left to do of its rooms; None, all.
    """
    gc.disable()  # nothing here makes cycles, and a collection would copy shared pages
    message, doors = receive(host, fds=1)
    if message is None:
        os._exit(0)
    setup = Setup(**message)
    ground = None
    try:
        for door in doors:
            os.write(door, b"0")  # into the session's cgroup
            os.close(door)
        ground = build(setup, uid, gid, late)
        supervisor = begin(setup, ground, host, lifeline, filters)
        send(host, {"ready": True})
        supervisor.serve()
    except (Gone, ConnectionError):
        pass
    except BaseException as error:
        report(host, error)
    finally:
        try:
            if ground and ground.base:
                clean_up(ground)
        finally:
            os._exit(0)


def report(host: socket.socket, error: BaseException) -> None:
    """Tell the host why there is no session, if it still listens."""
    try:
        send(host, {"failed": f"{type(error).__name__}: {error}"})
    except OSError:
        pass


def clean_up(ground: Ground) -> None:
    """End what is below, and remove the session's folder: where no namespace does it."""
    Processes(ground.proc, alone=False).sweep(())
    remove_base(ground.folder, ground.base)


def build(setup: Setup, uid: int, gid: int, late: dict[str, str] | None) -> Ground:
    """Take on the session's identity and make its folders."""
    os.umask(0o022)
    if setup.alone:
        map_user(uid, gid)
        become(INSIDE_UID, INSIDE_UID)
        return _own_rooms(setup, late)
    if os.getresuid() != (uid, uid, uid):
        become(uid, gid)
    return _shared_ground(setup)


def become(uid: int, gid: int) -> None:
    """Take on an identity for good, and stay readable to processes of the same."""
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)
    system.prctl(system.PR_SET_DUMPABLE, 1)


def _own_rooms(setup: Setup, late: dict[str, str] | None) -> Ground:
    system.prctl(system.PR_SET_PDEATHSIG, signal.SIGKILL)
    if late is None:
        late = rooms.build(setup.read)
    folder, proc = rooms.furnish(setup.workspace, setup.entries, late)
    socket.sethostname("box")
    write = ("/workspace", "/tmp", "/dev")
    return Ground(folder, proc, "/workspace", "/tmp", ("/",), write)


def _shared_ground(setup: Setup) -> Ground:
    system.prctl(system.PR_SET_CHILD_SUBREAPER, 1)
    base = setup.base
    os.mkdir(base, 0o700)
    for name in PLACES:
        os.mkdir(f"{base}/{name}", 0o755)
    folder = os.open(base, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    proc = os.open("/proc", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    read = (*SYSTEM_FOLDERS, *DEVICES, *setup.read)
    write = (base, "/dev/null")
    return Ground(folder, proc, f"{base}/workspace", f"{base}/tmp", read, write, base)


def map_user(uid: int, gid: int, *, inside: tuple[int, int] = (INSIDE_UID, INSIDE_UID)) -> None:
    """Be INSIDE_UID, or another uid and gid, in this process's new user namespace."""
    for name, line in (
        ("setgroups", "deny"),
        ("uid_map", f"{inside[0]} {uid} 1"),
        ("gid_map", f"{inside[1]} {gid} 1"),
    ):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(line)


def begin(
    setup: Setup, ground: Ground, host: socket.socket, lifeline: int, filters: dict[str, bytes]
) -> Supervisor:
    """Fork the first state, then shed what only the walls needed."""
    landlocked = setup.walled and landlock.abi() > 0
    system.prctl(system.PR_SET_NO_NEW_PRIVS, 1)
    if landlocked and not setup.alone:
        landlock.restrict(
            read=(*ground.read, "/proc"),
            write=ground.write,
            listed=setup.listed,
            emptied=(os.path.dirname(ground.base),),
        )
    mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    own = f"socket:[{os.fstat(theirs.fileno()).st_ino}]"
    with OURS:
        pid = os.fork()
    if pid == 0:
        try:
            become_first_state(setup, ground, theirs, filters, landlocked)
        finally:
            os._exit(1)
    theirs.close()
    # While the first state is getting ready:
    processes = Processes(ground.proc, alone=setup.alone)
    system.drop_capabilities()
    if setup.walled:
        seccomp.install(filters["supervisor"], listener=False)
    watch = Watch(host, lifeline)
    first = State(pid, mine, own, os.pidfd_open(pid))
    supervisor = Supervisor(setup, host, ground.folder, States(setup, processes, watch, first))
    _, fds = receive(mine, fds=1)
    if mine.recv(len(READY)) != READY:
        raise OSError("the first state ends before it begins")
    mine.setblocking(False)
    processes.stop(pid)
    if fds:
        watch.notifications = Notifications(
            fds[0], processes, setup.processes, supervisor.states.by_pid
        )
    return supervisor


def become_first_state(
    setup: Setup,
    ground: Ground,
    command: socket.socket,
    filters: dict[str, bytes],
    landlocked: bool,
) -> None:
    """Shut the door from the inside, then wait for orders. Never returns."""
    os.setsid()
    os.chdir(ground.workspace)
    if os.environ["HOME"] != ground.workspace:
        os.environ.update(HOME=ground.workspace, TMPDIR=ground.tmp)
    keep_only(command)
    for name, most in setup.rlimits.items():
        resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (most, most + (name == "CPU")))
    system.drop_capabilities()
    system.block_signals(True)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in IGNORED[1:]:
        signal.signal(number, signal.SIG_DFL)
    if landlocked:
        landlock.restrict(read=ground.read, write=ground.write, listed=setup.listed)
    fds = []
    if setup.walled:
        fds.append(seccomp.install(filters[setup.strength], listener=True))
    send(command, {}, fds)
    for fd in fds:
        os.close(fd)
    gc.freeze()
    gc.enable()
    command.send(READY)
    state.live(command)


def keep_only(command: socket.socket) -> None:
    """Close every descriptor but the standard ones, which are nothing, and this socket."""
    null = os.open("/dev/null", os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    kept = command.fileno()
    os.closerange(3, kept)
    os.closerange(kept + 1, MOST_DESCRIPTORS)


MOST_DESCRIPTORS = 4096


def remove_base(folder: int, base: str) -> None:
    """Remove a session's folder, which is open, from the host's file system."""
    empty_folder(folder, ".")
    os.close(folder)
    os.rmdir(base)
