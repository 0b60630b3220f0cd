"""Policies: batches on a thread of their own, and what happens when they fail."""

import threading
from collections.abc import Callable, Hashable, Iterator
from pathlib import Path
from typing import Any

import gymnasium
import pytest

from agent_envs import ToolEnv
from agent_envs.policy import (
    Answer,
    BatchPolicy,
    Messages,
    Policy,
    ScriptedPolicy,
    check_action,
    check_policy,
    native_move,
    null,
    oracle,
    randomly,
)
from agent_envs.rollout import rollout
from agent_envs.task import Task, TaskList
from agent_envs.turns import Action, Malformed, Sample, ToolCall

BANK = "bank_env:mine/Bank-v0"
PATIENCE = 30.0


@pytest.fixture(autouse=True, scope="module")
def _importable() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(Path(__file__).parent))
        yield


def said(text: str) -> Messages:
    """A conversation of one message."""
    return [{"role": "user", "content": text}]


def echo(batch: list[Messages]) -> list[str]:
    """Says what was said last."""
    return [messages[-1]["content"] for messages in batch]


@pytest.fixture
def started() -> Iterator[Callable[..., BatchPolicy]]:
    """Makes batch policies, and closes them."""
    made: list[BatchPolicy] = []

    def make(*args: Any, **kwargs: Any) -> BatchPolicy:
        made.append(BatchPolicy(*args, **kwargs))
        return made[-1]

    yield make
    for policy in made:
        policy.close()


def collect(policy: Policy, count: int) -> dict[Hashable, Action | Exception]:
    """So many answers, by key; none may come twice."""
    found: dict[Hashable, Action | Exception] = {}
    while len(found) < count:
        answers = policy.collect(PATIENCE)
        assert answers, "an answer is missing"
        for key, turn in answers:
            assert key not in found
            found[key] = turn
    assert policy.collect(0.0) == []
    return found


# -- scripted -------------------------------------------------------------------------------------


def test_a_scripted_policy_answers_when_asked() -> None:
    policy = ScriptedPolicy(lambda messages: messages[-1]["content"])
    assert policy.collect(5.0) == []
    policy.submit("a", said("1"))
    policy.submit(("b", 2), said("2"))
    policy.submit("c", said("3"))
    policy.cancel("c")
    policy.cancel("never asked")
    assert policy.collect(0.0) == [("a", Action("1")), (("b", 2), Action("2"))]
    assert policy.collect(0.0) == []


@pytest.mark.parametrize("turn", [None, 3, ["a"], b"a", {"text": "a"}])
def test_what_is_no_turn_is_the_policys_error(turn: Any) -> None:
    policy = ScriptedPolicy(lambda messages: turn)
    policy.submit("a", said(""))
    [(_, error)] = policy.collect(0.0)
    assert isinstance(error, TypeError)
    assert "a policy's turn is a str or an Action, not" in str(error)


def test_a_scripted_policys_exception_is_its_answer() -> None:
    def act(messages: Messages) -> str:
        if messages[-1]["content"] == "bad":
            raise StopIteration("no more")
        return "fine"

    policy = ScriptedPolicy(act)
    policy.submit("a", said("bad"))
    policy.submit("b", said("good"))
    (_, error), (_, turn) = policy.collect(0.0)
    assert isinstance(error, StopIteration) and turn == Action("fine")


# -- what rollout checks --------------------------------------------------------------------------


@pytest.mark.parametrize("policy", [len, lambda messages: "a", ScriptedPolicy, None, "oracle"])
def test_what_is_no_policy(policy: Any) -> None:
    with pytest.raises(TypeError, match=r"no Policy: wrap .* in ScriptedPolicy.*in BatchPolicy"):
        check_policy(policy)


def test_what_is_a_policy() -> None:
    for policy in (ScriptedPolicy(lambda messages: ""), BatchPolicy(echo), null()):
        check_policy(policy)


