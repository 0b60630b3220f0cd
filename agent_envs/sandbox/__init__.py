"""Where untrusted code runs: a Python session and a workspace that can be rolled back.

    from agent_envs.sandbox import Sandbox
    with Sandbox() as box:
        box.run_python("x = [1, 2, 3]; open('a.txt', 'w').write('hi')")
        before = box.snapshot()
        box.run_python("x.append(4)")
        box.rollback(before)

Backends, the strongest first; `backend="auto"` takes the first that a dry run shows to work, and
never the last:

    namespace   a session is a clone of a warm zygote in user, mount, pid, net, ipc and uts
                namespaces of its own: read-only /usr, one tmpfs limited in bytes and files, no
                /proc, no capabilities, seccomp, Landlock
    landlock    the same processes under Landlock and seccomp only, for containers that forbid
                namespaces: weaker
    docker      as landlock, in a locked-down container that serves many sessions: no network,
                read-only root, no capabilities, an unprivileged user, limits of the engine
    subprocess  limits, and no isolation at all

What is covered, in all but `subprocess`: host files and the environment; the network and
all sockets of others; signals, ptrace and limits of processes outside, of the supervisor and of
frozen copies; new namespaces; what a call leaves behind; processes, CPU and wall time, memory of
each process, output, bytes and number of files; total memory where a cgroup can be made. Model code
runs under a uid of its own for each session where the host is root. A rollback brings back the
interpreter (its random numbers, file offsets, unflushed output) and the files (contents, modes,
times, links); what cannot be captured is refused by name.

What is not covered:

- The kernel is shared. This is no virtual machine: a bug in the kernel is a way out.
- What an interpreter says of itself (value, error, output) is the model's own word, and whoever
  grades must do it elsewhere. How a call ended is the kernel's word.
- Side channels, and the time that others take on the same cores.
- `landlock`: bytes and files of the workspace are measured a few times a second, not limited; names
  and attributes of host files can be seen, their contents not; chmod, chown and utime by path do
  nothing; no sockets but pairs, so no process pools; where the host is not root, model code has the
  host's uid, and processes are counted by the supervisor.
- `docker`: as in `landlock`, but for the container's own files; sessions of one container share a
  uid, and Landlock of Linux 6.2 keeps them apart. Where the host is not root only the container's
  limit of total memory holds.
- Without a writable cgroup nothing limits the memory of all processes together; `capabilities` says
  so, a warning does once, and `strict=True` refuses.
- Shared memory between the calls of one session is not undone when a call times out; a snapshot
  refuses it.

Volatile, so that a replay may differ: the clock, os.urandom, pids, `id()` and the addresses in
default reprs, and in `landlock` the path of the workspace. Hash seed, `random` and the order of
sets are the same in every session.

A process has one warm zygote for each backend, interpreter and choice of packages; they live until
`close_zygotes()`, or the end of the process, however it ends.
"""

from agent_envs.sandbox.backends import BACKENDS, Backend, Capabilities
from agent_envs.sandbox.frozen import SandboxSnapshot, budget
from agent_envs.sandbox.host import close_zygotes
from agent_envs.sandbox.probe import Report, SandboxWarning, probe, probe_all
from agent_envs.sandbox.result import ExecResult, FileEntry, SandboxClosed, SandboxFileError
from agent_envs.sandbox.sandbox import Sandbox
from agent_envs.sandbox.settings import Limits

__all__ = [
    "BACKENDS",
    "Backend",
    "Capabilities",
    "ExecResult",
    "FileEntry",
    "Limits",
    "Report",
    "Sandbox",
    "SandboxClosed",
    "SandboxFileError",
    "SandboxSnapshot",
    "SandboxWarning",
    "budget",
    "close_zygotes",
    "probe",
    "probe_all",
]
