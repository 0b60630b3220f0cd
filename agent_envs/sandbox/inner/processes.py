"""What the kernel says about a session's processes, and how they are ended."""

import os
import signal
import time
from collections.abc import Collection
from dataclasses import dataclass

CHILDREN_TIMES, THREADS = slice(13, 15), 17
"""Where a process's `stat` has them, counted from the state letter on."""
TICK = 1 / os.sysconf("SC_CLK_TCK")
CPU_CLOCK = 2
"""With a pid, a clock: what all its threads have used."""
SWEEP_SECONDS = 30.0
"""How long a sweep looks before it gives up; each look kills all that it saw."""
EAGER_LOOKS = 20
"""After so many a sweep rests between looks: on a busy machine the killed need its time to die."""
CLEAN_LOOKS = 3
"""Without a pid namespace a process may move to another parent between two looks."""


@dataclass(frozen=True)
class End:
    """How a process ended: its wait status, and the CPU seconds that it and its children used."""

    status: int
    seconds: float


class Processes:
    """The processes below this one. `proc` is a descriptor of a /proc that shows them.

    With a pid namespace of one's own they are all that there is; without, they are this process's
    descendants, orphans included, since it is their subreaper. What is below the processes in
    `apart` is not looked at.
    """

    def __init__(self, proc: int, *, alone: bool) -> None:
        self.proc = proc
        self.alone = alone
        self.ends: dict[int, End] = {}
        self.uncounted: set[int] = set()
        """Processes whose end says nothing about the call that goes on: those of earlier ones."""
        self.zombies: set[int] = set()
        self.apart: set[int] = set()
        self.count = 1

    # -- facts --

    def read(self, path: str) -> str:
        """A file of /proc. Raises OSError when the process is gone."""
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC, dir_fd=self.proc)
        try:
            return b"".join(iter(lambda: os.read(fd, 1 << 16), b"")).decode("utf-8", "replace")
        finally:
            os.close(fd)

    def stat(self, pid: int) -> list[str]:
        """The fields of /proc/PID/stat from the state letter on; ["X"] when it is gone."""
        try:
            return self.read(f"{pid}/stat").rpartition(")")[2].split()
        except OSError:
            return ["X"]

    def threads(self, pid: int) -> int:
        """How many threads a process has; 0 when it is gone."""
        fields = self.stat(pid)
        return int(fields[THREADS]) if len(fields) > THREADS else 0

    def seconds(self, pid: int, fields: list[str]) -> float:
        """CPU time of a process and the children that it has waited for. `fields`: its `stat`."""
        return self.own_seconds(pid) + sum(map(int, fields[CHILDREN_TIMES])) * TICK

    def own_seconds(self, pid: int) -> float:
        """CPU time of a process alone; 0 when it is gone."""
        try:
            return time.clock_gettime(~pid << 3 | CPU_CLOCK)
        except OSError:
            return 0.0

    def seconds_of_ended(self) -> float:
        """CPU time of the processes that have ended in this call."""
        return sum(end.seconds for end in self.ends.values())

    def has_thread(self, pid: int, thread: int) -> bool:
        """Whether a process has a thread of that number."""
        try:
            os.stat(f"{pid}/task/{thread}", dir_fd=self.proc)
        except OSError:
            return False
        return True

    def descriptors(self, pid: int) -> dict[int, str]:
        """What each open descriptor of a process is."""
        folder = os.open(f"{pid}/fd", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=self.proc)
        try:
            return {int(name): os.readlink(name, dir_fd=folder) for name in os.listdir(folder)}
        finally:
            os.close(folder)

    def opened(self, pid: int, descriptor: int) -> tuple[int, int]:
        """Where a process's open file stands, and its flags."""
        words = self.read(f"{pid}/fdinfo/{descriptor}").split()
        return int(words[1]), int(words[3], 8)

    def has_lock(self, pid: int, descriptor: int) -> bool:
        """Whether a lock or a lease hangs on an open file: forks share it, or have none."""
        return "\nlock:" in self.read(f"{pid}/fdinfo/{descriptor}")

    def folder(self, pid: int) -> str:
        """A process's working directory."""
        return os.readlink(f"{pid}/cwd", dir_fd=self.proc)

    def mapping_apart(self, pid: int, writable: str | tuple[str, ...]) -> str | None:
        """The first mapping of a process that a fork of it does not have for itself, by name: one
        that is shared, or of a file in a `writable` place, which may become another file."""
        for line in self.read(f"{pid}/maps").splitlines():
            rights = line.split(None, 2)[1]
            name = (line.split(None, 5) + ["shared memory"])[5]
            of_system = name.startswith("/") and not name.endswith(" (deleted)")
            shared = rights[3] == "s" and not (of_system and rights[1] == "-")
            if shared:
                return f"shared mapping of {name}"
            if name.startswith(writable):
                return f"mapping of {name}"
        return None

    def everyone(self) -> list[int]:
        """All pids but this process's own."""
        if not self.alone:
            return self.descendants()
        own = os.getpid()
        return [int(name) for name in os.listdir(self.proc) if name.isdigit() and int(name) != own]

    def descendants(self) -> list[int]:
        """This process's children, their children, and so on."""
        found: list[int] = []
        todo = [os.getpid()]
        while todo:
            children = [pid for pid in self._children(todo.pop()) if pid not in self.apart]
            found += children
            todo += children
        return found

    def _children(self, pid: int) -> list[int]:
        try:
            folder = os.open(f"{pid}/task", os.O_RDONLY | os.O_DIRECTORY, dir_fd=self.proc)
        except OSError:
            return []
        try:
            tasks = os.listdir(folder)
        finally:
            os.close(folder)
        return [int(child) for task in tasks for child in self._children_of_task(pid, task)]

    def _children_of_task(self, pid: int, task: str) -> list[str]:
        try:
            return self.read(f"{pid}/task/{task}/children").split()
        except OSError:
            return []

    # -- ends --

    def reap(self) -> None:
        """Take note of the children that have ended."""
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            self._note(pid, End(status, usage.ru_utime + usage.ru_stime))

    def _note(self, pid: int, end: End) -> None:
        self.zombies.discard(pid)
        if pid in self.uncounted:
            self.uncounted.discard(pid)
        else:
            self.ends[pid] = end

    def stop(self, pid: int, seconds: float = 10.0) -> bool:
        """Stop a child for good, by the kernel's word; False when it ended, or would not.

        SIGCHLD must be blocked: it is what this waits for.
        """
        deadline = time.monotonic() + seconds
        os.kill(pid, signal.SIGSTOP)
        while True:
            got, status, usage = os.wait4(pid, os.WNOHANG | os.WUNTRACED)
            if got and os.WIFSTOPPED(status):
                return True
            if got:
                self._note(pid, End(status, usage.ru_utime + usage.ru_stime))
                return False
            left = deadline - time.monotonic()
            if left <= 0 or signal.sigtimedwait([signal.SIGCHLD], left) is None:
                return False

    def sweep(self, spared: Collection[int]) -> int:
        """Kill all but the spared, until looks find none. Returns how many were there to kill."""
        killed: set[int] = set()
        clean = 0
        self.zombies.clear()
        looks, deadline = 0, time.monotonic() + SWEEP_SECONDS
        while time.monotonic() < deadline:
            looks += 1
            self.reap()
            everyone = self.everyone()
            rest = [pid for pid in everyone if pid not in spared and pid not in self.zombies]
            self.zombies |= {pid for pid in rest if is_dead(self.stat(pid))}
            rest = [pid for pid in rest if pid not in self.zombies]
            clean = 0 if rest else clean + 1
            if clean >= (1 if self.alone else CLEAN_LOOKS):
                self.count = len(everyone) + 1
                self._note_zombies()
                return len(killed)
            for pid in rest:
                kill(pid)
                if pid not in self.uncounted:  # else a state that was ended and is not dead yet
                    killed.add(pid)
            if looks > EAGER_LOOKS or len(killed) > 64:
                time.sleep(0.001)
        raise RuntimeError("processes that do not die")

    def _note_zombies(self) -> None:
        """Take note of those that have ended and that a stopped parent will never wait for."""
        self.reap()
        for pid in self.zombies - self.uncounted:
            fields = self.stat(pid)
            if fields[0] == "Z":
                self.ends[pid] = End(0, self.seconds(pid, fields))
                self.uncounted.add(pid)


def is_dead(fields: list[str]) -> bool:
    """Whether a process, by its `stat`, has no thread left. One whose first thread has ended is
    shown as a zombie too, and may go on."""
    return fields[0] in "ZX" and (len(fields) <= THREADS or int(fields[THREADS]) <= 1)


def kill(pid: int) -> None:
    """SIGKILL; nothing when it is gone."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
