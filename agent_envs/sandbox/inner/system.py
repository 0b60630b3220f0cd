"""System calls that the standard library has no function for. They raise OSError."""

import ctypes
import os
from collections.abc import Callable
from itertools import tee
from operator import call as apply
from typing import Any

from agent_envs.sandbox.inner.numbers import MACHINE, number

# PyDLL keeps the interpreter's lock, so that a raw clone is as good as os.fork.
LIBC: Any = ctypes.PyDLL(None, use_errno=True)

Hook = Callable[[], None]

CLONE_PARENT = 0x8000
CLONE_CHILD_SETTID = 0x1000000
CLONE_CHILD_CLEARTID = 0x200000
SIGCHLD = 17
NEW_MOUNTS, NEW_USER, NEW_NETWORK = 0x20000, 0x10000000, 0x40000000
NEW_NAMESPACES = NEW_MOUNTS | NEW_USER | NEW_NETWORK | 0x4000000 | 0x8000000 | 0x20000000
"""Mount, user, network, uts, ipc and pid namespaces, all at once."""

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38
PR_GET_TID_ADDRESS = 40
PR_CAP_AMBIENT = 47
PR_CAP_AMBIENT_CLEAR_ALL = 4
CAPABILITY_VERSION = 0x20080522
SIG_SETMASK = 2
EVERY_SIGNAL, NO_SIGNAL = b"\xff" * 128, bytes(128)
"""As C's sigset_t has them."""


def check(result: int, what: str) -> int:
    """`result` of a C call, or the OSError that it stands for."""
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")
    return result


def call(name: str, *arguments: Any) -> int:
    """A system call by its name. Integers above 31 bits must come as a ctypes type."""
    nr = number(name)
    if nr is None:
        raise OSError(38, f"{name}: this machine has no such system call")
    return check(LIBC.syscall(nr, *arguments), name)


def prctl(option: int, argument: int = 0) -> None:
    """`prctl(option, argument, 0, 0, 0)`."""
    check(LIBC.prctl(option, ctypes.c_ulong(argument), 0, 0, 0), f"prctl {option}")


def clone(
    flags: int,
    before: Hook = ctypes.pythonapi.PyOS_BeforeFork,
    parent: Hook = ctypes.pythonapi.PyOS_AfterFork_Parent,
    child: Hook = ctypes.pythonapi.PyOS_AfterFork_Child,
    map: Any = map,
    list: Any = list,
) -> int:
    """os.fork with flags.

    The thread id goes to glibc's own address, as its fork does it: without, raise() in the child
    would reach the parent. What is used here is bound before model code can replace it.

    No line of Python may come between the clone and the hook: where another thread wants the
    interpreter's lock, the child would hand it over there, to a thread that it has not, and wait
    for ever. So `list` and the `map`s, which are C, go from one to the other.
    """
    tid = ctypes.c_ulong()
    LIBC.prctl(PR_GET_TID_ADDRESS, ctypes.byref(tid), 0, 0, 0)
    word = ctypes.c_ulong(flags | CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID | SIGCHLD)
    tail = (tid, 0) if MACHINE == "x86_64" else (0, tid)
    arguments = [[value] for value in (CLONE_NUMBER, word, 0, 0, *tail)]
    pids, again = tee(map(LIBC.syscall, *arguments))
    hooks = map({0: child}.get, pids, [parent])
    before()
    list(map(apply, hooks))
    return check(next(again), "clone")


CLONE_NUMBER = number("clone")


def block_signals(blocked: bool) -> None:
    """Block every signal, or none. (The standard library's answer names them all: too slow.)"""
    LIBC.sigprocmask(SIG_SETMASK, EVERY_SIGNAL if blocked else NO_SIGNAL, None)


def drop_capabilities() -> None:
    """Give up every capability. With no_new_privs, which has to be set before, none comes back."""
    LIBC.prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    header = CAPABILITY_VERSION.to_bytes(4, "little") + bytes(4)
    call("capset", header, bytes(24))


def pidfd_getfd(pidfd: int, descriptor: int) -> int:
    """A duplicate of another process's descriptor."""
    return call("pidfd_getfd", pidfd, descriptor, 0)