ODD_NAMES: list[Any] = ["f", None, 5, ["f"]]
ODD_ARGUMENTS: list[Any] = [{}, None, "x", [1], {"x": float("nan")}]
WELL_FORMED = [
    Action("a"),
    Action("", Sample([1], [-0.5]), True, []),
    Action("", calls=[ToolCall("f", {"x": [1, {"y": None}]}, "c1")]),
    *(
        Action("", calls=[ToolCall("f", {}), ToolCall(name, arguments)])
        for name in ODD_NAMES
        for arguments in ODD_ARGUMENTS
    ),
]


@pytest.mark.parametrize("action", WELL_FORMED, ids=range(len(WELL_FORMED)))
def test_a_well_formed_action_is_taken_as_it_is(action: Action) -> None:
    before = str(action)
    assert check_action(action) is action and str(action) == before


def test_other_answers_of_a_policy() -> None:
    failed = OSError("no GPU")
    assert check_action(failed) is failed
    assert check_action("68") == Action("68")


class Rude:
    """Something that cannot even be shown."""

    def __repr__(self) -> str:
        raise RuntimeError("no repr")


def with_calls(calls: Any) -> Action:
    """An action with native calls."""
    return Action("", calls=calls)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (None, "a policy's turn is a str or an Action, not None"),
        (Action, "a str or an Action, not <class"),
        ({"text": "a"}, "a str or an Action"),
        (SystemExit(1), r"a str or an Action, not SystemExit\(1\)"),
        (Action(123), "Action.text is 123, not str"),  # type: ignore[arg-type]
        (Action(None), "Action.text is None, not str"),  # type: ignore[arg-type]
        (Action(b"68"), "Action.text is b'68', not str"),  # type: ignore[arg-type]
        (Action("a", [1]), r"Action.sample is \[1\], not .*Sample"),  # type: ignore[arg-type]
        (Action("a", cut="length"), "Action.cut is 'length', not bool"),  # type: ignore[arg-type]
        (with_calls(5), "Action.calls is 5, not list"),
        (with_calls("f"), "Action.calls is 'f', not list"),
        (with_calls({"name": "f"}), "Action.calls is {'name': 'f'}, not list"),
        (with_calls([{"name": "f"}]), "Action.calls: an item is {'name': 'f'}, not ToolCall"),
        (with_calls([ToolCall("f", {}), None]), "Action.calls: an item is None, not ToolCall"),
        (with_calls([ToolCall("f", {}, None)]), "an id is None, not str"),  # type: ignore[arg-type]
        (with_calls([ToolCall("f", {"x": object()})]), "calls: no JSON form for a object"),
        (with_calls([ToolCall(b"f", {})]), "no JSON form for a bytes"),  # type: ignore[arg-type]
        (with_calls([ToolCall("f", {1: 2, "1": 3})]), "two keys of one name"),  # type: ignore
        (Rude(), "no repr"),
        (Action(Rude()), "no repr"),  # type: ignore[arg-type]
    ],
    ids=range(20),
)
def test_what_is_no_well_formed_action(answer: Any, message: str) -> None:
    with pytest.raises((TypeError, RuntimeError), match=message):
        error = check_action(answer)
        assert isinstance(error, Exception)
        raise error


def deep(levels: int) -> dict[str, Any]:
    """An object in an object in an object."""
    value: dict[str, Any] = {}
    for _ in range(levels):
        value = {"x": value}
    return value


@pytest.mark.parametrize(
    "calls",
    [
        [ToolCall("f", {}), ToolCall(None, {})],  # type: ignore[arg-type]
        [ToolCall(["f"], {})],  # type: ignore[arg-type]
        [ToolCall("f", {})] * 65,
        [ToolCall("f", deep(10_000))],
        [ToolCall("f", {"x": "\ud800"})],
    ],
    ids=range(5),
)
def test_native_calls_that_are_malformed(calls: list[ToolCall]) -> None:
    assert check_action(with_calls(calls)) == with_calls(calls)
    move = native_move(calls)
    assert isinstance(move, Malformed) and len(move.reason) < 100


def test_native_calls_are_handed_on_as_copies() -> None:
    calls = [ToolCall("f", {"x": [1]}, "c1"), ToolCall("g", "no object")]  # type: ignore[arg-type]
    move = native_move(calls)
    assert move == calls and isinstance(move, list)
    move[0].arguments["x"].append(2)
    move[1].name = "changed"
    assert calls[0].arguments == {"x": [1]} and calls[1].name == "g"


