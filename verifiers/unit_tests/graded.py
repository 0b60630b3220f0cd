"""What runs around the graded code, in its sandbox. All that it says is the graded code's word:
that is enough for a returned value, and nothing else is ever asked here.

An answer is one JSON object with one key: `value`; `raised`, with the name of an exception; or
`broken`, with why there is neither.
"""

import atexit
import builtins
import functools
import io
import json
import os
import sys
import threading
import types
from collections.abc import Callable
from typing import Any

from agent_envs.verifiers.unit_tests.codec import NotPlain, Other, pack, refuse, unpack, write

home = functools.cache(os.getcwd)
"""Where the session began: it is asked for before the graded code runs."""
ORDER = ".order"
LONGEST_TEXT = 1000
solution = types.ModuleType("solution")


def answer(work: Callable[[Any], dict[str, Any]], text: str | None = None) -> None:
    """Do what the order says, with all printing thrown away, and write the answer to stdout.

    The order is a JSON text, or else in its file.
    """
    order = json.loads(text if text is not None else read_order())
    reply = os.dup(1)
    silence()
    try:
        said = work(order)
    except BaseException as error:
        said = {"broken": f"{type(error).__name__}: {error}"[:LONGEST_TEXT]}
    write(reply, said)


def read_order() -> str:
    """The order in its file."""
    with open(f"{home()}/{ORDER}", encoding="utf-8") as file:
        return file.read()


def silence() -> None:
    """Point stdout and stderr at nothing."""
    null = os.open("/dev/null", os.O_WRONLY)
    for fd in (1, 2):
        os.dup2(null, fd)
    os.close(null)


def load(order: dict[str, Any]) -> dict[str, Any]:
    """Run the solution's file as a module, and see that it has the entry point."""
    path = f"{home()}/{order['module']}"
    name = os.path.basename(path).removesuffix(".py")
    sys.path[:0] = dict.fromkeys([os.path.dirname(path), home()])
    vars(solution).update(__name__=name, __file__=path)
    sys.modules[name] = solution
    with open(path, "rb") as file:
        code = compile(file.read(), order["module"], "exec")
    exec(code, vars(solution))
    if not callable(getattr(solution, order["entry"], None)):
        return {"broken": f"{order['module']} defines no function {order['entry']}"}
    return {"value": None}


def call(order: dict[str, Any]) -> dict[str, Any]:
    """Call the entry point with copies of `args` and `kwargs`."""
    function = getattr(solution, order["entry"])
    args, kwargs = unpack(order["call"])
    return outcome(lambda: function(*args, **kwargs), exact=order["exact"])


def outcome(
    work: Callable[[], Any], other: Other = refuse, *, exact: bool = True
) -> dict[str, Any]:
    """What comes of a piece of work, as an answer."""
    try:
        value = work()
    except Exception as error:
        return {"raised": builtin_name(error), "text": text_of(error)}
    try:
        return {"value": pack(value, other, exact=exact)}
    except NotPlain as error:
        return {"broken": f"the value cannot be read: {error}"}


def builtin_name(error: Exception) -> str:
    """The built-in exception that stands for this one: its own class, or the nearest base.

    A RuntimeError stands for what has none but Exception; also for StopIteration, which would
    end a loop of the test's instead of failing it.
    """
    if type(error) is Exception:
        return "Exception"
    for base in type(error).__mro__:
        if getattr(builtins, base.__name__, None) is base and base is not Exception:
            stops = issubclass(base, StopIteration | StopAsyncIteration)
            return "RuntimeError" if stops or not issubclass(base, Exception) else base.__name__
    return "RuntimeError"


def text_of(error: Exception) -> str:
    """An exception's message."""
    alone = len(error.args) == 1 and type(error.args[0]) is str
    return str(error.args[0] if alone else error)[:LONGEST_TEXT]


def run_program(path: str) -> None:
    """Run a file as a program, from the file of the order as stdin, to its end as Python has it."""
    os.dup2(os.open(f"{home()}/{ORDER}", os.O_RDONLY), 0)
    sys.stdin = open(0, encoding="utf-8", closefd=False)
    sys.stdout = out = io.TextIOWrapper(open(1, "wb", closefd=False), encoding="utf-8")
    sys.argv = [path]
    sys.path.insert(0, os.path.dirname(f"{home()}/{path}"))
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    main.__file__ = path
    try:
        with open(f"{home()}/{path}", "rb") as file:
            code = compile(file.read(), path, "exec")
        exec(code, vars(main))
    except SystemExit:
        pass
    finally:
        threading._shutdown()  # type: ignore[attr-defined]  # waits for its threads, as an exit
        atexit._run_exitfuncs()
        for stream in {sys.stdout, out}:
            stream.flush()
