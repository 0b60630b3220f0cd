"""The branching half of an environment: snapshot, rollback, fork, and replay by history."""

import copy
import os
import uuid
from collections.abc import Iterable, Sequence
from typing import Any, Self

import gymnasium
import numpy as np
from gymnasium.envs.registration import EnvSpec
from gymnasium.error import ClosedEnvironmentError, Error, ResetNeeded
from gymnasium.utils import seeding

from agent_envs import history
from agent_envs.episode import Episode, Log, Reseed, RngState
from agent_envs.errors import SnapshotUnsupported
from agent_envs.snapshot import Shelf, Snapshot
from agent_envs.streams import derive
from agent_envs.task import Task
from agent_envs.turns import Move, StepResult

_IMMUTABLE = (str, bytes, int, float, bool, tuple, frozenset, type(None))


class Branching(gymnasium.Env[str, str]):
    """An environment with exactly one live state and any number of kept ones.

    What an episode changes is in two places: `Episode`, which this package keeps, and the env's
    own state behind `save`, `load` and `drop`. `ToolEnv` says what a turn does.
    """

    state_is_data: bool = True
    """Whether `save` gives a value that another env of the class can `load`. If not, `fork`
    replays, and 32 snapshots are kept instead of 1,000."""
    volatile: frozenset[str] = frozenset()
    """What the env cannot fix, by name ("clock", "pid"): the same seed need not give it again."""
    state: Any = None

    replays: int
    """How often a state was brought back by playing its history again."""
    closed: bool
    """Whether `close` was called."""

    _made_with: tuple[tuple[Any, ...], dict[str, Any]]

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Remember the arguments, whatever a subclass takes: `fork` makes a twin."""
        self = super().__new__(cls)
        self._made_with = (args, kwargs)
        return self

    def __init__(self, max_snapshots: int | None = None) -> None:
        """`max_snapshots`: how many states are kept; beyond it the least recently used one goes."""
        if max_snapshots is None:
            max_snapshots = 1000 if self.state_is_data else 32
        self.replays = 0
        self._shelf = Shelf(max_snapshots, lambda saved: self.drop(saved))
        self._uuid = uuid.uuid4().hex
        self.closed = False
        self._episode: Episode | None = None
        self._series: tuple[int, int] | None = None  # base seed and number of the last episode
        self._live = False  # whether there is a state to tear down
        self._spec: EnvSpec | None = None

    # -- hooks ---------------------------------------------------------------------------------

    def save(self) -> Any:
        """An immutable copy of the state."""
        return self.state if _is_immutable(self.state) else copy.deepcopy(self.state)

    def load(self, saved: Any) -> None:
        """Make a saved state the live one, without using it up: it may be loaded again."""
        self.state = saved if _is_immutable(saved) else copy.deepcopy(saved)

    def drop(self, saved: Any) -> None:
        """Free what a saved state holds outside Python."""

    def act(self, move: Move) -> StepResult:
        """Play a move."""
        raise NotImplementedError

    def _start(
        self, base: int, number: int, streams: int, task: Task, rng: RngState | None
    ) -> None:
        """Start episode `number` of the series under a base seed.

        `streams` is the seed of all streams, `rng` is for `np_random` (None: as it is).
        """
        raise NotImplementedError

    def _read(self, text: str) -> Move:
        """What the protocol makes of the text of a turn."""
        raise NotImplementedError

    def _task_called(self, task_id: str) -> Task:
        """The task of an id; KeyError where there is none."""
        raise NotImplementedError

    # -- snapshots ---------------------------------------------------------------------------------

    def snapshot(self, *, on_refusal: str = "raise") -> Snapshot:
        """Keep the current state; any number of times it can be rolled back to.

        Raises SnapshotUnsupported naming what cannot be captured; with `on_refusal="mark"` the
        handle says so in `refused` instead."""
        if on_refusal not in ("raise", "mark"):
            raise ValueError(f'on_refusal={on_refusal!r}: "raise" or "mark"')
        episode = self._need()
        snapshot_id = self._shelf.new_id()
        saved = refused = None
        try:
            saved = self._keep(snapshot_id)
        except SnapshotUnsupported as error:
            if on_refusal == "raise":
                raise
            refused = str(error)
        parent, episode.snapshot = episode.snapshot, snapshot_id
        return Snapshot(
            snapshot_id,
            self._owner,
            self._spec.id if self._spec else "",
            episode.task.id,
            episode.turn,
            parent,
            getattr(saved, "nbytes", 0),
            refused,
        )

    def rollback(
        self, snapshot: Snapshot | Sequence[Snapshot], *, seed: int | None = None
    ) -> tuple[str, dict[str, Any]]:
        """Make a kept state the live one; returns its observation and info.

        Of a sequence it takes its own. With a `seed` all streams restart under it. Raises
        SnapshotUnsupported where the state is not this env's, was refused or released, or cannot
        be replayed, TypeError for what is no snapshot."""
        mine = self._mine(snapshot)
        if seed is not None:
            seed = checked_seed(seed)
        kept = self._kept(mine)
        if self._shelf.has_state(mine.id):
            self._take(kept, self._shelf.state(mine.id), kept.rng)
        else:
            self._replay(history.of(kept, self._spec, self._read), kept.task)
            self._set_rng(kept.rng)
            self._keep(mine.id)
        episode = self._need()
        episode.snapshot = mine.id
        if seed is not None:
            self._reseed(seed)
        return self._last_words()

    def fork(self, snapshot: Snapshot | None = None, *, seed: int | None = None) -> Self:
        """A second env with resources of its own, in the state of a snapshot or in the current one.

        It outlives this one. Its own snapshots are its own. Raises as `rollback` does."""
        if seed is not None:
            seed = checked_seed(seed)
        kept = self._need() if snapshot is None else self._kept(self._mine(snapshot))
        args, kwargs = self._made_with
        twin = type(self)(*args, **kwargs)
        twin._spec = copy.deepcopy(self._spec)
        try:
            self._hand_over(twin, kept, snapshot)
            if seed is not None:
                twin._reseed(seed)
        except BaseException:
            twin.close()
            raise
        return twin

    def release(self, *snapshots: Snapshot) -> None:
        """Free snapshots of this env; those of others are left alone.

        Raises TypeError for what is no snapshot."""
        for snapshot in snapshots:
            if _snapshot(snapshot).owner == self._owner:
                self._shelf.release(snapshot.id)

    @property
    def dropped(self) -> int:
        """How many states were dropped to their history because `max_snapshots` was reached."""
        return self._shelf.dropped

    def history(self, snapshot: Snapshot | None = None) -> dict[str, Any]:
        """The episode up to a snapshot, or up to now, as JSON that `replay` takes."""
        if snapshot is None:
            kept = self._need()
            kept.rng = self._rng_state()
        else:
            kept = self._kept(self._mine(snapshot))
        return history.of(kept, self._spec, self._read)

    def replay(self, told: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        """Bring about the state that a history describes, on any env of its id.

        Raises ValueError for what is no such history, and SnapshotUnsupported as soon as
        something comes out differently."""
        self._replay(told)
        return self._last_words()

    def __deepcopy__(self, memo: object) -> Self:
        """Refused: a copy would own the same snapshots."""
        raise TypeError("an env is not copied by deepcopy: use fork()")

    def __reduce__(self) -> Any:
        """Refused: a state travels as a history, an env as its spec."""
        raise TypeError("an env does not pickle: pickle env.spec, or send env.history()")

    # -- inside --------------------------------------------------------------------------------

    @property
    def _owner(self) -> str:
        """Whose the snapshots are: a process that was forked off has none of its parent's."""
        return f"{self._uuid}.{os.getpid()}"

    def _remake_with(self, **normalised: Any) -> None:
        """Let `fork` use these in place of what the caller gave, and may have changed since."""
        args, kwargs = self._made_with
        self._made_with = args, {**kwargs, **{k: normalised[k] for k in normalised if k in kwargs}}

    def _need(self) -> Episode:
        if self.closed:
            raise ClosedEnvironmentError("this env is closed; make a new one")
        if self._episode is None:
            raise ResetNeeded("no episode is running: call reset() first")
        return self._episode

    def _last_words(self) -> tuple[str, dict[str, Any]]:
        outcome = self._need().outcome
        return outcome.observation, outcome.info()

    def _mine(self, snapshot: Snapshot | Sequence[Snapshot]) -> Snapshot:
        given = _snapshots(snapshot)
        for one in given:
            if one.owner == self._owner:
                return one
        which = "the snapshot was not" if len(given) == 1 else f"none of {len(given)} snapshots was"
        raise SnapshotUnsupported(
            f"{which} taken by this env; for one of another env use history and replay"
        )

    def _kept(self, snapshot: Snapshot) -> Episode:
        if snapshot.refused:
            raise SnapshotUnsupported(f"snapshot {snapshot.id} was refused: {snapshot.refused}")
        kept = self._shelf.episode(snapshot.id)
        if kept is None:
            raise SnapshotUnsupported(f"snapshot {snapshot.id} has been released")
        return kept

    def _keep(self, snapshot_id: int) -> Any:
        """Put the current state on the shelf; returns what `save` gave."""
        episode = self._need()
        if episode.outcome.failed:
            raise SnapshotUnsupported("the environment failed in this episode: no state to keep")
        saved = self.save()
        episode.rng = self._rng_state()
        self._shelf.put(snapshot_id, episode.copy(), saved)
        if self.closed:  # by another thread, meanwhile
            self._shelf.clear()
        return saved

    def _hand_over(self, twin: Self, kept: Episode, snapshot: Snapshot | None) -> None:
        """Bring a fresh twin into a kept state, or into the live one."""
        if not self.state_is_data or (snapshot and not self._shelf.has_state(snapshot.id)):
            twin._replay(history.of(kept, self._spec, self._read), kept.task)
            twin._set_rng(kept.rng if snapshot else self._rng_state())
        elif snapshot is not None:
            twin._take(kept, self._shelf.state(snapshot.id), kept.rng)
        else:
            if kept.outcome.failed:
                raise SnapshotUnsupported("the environment failed in this episode: no state")
            saved = self.save()
            try:
                twin._take(kept, saved, self._rng_state())
            finally:
                self.drop(saved)
        twin._need().snapshot = None

    def _take(self, kept: Episode, saved: Any, rng: RngState) -> None:
        """Make a kept episode and its saved state the live ones."""
        self._episode, self._series, self._live = kept.copy(), (kept.base, kept.number), True
        self.load(saved)
        self._set_rng(rng)

    def _reseed(self, seed: int) -> None:
        episode = self._need()
        episode.base, episode.number, episode.seed = seed, 0, derive(seed, 0)
        self._series = (seed, 0)
        episode.log = Log(episode.log, Reseed(seed), None)
        self._set_rng(seed)

    def _replay(self, told: dict[str, Any], task: Task | None = None) -> None:
        """Play a history, comparing what comes out; see `replay`. A task may be of no source."""
        start, moves = history.read(told, self._spec)
        self.replays += 1
        try:
            task = task or self._task_called(start.task_id)
        except KeyError:
            raise ValueError(f"a history of an unknown task, {start.task_id!r}") from None
        streams = derive(start.base, start.number)
        self._start(start.base, start.number, streams, task, start.rng)
        try:
            self._play_again(start.digest, moves)
        except BaseException:
            self._episode = None  # the state on the way is nobody's
            raise
        self._set_rng(start.rng_now)

    def _play_again(self, opening: str, moves: list[tuple[Move | Reseed, str]]) -> None:
        history.compare(opening, self._need().outcome[:4], 0)
        for number, (entry, expected) in enumerate(moves, 1):
            if isinstance(entry, Reseed):
                self._reseed(entry.seed)
            elif self._need().ended:
                raise ValueError(f"not a history: move {number} comes after the end")
            else:
                history.compare(expected, self.act(entry)[:4], number)

    # -- np_random: made when somebody asks, since most episodes never do --------------------------

    _generator: np.random.Generator | None = None
    _origin: RngState | None = None

    @property
    def _np_random(self) -> np.random.Generator | None:
        """Where Gymnasium keeps its generator."""
        if self._generator is None and self._origin is not None:
            if isinstance(self._origin, int):
                self._generator = seeding.np_random(self._origin)[0]
            else:
                kind = getattr(np.random, self._origin["bit_generator"])
                self._generator = np.random.Generator(kind())
                self._generator.bit_generator.state = self._origin
        return self._generator

    @_np_random.setter
    def _np_random(self, generator: np.random.Generator | None) -> None:
        self._generator = generator

    def _set_rng(self, origin: RngState) -> None:
        self._generator, self._origin = None, origin
        self._np_random_seed = origin if isinstance(origin, int) else -1

    def _rng_state(self) -> RngState:
        if self._generator is not None:
            return dict(self._generator.bit_generator.state)
        return self._origin if self._origin is not None else 0


def checked_seed(seed: Any) -> int:
    """A seed as a plain int. Raises `gymnasium.error.Error` for what is none."""
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise Error(f"a seed is a whole number from 0 up, not {seed!r}")
    return int(seed)


def _snapshots(given: Any) -> list[Snapshot]:
    """A handle, or those of a sequence. Raises as `_snapshot` does."""
    several = not isinstance(given, Snapshot | str | bytes | dict) and isinstance(given, Iterable)
    return [_snapshot(one) for one in given] if several else [_snapshot(given)]


def _snapshot(given: Any) -> Snapshot:
    """What is given, if it is a handle. Raises TypeError, saying where handles come from."""
    if isinstance(given, Snapshot):
        return given
    hint = " (or Snapshot.from_json of its JSON)" if isinstance(given, str | dict) else ""
    raise TypeError(f"a snapshot is what env.snapshot() gives{hint}, not {given!r:.80}")


def _is_immutable(state: Any) -> bool:
    params = getattr(type(state), "__dataclass_params__", None)
    return isinstance(state, _IMMUTABLE) or bool(params and params.frozen)
