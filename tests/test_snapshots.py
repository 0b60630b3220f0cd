"""Snapshots, rollback, fork and history: the laws by example, and those who would break them."""

import copy
import json
import pickle
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from hypothesis import given
from hypothesis import strategies as st

from agent_envs import (
    BackendUnavailable,
    Malformed,
    Snapshot,
    SnapshotUnsupported,
    Task,
    TaskSource,
    ToolCall,
    ToolEnv,
    Verdict,
    tool,
)
from agent_envs.plain import to_plain
from agent_envs.turns import Move

FAULTS: Any = {"wrong": 0.3, "stale": 0.2, "error": 0.1}


class Sums(TaskSource):
    """Ten a split; the answer is the sum of all numbers that were added."""

    splits = ("train", "heldout")

    def load(self, split: str) -> list[Task]:
        return [Task(f"{split}/{i}", split, f"Add up to {i} in {split}.", i) for i in range(10)]


@dataclass(frozen=True)
class Sum:
    total: int = 0


class Adder(ToolEnv):
    """State as one frozen value."""

    tasks = Sums()
    weights = {"answer": 1.0, "adds": 0.0}

    def setup(self, task: Task) -> None:
        self.state = Sum()

    @tool
    def add(self, number: int) -> str:
        """Add a number; says the sum and a lucky number."""
        self.state = replace(self.state, total=self.state.total + number)
        self.pay("adds", 1.0)
        return f"{self.state.total} {self.rng('luck').randrange(10**6)}"

    @tool
    def draw(self) -> str:
        """Draw from np_random."""
        return str(self.np_random.integers(10**6))

    @tool
    def down(self) -> str:
        """Meet a dead backend."""
        raise BackendUnavailable("no adder")

    def grade(self, answer: str | None) -> Verdict:
        right = self.state.total == self.task.data
        return Verdict({"answer": float(right)}, self.weights, right)


class Bag(Adder):
    """Mutable state, changed in place."""

    def setup(self, task: Task) -> None:
        self.state: Any = {"numbers": []}

    @tool
    def add(self, number: int) -> str:
        """Add a number."""
        self.state["numbers"].append(number)
        return str(self.state["numbers"])

    def grade(self, answer: str | None) -> Verdict:
        return Verdict({}, self.weights, sum(self.state["numbers"]) == self.task.data)


FILES: list[Any] = []


def open_files() -> int:
    """How many of the files of all tapes are open."""
    return sum(not file.closed for file in FILES)


class Tape(Adder):
    """State that is a resource: an open file."""

    state_is_data = False

    def setup(self, task: Task) -> None:
        self.file = self.copy_of(b"")

    def copy_of(self, content: bytes) -> Any:
        FILES.append(tempfile.TemporaryFile(buffering=0))
        FILES[-1].write(content)
        return FILES[-1]

    def content(self, file: Any) -> bytes:
        file.seek(0)
        data: bytes = file.read()
        return data

    @tool
    def add(self, number: int) -> str:
        """Write a number on the tape."""
        self.content(self.file)
        self.file.write(f"{number},".encode())
        return self.content(self.file).decode()

    def save(self) -> Any:
        return self.copy_of(self.content(self.file))

    def load(self, saved: Any) -> None:
        content = self.content(saved)
        self.file.close()
        self.file = self.copy_of(content)

    def drop(self, saved: Any) -> None:
        saved.close()

    def teardown(self) -> None:
        self.file.close()

    def grade(self, answer: str | None) -> Verdict:
        return Verdict({}, self.weights, False)


EVERY = pytest.mark.parametrize("kind", [Adder, Bag, Tape])


def add(number: int) -> list[ToolCall]:
    return [ToolCall("add", {"number": number})]


def future(env: ToolEnv) -> Any:
    """What an env says to three more turns, an answer, and the reset after it."""
    moves: list[Move] = [add(7), [ToolCall("draw", {})], Malformed("odd"), "an answer"]
    said = [to_plain(list(env.act(move))) for move in moves if not env.ended]
    return said, to_plain(env.finish()), env.reset(), env.np_random.random()


# -- laws 1 to 3: exact, reusable, isolated ------------------------------------------------------


