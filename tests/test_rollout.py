"""rollout: order, groups, branches, deadlines, failures, whose envs they are, and real overlap."""

import io
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium
import pytest
from gymnasium.wrappers import RecordEpisodeStatistics, TimeLimit

from agent_envs import (
    Action,
    BackendUnavailable,
    BatchPolicy,
    Message,
    Policy,
    Sample,
    ScriptedPolicy,
    SnapshotUnsupported,
    Task,
    TaskSource,
    ToolCall,
    ToolEnv,
    Trajectory,
    Verdict,
    derive,
    rollout,
    tool,
)
from agent_envs.policy import Answer

WAIT = 20
"""Seconds after which a test that waits for another thread gives up."""


class Sums(TaskSource):
    """Eight tasks: add up to a number, and stop."""

    splits = ("train",)

    def load(self, split: str) -> list[Task]:
        return [Task(str(i), split, f"Add up to {i}.", i) for i in range(8)]


@dataclass(frozen=True)
class Sum:
    total: int = 0


class Adder(ToolEnv):
    """Steps on a thread of the rollout's."""

    tasks = Sums()
    weights = {"answer": 1.0}

    def setup(self, task: Task) -> None:
        self.state = Sum()

    @tool
    def add(self, number: int) -> str:
        """Add a number; says the sum and a lucky number."""
        self.state = Sum(self.state.total + number)
        self.added(number)
        return f"{self.state.total} {self.rng('luck').randrange(10**6)}"

    def added(self, number: int) -> None:
        """For subclasses: what else happens."""

    def grade(self, answer: str | None) -> Verdict:
        right = self.state.total == self.task.data
        return Verdict({"answer": float(right)}, self.weights, right)


class Inline(Adder):
    """Steps in the loop itself."""

    inline = True


TASKS = list(Adder.tasks)
KINDS = pytest.mark.parametrize("kind", [Adder, Inline])


def add(number: int) -> Action:
    return Action("", calls=[ToolCall("add", {"number": number})])


def number_in(messages: list[Message]) -> int:
    """The number of a conversation's task."""
    prompt = next(m["content"] for m in messages if m["role"] == "user")
    return int(prompt.split()[-1].rstrip("."))


def turns_in(messages: list[Message]) -> int:
    return sum(m["role"] == "assistant" for m in messages)


def thrice(messages: list[Message]) -> Action:
    """Three additions that depend on what was said before, and an answer."""
    if turns_in(messages) == 3:
        return Action("done", calls=[])
    said = messages[-1]["content"]
    return add(derive(said) % 5 if messages[-1]["role"] == "tool" else 1)


def solve(messages: list[Message]) -> Action:
    """The gold moves."""
    return Action("done", calls=[]) if turns_in(messages) else add(number_in(messages))


class Gives(ScriptedPolicy):
    """Collects whatever it was made with."""

    def __init__(self, answers: Any) -> None:
        super().__init__(solve)
        self.answers = answers

    def collect(self, timeout: float) -> Any:
        return self.answers


def told(trajectories: list[Trajectory]) -> list[Any]:
    return [trajectory.to_dict() for trajectory in trajectories]


# -- order ---------------------------------------------------------------------------------------


def test_results_are_in_task_order_whatever_finishes_first() -> None:
    others_done = threading.Event()
    ended: list[str] = []

    class First(Adder):
        def added(self, number: int) -> None:
            assert self.task.id != "0" or others_done.wait(WAIT)

    def on_episode(trajectory: Trajectory) -> None:
        ended.append(trajectory.task.id)
        if len(ended) == 5:
            others_done.set()

    policy = ScriptedPolicy(solve)
    played = rollout(First, policy, TASKS[:6], workers=2, on_episode=on_episode)
    assert [t.task.id for t in played] == list("012345") and ended[5] == "0"
    assert [t.episode_id for t in played] == [f"{i}.0" for i in range(6)]
    assert all(t.valid and t.verdict and t.verdict.passed for t in played)
    assert all(t.end_reason == "answer" and t.reward == 1.0 for t in played)


@KINDS
def test_the_number_of_workers_changes_nothing(kind: type[Adder]) -> None:
    def play(workers: int, **kwargs: Any) -> list[Any]:
        def make() -> ToolEnv:
            return kind(fault_rate={"wrong": 0.3, "stale": 0.3, "error": 0.1})

        batch = BatchPolicy(lambda conversations: [thrice(c) for c in conversations], max_batch=3)
        options: dict[str, Any] = {"group": 3, "branch": 2, "seed": 5, **kwargs}
        played = told(rollout(make, batch, TASKS[:4], workers=workers, **options))
        batch.close()
        return played

    one = play(1)
    assert len(one) == 4 * 3 * (1 + 4 * 2)
    assert play(2) == one and play(16) == one
    assert play(16, seed=6) != one
    ids = [t["episode_id"] for t in one]
    assert len(set(ids)) == len(ids)
    assert ids[:5] == ["0.0", "0.0/0.0", "0.0/0.1", "0.0/1.0", "0.0/1.1"]