# -- batches --------------------------------------------------------------------------------------


class Gate:
    """A batch function that waits until it is let go, and remembers what it was asked."""

    def __init__(self) -> None:
        self.open, self.inside = threading.Event(), threading.Event()
        self.batches: list[list[str]] = []

    def __call__(self, batch: list[Messages]) -> list[str]:
        self.batches.append(echo(batch))
        self.inside.set()
        assert self.open.wait(PATIENCE)
        return echo(batch)


def test_a_batch_is_worked_on_while_others_go_on(started: Any) -> None:
    gate = Gate()
    policy = started(gate, max_batch=3)
    assert policy.collect(0.0) == []
    policy.submit(0, said("0"))
    assert gate.inside.wait(PATIENCE)
    for i in range(1, 8):  # none of these waits for the batch
        policy.submit(i, said(str(i)))
    assert policy.collect(0.0) == [] and policy.collect(0.001) == []
    gate.open.set()
    assert collect(policy, 8) == {i: Action(str(i)) for i in range(8)}
    assert gate.batches == [["0"], ["1", "2", "3"], ["4", "5", "6"], ["7"]]


def test_an_exception_fails_its_batch_alone(started: Any) -> None:
    def act(batch: list[Messages]) -> list[str]:
        if "bad" in echo(batch):
            raise OSError("no GPU")
        return echo(batch)

    policy = started(act, max_batch=1)
    for text in ("good", "bad", "fine"):
        policy.submit(text, said(text))
    found = collect(policy, 3)
    assert found["good"] == Action("good") and found["fine"] == Action("fine")
    assert isinstance(found["bad"], OSError)


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda batch: [], "the policy gave 0 turns for 1 prompts"),
        (lambda batch: ["a", "b"], "the policy gave 2 turns for 1 prompts"),
        (lambda batch: "a", "a batch policy gives a list of turns, not one text"),
        (lambda batch: None, "not iterable"),
        (lambda batch: 1 / 0, "division by zero"),
        (lambda batch: [None], "a policy's turn is a str or an Action, not None"),
        (lambda batch: [["a"]], "a policy's turn is a str or an Action, not \\['a'\\]"),
    ],
    ids=range(7),
)
def test_what_is_no_batch_of_turns(act: Any, message: str, started: Any) -> None:
    policy = started(act)
    for key in ("a", "b"):  # the thread outlives it
        policy.submit(key, said(""))
        [(_, error)] = collect(policy, 1).items()
        with pytest.raises(Exception, match=message):
            assert isinstance(error, Exception)
            raise error


def test_one_bad_turn_leaves_the_others_of_its_batch(started: Any) -> None:
    gate = Gate()
    policy = started(lambda batch: [None if x == "2" else x for x in gate(batch)])
    policy.submit(0, said("0"))
    assert gate.inside.wait(PATIENCE)
    for i in (1, 2, 3):
        policy.submit(i, said(str(i)))
    gate.open.set()
    found = collect(policy, 4)
    assert isinstance(found.pop(2), TypeError)
    assert found == {i: Action(str(i)) for i in (0, 1, 3)}


@pytest.mark.parametrize("error", [SystemExit(1), KeyboardInterrupt(), GeneratorExit()])
def test_nothing_ends_the_thread(error: BaseException, started: Any) -> None:
    def act(batch: list[Messages]) -> list[str]:
        if echo(batch) == ["bad"]:
            raise error
        return echo(batch)

    policy = started(act)
    policy.submit("a", said("bad"))
    assert isinstance(collect(policy, 1)["a"], RuntimeError)
    policy.submit("a", said("good"))
    assert collect(policy, 1) == {"a": Action("good")}


def test_actions_are_carried_untouched(started: Any) -> None:
    action = Action("x", cut=True, calls=[ToolCall("f", {})])
    policy = started(lambda batch: (action for _ in batch))
    policy.submit("a", said(""))
    assert collect(policy, 1)["a"] is action