@EVERY
def test_any_state_any_number_of_times_in_any_order(kind: type[Adder]) -> None:
    env = kind(fault_rate=FAULTS, max_turns=50)
    kept = []
    for episode in range(2):
        env.reset(seed=None if episode else 1)
        for number in range(5):
            snapshot, history = env.snapshot(), env.history()
            oracle = kind(fault_rate=FAULTS, max_turns=50)
            oracle.replay(history)
            kept.append((snapshot, future(oracle)))
            env.act(add(number))
            oracle.close()
        env.finish("over")
        kept.append((env.snapshot(), None))
    for index in (3, 0, 11, 3, 7, 5, 10, 1, 0, 9, 2):
        snapshot, expected = kept[index]
        words = env.rollback(snapshot)
        assert words == env.rollback(snapshot) and words[1]["turn"] == snapshot.turn == env.turn
        if expected is None:
            assert env.ended and env.finish("again") == words[1]["verdict"]
        else:
            assert future(env) == expected
    env.close()


@EVERY
def test_a_fork_and_its_parent_do_not_know_of_each_other(kind: type[Adder]) -> None:
    env = kind(fault_rate=FAULTS)
    env.reset(seed=1)
    env.act(add(1))
    start = env.snapshot()
    expected = future(env)
    env.rollback(start)
    fork = env.fork()
    of_start = env.fork(start)
    env.act(add(100))
    fork_start = fork.snapshot()
    fork.act(add(200))
    assert of_start.history() == env.history(start)
    env.rollback(start)
    fork.rollback(fork_start)
    for one, other in ((env, fork_start), (fork, start)):
        with pytest.raises(SnapshotUnsupported, match="another env"):
            one.rollback(other)
    assert future(of_start) == expected
    env.close()
    assert future(fork) == expected
    fork.rollback(fork_start)
    assert future(fork) == expected
    fork.close()
    of_start.close()
    assert open_files() == 0


def test_snapshots_form_a_tree() -> None:
    env = Adder()
    env.reset(seed=1)
    root = env.snapshot()
    env.act(add(1))
    left = env.snapshot()
    env.rollback(root)
    right, right_too = env.snapshot(), env.snapshot()
    env.rollback(left, seed=3)
    below = env.snapshot()
    env.reset()
    assert [s.parent for s in (root, left, right, right_too, below, env.snapshot())] == [
        None,
        root.id,
        root.id,
        right.id,
        left.id,
        None,
    ]
    assert (left.turn, left.task_id, left.refused) == (1, env.tasks[left.task_id].id, None)
    assert env.fork().snapshot().parent is None


def test_a_hundred_deep(kind: type[Adder] = Tape) -> None:
    env = kind(max_turns=200, max_calls=200)
    env.reset(seed=1)
    kept = []
    for number in range(100):
        kept.append(env.snapshot())
        env.act(add(number))
    assert (env.dropped, env.replays) == (68, 0)
    assert open_files() == 33
    for number in (99, 0, 50, 0):
        env.rollback(kept[number])
        wanted = "".join(f"{i}," for i in range(number)) + "7,"
        assert env.call(add(7)[0]).content == wanted
    assert env.replays == 2 and env.dropped == 70, "0 and 50, the second 0 was kept again"
    env.close()
    assert open_files() == 0


def test_the_least_recently_used_state_goes_first() -> None:
    env = Adder(max_snapshots=2)
    env.reset(seed=1)
    one = env.snapshot()
    env.act(add(1))
    two = env.snapshot()
    env.rollback(one)
    env.snapshot()
    assert env.dropped == 1
    env.rollback(one)
    assert env.replays == 0, "one was used after two"
    env.rollback(two)
    assert env.replays == 1 and env.state == Sum(1)


def test_how_many_are_kept() -> None:
    counts = []
    for kind in (Adder, Tape):
        env = kind()
        env.reset(seed=1)
        for _ in range(1001):
            env.snapshot()
        counts.append(1001 - env.dropped)
        env.close()
    assert counts == [1000, 32] and open_files() == 0


# -- law 4: reseedable ---------------------------------------------------------------------------