def test_the_seed_of_an_episode_is_its_own() -> None:
    alone = rollout(Adder, ScriptedPolicy(thrice), TASKS, group=2, seed=3)
    assert [t.seed for t in alone] == [derive(3, i, g) for i in range(8) for g in range(2)]
    env = Adder()
    env.reset(seed=alone[5].seed, options={"task": "2"})
    assert env.call(ToolCall("add", {"number": 1})).content in alone[5].turns[0].observation
    assert alone[5].provenance["env"]["class"].endswith("Adder")


# -- groups --------------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", [1, 3])
def test_a_group_shares_its_start(workers: int) -> None:
    set_up: list[str] = []

    class Counting(Inline):
        inline = True

        def setup(self, task: Task) -> None:
            set_up.append(task.id)
            super().setup(task)

    played = rollout(Counting, ScriptedPolicy(thrice), TASKS[:3], group=6, workers=workers)
    assert [t.group_id for t in played] == ["0"] * 6 + ["1"] * 6 + ["2"] * 6
    assert all(t.prompt == played[0].prompt for t in played[:6])
    assert len({t.turns[0].observation for t in played[:6]}) == 6, "but not the noise"
    if workers == 1:
        assert set_up == ["0", "1", "2"], "the rest is rolled back"


def test_a_start_that_cannot_be_captured_is_made_again() -> None:
    class Shy(Adder):
        def save(self) -> Any:
            raise SnapshotUnsupported("shy")

    plain = rollout(Adder, ScriptedPolicy(thrice), TASKS[:2], group=3, workers=1)
    shy = rollout(Shy, ScriptedPolicy(thrice), TASKS[:2], group=3, workers=1, branch=2)
    assert [t.messages() for t in shy] == [t.messages() for t in plain]


# -- branches ------------------------------------------------------------------------------------


@KINDS
def test_branches_form_a_tree(kind: type[Adder]) -> None:
    played = rollout(kind, ScriptedPolicy(thrice), TASKS[:2], group=2, branch=2)
    trunks = {t.episode_id: t for t in played if t.parent is None}
    branches = [t for t in played if t.parent is not None]
    assert len(trunks) == 4 and len(branches) == 4 * 4 * 2
    for branch in branches:
        assert branch.parent is not None
        trunk, turn = trunks[branch.parent[0]], branch.parent[1]
        assert branch.prompt == trunk.messages(turn) and branch.group_id == trunk.group_id
        assert branch.task == trunk.task and branch.seed != trunk.seed
        assert len(branch.turns) == 4 - turn and branch.valid
        assert branch.turns[0].info["turn"] == turn + 1
        before = (
            0 if turn == 0 else int(trunk.turns[turn - 1].info["calls"][0][1].content.split()[0])
        )
        if turn < 3:
            after = int(branch.turns[0].info["calls"][0][1].content.split()[0])
            assert after - before == branch.turns[0].action.calls[0].arguments["number"]  # type: ignore[index]
    assert len({str(b.messages()) for b in branches if b.parent == ("0.0", 0)}) == 2


def test_a_plan_says_where_to_branch() -> None:
    asked: list[str] = []
    env = Adder()

    def plan(trajectory: Trajectory) -> Sequence[tuple[int, int]]:
        asked.append(trajectory.episode_id)
        return [(2, 1), (0, 2), (2, 1), (1, 0)] if trajectory.task.id == "1" else []

    played = rollout(env, ScriptedPolicy(thrice), TASKS[:3], branch=plan)
    branches = [(t.episode_id, t.parent) for t in played if t.parent]
    assert asked == ["0.0", "1.0", "2.0"]
    assert branches == [
        ("1.0/0.0", ("1.0", 0)),
        ("1.0/0.1", ("1.0", 0)),
        ("1.0/2.0", ("1.0", 2)),
        ("1.0/2.1", ("1.0", 2)),
    ]
    assert len({t.seed for t in played}) == 7 and len(env._shelf) == 0


