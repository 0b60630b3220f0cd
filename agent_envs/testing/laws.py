"""The laws of snapshots, against an env that never took one: it plays the history out."""

import json
import pickle
import random
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from agent_envs.env import ToolEnv
from agent_envs.errors import SnapshotUnsupported
from agent_envs.snapshot import Snapshot
from agent_envs.testing.play import FAULTS, Player, Subject, draw_call, probe, said
from agent_envs.turns import Malformed

_LONG = {"max_turns": 400, "max_calls": 2000}
_OPERATIONS = (
    ["move"] * 5 + ["snapshot"] * 2 + ["rollback"] * 2 + ["reseed", "fork", "reset", "draw", "draw"]
)


def rollback_undoes_a_detour(subject: Subject) -> None:
    """Laws 1 and 2 by example, before they are tried at random: play, roll back, play again."""
    env = subject.make(fault_rate=FAULTS, **_LONG)
    for seed in range(12):
        env.reset(seed=seed)
        before = _moves(env, seed, 2)
        if env.ended:
            continue
        snapshot = env.snapshot()
        expected = _moves(env, seed + 100, 6)
        for _ in range(2):
            env.rollback(snapshot)
            assert _moves(env, seed + 100, 6) == expected, (
                f"law 1 (exact): after {len(before)} moves, a detour and a rollback the same moves "
                "say something else. save() must copy, and load() bring back, all that tools "
                "change; both are called again and again with the same state"
            )
    env.close()


def _moves(env: ToolEnv, seed: int, moves: int) -> list[Any]:
    """What an env says to some drawn moves, up to the end of the episode."""
    rng, player = random.Random(seed), Player(env)
    out: list[Any] = []
    while not env.ended and len(out) < moves:
        out.append(said(player.move(rng)))
    return out


def start_law(subject: Subject) -> None:
    """Law 4: `rollback(start, seed=s)` equals `reset(seed=s, options={"task": t})`."""
    one, two = subject.make(fault_rate=FAULTS, **_LONG), subject.make(fault_rate=FAULTS, **_LONG)
    for seed in range(8):
        one.reset(seed=100 + seed)
        start, task = one.snapshot(), one.task.id
        Player(one).move(random.Random(seed))
        rolled = one.rollback(start, seed=seed)[0]
        fresh = two.reset(seed=seed, options={"task": task})[0]
        assert rolled == fresh, "law 4 (reseedable): the opening differs"
        assert one.np_random.random() == two.np_random.random(), (
            "law 4 (reseedable): np_random differs; setup() must not draw from it"
        )
        assert probe(one, seed) == probe(two, seed), (
            "law 4 (reseedable): rollback(start, seed) plays otherwise than reset(seed, task). "
            "setup() must depend on the task alone, and noise on env.rng(stream) alone"
        )
    one.close()
    two.close()


def random_walks_keep_the_laws(subject: Subject) -> None:
    """Laws 1 to 5 and 8 on random walks of moves, snapshots, rollbacks, forks and resets."""

    @settings(
        max_examples=subject.examples,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.generate],  # to shrink a failure takes longer than to find it
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )
    @given(
        seed=st.integers(0, 2**40),
        capacity=st.sampled_from([1, 2, None, None]),
        operations=st.lists(
            st.tuples(st.sampled_from(_OPERATIONS), st.integers(0, 2**30)), min_size=6, max_size=24
        ),
    )
    def walk(seed: int, capacity: int | None, operations: list[tuple[str, int]]) -> None:
        _Walk(subject, seed, capacity).run(operations)

    walk()


class _Walk:
    """One random walk, and what must hold after it."""

    def __init__(self, subject: Subject, seed: int, capacity: int | None) -> None:
        self.subject = subject
        self.env = subject.make(fault_rate=FAULTS, max_snapshots=capacity, **_LONG)
        self.env.reset(seed=seed)
        self.kept: list[tuple[Snapshot, tuple[str, dict[str, Any]], dict[str, Any]]] = []

    def run(self, operations: list[tuple[str, int]]) -> None:
        """Walk, then hold every kept state against a fresh env."""
        for name, number in operations:
            getattr(self, f"_{name}")(number)
        self._same_future(self.env, self.env.history(), 1, "after the walk")
        random.Random(1).shuffle(self.kept)
        for snapshot, words, history in self.kept:
            again = self.env.rollback(snapshot)
            assert again == words, "law 1 (exact): rollback returns another observation or info"
            self._same_future(self.env, history, 2, f"after a rollback to turn {snapshot.turn}")
        self.env.close()

    def _move(self, number: int) -> None:
        if not self.env.ended:
            Player(self.env).move(random.Random(number))

    def _snapshot(self, number: int) -> None:
        snapshot = self.env.snapshot()
        self.kept.append((snapshot, self.env._last_words(), self.env.history()))

    def _rollback(self, number: int) -> None:
        if self.kept:
            self.env.rollback(self.kept[number % len(self.kept)][0])

    def _reseed(self, number: int) -> None:
        if self.kept:
            self.env.rollback(self.kept[number % len(self.kept)][0], seed=number)

    def _fork(self, number: int) -> None:
        snapshot = self.kept[number % len(self.kept)][0] if self.kept and number % 2 else None
        history = self.env.history(snapshot)
        fork = self.env.fork(snapshot)
        self._same_future(fork, history, number, "in a fork")
        fork.close()

    def _reset(self, number: int) -> None:
        self.env.reset()

    def _draw(self, number: int) -> None:
        for _ in range(1 + number % 3):
            self.env.np_random.random()

    def _same_future(self, env: ToolEnv, history: dict[str, Any], seed: int, when: str) -> None:
        """Play on, in `env` and in one that never had a snapshot: the same must come out."""
        oracle = self.subject.make(fault_rate=FAULTS, **_LONG)
        try:
            oracle.replay(history)
        except SnapshotUnsupported as error:
            raise AssertionError(
                f"laws 1 and 8 (exact, portable): {error} ({when}). State outside `state` (or "
                "outside save and load), a reseed that is not logged, a shared stream, or a tool "
                "that draws from np_random instead of self.rng(stream)?"
            ) from None
        assert probe(env, seed) == probe(oracle, seed), (
            f"law 1 (exact): {when} the env goes on otherwise than one that never had a snapshot. "
            "Does save() and load() carry all that tools change?"
        )
        oracle.close()