def test_a_cancelled_key_gets_no_answer(started: Any) -> None:
    gate = Gate()
    policy = started(gate)
    policy.submit("at work", said("1"))
    assert gate.inside.wait(PATIENCE)
    policy.submit("waiting", said("2"))
    policy.submit("kept", said("3"))
    for key in ("at work", "waiting", "unknown"):
        policy.cancel(key)
    gate.open.set()
    assert collect(policy, 1) == {"kept": Action("3")}
    assert gate.batches == [["1"], ["3"]]


def test_an_old_answer_is_not_taken_for_a_new_one(started: Any) -> None:
    """A key comes again in the next rollout, which may follow one that was cancelled."""
    gate = Gate()
    policy = started(gate)
    messages = said("old")
    policy.submit("0.0", messages)
    assert gate.inside.wait(PATIENCE)
    policy.cancel("0.0")
    messages[-1] = {"role": "user", "content": "new"}  # the very same list
    policy.submit("0.0", messages)
    gate.open.set()
    assert collect(policy, 1) == {"0.0": Action("new")}
    assert len(gate.batches) == 2


def test_an_answer_that_nobody_fetched_is_not_taken_for_a_new_one(started: Any) -> None:
    policy = started(echo)
    policy.submit("0.0", said("old"))
    policy.submit("marker", said("marker"))
    while not any(key == "marker" for key, _ in policy.collect(PATIENCE)):
        pass
    policy.submit("0.0", said("older"))
    policy.submit("0.0", said("new"))  # asked twice: the later one counts
    assert collect(policy, 1) == {"0.0": Action("new")}


def test_a_closed_policy(started: Any) -> None:
    gate = Gate()
    policy = started(gate)
    policy.submit("a", said("1"))
    assert gate.inside.wait(PATIENCE)
    policy.submit("b", said("2"))
    policy.close()
    policy.close()
    with pytest.raises(RuntimeError, match="this policy is closed; make a new one"):
        policy.submit("c", said("3"))
    [thread] = [t for t in threading.enumerate() if t.name.endswith("(_work)") and gate in _acts(t)]
    gate.open.set()
    thread.join(PATIENCE)
    assert not thread.is_alive() and gate.batches == [["1"]]
    assert policy.collect(0.0) == []
    policy.cancel("a")


def _acts(thread: threading.Thread) -> list[Any]:
    """What a policy's thread calls."""
    target = getattr(thread, "_target", None)
    return [getattr(getattr(target, "__self__", None), "_act", None)]


def test_a_policy_that_was_never_asked_has_no_thread() -> None:
    before = threading.active_count()
    policy = BatchPolicy(echo)
    assert policy.collect(0.0) == [] and threading.active_count() == before
    policy.close()


@pytest.mark.parametrize("max_batch", [0, -1])
def test_a_batch_has_at_least_one(max_batch: int) -> None:
    with pytest.raises(ValueError, match="max_batch=.*: at least 1"):
        BatchPolicy(echo, max_batch)


# -- with environments ----------------------------------------------------------------------------


def bank() -> type[ToolEnv]:
    """The class of the bank."""
    env = gymnasium.make(BANK).unwrapped
    assert isinstance(env, ToolEnv)
    return type(env)


def test_the_oracle_in_batches_solves_every_task(started: Any) -> None:
    kind, sizes = bank(), []
    gold = oracle(kind)

    def act(batch: list[Messages]) -> list[Action | str]:
        sizes.append(len(batch))
        for i, messages in enumerate(batch):
            gold.submit(i, messages)
        answers: list[Answer] = gold.collect(0.0)
        return [turn for _, turn in answers if isinstance(turn, Action)]

    tasks = list(kind.tasks)
    episodes = rollout(BANK, started(act, max_batch=7), tasks, workers=8, progress=False)
    assert [e.task.id for e in episodes] == [t.id for t in tasks]
    assert all(e.verdict and e.verdict.passed and e.valid for e in episodes)
    assert max(sizes) <= 7 and sum(sizes) == sum(len(e.turns) for e in episodes)


def test_a_failing_batch_policy_marks_episodes_and_goes_on(started: Any) -> None:
    def act(batch: list[Messages]) -> list[str]:
        raise OSError("out of memory")

    episodes = rollout(BANK, started(act), ["train/0", "train/1"], progress=False)
    assert [(e.end_reason, e.valid) for e in episodes] == [("policy_error", False)] * 2
    assert all("out of memory" in str(e.error) for e in episodes)