@EVERY
@pytest.mark.parametrize("capacity", [1, 100])
def test_a_start_with_a_seed_is_a_reset_with_it(kind: type[Adder], capacity: int) -> None:
    env, twin = kind(fault_rate=FAULTS, max_snapshots=capacity), kind(fault_rate=FAULTS)
    for seed in range(5):
        env.reset(seed=99)
        start = env.snapshot()
        env.act(add(1))
        env.snapshot()
        task = env.task.id
        rolled = env.rollback(start, seed=seed)
        assert rolled == twin.reset(seed=seed, options={"task": task})
        assert env.np_random_seed == twin.np_random_seed == seed
        assert future(env) == future(twin)
    env.close()
    twin.close()


def test_seeds_change_the_noise_and_rollback_brings_the_series_back() -> None:
    env, twin = Adder(), Adder()
    env.reset(seed=1)
    env.act(add(1))
    here = env.snapshot()
    said = []
    for seed in (None, 5, None, 5, 6, None):
        env.rollback(here, seed=seed)
        said.append(env.call(add(1)[0]).content)
    assert said[0] == said[2] == said[5] and said[1] == said[3]
    assert len(set(said)) == 3 and {text.split()[0] for text in said} == {"2"}
    env.rollback(here, seed=5)
    twin.reset(seed=5)
    assert env.reset() == twin.reset(), "a reseed begins another series"
    env.reset()
    env.rollback(here)
    twin.reset(seed=1)
    assert env.reset() == twin.reset(), "without a seed the old one goes on"


def test_np_random_is_part_of_a_state() -> None:
    env = Adder()
    env.reset(seed=1)
    untouched = env.snapshot()
    first = env.np_random.random()
    touched = env.snapshot()
    second = env.np_random.random()
    history = json.loads(json.dumps(env.history(touched)))
    fork, live = env.fork(touched), env.fork()
    third = env.np_random.random()
    env.rollback(touched)
    assert env.np_random.random() == second == fork.np_random.random()
    env.rollback(untouched)
    assert env.np_random.random() == first and live.np_random.random() == third
    env.reset()
    later = env.snapshot()
    draw = env.np_random.random()
    env.replay(json.loads(json.dumps(env.history(later))))
    assert env.np_random.random() == draw, "a later episode of a series: the history says the state"
    env.replay(history)
    assert env.turn == 0 and env.np_random.random() == second, "a history says where it ends"


@pytest.mark.parametrize("capacity", [1, 2])
def test_np_random_survives_a_state_that_was_dropped(capacity: int) -> None:
    env = Adder(max_snapshots=capacity)
    env.reset(seed=1)
    env.np_random.random()
    kept = env.snapshot()
    for _ in range(capacity):
        env.snapshot()
    drawn = env.np_random.random()
    env.rollback(kept)
    assert env.replays == 1 and env.np_random.random() == drawn


def test_another_bit_generator_is_restored() -> None:
    env = Adder()
    env.reset(seed=1)
    env.np_random = np.random.Generator(np.random.MT19937(5))
    kept = env.snapshot()
    drawn = env.np_random.random()
    env.rollback(kept)
    assert env.np_random.random() == drawn


def test_what_a_caller_does_to_an_outcome_stays_with_the_caller() -> None:
    env, twin = make(), make()
    for one in (env, twin):
        one.reset(seed=1)
    given = ToolCall("add", {"number": 3})
    info = env.act([given])[4]
    told = twin.act([ToolCall("add", {"number": 3})])[4]
    kept = env.snapshot()
    info["calls"][0][1].content = "spoiled"
    info["calls"][0][0].arguments["number"] = given.arguments["number"] = 9
    assert env.rollback(kept)[1] == told and env.history() == twin.history()
    verdict = env.finish("0")
    assert verdict is not None
    verdict.passed, verdict.weights[next(iter(verdict.weights))] = True, 100.0
    assert env.finish() == twin.finish("0") and make().weights == twin.weights


def test_an_env_is_neither_deep_copied_nor_pickled() -> None:
    env = make()
    env.reset(seed=1)
    for refused in (copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="fork|history"):
            refused(env)


def test_a_fork_ignores_what_became_of_the_arguments() -> None:
    rates: Any = {"wrong": 1.0}
    env = Adder(fault_rate=rates)
    env.reset(seed=1)
    rates.clear()
    assert env.fork().faults.rates == {"wrong": 1.0}


