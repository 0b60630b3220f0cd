"""Which system calls model code, and the supervisor, may make: filters for the kernel's BPF.

Calls that could reach a stopped state, or carry something over a snapshot that a fork does not
hold, are refused or go to the supervisor (`NOTIFY`), who knows which process is which.
"""

import ctypes
import errno
import struct
from collections.abc import Iterable, Sequence

from agent_envs.sandbox.inner.numbers import AUDIT_ARCH, MACHINE, number
from agent_envs.sandbox.inner.system import call

ALLOW = 0x7FFF0000
NOTIFY = 0x7FC00000
KILL = 0x80000000
ERRNO = 0x50000
SET_MODE_FILTER = 1
NEW_LISTENER = 8

LOAD = 0x20
AND = 0x54
EQUAL = 0x15
AT_LEAST = 0x35
ANY_BIT = 0x45
RETURN = 6
X32 = 0x40000000

DENIED = """
    ptrace process_vm_readv process_vm_writev kexec_load kexec_file_load init_module finit_module
    delete_module create_module get_kernel_syms query_module nfsservctl uselib swapon swapoff reboot
    bpf perf_event_open keyctl add_key request_key userfaultfd io_uring_setup io_uring_enter
    io_uring_register personality quotactl quotactl_fd acct kcmp vhangup iopl ioperm settimeofday
    clock_settime adjtimex clock_adjtime syslog fanotify_init memfd_secret lookup_dcookie
    sethostname seccomp

    mount umount2 pivot_root chroot open_by_handle_at name_to_handle_at open_tree open_tree_attr
    move_mount fsopen fsconfig fsmount fspick mount_setattr unshare setns

    shmget shmat shmctl semget semop semtimedop semctl msgget msgsnd msgrcv msgctl mq_open mq_unlink
    setxattr lsetxattr fsetxattr setxattrat removexattr lremovexattr fremovexattr file_setattr

    setpriority ioprio_set migrate_pages move_pages process_madvise process_mrelease
    set_mempolicy_home_node sched_setscheduler sched_setparam sched_setattr setrlimit timer_create
""".split()
"""Refused to model code and supervisor alike: doors into the kernel; other views of the file
system; what outlives a call or escapes a capture; what reaches other processes."""

SIGNALS = """kill tkill tgkill rt_sigqueueinfo rt_tgsigqueueinfo pidfd_send_signal
    pidfd_open""".split()
"""Model code's calls that the supervisor decides."""

BY_PATH = """chmod fchmodat fchmodat2 chown lchown fchownat utime utimes futimesat
    utimensat""".split()
"""Landlock does not see these: they answer yes and do nothing where host files are in sight."""

NOT_FOR_SUPERVISOR = """execve execveat clone clone3 fork vfork socket connect bind listen accept
    accept4""".split()
"""The supervisor starts nothing and talks to nobody new."""

ALLOWED_PRCTL = (3, 15, 16, 21, 23, 29, 30, 38, 39, 40, 0x53564D41)
"""Reading, naming, timer slack, no_new_privs: nothing that hides a process or frees it."""

AF_UNIX = 1
NAMESPACE_FLAGS = 0x7E020000
SHARING_FLAGS = 0x10F00
"""CLONE_VM, FS, FILES, SIGHAND, THREAD."""
CLONE_PARENT = 0x8000
OWNER_FCNTLS = (8, 10, 15)
"""F_SETOWN, F_SETSIG, F_SETOWN_EX: a signal to any process, without a call that names it."""
PEER_PIDFD, PASS_PIDFD = 77, 76
"""SO_PEERPIDFD, SO_PASSPIDFD: a hold on a process without a call that names it."""
OWNER_IOCTLS = (0x8901, 0x8902, 0x5412, 0x541C)
"""FIOSETOWN, SIOCSPGRP, TIOCSTI, TIOCLINUX."""


def instruction(code: int, when_true: int, when_false: int, k: int) -> bytes:
    """One BPF instruction; the jumps count instructions to skip."""
    return struct.pack("<HBBI", code, when_true, when_false, k)


def load(offset: int) -> bytes:
    """Load a word of `struct seccomp_data`."""
    return instruction(LOAD, 0, 0, offset)


def answer(action: int) -> bytes:
    """End the program with an action."""
    return instruction(RETURN, 0, 0, action)


def refuse(code: int = errno.EPERM) -> int:
    """The action that fails with an errno; 0 answers yes without doing anything."""
    return ERRNO | code


def any_bit(bits: int, action: int) -> list[bytes]:
    """`action` if the loaded word has one of the bits."""
    return [instruction(ANY_BIT, 0, 1, bits), answer(action)]


