"""A state: an interpreter that has run model code, stopped until the supervisor wants a fork.

It is hostile from its first call on, so nothing that it says is believed. What it needs for its
own part is bound here before model code could replace it.
"""

import ast
import io
import json
import linecache
import os
import signal
import socket
import sys
import traceback
import types
from os import fork
from typing import Any

from agent_envs.sandbox.inner.forks import OURS, random
from agent_envs.sandbox.inner.system import CLONE_PARENT, block_signals, clone
from agent_envs.sandbox.inner.wire import receive

ALL_SIGNALS = signal.valid_signals()
LONGEST_TEXT = 20_000
"""Characters of a value or a traceback."""


def live(command: socket.socket) -> None:
    """Wait for orders; each is carried out in a fork, which goes on from here as the new state."""
    namespace = vars(sys.modules["__main__"])
    random.seed(0)
    while True:
        order, fds = receive(command, fds=4)
        if order is None:
            os._exit(0)
        if not fds:  # only asked whether all from before is done
            command.send(b"here")
            continue
        try:
            with OURS:  # the supervisor is the parent of every state, or becomes it
                pid = fork() if "as" in order else clone(CLONE_PARENT)
        except (OSError, Warning):  # 3.12 warns of threads, which model code can make an error
            pid = -1  # no process left: the supervisor sees that nobody says hello
        if pid:
            for fd in fds:
                os.close(fd)
            continue
        os.dup2(fds[0], command.fileno(), inheritable=False)
        os.close(fds[0])
        carry_out(order, command, fds[1:], namespace)


def prepare(archive: str, path: list[str]) -> None:
    """In the zygote, once for all: a `__main__` for cells, and nothing of ours importable."""
    for name in [name for name in sys.modules if name.split(".")[0] == "agent_envs"]:
        del sys.modules[name]
    sys.path.remove(archive)
    if path:
        os.environ["PYTHONPATH"] = ":".join(path)
    sys.argv = [""]
    sys.modules["__main__"] = types.ModuleType("__main__")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def carry_out(
    order: dict[str, Any], command: socket.socket, fds: list[int], namespace: dict[str, Any]
) -> None:
    """One order, in a process of its own: `code`, `argv`, or neither (just be there)."""
    for fd, target in zip(fds, (1, 2), strict=False):
        os.dup2(fd, target)
        os.close(fd)
    reply = fds[2] if fds else -1
    os.setsid()  # nobody else can join its process group, and wake it by leaving that orphaned
    command.send(b"hello")
    block_signals(False)
    if "argv" in order:
        run_command(order["argv"], reply)
    answer = run_cell(order["code"], order["name"], namespace) if "code" in order else None
    flush()
    block_signals(True)
    if answer is not None:
        say(reply, answer)
    for fd in (1, 2):
        os.dup2(0, fd)
    command.send(b"done")


def say(reply: int, answer: dict[str, Any]) -> None:
    """Write the answer, if there is still somebody to read it."""
    try:
        os.write(reply, json.dumps(answer).encode())
        os.close(reply)
    except OSError:
        pass


def flush() -> None:
    """Write out what the streams still hold."""
    for stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
        try:
            if stream is not None:
                stream.flush()
        except BaseException:
            pass


def run_command(argv: list[str], reply: int) -> None:
    """Become a command; what prevents that goes to the reply."""
    for number in ALL_SIGNALS - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execvpe(argv[0], argv, dict(os.environ))
    except OSError as error:
        say(reply, {"error": f"{argv[0]}: {error.strerror}"})
    os._exit(127)


def run_cell(code: str, name: str, namespace: dict[str, Any]) -> dict[str, Any]:
    """Run code as a notebook does: the value of a last expression counts.

    The answer is `value` (its repr), or `error` (a traceback) and `memory`, whether it was a
    MemoryError; and `cut` where the text was longer.
    """
    try:
        linecache.cache[name] = (len(code), None, code.splitlines(keepends=True), name)
        tree = ast.parse(code, name)
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, name, "exec"), namespace)
        if not isinstance(last, ast.Expr):
            return {}
        value = eval(compile(ast.Expression(last.value), name, "eval"), namespace)
        return {} if value is None else cut("value", repr(value))
    except BaseException as error:
        return describe(error)


def describe(error: BaseException) -> dict[str, Any]:
    """The traceback of a cell's exception, without our own frame."""
    memory = isinstance(error, MemoryError)
    try:
        own = error.__traceback__
        frames = own.tb_next if own is not None else None
        lines = traceback.format_exception(type(error), error, frames, limit=-8)
        return {**cut("error", "".join(lines)), "memory": memory}
    except BaseException:
        return {"error": type(error).__name__, "memory": memory}


def cut(name: str, text: str) -> dict[str, Any]:
    """`text` under its name: at most LONGEST_TEXT characters of its beginning and end."""
    if len(text) <= LONGEST_TEXT:
        return {name: text}
    half = LONGEST_TEXT // 2
    middle = f"[... {len(text) - 2 * half} characters ...]"
    return {name: text[:half] + middle + text[-half:], "cut": True}