def test_a_replay_that_fails_leaves_no_state_behind() -> None:
    env = eventful(make())
    told = env.history()
    with pytest.raises(SnapshotUnsupported):
        env.replay({**told, "seed": told["seed"] + 1})
    with pytest.raises(ResetNeeded):
        env.snapshot()
    env.reset(seed=1)


# -- law 5: released -----------------------------------------------------------------------------


def test_everything_is_freed() -> None:
    env = Tape(max_snapshots=3)
    env.reset(seed=1)
    kept = [env.snapshot() for _ in range(5)]
    assert open_files() == 4
    env.release(kept[0], kept[4])
    env.release(kept[4])
    assert open_files() == 3
    for gone in (kept[0], kept[4]):
        with pytest.raises(SnapshotUnsupported, match="released"):
            env.rollback(gone)
    fork = env.fork(kept[2])
    env.reset()
    assert open_files() == 4
    fork.release(kept[2])
    env.rollback(kept[2])
    fork.close()
    env.close()
    assert open_files() == 0
    with pytest.raises(gymnasium.error.ClosedEnvironmentError):
        env.snapshot()
    with pytest.raises(SnapshotUnsupported, match="released"):
        env.rollback(kept[2])


def test_a_state_that_is_saved_while_the_env_closes_is_freed() -> None:
    class Closing(Tape):
        def save(self) -> Any:
            saved = super().save()
            self.close()  # as another thread would
            return saved

    env = Closing()
    env.reset(seed=1)
    env.snapshot()
    assert open_files() == 0


def test_a_fork_that_fails_leaves_nothing() -> None:
    class Broken(Tape):
        @tool
        def add(self, number: int) -> str:
            """Add, differently each time."""
            return f"{super().add(number)} {len(FILES)}"

    env = Broken()
    env.reset(seed=1)
    env.act(add(1))
    before = open_files()
    with pytest.raises(SnapshotUnsupported, match="move 1"):
        env.fork()
    assert open_files() == before
    with pytest.raises(gymnasium.error.Error, match="whole number"):
        env.fork(seed=-1)
    assert open_files() == before
    env.close()


def test_a_fork_that_cannot_load_leaves_nothing() -> None:
    class Lost(Tape):
        state_is_data = True

        def load(self, saved: Any) -> None:
            raise SnapshotUnsupported("gone")

        def teardown(self) -> None:
            if "file" in vars(self):
                super().teardown()

    env = Lost()
    env.reset(seed=1)
    with pytest.raises(SnapshotUnsupported, match="gone"):
        env.fork()
    env.close()
    assert open_files() == 0


# -- law 6: honest -------------------------------------------------------------------------------


class Shy(Adder):
    """Cannot be captured while its sum is odd."""

    def save(self) -> Any:
        if self.state.total % 2:
            raise SnapshotUnsupported("a live thread")
        return super().save()


def test_what_cannot_be_captured_is_named() -> None:
    env = Shy()
    env.reset(seed=1)
    before = env.snapshot()
    env.act(add(1))
    with pytest.raises(SnapshotUnsupported, match="a live thread"):
        env.snapshot()
    with pytest.raises(SnapshotUnsupported, match="a live thread"):
        env.fork()
    refused = env.snapshot(on_refusal="mark")
    assert (refused.refused, refused.turn) == ("a live thread", 1)
    acts: tuple[Callable[[Snapshot], Any], ...] = (env.rollback, env.fork, env.history)
    for act in acts:
        with pytest.raises(SnapshotUnsupported, match="refused: a live thread"):
            act(refused)
    forged = replace(refused, refused=None)
    with pytest.raises(SnapshotUnsupported, match="released"):
        env.rollback(forged)
    assert env.state == Sum(1) and env.call(add(1)[0]).error is None
    assert env.snapshot().parent == refused.id
    env.release(refused)
    env.rollback(before)
    with pytest.raises(ValueError, match="mark"):
        env.snapshot(on_refusal="ignore")