def deep_lineage(subject: Subject) -> None:
    """Law 2: snapshots of snapshots, as deep as asked, each one good in any order."""
    env = subject.make(fault_rate=FAULTS, max_turns=subject.depth + 10, max_calls=10**6)
    env.reset(seed=3)
    kept = []
    for depth in range(subject.depth):
        kept.append((env.snapshot(), env.history()))
        _careful_move(env, depth)
    assert [s.parent for s, _ in kept[1:]] == [s.id for s, _ in kept[:-1]], "law 2: parents"
    for depth in {0, subject.depth // 2, subject.depth - 1, 1}:
        snapshot, history = kept[depth]
        oracle = subject.make(fault_rate=FAULTS, max_turns=subject.depth + 10, max_calls=10**6)
        oracle.replay(history)
        env.rollback(snapshot)
        assert probe(env, depth) == probe(oracle, depth), f"law 2 (reusable): snapshot {depth}"
        oracle.close()
    env.close()


def _careful_move(env: ToolEnv, number: int) -> None:
    """A move that does not end the episode, undone where it did."""
    before = env.snapshot()
    for attempt in range(20):
        Player(env).move(random.Random(1000 * number + attempt))
        if not env.ended:
            break
        env.rollback(before)
    env._need().snapshot = before.parent
    env.release(before)


def handles_travel(subject: Subject) -> None:
    """Law 7: a handle pickles, has a JSON form, is small, and belongs to its env."""
    env, other = subject.make(), subject.make()
    env.reset(seed=1)
    other.reset(seed=1)
    snapshot, foreign = env.snapshot(), other.snapshot()
    assert Snapshot.from_json(snapshot.to_json()) == snapshot, "law 7: the JSON form"
    wire = pickle.dumps(snapshot)
    assert len(wire) < 2048, f"law 7 (a handle): it pickles to {len(wire)} bytes"
    env.rollback([foreign, pickle.loads(wire)])
    _refuses(lambda: env.rollback(foreign), "law 7: rolled back to another env's snapshot")
    env.release(foreign, snapshot)
    _refuses(lambda: env.rollback(snapshot), "law 5: rolled back to a released snapshot")
    other.rollback(foreign)
    env.close()
    other.close()


def _refuses(act: Any, complaint: str) -> None:
    try:
        act()
    except SnapshotUnsupported:
        return
    raise AssertionError(complaint)


def histories_travel(subject: Subject) -> None:
    """Law 8: a history is JSON, brings its state about, and is refused where it lies."""
    env, other = subject.make(), subject.make()
    env.reset(seed=2)
    rng = random.Random(2)
    for _ in range(6):
        if not env.ended:
            env.np_random.random()  # which is the caller's as well
            env.act([draw_call(env, rng)] if env.tools else Malformed("made up"))
    try:
        told = json.loads(json.dumps(env.history(), allow_nan=False))
    except (TypeError, ValueError) as error:
        raise AssertionError(f"law 8 (portable): the history has no JSON form: {error}") from error
    try:
        words = other.replay(told)[0]
    except SnapshotUnsupported as error:
        raise AssertionError(
            f"law 8 (portable): {error}. Does a tool draw from np_random, which is the caller's "
            "as well? Use self.rng(stream)"
        ) from error
    assert words == env._last_words()[0], "law 8 (portable): another observation"
    told["moves"][0]["digest"] = "something else"
    _refuses(lambda: other.replay(told), "law 8 (portable): replay took a digest that differs")
    env.close()
    other.close()


def forks_outlive_their_parent(subject: Subject) -> None:
    """Law 3: closing the parent does not touch a fork, nor the other way round."""
    env = subject.make(fault_rate=FAULTS, **_LONG)
    env.reset(seed=8)
    Player(env).move(random.Random(8))
    if env.ended:
        env.reset()
    history = env.history()
    fork, short = env.fork(), env.fork(seed=5)
    short.close()
    env.close()
    oracle = subject.make(fault_rate=FAULTS, **_LONG)
    oracle.replay(history)
    assert probe(fork, 8) == probe(oracle, 8), "law 3 (isolated): a fork died with its parent"
    fork.close()
    oracle.close()