@pytest.mark.parametrize("turn", [-1, 4])
def test_a_plan_with_no_such_turn(turn: int) -> None:
    with pytest.raises(ValueError, match=f"0.0 has no turn {turn}"):
        rollout(Adder(), ScriptedPolicy(thrice), TASKS, branch=lambda trajectory: [(turn, 1)])


def test_a_plan_with_fewer_than_no_branches() -> None:
    with pytest.raises(ValueError, match="-1 continuations of turn 0; from 0 up"):
        rollout(Adder(), ScriptedPolicy(thrice), TASKS, branch=lambda t: [(0, 2), (0, -1)])


def test_states_that_cannot_be_captured_have_no_branches() -> None:
    class Shy(Adder):
        def save(self) -> Any:
            if self.state.total == 1:
                raise SnapshotUnsupported("one")
            return super().save()

    def one(messages: list[Message]) -> Action:
        return add(1) if turns_in(messages) < 3 else Action("done", calls=[])

    played = rollout(Shy, ScriptedPolicy(one), TASKS[:1], branch=1)
    assert [t.parent for t in played] == [None, ("0.0", 0), ("0.0", 2), ("0.0", 3)]


def test_branches_beyond_what_is_kept_are_replayed() -> None:
    def make() -> ToolEnv:
        return Adder(max_snapshots=2)

    few = rollout(make, ScriptedPolicy(thrice), TASKS[:2], group=2, branch=1)
    assert told(few) == told(rollout(Adder, ScriptedPolicy(thrice), TASKS[:2], group=2, branch=1))


# -- deadlines -----------------------------------------------------------------------------------


class Hanging(Adder):
    """A step of task 1 hangs until somebody sets `free`, whatever `close` does."""

    free = threading.Event()
    closing = threading.Event()
    closed_ones: list[ToolEnv] = []

    def added(self, number: int) -> None:
        if self.task.id == "1":
            self.free.wait(WAIT)

    def teardown(self) -> None:
        if self.closed:
            self.closed_ones.append(self)
            self.closing.set()


@pytest.fixture(autouse=True)
def _free() -> Any:
    Hanging.free.clear()
    Hanging.closing.clear()
    Hanging.closed_ones.clear()
    yield
    Hanging.free.set()


@pytest.mark.parametrize("workers", [1, 3])
def test_an_env_that_hangs_is_given_up(workers: int) -> None:
    ended: list[Trajectory] = []
    played = rollout(
        Hanging,
        ScriptedPolicy(solve),
        TASKS[:4],
        group=2,
        workers=workers,
        step_deadline=2.5,
        on_episode=ended.append,
    )
    assert [t.valid for t in played] == [True, True, False, False, True, True, True, True]
    for hung in played[2:4]:
        assert (hung.end_reason, hung.verdict) == ("infrastructure", None)
        assert hung.error == "a step took over 2.5 s" and hung.turns == []
    assert len(ended) == 8


def test_the_callers_env_that_hung_is_replaced_in_the_list() -> None:
    envs: list[ToolEnv] = [Hanging(max_turns=3), Hanging(max_turns=5)]
    before = envs[:]
    played = rollout(envs, ScriptedPolicy(solve), TASKS[:4], step_deadline=2.5)
    assert [t.valid for t in played] == [True, False, True, True]
    assert Counter(new is old for new, old in zip(envs, before, strict=True)) == {True: 1, False: 1}
    assert [env.max_turns for env in envs] == [3, 5], "one made with the same arguments"
    for old, new in zip(before, envs, strict=True):
        assert not new.closed and len(new._shelf) == 0
        if old is not new:
            assert Hanging.closing.wait(WAIT) and old.closed
    assert all(t.valid for t in rollout(envs, ScriptedPolicy(solve), [TASKS[0], TASKS[2]]))


@pytest.mark.parametrize("wrap", [lambda env: env, lambda env: (env,)], ids=["one", "tuple"])
def test_a_replacement_that_the_caller_cannot_see_is_closed(wrap: Callable[[ToolEnv], Any]) -> None:
    env = Hanging()
    played = rollout(wrap(env), ScriptedPolicy(solve), TASKS[:3], step_deadline=2.5)
    assert [t.valid for t in played] == [True, False, True]
    (closed,) = [one for one in Hanging.closed_ones if one is not env]
    assert closed.closed