def test_an_episode_of_a_dead_backend_has_no_state() -> None:
    env = Adder()
    env.reset(seed=1)
    start = env.snapshot()
    env.call(ToolCall("down", {}))
    for act in (env.snapshot, env.fork, env.history):
        with pytest.raises(SnapshotUnsupported, match="failed in this episode"):
            act()
    assert env.snapshot(on_refusal="mark").refused
    env.rollback(start)
    assert not env.ended and env.fork().turn == 0


COUNTER: list[int] = []


class Clock(Adder):
    """Says something else every time."""

    volatile = frozenset({"clock"})

    @tool
    def add(self, number: int) -> str:
        """Tell the time."""
        COUNTER.append(number)
        return f"it is {len(COUNTER)}"


def test_a_replay_that_differs_is_refused() -> None:
    env = Clock(max_snapshots=1)
    env.reset(seed=1)
    env.act(Malformed("odd"))
    env.act(add(1))
    dropped = env.snapshot()
    env.act(add(1))
    kept = env.snapshot()
    history = env.history()
    env.rollback(kept)
    assert env.fork(kept).turn == 3, "a copy needs no replay"
    for act in (
        lambda: env.rollback(dropped),
        lambda: env.fork(dropped),
        lambda: Clock().replay(history),
    ):
        with pytest.raises(SnapshotUnsupported, match="move 2, which now says .*it is .*volatile"):
            act()
    env.rollback(kept)
    assert env.turn == 3 and not env.ended


def test_a_state_that_is_lost_is_said_to_be() -> None:
    class Lost(Adder):
        def load(self, saved: Any) -> None:
            raise SnapshotUnsupported("the process behind this state is gone")

    env = Lost()
    env.reset(seed=1)
    start = env.snapshot()
    with pytest.raises(SnapshotUnsupported, match="is gone"):
        env.rollback(start)
    with pytest.raises(SnapshotUnsupported, match="is gone"):
        env.fork(start)
    assert env.reset(seed=1)[1]["turn"] == 0


# -- law 7: a handle -----------------------------------------------------------------------------


def test_handles_travel() -> None:
    env, other = Adder(), Adder()
    env.reset(seed=1)
    other.reset(seed=1)
    mine, foreign = env.snapshot(), other.snapshot()
    env.act(add(1))
    for handle in (pickle.loads(pickle.dumps(mine)), Snapshot.from_json(mine.to_json())):
        assert handle == mine
        assert env.rollback((foreign, handle))[1]["turn"] == 0
    with pytest.raises(SnapshotUnsupported, match="history and replay"):
        env.rollback([foreign])
    with pytest.raises(SnapshotUnsupported):
        env.rollback([])
    with pytest.raises(SnapshotUnsupported, match="released"):
        env.rollback(replace(mine, id=99))
    env.release(foreign)
    other.rollback(foreign)


@pytest.mark.parametrize("wrong", ["x", None, 5, "{}", {}, ["mine", 5], [None], b"x"], ids=str)
def test_what_is_no_handle_is_refused_and_changes_nothing(wrong: Any) -> None:
    env = Adder()
    env.reset(seed=1)
    mine = env.snapshot()
    env.act(add(1))
    if isinstance(wrong, list):
        wrong = [mine if one == "mine" else one for one in wrong]
    use: Any
    for use in (env.rollback, env.release, *([env.fork, env.history] if wrong else [])):
        with pytest.raises(TypeError, match=r"a snapshot is what env.snapshot\(\) gives"):
            use(wrong)
    assert env.turn == 1 and env.rollback(mine)[1]["turn"] == 0


GOOD = json.loads(Snapshot(3, "o", "x/Y-v0", "train/1", 2, 1, 10, "é").to_json())
BAD_HANDLES = [
    "",
    "null",
    "[]",
    "3",
    '"x"',
    "{}",
    "[" * 100_000,
    json.dumps({**GOOD, "more": 1}),
    json.dumps({k: v for k, v in GOOD.items() if k != "turn"}),
    *(json.dumps({**GOOD, name: [1]}) for name in GOOD),
    *(json.dumps({**GOOD, name: {}}) for name in ("id", "parent", "refused")),
    json.dumps({**GOOD, "id": "3"}),
    json.dumps({**GOOD, "owner": "\ud800"}),
]