def test_the_oracle_knows_its_source_only() -> None:
    kind = bank()
    mine = TaskList([Task("x", "train", "a prompt of my own", ("ada", "bob", 5))])
    policy = oracle(kind, mine)
    policy.submit("a", said("a prompt of my own"))
    policy.submit("b", said("another"))
    policy.submit("c", [{"role": "system", "content": "no user here"}])
    (_, turn), (_, error), (_, nobody) = policy.collect(0.0)
    assert isinstance(turn, Action) and turn.calls and turn.calls[0].name == "transfer"
    assert isinstance(error, KeyError) and "no task of the source has the prompt" in str(error)
    assert isinstance(nobody, KeyError)


def test_an_oracle_makes_calls_or_answers() -> None:
    class Broken(ToolEnv):
        tasks = TaskList([Task("x", "train", "p")])

        @staticmethod
        def oracle(task: Task, messages: Messages) -> Malformed:
            return Malformed("hm")

    policy = oracle(Broken)
    policy.submit("a", said("p"))
    [(_, error)] = policy.collect(0.0)
    assert isinstance(error, TypeError)


def first_turn(policy: Policy, prompt: str) -> Action | Exception:
    """What a policy says to a prompt."""
    policy.submit("a", said(prompt))
    [(_, turn)] = policy.collect(0.0)
    return turn


def test_an_environment_by_its_id_its_class_or_itself() -> None:
    kind, prompt = bank(), next(iter(bank().tasks)).prompt
    env, wrapped = kind(), gymnasium.wrappers.TimeLimit(gymnasium.make(BANK), 5)
    environments: list[Any] = [BANK, gymnasium.spec(BANK.partition(":")[2]), kind, env, wrapped]
    for make in (oracle, randomly):
        turns = [first_turn(make(one), prompt) for one in environments]
        assert isinstance(turns[0], Action) and turns == turns[:1] * 5
    assert not env.closed


def test_the_oracle_of_an_env_plays_that_envs_own_tasks() -> None:
    mine = Task("x", "train", "a prompt of my own", ("ada", "bob", 5))
    env = bank()(tasks=[mine])
    assert isinstance(first_turn(oracle(env), mine.prompt), Action)
    assert isinstance(first_turn(oracle(type(env)), mine.prompt), KeyError)


@pytest.mark.parametrize("env", [None, 5, str, len, gymnasium.Env])
def test_what_is_no_environment(env: Any) -> None:
    for make in (oracle, randomly):
        with pytest.raises(TypeError, match="is no id, no class and no instance of a ToolEnv"):
            make(env)


def test_an_unknown_id_and_a_class_without_tasks() -> None:
    with pytest.raises(gymnasium.error.Error, match="NoSuch"):
        oracle("agent/NoSuch-v0")
    with pytest.raises(ValueError, match="ToolEnv has no tasks of its own: give some"):
        oracle(ToolEnv)


def test_null_answers_and_scores_nothing() -> None:
    episodes = rollout(BANK, null(), list(bank().tasks.split("heldout")), progress=False)
    assert all(e.end_reason == "answer" and e.reward == 0 for e in episodes)


def test_random_play_fits_the_schemas_and_hangs_on_the_conversation_alone() -> None:
    kind = bank()
    policy = randomly(kind)
    conversations = [said(f"prompt {i}") for i in range(300)]
    for i, messages in enumerate(conversations):
        policy.submit(i, messages)
    first = [turn for _, turn in policy.collect(0.0)]
    again = randomly(kind)
    for i, messages in reversed(list(enumerate(conversations))):
        again.submit(i, messages)
    assert [turn for _, turn in again.collect(0.0)] == first[::-1]
    actions = [turn for turn in first if isinstance(turn, Action)]
    assert len(actions) == 300
    calls = [call for action in actions for call in action.calls or []]
    assert {call.name for call in calls} == set(kind.tools)
    assert all(kind.tools[call.name].problem(call.arguments) is None for call in calls)
    assert any(action.text.isdigit() for action in actions)
    assert len({str(action) for action in actions}) > 250