def test_a_policy_may_work_for_longer_than_a_step() -> None:
    """It works on the caller's thread, and meanwhile the other env's step has long come back."""
    stepping, thinking = threading.Event(), threading.Event()

    class Quick(Adder):
        def added(self, number: int) -> None:
            stepping.set()
            assert thinking.wait(WAIT)

    def act(messages: list[Message]) -> Action:
        if number_in(messages) == 0:
            thinking.set()
            time.sleep(0.5)
        return solve(messages) if number_in(messages) else Action("done", calls=[])

    class Slow(ScriptedPolicy):
        def collect(self, timeout: float) -> list[Answer]:
            held = None if stepping.is_set() else self._asked.pop("0.0", None)
            answers = super().collect(timeout)
            if held is not None:
                self._asked["0.0"] = held
            return answers

    played = rollout(Quick, Slow(act), TASKS[:2], step_deadline=0.2)
    assert [t.end_reason for t in played] == ["answer", "answer"]


def test_a_setup_that_hangs() -> None:
    class Slow(Hanging):
        def setup(self, task: Task) -> None:
            super().setup(task)
            if task.id == "1":
                self.free.wait(WAIT)

    played = rollout(Slow, ScriptedPolicy(solve), TASKS[:3], workers=1, step_deadline=2.5)
    assert [t.end_reason for t in played] == ["answer", "infrastructure", "answer"]
    assert played[1].prompt == [] and played[1].task.id == "1"


def test_a_step_that_comes_back_late_is_not_taken_for_another() -> None:
    hung = threading.Event()

    class Late(Hanging):
        def save(self) -> Any:
            if self.task.id == "1" and not hung.is_set():
                hung.set()
                self.free.wait(WAIT)
            return super().save()

    def on_episode(trajectory: Trajectory) -> None:
        if not trajectory.valid:
            self_freed.append(trajectory.task.id)
            Hanging.free.set()

    self_freed: list[str] = []
    played = rollout(
        Late, ScriptedPolicy(thrice), TASKS[:4], branch=1, step_deadline=2.5, workers=1,
        on_episode=on_episode,
    )  # fmt: skip
    assert self_freed == ["1"]
    expected = rollout(Adder, ScriptedPolicy(thrice), TASKS[:4], branch=1)
    assert [t.messages() for t in played if t.episode_id[0] != "1"] == [
        t.messages() for t in expected if t.episode_id[0] != "1"
    ]


def test_the_process_exits_though_an_env_hangs() -> None:
    script = """
import threading
from test_rollout import Hanging, ScriptedPolicy, TASKS, rollout, solve
Hanging.free.wait = lambda seconds: threading.Event().wait()
played = rollout(Hanging, ScriptedPolicy(solve), TASKS[:3], step_deadline=2.5)
print([t.end_reason for t in played])
"""
    ran = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env=_paths(), timeout=60
    )
    assert ran.stdout == "['answer', 'infrastructure', 'answer']\n", ran.stderr
    assert ran.returncode == 0


def _paths() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": os.pathsep.join([os.path.dirname(__file__), *sys.path])}


class Silent(Policy):
    """Answers like `solve`, but for task 1 only as long as it has not made a turn."""

    def __init__(self) -> None:
        self.inner = ScriptedPolicy(solve)
        self.cancelled: list[Hashable] = []

    def submit(self, key: Hashable, messages: list[Message]) -> None:
        if number_in(messages) != 1 or not turns_in(messages):
            self.inner.submit(key, messages)

    def collect(self, timeout: float) -> list[Answer]:
        return [*self.inner.collect(timeout), ("nobody", Action("x")), ("0.0", Action("twice"))]

    def cancel(self, key: Hashable) -> None:
        self.cancelled.append(key)


@KINDS
def test_an_episode_that_overruns_its_time_is_graded_as_it_stands(kind: type[Adder]) -> None:
    policy = Silent()
    played = rollout(kind, policy, TASKS[:3], episode_deadline=1.5)
    assert [t.end_reason for t in played] == ["answer", "deadline", "answer"]
    late = played[1]
    assert late.valid and late.verdict is not None and late.verdict.passed and late.reward == 1.0
    assert (len(late.turns), late.turns[1].action) == (2, Action("", cut=True))
    assert set(policy.cancelled) == {"0.0", "1.0", "2.0"}


@KINDS
def test_a_policy_that_never_ends_is_stopped_by_the_clock(kind: type[Adder]) -> None:
    def make() -> ToolEnv:
        return kind(max_turns=10**9, max_calls=10**9)

    policy = ScriptedPolicy(lambda messages: add(1))
    (played,) = rollout(make, policy, TASKS[:1], episode_deadline=0.05)
    assert played.end_reason == "deadline" and played.valid and played.verdict is not None


# -- failures ------------------------------------------------------------------------------------