@pytest.mark.parametrize("text", BAD_HANDLES, ids=lambda text: text[:40])
def test_what_is_no_handle(text: str) -> None:
    assert Snapshot.from_json(json.dumps(GOOD)).refused == "é"
    with pytest.raises(ValueError):
        Snapshot.from_json(text)


# -- law 8: portable by history ------------------------------------------------------------------

gymnasium.register(
    "adder/Adder-v0",
    lambda **kwargs: Adder(**kwargs),
    order_enforce=False,
    disable_env_checker=True,
)
gymnasium.register(
    "adder/Bag-v0", lambda **kwargs: Bag(**kwargs), order_enforce=False, disable_env_checker=True
)


def make(env_id: str = "adder/Adder-v0", **kwargs: Any) -> ToolEnv:
    env = gymnasium.make(env_id, **kwargs).unwrapped
    assert isinstance(env, ToolEnv)
    return env


def eventful(env: ToolEnv) -> ToolEnv:
    """An episode with everything that a history can hold."""
    env.reset(seed=1)
    env.reset()
    env.act([*add(1), ToolCall("add", {"number": "é中"}, "id-1"), ToolCall("\0no", {"a": [1]})])
    env.act(Malformed("odd \ud800"))
    env.rollback(env.snapshot(), seed=2**70)
    env.act([ToolCall("draw", {})])
    return env


@EVERY
def test_a_history_is_json_and_brings_the_state_about(kind: type[Adder]) -> None:
    env, other = eventful(kind(fault_rate=FAULTS)), kind(fault_rate=FAULTS)
    told = json.loads(json.dumps(env.history(), allow_nan=False))
    words = other.replay(told)
    assert words == env.rollback(env.snapshot()) and other.history() == told
    assert (other.turn, other.replays) == (3, 1)
    assert future(other) == future(env)
    env.finish("over")
    told = env.history()
    other.replay(told)
    assert other.ended and other.finish() == env.finish()
    env.close()
    other.close()


def test_histories_of_another_kind() -> None:
    told = eventful(make()).history()
    assert told["env_id"] == "adder/Adder-v0"
    with pytest.raises(ValueError, match=r"of adder/Adder-v0, not of adder/Bag-v0"):
        make("adder/Bag-v0").replay(told)
    junk: Any
    for junk in ("junk", None, [], json.dumps(told)):
        with pytest.raises(ValueError, match=r"not a history, as env.history\(\) gives it"):
            make().replay(junk)
    with pytest.raises(ValueError, match="format 2"):
        make().replay({**told, "format": 2})
    with pytest.raises(SnapshotUnsupported, match="move 0"):
        make(tool_docs=False).replay(told)
    with pytest.raises(SnapshotUnsupported, match="move 1"):
        make(max_calls=1).replay(told)
    with pytest.raises(SnapshotUnsupported, match="move 1"):
        make().replay({**told, "seed": 2})
    make().replay(told)
    Adder().replay(told)


NO_NUMBERS: list[Any] = [-1, "1", None, 1.5, [1]]
NO_STATES: list[Any] = [-1, "x", None, [], {}, {"bit_generator": "MT19937"}]
NO_TASKS: list[Any] = [None, 1, ["train/1"], {}]
NO_MOVES: list[Any] = [None, 1, "abc", {}, [1], [None], ["x"], [[]], [{}]]
HOSTILE: list[Any] = [
    None,
    3,
    "x",
    [],
    {},
    *({"seed": x} for x in NO_NUMBERS),
    *({"number": x} for x in NO_NUMBERS),
    *({"rng": x} for x in NO_STATES),
    {"rng": {"bit_generator": "PCG64", "state": {"state": "x", "inc": 1}, "has_uint32": 0}},
    *({"task": x} for x in NO_TASKS),
    *({"digest": x} for x in NO_TASKS[:2]),
    *({"moves": x} for x in NO_MOVES),
    {"moves": [{"reseed": -1}]},
    {"moves": [{"reseed": "x"}]},
    {"moves": [{"reseed": None}]},
    {"moves": [{"answer": 1, "digest": ""}]},
    {"moves": [{"answer": "x"}]},
    {"moves": [{"calls": [["add", {}]], "digest": ""}]},
    {"moves": [{"calls": [["add", {}, None]], "digest": ""}]},
    {"moves": [{"calls": "add", "digest": ""}]},
    {"moves": [{"malformed": None, "digest": ""}]},
]


