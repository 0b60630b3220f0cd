"""`Sandbox`: an interpreter and a workspace for untrusted code, that can be rolled back."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from agent_envs.errors import SnapshotUnsupported
from agent_envs.sandbox.calls import Calls
from agent_envs.sandbox.channel import Channel, SessionLost
from agent_envs.sandbox.frozen import SandboxSnapshot, budget, new_owner
from agent_envs.sandbox.log import LOST, Step, history, steps_of
from agent_envs.sandbox.outcome import LOST_SESSION
from agent_envs.sandbox.settings import Limits, check_given


class Sandbox(Calls):
    """Where untrusted code runs. One caller at a time; `close` from any thread.

        with Sandbox() as box:
            box.run_python("x = [1, 2, 3]")
            before = box.snapshot()
            box.run_python("x.append(4)")
            box.rollback(before)

    `backend`: "auto" is the strongest that this machine can do. `interpreter`: a Python that
    everybody may read; by default this one, or else the system's. `packages`: names of installed
    packages, which come with what they require, or folders for `sys.path`; seen read-only.
    `modules`: sources by name, in the order in which they need each other; run once for all
    sandboxes that have the same, outside their walls, so they must be your own. `strict` refuses a
    backend that does not enforce every limit. Of at most `max_snapshots` frozen copies the least
    recently used is dropped first, to be brought back by replay; `dropped` counts.

    Raises BackendUnavailable, saying what to do, when there is no such sandbox on this machine, and
    ValueError for an argument that cannot be.
    """

    def __init__(
        self,
        backend: str = "auto",
        *,
        interpreter: str | None = None,
        packages: Sequence[str] = (),
        modules: Mapping[str, str] = {},
        limits: Limits | None = None,
        strict: bool = False,
        max_snapshots: int = 128,
    ) -> None:
        check_given(interpreter, packages, modules, limits, strict, max_snapshots)
        limits = limits or Limits()
        self.max_snapshots = max_snapshots
        self.dropped = 0
        self._arguments: dict[str, Any] = {
            "interpreter": interpreter,
            "packages": tuple(packages),
            "modules": dict(modules),
            "limits": limits,
            "strict": strict,
            "max_snapshots": max_snapshots,
        }
        self._owner = new_owner()
        self._ids = itertools.count(1)
        self._taken: dict[int, SandboxSnapshot] = {}
        self._copies: dict[int, int] = {}  # least recently used first: id -> the session's number
        self._files: dict[int, str] = {}  # of snapshots whose copies have gone: a hash
        self._to_thaw: list[int] = []
        sources = tuple(modules.items())
        super().__init__(backend, interpreter, tuple(packages), sources, limits, strict)

    def snapshot(self) -> SandboxSnapshot:
        """A handle to the interpreter and the files as they are. Raises SnapshotUnsupported,
        naming what cannot be captured: an open socket, a shared mapping, a FIFO in the workspace.
        """
        with self._lock:
            snapshot = SandboxSnapshot(next(self._ids), self._owner, self._step)
            self._freeze(snapshot)
            self._taken[snapshot.id] = snapshot
            return snapshot

    def rollback(self, snapshot: SandboxSnapshot) -> None:
        """Be as when the snapshot was taken: any number of times, in any order.

        If its frozen copy has gone (dropped for others, or ended by the kernel) its actions are
        played again. Raises SnapshotUnsupported if that does not lead to the same.
        """
        with self._lock:
            self._check(snapshot)
            if not self._go_to_copy(snapshot):
                self._play_again(snapshot)

    def release(self, *snapshots: SandboxSnapshot) -> None:
        """Give up snapshots, and the processes and memory that they hold."""
        with self._lock:
            for snapshot in snapshots:
                self._check(snapshot)
                del self._taken[snapshot.id]
                self._files.pop(snapshot.id, None)
                self._drop_copy(snapshot.id)

    def fork(self, snapshot: SandboxSnapshot | None = None) -> "Sandbox":
        """A second sandbox in the same state, as it is now or in a snapshot, by replay.

        Costs a start and all the calls so far. Raises SnapshotUnsupported where they do not come
        to the same: results are compared, and in the end the files.
        """
        with self._lock:
            if snapshot is not None:
                self._check(snapshot)
            other = Sandbox(self._backend.name, **self._arguments)
            try:
                other._play(self._step if snapshot is None else snapshot.step)
                wanted = self._digest(snapshot)
                if wanted is not None and wanted != other._digest(None):
                    raise SnapshotUnsupported("a replay leads to other files")
            except BaseException:
                other.close()
                raise
            return other

    def history(self, snapshot: SandboxSnapshot | None = None) -> list[dict[str, Any]]:
        """The actions that lead to now, or to a snapshot, as JSON has it."""
        with self._lock:
            if snapshot is not None:
                self._check(snapshot)
            return history(self._step if snapshot is None else snapshot.step)

    def replay(self, actions: list[dict[str, Any]]) -> None:
        """Go back to the start and play a `history`. Raises SnapshotUnsupported at a result that
        differs, ValueError for what is no history."""
        step = steps_of(actions)
        with self._lock:
            self._start_again()
            self._play(step)

    def _check(self, snapshot: SandboxSnapshot) -> None:
        if not isinstance(snapshot, SandboxSnapshot):
            raise TypeError(f"a snapshot is what box.snapshot() gives, not {snapshot!r:.80}")
        if snapshot.owner != self._owner:
            raise ValueError("a snapshot of another sandbox; fork() and replay() bring one over")
        if snapshot.id not in self._taken:
            raise ValueError(f"snapshot {snapshot.id} has been released")

    def _freeze(self, snapshot: SandboxSnapshot) -> None:
        try:
            reply = self._ready().ask("snapshot")
        except SessionLost:
            self._restart()
            raise SnapshotUnsupported(LOST_SESSION) from None
        if "snapshot" not in reply:
            raise SnapshotUnsupported(reply.get("refused", "the interpreter has been lost"))
        self._copies[snapshot.id] = reply["snapshot"]
        if len(self._copies) > self.max_snapshots:
            self.thaw(next(iter(self._copies)))
        budget.use(self._owner, snapshot.id, self)

    def _go_to_copy(self, snapshot: SandboxSnapshot) -> bool:
        """Back to a frozen copy, if it is there and whole."""
        channel = self._ready()
        number = self._copies.pop(snapshot.id, None)
        if number is None:
            return False
        self._copies[snapshot.id] = number
        try:
            reply = channel.ask("rollback", snapshot=number)
        except SessionLost:
            self._restart()
            return False
        if "back" not in reply:
            self._lose_copy(snapshot.id)
            return False
        budget.use(self._owner, snapshot.id, self)
        self._step = snapshot.step
        return True

    def _play_again(self, snapshot: SandboxSnapshot) -> None:
        """Bring a snapshot about from the nearest one before it that has its copy."""
        chain = list(snapshot.step.chain()) if snapshot.step else []
        nearest = next((one for step in chain for one in self._taken_at(step)), None)
        if nearest is None or not self._go_to_copy(nearest):
            self._start_again()
        self._play(snapshot.step)
        wanted = self._files.get(snapshot.id)
        if wanted is not None and wanted != self._digest(None):
            raise SnapshotUnsupported("a replay leads to other files")
        try:
            self._freeze(snapshot)
        except SnapshotUnsupported:
            pass  # it is where it was; only the next rollback has to play again

    def _taken_at(self, step: Step) -> list[SandboxSnapshot]:
        return [self._taken[id] for id in self._copies if self._taken[id].step is step]

    def _start_again(self) -> None:
        """Be as at the start."""
        try:
            back = "back" in self._ready().ask("rollback", snapshot=0)
        except SessionLost:
            back = False
        if not back:
            self._restart()
        self._step = None

    def _play(self, target: Step | None) -> None:
        """Do what lies between here and a later step. Raises SnapshotUnsupported if it differs."""
        todo: list[Step] = []
        for step in target.chain() if target else ():
            if step is self._step:
                break
            todo.append(step)
        for step in reversed(todo):
            if step.do == LOST:
                raise SnapshotUnsupported("an interpreter was lost on the way: no replay")
            getattr(self, step.do)(**step.arguments)
            now = self._step
            if now is None or now.do != step.do or now.digest != step.digest:
                raise SnapshotUnsupported(f"a replay of {step.do} came out differently")
        self._step = target

    def _digest(self, snapshot: SandboxSnapshot | None) -> str | None:
        """A hash of the files; None where a snapshot's copy has gone."""
        number = None if snapshot is None else self._copies.get(snapshot.id)
        if snapshot is not None and number is None:
            return None
        try:
            digest = self._ready().ask("digest", snapshot=number).get("digest")
        except SessionLost:
            self._restart()
            raise SnapshotUnsupported(LOST_SESSION) from None
        return digest if digest is None else str(digest)

    def _lose_copy(self, id: int) -> None:
        """Drop a copy that a replay is to make good, and note what its files were."""
        try:
            files = self._digest(self._taken[id])
        except SnapshotUnsupported:  # the session is lost, and all copies with it
            files = None
        if files is not None:
            self._files[id] = files
        self._drop_copy(id)

    def _drop_copy(self, id: int) -> None:
        number = self._copies.pop(id, None)
        budget.forget(self._owner, id)
        if number is not None:
            try:
                self._channel.ask("drop", snapshot=number)
            except SessionLost:
                self._restart()

    def thaw(self, snapshot: int) -> None:
        """Let go of a frozen copy; at once, or as soon as the call that is going on has ended."""
        if not self._lock.acquire(blocking=False):
            self._to_thaw.append(snapshot)
            return
        try:
            if snapshot in self._copies and not self._closed:
                self.dropped += 1
                self._lose_copy(snapshot)
        finally:
            self._lock.release()

    def _ready(self) -> Channel:
        channel = super()._ready()
        while self._to_thaw:
            self.thaw(self._to_thaw.pop())
        return channel

    def _forget_copies(self) -> None:
        for id in self._copies:
            budget.forget(self._owner, id)
        self._copies.clear()