class Failing(Adder):
    """Task 1 has no backend: in a step, or in setup where `where` says so."""

    where = "step"

    def setup(self, task: Task) -> None:
        super().setup(task)
        self.fail("setup", task)

    def added(self, number: int) -> None:
        self.fail("step", self.task)

    def fail(self, where: str, task: Task) -> None:
        if task.id == "1" and self.where == where:
            raise BackendUnavailable("no daemon; run: daemon start")
        if task.id == "1" and self.where == f"bug in {where}":
            raise ZeroDivisionError("a bug")


@pytest.mark.parametrize("where", ["step", "setup", "bug in setup"])
@pytest.mark.parametrize("workers", [1, 2])
def test_infrastructure_is_marked_and_never_scored(
    where: str, workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Failing, "where", where)
    monkeypatch.setattr("agent_envs.env._RETRY_AFTER", (0.0, 0.0))
    played = rollout(Failing, ScriptedPolicy(solve), TASKS[:3], group=2, workers=workers, branch=1)
    trunks = [t for t in played if t.parent is None]
    assert [t.valid for t in trunks] == [True, True, False, False, True, True]
    for failed in trunks[2:4]:
        assert (failed.end_reason, failed.verdict, failed.reward) == ("infrastructure", None, 0.0)
        assert failed.error and ("daemon start" in failed.error or "a bug" in failed.error)
    assert len(played) == 6 + 4 * 2, "no branches of what is not valid"


def test_errors_of_the_policy_are_its_own() -> None:
    def act(messages: list[Message]) -> Action:
        if number_in(messages) == 1 and turns_in(messages):
            raise MemoryError("on the GPU")
        return solve(messages)

    played = rollout(Adder, ScriptedPolicy(act), TASKS[:3], branch=1)
    trunks = [t for t in played if t.parent is None]
    assert [t.end_reason for t in trunks] == ["answer", "policy_error", "answer"]
    failed = trunks[1]
    assert not failed.valid and failed.verdict is None and len(failed.turns) == 1
    assert failed.error == "MemoryError('on the GPU')" and len(played) == 3 + 2 * 2


LOCK = threading.Lock()
NO_TURNS: list[Any] = [
    None, 7, b"text", ["text"], {"text": "x"}, KeyboardInterrupt(), Action,
    Action(123), Action(None), Action("x", calls=[{"name": "add"}]), Action("x", calls="add"),  # type: ignore
    Action("x", calls=[ToolCall("add", {"number": LOCK})]), Action("x", sample=[1, 2]),  # type: ignore[arg-type]
]  # fmt: skip


@KINDS
@pytest.mark.parametrize("workers", [1, 2])
def test_what_is_no_turn_is_an_error_of_the_policy(kind: type[Adder], workers: int) -> None:
    class Odd(ScriptedPolicy):
        """Gives task 1 what is no turn, past the checks of ScriptedPolicy."""

        def collect(self, timeout: float) -> list[Answer]:
            return [(k, odd if str(k)[0] == "1" else a) for k, a in super().collect(timeout)]

    for odd in NO_TURNS:
        envs: list[ToolEnv] = [kind() for _ in range(workers)]
        before = envs[:]
        played = rollout(envs, Odd(solve), TASKS[:3])
        assert [t.end_reason for t in played] == ["answer", "policy_error", "answer"], odd
        assert played[1].error and not played[1].valid and played[1].turns == []
        assert envs == before and not any(env.closed for env in envs), "they stay the caller's"


@pytest.mark.parametrize(
    "calls, error",
    [
        ([ToolCall(None, {})], "parse"),  # type: ignore[arg-type]
        ([ToolCall(7, {})], "parse"),  # type: ignore[arg-type]
        ([ToolCall("add", {"number": "\ud800"})], "parse"),
        ([ToolCall("add", {"number": 1})] * 65, "parse"),
        ([ToolCall("add", None)], "bad_arguments"),  # type: ignore[arg-type]
        ([ToolCall("add", [1])], "bad_arguments"),  # type: ignore[arg-type]
    ],
)
def test_calls_that_a_model_got_wrong_cost_a_turn(calls: list[ToolCall], error: str) -> None:
    def act(messages: list[Message]) -> Action:
        return Action("done", calls=[]) if turns_in(messages) else Action("", calls=calls)

    env = Adder()
    (played,) = rollout(env, ScriptedPolicy(act), TASKS[:1])
    assert played.turns[0].info["calls"][0][1].error == error and not env.closed
    assert played.end_reason == "answer" and played.verdict is not None and played.to_dict()