@pytest.mark.parametrize("change", HOSTILE, ids=lambda change: str(change)[:50])
def test_what_is_no_history(change: Any) -> None:
    env = eventful(make())
    before = env.history()
    told = {**before, **change} if isinstance(change, dict) and change else change
    with pytest.raises(ValueError, match="not a|format"):
        env.replay(told)
    assert env.history() == before, "it was refused before anything was played"


def test_histories_that_lie() -> None:
    told = eventful(make()).history()
    lies: list[Any] = [
        {"calls": [], "digest": "x"},
        {"calls": [["add", {"number": 1}, ""]] * 65, "digest": "x"},
        {"calls": [["\ud800" * 10**6, {"x": "y" * 10**6}, ""]], "digest": "x"},
        {"answer": "", "digest": "x"},
        {"malformed": "\0" * 10**6, "digest": "x"},
    ]
    for lie in lies:
        env = make()
        with pytest.raises(SnapshotUnsupported, match="move 1"):
            env.replay({**told, "moves": [lie]})
        env.reset(seed=1)
    with pytest.raises(SnapshotUnsupported, match="move 0"):
        make().replay({**told, "digest": "x"})


def test_a_history_of_an_unknown_task_or_beyond_the_end() -> None:
    env = eventful(make())
    with pytest.raises(ValueError, match="unknown task.*'train/99'"):
        env.replay({**env.history(), "task": "train/99"})
    env.finish("x")
    told = env.history()
    with pytest.raises(ValueError, match="after the end"):
        env.replay({**told, "moves": [*told["moves"], told["moves"][-1]]})


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)


@given(data=st.data(), value=JSON)
def test_no_history_does_more_than_be_refused(data: Any, value: Any) -> None:
    env = eventful(make())
    told = json.loads(json.dumps(env.history()))
    place: Any = told
    for _ in range(data.draw(st.integers(0, 5))):
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        inner = [k for k in keys if isinstance(place[k], dict | list) and place[k]]
        if not inner:
            break
        place = place[data.draw(st.sampled_from(inner))]
    key = data.draw(st.sampled_from(list(place) if isinstance(place, dict) else range(len(place))))
    place[key] = value
    try:
        env.replay(told)
    except (ValueError, SnapshotUnsupported):
        pass
    env.np_random.random()
    env.reset(seed=1)
    assert env.call(add(1)[0]).content.startswith("1 ")


# -- tasks that the env does not know ------------------------------------------------------------


@EVERY
@pytest.mark.parametrize("known", [False, True])
def test_a_task_that_was_handed_over_stays_through_a_replay(kind: Any, known: bool) -> None:
    prompt = "Add up to 1 in train." if known else "Mine."
    task = Task("train/1" if known else "mine", "train", prompt, 42)
    env = kind(max_snapshots=1)
    env.reset(seed=1, options={"task": task})
    start = env.snapshot()
    env.act(add(1))
    env.snapshot()
    env.rollback(start)
    assert env.replays == 1 and env.task is task
    fork = env.fork()
    assert fork.task is task
    env.close()
    fork.close()


# -- arguments of a fork -------------------------------------------------------------------------


class Bounded(Adder):
    """Takes an argument of its own, by position."""

    def __init__(self, most: int, /, *, least: int = 0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.most, self.least = most, least


def test_a_fork_is_made_with_the_same_arguments() -> None:
    env = Bounded(9, least=3, max_turns=2, split="heldout", protocol="hermes", fault_rate=0.5)
    with pytest.raises(ResetNeeded):
        env.fork()
    env.reset(seed=1)
    fork = env.fork(seed=4)
    assert (fork.most, fork.least, fork.max_turns, fork.split) == (9, 3, 2, "heldout")
    assert fork.faults.rates == env.faults.rates
    made = make(max_turns=3)
    made.reset(seed=1)
    twin = made.fork()
    assert twin.spec == made.spec and twin.spec is not made.spec
