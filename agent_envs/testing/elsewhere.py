"""The same episode in another process: another hash seed, folder, user, host and day."""

import datetime
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import zip_longest
from typing import Any

import gymnasium
from gymnasium.envs.registration import EnvSpec

from agent_envs.env import ToolEnv
from agent_envs.testing.play import FAULTS, Subject, episode

_LATER = 400 * 86_400 + 12_345
"""By how many seconds the clock of the other process is ahead."""
_USER = ("getuid", "geteuid", "getgid", "getegid")
_SCRIPT = "from agent_envs.testing.elsewhere import there; there()"


def same_bytes_in_another_process(subject: Subject) -> None:
    """A fresh interpreter, with another hash seed and in other surroundings, plays the same."""
    env = subject.make(fault_rate=FAULTS)
    if env.spec is None or not isinstance(env.spec.entry_point, str):
        return
    here = json.loads(json.dumps([env.tasks.digest(), episode(env, 5, 2)]))
    with tempfile.TemporaryDirectory() as folder:
        ran = subprocess.run(
            [sys.executable, "-c", _SCRIPT],
            input=env.spec.to_json(),
            env=_surroundings(folder),
            cwd=folder,
            capture_output=True,
            text=True,
        )
    env.close()
    assert ran.returncode == 0, (
        f"the env cannot be made in another process and folder: {ran.stderr[-800:]}"
    )
    tasks, there = json.loads(ran.stdout.splitlines()[-1])  # the env may print, too
    assert tasks == here[0], "another process has other tasks: load() depends on hash(), a set, ..."
    assert there == here[1], (
        "another process plays otherwise: something depends on hash(), id(), a process id, the "
        "date, the user, the host, a path or an environment variable. "
        f"{_first_difference(here[1], there)}"
    )


def there() -> None:
    """What the other process does: print its tasks' digest and its episodes."""
    spec = EnvSpec.from_json(sys.stdin.read())
    module = str(spec.entry_point).partition(":")[0]
    _pretend(module.rpartition(".")[0] or module)
    env = gymnasium.make(spec).unwrapped
    assert isinstance(env, ToolEnv)
    print(json.dumps([env.tasks.digest(), episode(env, 5, 2)]))


def _surroundings(folder: str) -> dict[str, str]:
    somebody = dict.fromkeys(("USER", "LOGNAME", "USERNAME"), "somebody")
    somewhere = dict.fromkeys(("HOSTNAME", "HOST", "COMPUTERNAME"), "elsewhere")
    path = os.pathsep.join(os.path.abspath(entry) for entry in sys.path)
    other = {"PYTHONHASHSEED": "12345", "PYTHONPATH": path, "PWD": folder, "TZ": "XYZ-5:45"}
    return os.environ | somebody | somewhere | other


def _first_difference(here: list[Any], there: list[Any]) -> str:
    pairs = zip_longest(map(str, here), map(str, there), fillvalue="the end")
    one, two = next((one, two) for one, two in pairs if one != two)
    same = len(os.path.commonprefix([one, two]))
    start = max(0, same - 30)
    return f"First {one[start : same + 40]!r}, there {two[start : same + 40]!r}"


def _pretend(package: str) -> None:
    """Another day, host and user, before the env is imported."""
    _shift_clock()
    name = "elsewhere"
    socket.gethostname = lambda: name
    if hasattr(os, "uname"):
        uname = os.uname
        os.uname = lambda: os.uname_result((uname()[0], name, *uname()[2:]))
    for user in (user for user in _USER if hasattr(os, user)):
        setattr(os, user, _one_more(getattr(os, user), package))


def _one_more(get: Callable[[], int], package: str) -> Callable[[], int]:
    """Another number for the env's own code; what it runs on needs the real one."""

    def other() -> int:
        caller = str(sys._getframe(1).f_globals.get("__name__"))
        return get() + (caller == package or caller.startswith(f"{package}."))

    return other


def _shift_clock() -> None:
    """`time` and `datetime` are a year ahead. (A clock that is asked for otherwise is not.)"""
    now, now_ns, format_time, as_text = time.time, time.time_ns, time.strftime, time.asctime
    time.time = lambda: now() + _LATER
    time.time_ns = lambda: now_ns() + _LATER * 10**9
    for name in ("localtime", "gmtime", "ctime"):
        setattr(time, name, _at_shifted(getattr(time, name)))
    time.strftime = lambda form, t=None: format_time(form, time.localtime() if t is None else t)
    time.asctime = lambda t=None: as_text(time.localtime() if t is None else t)
    _shift_datetime()


def _at_shifted(function: Callable[[float], Any]) -> Callable[..., Any]:
    return lambda seconds=None: function(time.time() if seconds is None else seconds)


def _shift_datetime() -> None:
    real: Any = datetime.datetime

    class Kind(type):
        def __instancecheck__(cls, value: object) -> bool:
            return isinstance(value, real)

    class Later(real, metaclass=Kind):  # type: ignore[misc]
        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> Any:
            return cls.fromtimestamp(time.time(), tz)

        @classmethod
        def utcnow(cls) -> Any:
            return cls.now(datetime.UTC).replace(tzinfo=None)

    Later.__module__, Later.__qualname__ = "datetime", "datetime"
    Later.__name__ = "datetime.datetime"  # what a repr begins with
    datetime.datetime = Later  # type: ignore[misc]