def if_one_of(values: Iterable[int], action: int) -> list[bytes]:
    """`action` if the loaded word is one of the values."""
    tests = [[instruction(EQUAL, 0, 1, value), answer(action)] for value in values]
    return [line for test in tests for line in test]


def unless(values: Sequence[int], action: int) -> list[bytes]:
    """`action` if the loaded word is none of the values."""
    last = len(values)
    tests = [instruction(EQUAL, last - i, 0, value) for i, value in enumerate(values)]
    return [*tests, answer(action)]


def if_sibling_shares(action: int) -> list[bytes]:
    """`action` if clone flags ask for a sibling that shares memory, files or handlers.

    Such a sibling could pass for a new state and yet go on writing into the stopped one.
    """
    return [
        instruction(AND, 0, 0, CLONE_PARENT | SHARING_FLAGS),
        instruction(ANY_BIT, 0, 2, CLONE_PARENT),
        instruction(EQUAL, 1, 0, CLONE_PARENT),
        answer(action),
    ]


class Filter:
    """A flat program: one block a system call, and everything else is allowed.

    Only the low word of an argument is tested where the kernel itself cuts it to 32 bits.
    """

    def __init__(self, machine: str = MACHINE) -> None:
        if machine not in AUDIT_ARCH:
            raise OSError(errno.ENOSYS, f"no seccomp filter for {machine}")
        self.machine = machine
        self.lines = [load(4), instruction(EQUAL, 1, 0, AUDIT_ARCH[machine]), answer(KILL), load(0)]
        if machine == "x86_64":
            self.lines += [instruction(AT_LEAST, 0, 1, X32), answer(refuse(errno.ENOSYS))]

    def always(self, names: Iterable[str], action: int) -> None:
        """`action` whatever the arguments."""
        for name in names:
            self._rule(name, [answer(action)])

    def words(self, name: str, *tests: tuple[int, Sequence[bytes]]) -> None:
        """Tests of the 32-bit words of the arguments: (2 * argument, or + 1 for its high word)."""
        body = [line for at, test in tests for line in (load(16 + 4 * at), *test)]
        self._rule(name, [*body, load(0)])

    def _rule(self, name: str, body: Sequence[bytes]) -> None:
        nr = number(name, self.machine)
        if nr is not None:
            self.lines += [instruction(EQUAL, 0, len(body), nr), *body]

    def program(self) -> bytes:
        """The finished filter."""
        return b"".join([*self.lines, answer(ALLOW)])


def model_filter(*, shared_kernel_view: bool, machine: str = MACHINE) -> bytes:
    """For model code.

    With a `shared_kernel_view` (no namespaces) host files can be named, so what Landlock does not
    see is off; there are no sockets but pairs; and every fork is asked for.
    """
    filter = Filter(machine)
    filter.always([*DENIED, "pidfd_getfd"], refuse())
    filter.always(SIGNALS, NOTIFY)
    filter.always(["clone3"], refuse(errno.ENOSYS))  # its flags are behind a pointer
    clone_tests = [(0, any_bit(NAMESPACE_FLAGS, refuse())), (0, if_sibling_shares(refuse()))]
    if shared_kernel_view:
        filter.always(["socket"], refuse(errno.EACCES))
        filter.always(BY_PATH, refuse(0))
        filter.always(["fork", "vfork"], NOTIFY)
        clone_tests.append((0, [answer(NOTIFY)]))
    else:
        filter.words("socket", (0, unless([AF_UNIX], refuse(errno.EAFNOSUPPORT))))
    filter.words("clone", *clone_tests)
    no = refuse()
    filter.words("prlimit64", (0, unless([0], no)), (4, unless([0], no)), (5, unless([0], no)))
    filter.words("sched_setaffinity", (0, unless([0], no)))
    filter.words("prctl", (0, unless(ALLOWED_PRCTL, no)))
    filter.words("getsockopt", (4, if_one_of([PEER_PIDFD], no)))
    filter.words("setsockopt", (4, if_one_of([PASS_PIDFD], no)))
    filter.words("fcntl", (2, if_one_of(OWNER_FCNTLS, no)))
    filter.words("ioctl", (2, if_one_of(OWNER_IOCTLS, no)))
    return filter.program()


def supervisor_filter(machine: str = MACHINE) -> bytes:
    """For the supervisor, once it has forked the first state."""
    filter = Filter(machine)
    filter.always(DENIED, refuse())
    filter.always(NOT_FOR_SUPERVISOR, refuse())
    return filter.program()


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_char_p)]


def install(program: bytes, *, listener: bool) -> int:
    """Put a filter on this process for good. Returns the notification descriptor, or 0."""
    flags = NEW_LISTENER if listener else 0
    described = _Program(len(program) // 8, program)
    return call("seccomp", SET_MODE_FILTER, flags, ctypes.byref(described))