@pytest.mark.parametrize("missing", ["None", "closed"])
def test_there_may_be_no_standard_error(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = None if missing == "None" else io.StringIO()
    if stream is not None:
        stream.close()
    monkeypatch.setattr(sys, "stderr", stream)
    for progress in (None, True):
        played = rollout(Adder, ScriptedPolicy(solve), TASKS, progress=progress)
        assert all(t.valid for t in played)


def test_wrappers_are_taken_off() -> None:
    limited: Any = TimeLimit(Adder(), max_episode_steps=1)
    (played,) = rollout(limited, ScriptedPolicy(thrice), TASKS[:1])
    assert len(played.turns) == 4 and played.end_reason == "answer"
    assert "TimeLimit" in str(rollout.__doc__), "which says so"


def test_the_token_limit() -> None:
    def act(messages: list[Message]) -> Action:
        if number_in(messages) == 1:
            return solve(messages) if not turns_in(messages) else Action("", cut=True)
        return Action("half a tho", cut=True) if not turns_in(messages) else Action("over")

    played = rollout(Adder, ScriptedPolicy(act), TASKS[:2], branch=1)
    cut, spent = (t for t in played if t.parent is None)
    assert (spent.end_reason, spent.valid, spent.reward) == ("token_limit", True, 1.0)
    assert spent.verdict is not None and spent.verdict.passed, "graded as it stands"
    assert cut.turns[0].info["calls"][0][1].error == "parse" and cut.end_reason == "answer"


def test_when_no_new_env_can_be_made() -> None:
    def make_up_to(count: int) -> Callable[[], ToolEnv]:
        left = iter(range(count))

        def make() -> ToolEnv:
            if next(left, None) is None:
                raise BackendUnavailable("out of envs; run: envs start")
            return Hanging()

        return make

    ended: list[Trajectory] = []
    options: dict[str, Any] = {"step_deadline": 0.6, "on_episode": ended.append}
    policy = ScriptedPolicy(solve)
    with pytest.raises(BackendUnavailable, match="envs start"):
        rollout(make_up_to(1), policy, TASKS[:3], workers=2, **options)
    assert ended == []
    with pytest.raises(BackendUnavailable, match="envs start"):
        rollout(make_up_to(1), policy, TASKS[:3], workers=1, **options)
    assert [(t.task.id, t.end_reason) for t in ended] == [("0", "answer"), ("1", "infrastructure")]
    last = rollout(make_up_to(1), policy, TASKS[:2], workers=1, **options)
    assert [t.end_reason for t in last] == ["answer", "infrastructure"], "nothing was left to play"
    played = rollout(make_up_to(2), policy, TASKS, workers=2, **options)
    assert Counter(t.end_reason for t in played) == {"answer": 7, "infrastructure": 1}


# -- whose envs ----------------------------------------------------------------------------------


@KINDS
def test_the_callers_envs_stay_open_and_are_used_again(kind: type[Adder]) -> None:
    envs: list[ToolEnv] = [kind() for _ in range(3)]
    first = rollout(envs, ScriptedPolicy(thrice), TASKS, group=2, branch=1)
    assert told(rollout(envs, ScriptedPolicy(thrice), TASKS, group=2, branch=1)) == told(first)
    assert told(rollout(tuple(envs), ScriptedPolicy(thrice), TASKS, group=2, branch=1)) == told(
        first
    )
    assert [(env.closed, len(env._shelf)) for env in envs] == [(False, 0)] * 3
    wrapped = RecordEpisodeStatistics(envs[0])
    assert told(rollout(wrapped, ScriptedPolicy(thrice), TASKS, group=2, branch=1)) == told(first)  # type: ignore[arg-type]


def test_what_is_made_here_is_closed_here() -> None:
    made: list[ToolEnv] = []

    def make() -> ToolEnv:
        if len(made) == 7:
            raise OSError("no space left")
        made.append(Adder())
        return made[-1]

    def boom(trajectory: Trajectory) -> None:
        raise ZeroDivisionError("in on_episode")

    rollout(make, ScriptedPolicy(solve), TASKS[:2], workers=16)
    assert len(made) == 2
    with pytest.raises(ZeroDivisionError):
        rollout(make, ScriptedPolicy(solve), TASKS, workers=3, on_episode=boom)
    assert len(made) == 5
    with pytest.raises(OSError, match="space"):
        rollout(make, ScriptedPolicy(solve), TASKS, workers=3)
    assert len(made) == 7 and all(env.closed for env in made)


def test_ids_and_specs() -> None:
    spec = gymnasium.spec("agent/CalculatorChars-v0")
    env = gymnasium.make(spec).unwrapped
    assert isinstance(env, ToolEnv)
    task = env.tasks.split("heldout")[0]
    by_spec = rollout(spec, ScriptedPolicy(lambda messages: "1|"), [task.id])
    by_id = rollout("agent/CalculatorChars-v0", ScriptedPolicy(lambda messages: "1|"), [task])
    assert told(by_spec) == told(by_id) and by_id[0].task == task


@pytest.mark.parametrize(
    "envs, kwargs, error, fix",
    [
        (Adder, {"group": 0}, ValueError, "group=0"),
        (Adder, {"workers": 0}, ValueError, "workers=0"),
        (Adder, {"tasks": ["0", "99"]}, KeyError, "no task '99'"),
        ([], {}, ValueError, "empty list"),
        ([3], {}, TypeError, "no ToolEnv"),
        (lambda: gymnasium.make("CartPole-v1"), {}, TypeError, "no ToolEnv"),
        ("CartPole-v1", {}, TypeError, "no ToolEnv"),
        (Adder, {"tasks": "0"}, TypeError, "tasks='0': a list of tasks or of their ids"),
        (Adder, {"tasks": TASKS[0]}, TypeError, "a list of tasks or of their ids, even of one"),
        (Adder, {"tasks": None}, TypeError, "tasks=None: a list"),
        (Adder, {"branch": -1}, ValueError, "branch=-1: how many continuations"),
        (Adder, {"branch": 1.5}, TypeError, "branch=1.5: a number, or a function"),
        (Adder, {"branch": True}, TypeError, "branch=True"),
        (Adder, {"seed": -1}, gymnasium.error.Error, "a seed is a whole number"),
        (Adder, {"seed": "x"}, gymnasium.error.Error, "a seed is a whole number"),
        (Adder, {"step_deadline": -1.0}, ValueError, "step_deadline=-1.0: a number of seconds"),
        (Adder, {"episode_deadline": float("nan")}, ValueError, "episode_deadline=nan"),
        (Adder, {"episode_deadline": None}, ValueError, "episode_deadline=None"),
        (Adder, {"policy": solve}, TypeError, r"ScriptedPolicy\(f\).*BatchPolicy\(f\)"),
        (
            Adder,
            {"policy": Gives(None)},
            TypeError,
            r"Gives.collect\(\) gave None: a list of",
        ),
        (Adder, {"policy": Gives([Action("x")])}, TypeError, "a list of pairs of a key and an Act"),
    ],
)
def test_bad_arguments(envs: Any, kwargs: Any, error: type[Exception], fix: str) -> None:
    ended: list[Trajectory] = []
    arguments = {"tasks": TASKS, "policy": ScriptedPolicy(solve), "on_episode": ended.append}
    with pytest.raises(error, match=fix):
        rollout(envs, **{**arguments, **kwargs})
    assert ended == [], "and nothing was played"


def test_one_env_twice_is_refused_and_no_task_is_none() -> None:
    env = Adder()
    with pytest.raises(ValueError, match="twice"):
        rollout([env, env], ScriptedPolicy(solve), TASKS)
    assert rollout(env, ScriptedPolicy(solve), []) == []


def test_a_long_run_keeps_few_snapshots() -> None:
    env, most = Adder(), 0

    def on_episode(trajectory: Trajectory) -> None:
        nonlocal most
        most = max(most, len(env._shelf))

    rollout(env, ScriptedPolicy(thrice), TASKS * 5, group=2, branch=1, on_episode=on_episode)
    assert most == 5, "one a turn, and the start of the group"


# -- what is carried -----------------------------------------------------------------------------


def test_what_the_policy_made_is_carried_untouched() -> None:
    action = Action(
        "text", Sample([1, 2], [-0.5, -0.25], 7), calls=[ToolCall("add", {"number": 3})]
    )

    def act(messages: list[Message]) -> Action:
        return Action("done") if turns_in(messages) else action

    (played,) = rollout(Adder, ScriptedPolicy(act), [TASKS[3]])
    assert played.turns[0].action is action and played.reward == 1.0
    assert [m["role"] for m in played.messages()] == [
        "system", "user", "assistant", "tool", "assistant",
    ]  # fmt: skip


def test_a_policy_that_rewrites_its_messages_changes_nothing() -> None:
    def rewrite(messages: list[Message]) -> Action:
        action = thrice(messages)
        for message in messages:
            message["content"] = "spoiled"
        messages.clear()
        return action

    plain = rollout(Adder, ScriptedPolicy(thrice), TASKS[:2], group=3, branch=1)
    assert told(rollout(Adder, ScriptedPolicy(rewrite), TASKS[:2], group=3, branch=1)) == told(
        plain
    )


# -- interruption --------------------------------------------------------------------------------


def test_an_interrupt_hands_the_callers_envs_back_idle() -> None:
    stepping, interrupted = threading.Event(), threading.Event()
    log: list[str] = []

    class Slow(Adder):
        def added(self, number: int) -> None:
            if self.task.id == "1":
                stepping.set()
                interrupted.wait(WAIT)
                log.append("step over")

    class Interrupted(ScriptedPolicy):
        def collect(self, timeout: float) -> list[Answer]:
            if stepping.is_set():
                threading.Timer(0.1, interrupted.set).start()
                raise KeyboardInterrupt
            return super().collect(timeout)

    envs: list[ToolEnv] = [Slow(max_turns=10**9, max_calls=10**9) for _ in range(2)]
    with pytest.raises(KeyboardInterrupt):
        rollout(envs, Interrupted(lambda messages: add(0)), TASKS[:2], branch=1)
    assert log == ["step over"], "it waited for the running step"
    assert [len(env._shelf) for env in envs] == [0, 0]
    assert all(t.valid for t in rollout(envs, ScriptedPolicy(solve), [TASKS[2], TASKS[3]]))


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGINT to send")
def test_ctrl_c_keeps_what_was_done() -> None:
    script = """
from test_rollout import *
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job ignores it
def on_episode(trajectory):
    print(trajectory.task.id, trajectory.end_reason, flush=True)
try:
    rollout(Hanging, ScriptedPolicy(solve), TASKS[:2], workers=2, on_episode=on_episode)
except KeyboardInterrupt:
    print("interrupted", [env.closed for env in Hanging.closed_ones])
"""
    with subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, env=_paths()
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "0 answer\n"
        process.send_signal(signal.SIGINT)
        assert process.stdout.read() == "interrupted [True, True]\n"
        assert process.wait(60) == 0


# -- overlap -------------------------------------------------------------------------------------


def test_steps_overlap_with_each_other_and_with_the_policy() -> None:
    """Two envs meet in their steps; then one in its step meets the policy at work on the other."""
    envs_meet, policy_meets = threading.Barrier(2, timeout=WAIT), threading.Barrier(2, timeout=WAIT)
    in_step = threading.Event()

    class Meeting(Adder):
        def added(self, number: int) -> None:
            if number == 100:
                envs_meet.wait()
            if number == 200:
                in_step.set()
                policy_meets.wait()
            if number == 300:
                assert in_step.wait(WAIT)

    def turn(messages: list[Message]) -> Action:
        match number_in(messages), turns_in(messages):
            case _, 0:
                return add(100)
            case 0, 1:
                return add(200)
            case 1, 1:
                return add(300)
            case 1, 2:
                policy_meets.wait()
        return Action("done", calls=[])

    policy = BatchPolicy(lambda conversations: [turn(c) for c in conversations], max_batch=1)
    played = rollout(Meeting, policy, TASKS[:2], workers=2)
    policy.close()
    assert [t.end_reason for t in played] == ["answer", "answer"]
    assert [len(t.turns) for t in played] == [3, 3]
    assert not (envs_meet.broken or policy_meets.broken)


def test_inline_is_read_from_the_class_itself() -> None:
    threads: dict[str, set[bool]] = {"Quick": set(), "Child": set()}

    class Quick(Inline):
        inline = True

        def added(self, number: int) -> None:
            is_main = threading.current_thread() is threading.main_thread()
            threads[type(self).__name__].add(is_main)

    class Child(Quick):
        pass

    for kind in (Quick, Child):
        rollout(kind, ScriptedPolicy(solve), TASKS)
    assert threads == {"Quick": {True}, "Child": {False}}


def test_threads_end_with_the_rollout() -> None:
    before = set(threading.enumerate())
    rollout(Adder, ScriptedPolicy(solve), TASKS, workers=8)
    Hanging.free.set()
    rollout(Hanging, ScriptedPolicy(solve), TASKS, workers=8)
    for thread in set(threading.enumerate()) - before:
        thread.join(WAIT)
        assert not thread.is_alive()


def test_threads_of_envs_that_hung_end_when_they_come_back() -> None:
    before = set(threading.enumerate())
    rollout(Hanging, ScriptedPolicy(solve), TASKS[:3], workers=1, step_deadline=2.5)
    Hanging.free.set()
    for thread in set(threading.enumerate()) - before:
        thread.join(WAIT)
        assert not thread.is_alive()
