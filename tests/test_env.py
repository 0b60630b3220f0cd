"""ToolEnv by example: order, seeds, limits, info, pay, faults, and three kinds of failure."""

import json
import logging
import random
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec
from gymnasium.error import ClosedEnvironmentError, InvalidAction, ResetNeeded

from agent_envs import (
    BackendUnavailable,
    Malformed,
    Task,
    TaskSource,
    Tool,
    ToolCall,
    ToolEnv,
    ToolError,
    ToolResult,
    Verdict,
    tool,
)
from agent_envs.plain import to_plain
from agent_envs.testing.info import INFO_KEYS

# Python 3.12 and later warn of any fork in a process with threads, and numpy may have some.
pytestmark = pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")


SHARED = ToolResult("the same 68")


class Chores(TaskSource):
    """Twelve a split, levels 0 and 1 in turn; the answer is the number in the prompt."""

    splits = ("train", "heldout")

    def load(self, split: str) -> list[Task]:
        return [Task(f"{split}/{i}", split, f"Say {i}, {split}.", str(i), i % 2) for i in range(12)]


@dataclass(frozen=True)
class Pad:
    notes: tuple[str, ...] = ()


class Desk(ToolEnv):
    """A pad of notes, and tools that go wrong in every way there is."""

    tasks = Chores()
    weights = {"answer": 1.0, "care": 0.5, "notes": 0.0}
    letters = {"W": "write"}

    def setup(self, task: Task) -> None:
        self.state = Pad()

    @tool
    def write(self, text: str) -> str:
        """Write a note."""
        self.state = Pad((*self.state.notes, text))
        return f"{len(self.state.notes)}: {text}"

    @tool
    def read(self) -> str:
        """Read all notes."""
        return "|".join(self.state.notes)

    @tool
    def items(self, values: list[list[int]]) -> int:
        """Change the argument."""
        values.append([0])
        return len(values)

    @tool
    def earn(self, component: str, amount: float) -> str:
        """Pay."""
        self.pay(component, amount)
        return "paid"

    @tool
    def coin(self) -> str:
        """Draw twice from one stream, and once from another."""
        return " ".join(str(self.rng(s).randrange(10**9)) for s in ("a", "a", "b"))

    @tool
    def same(self) -> Any:
        """Give the same object every time."""
        return SHARED

    @tool
    def stop(self) -> str:
        """End the episode."""
        self.end()
        return "ended"

    @tool
    def refuse(self) -> str:
        """Refuse."""
        raise ToolError("not today")

    @tool
    def dawdle(self) -> str:
        """Take too long."""
        raise TimeoutError("3 s")

    @tool
    def crash(self) -> str:
        """Have a bug."""
        return {"": "secret"}["the gold is 68"]

    @tool
    def down(self) -> str:
        """Meet a dead backend."""
        raise BackendUnavailable("the desk is down; run: desk start")

    def grade(self, answer: str | None) -> Verdict:
        if answer == "break the grader":
            raise ZeroDivisionError("in the grader")
        right = answer == self.task.data
        parts = {"answer": float(right), "notes": float(len(self.state.notes))}
        return Verdict(parts, self.weights, right, "7")


def desk(**kwargs: Any) -> Desk:
    env = Desk(**kwargs)
    env.reset(seed=1)
    return env


def call(name: str, **arguments: Any) -> ToolCall:
    return ToolCall(name, arguments)


# -- order -------------------------------------------------------------------------------------

NEEDS_RESET: dict[str, Callable[[Desk], Any]] = {
    "step": lambda env: env.step("x"),
    "act": lambda env: env.act("x"),
    "call": lambda env: env.call(call("read")),
    "finish": lambda env: env.finish("x"),
    "render": lambda env: env.render(),
    "snapshot": lambda env: env.snapshot(),
    "fork": lambda env: env.fork(),
    "history": lambda env: env.history(),
    "task": lambda env: env.task,
    "turn": lambda env: env.turn,
    "calls": lambda env: env.calls,
    "ended": lambda env: env.ended,
    "rng": lambda env: env.rng("x"),
}


@pytest.mark.parametrize("name", NEEDS_RESET)
def test_before_reset_and_after_close_is_an_error(name: str) -> None:
    env = Desk()
    with pytest.raises(ResetNeeded, match="reset"):
        NEEDS_RESET[name](env)
    env.reset(seed=1)
    env.close()
    with pytest.raises(ClosedEnvironmentError, match="closed"):
        NEEDS_RESET[name](env)
    with pytest.raises(ClosedEnvironmentError, match="closed"):
        env.reset(seed=1)


def test_after_the_end_a_step_is_an_error_and_the_rest_is_mild() -> None:
    env = desk()
    verdict = env.finish("wrong")
    for name in ("step", "act"):
        with pytest.raises(ResetNeeded, match="over"):
            NEEDS_RESET[name](env)
    assert env.call(call("write", text="late")).error == "limit"
    assert env.finish("right") == verdict and verdict is not None and not verdict.passed
    assert env.turn == 1 and env.state == Pad()
    env.reset()
    assert not env.ended and env.turn == 0


def test_close_frees_once() -> None:
    freed = []

    class Counting(Desk):
        def teardown(self) -> None:
            freed.append(1)

    Counting().close()
    assert freed == [], "nothing was set up"
    env = Counting()
    env.reset(seed=1)
    env.reset()
    assert freed == [1]
    env.close()
    env.close()
    assert freed == [1, 1]


def test_what_is_no_action_is_refused_and_costs_no_turn() -> None:
    env = desk()
    for action in (None, 3, b"x", ["x"]):
        with pytest.raises(InvalidAction, match="text"):
            env.step(action)  # type: ignore[arg-type]
    names: Any = (7, None, [])
    odd = [ToolCall(name, {}) for name in names]
    for move in (None, 3, ("x",), ["x"], [call("read"), {"name": "read"}], *([c] for c in odd)):
        with pytest.raises(TypeError, match="call"):
            env.act(move)  # type: ignore[arg-type]
    assert env.turn == 0 and env.history()["moves"] == []


# -- seeds and options ---------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [-1, True, 1.0, "1", np.float64(3)], ids=repr)
def test_bad_seeds(seed: Any) -> None:
    env = desk()
    start = env.snapshot()
    for act in (
        lambda: env.reset(seed=seed),
        lambda: env.rollback(start, seed=seed),
        lambda: env.fork(start, seed=seed),
    ):
        with pytest.raises(gymnasium.error.Error, match="whole number"):
            act()


@pytest.mark.parametrize("seed", [0, np.int64(5), 2**64, 10**30], ids=repr)
def test_a_seed_begins_a_series(seed: Any) -> None:
    one, two = Desk(fault_rate=0.5), Desk(fault_rate=0.5)

    def episodes(env: Desk) -> list[Any]:
        out: list[Any] = []
        for number in range(4):
            observation = env.reset(seed=None if number else seed)[0]
            said = [env.call(call("coin")), env.call(call("write", text="12345"))]
            out.append((observation, said, env.np_random.random()))
        return out

    first = episodes(one)
    two.reset(seed=7)
    assert episodes(two) == first
    assert len({str(said) for _, said, _ in first}) == 4, "the episodes of a series differ"
    assert len({draw for _, _, draw in first}) == 4, "np_random goes on from episode to episode"
    assert two.np_random_seed == int(seed)


def test_without_any_seed_two_envs_differ() -> None:
    one, two = Desk(), Desk()
    one.reset()
    two.reset()
    assert one.call(call("coin")) != two.call(call("coin"))


def test_the_seed_moves_noise_only_where_the_task_is_given() -> None:
    one, two = Desk(fault_rate=0.0), Desk(fault_rate=0.9)
    drawn = []
    for seed in range(30):
        assert one.reset(seed=seed)[1]["task_id"] == two.reset(seed=seed)[1]["task_id"]
        drawn.append(one.task.id)
        assert one.reset(seed=seed, options={"task": "train/3"})[0].endswith("Say 3, train.")
    assert len(set(drawn)) > 6


def test_options_hold_for_one_episode() -> None:
    env = Desk(split="train", level=1)
    for seed in range(10):
        assert env.reset(seed=seed, options={"split": "heldout"})[1]["task_id"][:4] == "held"
        assert env.task.level == 1
        env.reset(seed=seed, options={"level": 0})
        assert (env.task.split, env.task.level) == ("train", 0)
        env.reset()
        assert (env.task.split, env.task.level) == ("train", 1)
    mine = Task("mine", "train", "Say it.", "it")
    assert env.reset(options={"task": mine})[1]["task_id"] == "mine"
    assert env.finish("it") == Verdict({"answer": 1.0, "notes": 0.0}, env.weights, True, "7")


BAD_OPTIONS: list[tuple[Any, type[Exception], str]] = [
    ({"tasks": "train/1"}, ValueError, "no key 'tasks' .did you mean 'task'.*level.*split.*task"),
    ({1: 2, "task": "train/1"}, ValueError, "no key 1;"),
    *((x, ValueError, "a dict that may have") for x in ([1], "train/1", "", 5)),
    ([], ValueError, "a dict that may have"),
    ({"task": 5}, ValueError, "the id of one as text"),
    ({"task": ["a"]}, ValueError, "the id of one as text"),
    ({"task": {}}, ValueError, "the id of one as text"),
    *(({"level": x}, ValueError, "whole number") for x in ("0", True, 0.0)),
    ({"level": [1]}, ValueError, "whole number"),
    *(({"split": x}, KeyError, "train.*heldout") for x in (5, None)),
    ({"split": ["train"]}, KeyError, "train.*heldout"),
    ({"task": "train/99"}, KeyError, "no task 'train/99'"),
    ({"split": "test"}, KeyError, "train.*heldout"),
    ({"level": 5}, KeyError, "levels"),
]


@pytest.mark.parametrize("options, error, fix", BAD_OPTIONS, ids=str)
def test_bad_options_say_what_fits(options: Any, error: type[Exception], fix: str) -> None:
    with pytest.raises(error, match=fix):
        desk().reset(seed=9, options=options)


def test_bad_options_change_nothing() -> None:
    env, twin = desk(), desk()
    for options, error, _ in BAD_OPTIONS:
        with pytest.raises(error):
            env.reset(seed=9, options=options)
    assert env.task.id == twin.task.id
    assert env.np_random.random() == twin.np_random.random()
    assert env.reset()[1] == twin.reset()[1]


@pytest.mark.parametrize(
    "kwargs, error, fix",
    [
        ({"max_turns": 0}, ValueError, "a whole number from"),
        ({"max_calls": -1}, ValueError, "a whole number from"),
        ({"max_turns": "3"}, ValueError, "max_turns='3': a whole number from 1 up"),
        ({"max_snapshots": 0}, ValueError, "max_snapshots=0: a whole number from 1 up"),
        ({"max_snapshots": "all"}, ValueError, "max_snapshots='all': a whole number"),
        ({"tool_docs": "no"}, ValueError, "tool_docs='no': True or False"),
        ({"render_mode": "human"}, ValueError, "render_mode='human': None, or one of .*ansi"),
        ({"protocol": ["chars"]}, ValueError, "chars.*hermes"),
        ({"level": "0"}, ValueError, "level='0': a whole number"),
        ({"split": ["train"]}, KeyError, "train.*heldout"),
        ({"tasks": 5}, ValueError, "tasks=5: a TaskSource, the path"),
        ({"tasks": "none.jsonl"}, FileNotFoundError, "tasks='none.jsonl': no such file"),
        ({"protocol": "xml"}, ValueError, "chars.*hermes"),
        ({"split": "test"}, KeyError, "train.*heldout"),
        ({"level": 9}, KeyError, r"levels: \[0, 1\]"),
        ({"fault_rate": 1.5}, ValueError, "from 0 to 1"),
        ({"fault_rate": {"odd": 0.1}}, ValueError, "odd"),
        ({"tasks": []}, ValueError, "empty"),
    ],
    ids=str,
)
def test_bad_arguments_say_what_fits(kwargs: Any, error: type[Exception], fix: str) -> None:
    with pytest.raises(error, match=fix):
        Desk(**kwargs)


def test_tasks_of_ones_own(tmp_path: Path) -> None:
    rows = [{"id": "a", "split": "mine", "prompt": "Say \u00e9.", "data": "\u00e9"}]
    path = tmp_path / "tasks.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    for tasks in (rows, str(path), path, [Task(**rows[0])]):  # type: ignore[arg-type]
        env = gymnasium.make("desk/Desk-v0", tasks=tasks, split="mine").unwrapped
        assert isinstance(env, ToolEnv) and env.spec is not None
        assert env.reset(seed=1)[1]["task_id"] == "a"
        verdict = env.finish("\u00e9")
        assert verdict is not None and verdict.passed
        assert json.loads(json.dumps(env.spec.kwargs)) == env.spec.kwargs
        assert Desk(**env.spec.kwargs).reset(seed=1)[0] == env.reset(seed=1)[0]


# -- limits --------------------------------------------------------------------------------------


def test_max_turns_truncates_with_a_grade() -> None:
    env = desk(max_turns=2)
    assert env.act([call("write", text="x")])[2:4] == (False, False)
    _, reward, terminated, truncated, info = env.act(Malformed("odd"))
    assert (terminated, truncated, info["end_reason"]) == (False, True, "max_turns")
    assert info["verdict"] is not None and not info["verdict"].passed and reward == 0.0
    env = desk(max_turns=1)
    _, reward, terminated, truncated, info = env.step(env.task.data)
    assert (reward, terminated, truncated, info["end_reason"]) == (1.0, True, False, "answer")


def test_max_calls_refuses_and_never_ends() -> None:
    env = desk(max_calls=3)
    calls = [call("write", text="a"), call("nonsense"), call("write"), call("write", text="b")]
    _, _, terminated, truncated, info = env.act(calls)
    errors = [result.error for _, result in info["calls"]]
    assert errors == [None, "unknown_tool", "bad_arguments", "limit"]
    assert not (terminated or truncated) and env.calls == 3
    assert env.call(call("read")).error == "limit" and env.state == Pad(("a",))
    assert env.finish(env.task.data).passed  # type: ignore[union-attr]
    assert desk(max_calls=0).call(call("read")).error == "limit"


@pytest.mark.parametrize("count", [0, 65])
def test_a_turn_has_1_to_64_calls(count: int) -> None:
    env = desk(max_calls=1000)
    observation, _, _, _, info = env.act([call("write", text="x")] * count)
    assert info["calls"] == [(None, ToolResult(observation, "parse"))] and "1 to 64" in observation
    assert env.turn == 1 and env.state == Pad()
    assert len(env.act([call("write", text="x")] * 64)[4]["calls"]) == 64


def test_arguments_nested_too_deep_are_malformed() -> None:
    deep: Any = []
    for _ in range(97):
        deep = [deep]
    env = desk()
    assert env.call(call("items", values=deep)).error == "bad_arguments"
    assert env.call(call("items", values=[[[deep]]])).error == "parse"
    written = json.dumps({"name": "items", "arguments": {"values": deep}})
    assert "must be" in env.step(f"<tool_call>{written}</tool_call>")[0]
    desk().replay(env.history())


# -- info ----------------------------------------------------------------------------------------


def test_reset_says_the_docs_and_the_prompt() -> None:
    env = Desk()
    observation, info = env.reset(seed=1)
    assert [m["role"] for m in info["messages"]] == ["system", "user"]
    assert observation == "\n\n".join(m["content"] for m in info["messages"])
    assert '"name": "write"' in observation
    bare = Desk(tool_docs=False).reset(seed=1)
    assert bare[1]["messages"] == [{"role": "user", "content": bare[0]}]
    assert bare[0] == env.task.prompt == Desk(protocol="chars").reset(seed=1)[0]
    assert [s["function"]["name"] for s in env.tool_schemas] == list(env.tools)


def test_every_info_has_the_same_keys_and_plain_json() -> None:
    env = Desk(fault_rate=0.5, max_turns=5)
    infos = [env.reset(seed=2)[1]]
    for move in ([call("read"), call("refuse")], Malformed("odd"), [call("coin")], ""):
        infos.append(env.act(move)[4])
    env.reset()
    infos.append(env.act([call("down")])[4])
    for info in infos:
        assert info.keys() == INFO_KEYS
        assert tuple(info["reward_components"]) == env.components == ("answer", "care", "notes")
        assert json.loads(json.dumps(to_plain(info), allow_nan=False))["task_id"] == info["task_id"]
    assert [info["turn"] for info in infos] == [0, 1, 2, 3, 4, 1]


def test_observation_and_messages_say_the_same() -> None:
    env = desk()
    observation, _, _, _, info = env.act([call("write", text="é"), ToolCall("x", {}, "id-7")])
    first, second = info["messages"]
    assert first == {"role": "tool", "name": "write", "content": "1: é"}
    assert second["tool_call_id"] == "id-7" and second["content"].startswith("error: no tool 'x'")
    assert observation == (
        f"<tool_response>\n1: é\n</tool_response>\n<tool_response>\n{second['content']}\n"
        "</tool_response>"
    )
    observation, _, _, _, info = env.act(Malformed("odd"))
    assert info["messages"] == [{"role": "user", "content": observation}]
    env = desk(protocol="chars")
    observation, _, _, _, info = env.step("Wab|")
    assert observation == "1: ab|" == info["messages"][0]["content"]
    assert env.step("nonsense")[0] == "?|" and env.step("|")[0] == "?|"


def test_what_the_caller_does_to_an_info_stays_there() -> None:
    env = Desk()
    info = env.reset(seed=1)[1]
    start = env.snapshot()
    for message in info["messages"]:
        message["content"] = "spoiled"
    info["reward_components"]["answer"] = 9.0
    info["messages"].clear()
    assert env.rollback(start)[1] == Desk().reset(seed=1)[1]
    arguments = {"values": [[1]]}
    info = env.act([ToolCall("items", arguments)])[4]
    assert info["calls"][0][1].content == "2"
    info["calls"].clear()
    arguments["values"].append([3])
    assert env.history()["moves"][0]["calls"] == [["items", {"values": [[1]]}, ""]]
    told = env.history()
    told["moves"][0]["calls"][0][1]["values"].append("spoiled")
    assert env.history()["moves"][0]["calls"] == [["items", {"values": [[1]]}, ""]]


def test_texts_are_cleaned_where_they_enter() -> None:
    env = desk()
    turns: list[Any] = [
        [call("write", text="\0\ud800 \u202e")],
        [call("write", text="x" * 100_000)] * 2,
        [call("write", text="中" * 60_000)] * 64,
        [ToolCall("\ud800\0" * 1000, {}, "\ud800" * 1000)],
        [ToolCall("read", {}, None), ToolCall("read", {}, 7)],  # type: ignore[arg-type]
        [ToolCall("read", "\ud800"), ToolCall("read", {"\ud800": 1})],  # type: ignore[arg-type]
        Malformed("\ud800\0" * 100_000),
    ]
    for move in turns:
        observation, _, _, _, info = env.act(move)
        assert observation in env.observation_space and info["infrastructure_error"] is None
        for message in info["messages"]:
            assert message["content"] in observation
            json.dumps(message, ensure_ascii=False).encode()
    assert env.history()["moves"]


# -- rewards -------------------------------------------------------------------------------------


def test_pay_counts_by_weight_in_its_own_step() -> None:
    env = desk()
    twice = [call("earn", component="care", amount=2), call("earn", component="care", amount=1)]
    _, reward, _, _, info = env.act(twice)
    assert reward == 1.5 and info["reward_components"] == {"answer": 0.0, "care": 1.5, "notes": 0.0}
    assert env.act([call("read")])[1] == 0.0
    after = env.snapshot()
    assert env.act([call("earn", component="notes", amount=5)])[1] == 0.0, "weight 0"
    assert env.rollback(after)[1]["reward_components"]["care"] == 0.0
    last = [call("write", text="x"), call("earn", component="care", amount=1), call("stop")]
    _, reward, _, _, info = env.act(last)
    assert reward == 0.5 and info["verdict"].total == 0.0
    with pytest.raises(RuntimeError, match="while a step runs"):
        env.pay("care", 1.0)


@pytest.mark.parametrize(
    "component, amount", [("nope", 1.0), ("care", float("nan")), ("care", float("inf"))]
)
def test_bad_pay_is_a_bug_of_the_tool(
    component: str, amount: float, caplog: pytest.LogCaptureFixture
) -> None:
    class Greedy(Desk):
        @tool
        def grab(self) -> str:
            """Pay wrongly."""
            self.pay(component, amount)
            return "paid"

    env = Greedy()
    env.reset(seed=1)
    _, reward, _, _, info = env.act([call("grab")])
    assert info["calls"][0][1].error == "failed" and reward == 0.0
    assert "component" in caplog.text or "finite" in caplog.text


def test_rewards_do_not_run_over() -> None:
    env = desk()
    huge = [call("earn", component="care", amount=1.7e308)] * 3
    assert env.act(huge)[1] == 0.5 * 1.7e308


def test_weights_name_the_components() -> None:
    class Plain(ToolEnv):
        pass

    class Other(Desk):
        weights = {"answer": 2.0}

        def grade(self, answer: str | None) -> Verdict:
            return Verdict({}, self.weights, False)

    assert Plain.components == ("answer",) and Desk.components == ("answer", "care", "notes")
    env = Other()
    env.reset(seed=1)
    assert env.act("x")[4]["reward_components"] == {"answer": 0.0}


def test_the_end_that_a_tool_asks_for() -> None:
    env = desk()
    _, _, terminated, truncated, info = env.act([call("stop"), call("write", text="late")])
    assert (terminated, truncated, info["end_reason"]) == (True, False, "done")
    assert [r.error for _, r in info["calls"]] == [None, "limit"] and env.state == Pad()
    assert info["verdict"] is not None and env.finish("x") == info["verdict"]
    env.reset()
    assert not env.ended and not env.act([call("read")])[2]
    _, _, terminated, _, info = env.act("")
    assert terminated and info["end_reason"] == "done"


# -- three kinds of failure ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "name, error, text",
    [
        ("refuse", "failed", "error: not today"),
        ("dawdle", "timeout", "error: timed out: 3 s"),
        ("crash", "failed", "error: crash failed (KeyError)"),
    ],
)
def test_what_a_tool_raises(
    name: str, error: Any, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    env = desk(fault_rate={"wrong": 1.0})
    assert env.call(call(name)) == ToolResult(text, error)
    assert not env.ended
    assert ("KeyError" in caplog.text) is (name == "crash"), "a bug is logged with its traceback"


def test_a_backend_that_dies_in_mid_episode() -> None:
    env = desk()
    observation, reward, terminated, truncated, info = env.act(
        [call("earn", component="care", amount=1), call("down"), call("write", text="x")]
    )
    assert (reward, terminated, truncated) == (0.0, False, True) and env.ended
    assert info["infrastructure_error"] == "the desk is down; run: desk start"
    assert (info["verdict"], info["end_reason"], info["calls"]) == (None, "infrastructure", [])
    assert observation in env.observation_space and "does not count" in observation
    assert env.finish("x") is None and env.state == Pad()
    env.reset()
    assert env.call(call("down")).error == "failed" and env.ended and env.finish() is None
    assert env.reset()[1]["infrastructure_error"] is None and env.finish(env.task.data)


@pytest.mark.parametrize("answer", ["break the grader"])
def test_a_grader_that_raises_is_ours(answer: str, caplog: pytest.LogCaptureFixture) -> None:
    env = desk()
    _, reward, terminated, truncated, info = env.act(answer)
    assert (reward, terminated, truncated, info["verdict"]) == (0.0, False, True, None)
    assert "in the grader" in info["infrastructure_error"] and "in the grader" in caplog.text


@pytest.mark.parametrize("verdict", [None, Verdict({"odd": 1.0}, {}, True)], ids=["None", "odd"])
def test_a_verdict_that_is_none(verdict: Any, caplog: pytest.LogCaptureFixture) -> None:
    class Odd(Desk):
        def grade(self, answer: str | None) -> Verdict:
            return verdict  # type: ignore[no-any-return]

    env = Odd()
    env.reset(seed=1)
    info = env.act("x")[4]
    assert info["infrastructure_error"] and info["verdict"] is None and "Odd" in caplog.text


@pytest.fixture
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent_envs.env._RETRY_AFTER", (0.0, 0.0))


class Flaky(Desk):
    """Its setup fails the first `failures` times, on the tasks named."""

    def __init__(self, failures: int = 0, only: str = "", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.failures, self.only = failures, only
        self.told: list[str] = []

    def setup(self, task: Task) -> None:
        self.told.append("setup")
        if self.failures and (self.only in ("", task.id)):
            self.failures -= 1
            raise BackendUnavailable("no daemon; run: daemon start")
        super().setup(task)

    def teardown(self) -> None:
        self.told.append("teardown")


gymnasium.register(
    "desk/Desk-v0", lambda **kwargs: Desk(**kwargs), order_enforce=False, disable_env_checker=True
)
gymnasium.register(
    "desk/Flaky-v0", lambda **kwargs: Flaky(**kwargs), order_enforce=False, disable_env_checker=True
)


@pytest.mark.usefixtures("no_waiting")
def test_setup_is_tried_three_times() -> None:
    env = Flaky(failures=2)
    assert env.reset(seed=1)[0] == Desk().reset(seed=1)[0]
    assert env.told == ["setup", "teardown"] * 2 + ["setup"]
    env = Flaky(failures=4)
    with pytest.raises(BackendUnavailable, match="daemon start"):
        env.reset(seed=1)
    assert env.told == ["setup", "teardown"] * 3
    with pytest.raises(ResetNeeded):
        env.step("x")
    env.reset(seed=1)
    assert env.told[6:] == ["setup", "teardown", "setup"]


@pytest.mark.usefixtures("no_waiting")
def test_a_series_goes_on_after_an_episode_that_could_not_begin() -> None:
    env, twin = Flaky(), Flaky()
    for one in (env, twin):
        one.reset(seed=5)
    env.failures = 3
    with pytest.raises(BackendUnavailable):
        env.reset()
    twin.reset()
    assert env.reset()[0] == twin.reset()[0]
    assert env.call(call("coin")) == twin.call(call("coin"))


def test_a_setup_with_a_bug_is_torn_down() -> None:
    told = []

    class Broken(Desk):
        def setup(self, task: Task) -> None:
            told.append("setup")
            raise ZeroDivisionError("in setup")

        def teardown(self) -> None:
            told.append("teardown")

    env = Broken()
    with pytest.raises(ZeroDivisionError):
        env.reset(seed=1)
    env.close()
    assert told == ["setup", "teardown"]


@pytest.mark.usefixtures("no_waiting")
@pytest.mark.parametrize("mode", ["sync", "async"])
def test_under_a_vector_a_failed_setup_costs_one_episode(mode: str) -> None:
    envs = gymnasium.make_vec("desk/Flaky-v0", 2, mode, failures=3, only="train/3")
    try:
        drawn = [Desk().reset(seed=s)[1]["task_id"] for s in range(99)]
        pair = next(s for s in range(98) if drawn[s + 1] == "train/3" != drawn[s])
        texts, infos = envs.reset(seed=pair)
        assert "failed" in texts[1] and "failed" not in texts[0]
        assert list(infos["infrastructure_error"]) == [None, "no daemon; run: daemon start"]
        _, rewards, terminated, truncated, infos = envs.step(("<think>", "<think>"))
        assert truncated.tolist() == [False, True] and not terminated.any() and not rewards.any()
        assert infos["end_reason"].tolist() == [None, "infrastructure"]
        texts, _, _, truncated, infos = envs.step(("<think>", "<think>"))
        assert not truncated.any() and infos["infrastructure_error"].tolist() == [None, None]
        assert "Say" in texts[1], "the vector goes on"
    finally:
        envs.close()


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_under_a_vector_a_dead_backend_costs_one_episode(mode: str) -> None:
    envs = gymnasium.make_vec("desk/Desk-v0", 2, mode)
    down = '<tool_call>{"name": "down"}</tool_call>'
    try:
        envs.reset(seed=1)
        _, _, _, truncated, infos = envs.step((down, "<think>"))
        assert truncated.tolist() == [True, False]
        assert infos["infrastructure_error"][0] and infos["infrastructure_error"][1] is None
        assert "Say" in envs.step(("", "<think>"))[0][0]
    finally:
        envs.close()


# -- faults --------------------------------------------------------------------------------------


def test_faults_that_replace_a_call_have_no_side_effect() -> None:
    for kind, error in (("error", "failed"), ("timeout", "timeout")):
        env = desk(fault_rate={kind: 1.0})
        result = env.call(call("write", text="x"))
        assert (result.fault, result.error, result.truth) == (kind, error, None)
        assert env.state == Pad() and env.calls == 1
        assert env.call(call("write")).fault is None, "what fails by itself is left alone"


def test_faults_that_spoil_a_result_leave_the_effect_and_keep_the_truth() -> None:
    env = desk(fault_rate=1.0)
    result = env.call(call("write", text="12345"))
    assert (result.fault, result.error, result.truth) == ("wrong", None, "1: 12345")
    assert result.content != result.truth and len(result.content) == len(result.truth or "")
    assert env.state == Pad(("12345",))
    env = desk(fault_rate={"truncated": 1.0})
    result = env.call(call("write", text="12345"))
    assert result.fault == "truncated" and "1: 12345".startswith(result.content)
    assert desk(fault_rate=1.0).call(call("read")).fault is None, "nothing to spoil in no text"


def test_a_stale_result_is_the_last_sound_one() -> None:
    env = desk(fault_rate={"stale": 1.0})
    first, second, third = (env.call(call("write", text=t)) for t in "abc")
    assert (first.content, first.fault) == ("1: a", None), "nothing went before"
    assert (second.content, second.fault, second.truth) == ("1: a", "stale", "2: b")
    assert (third.content, third.fault, third.truth) == ("2: b", "stale", "3: c")
    env.reset()
    assert env.call(call("write", text="a")).fault is None, "nothing from the episode before"
    env.call(call("refuse"))
    assert env.call(call("write", text="b")).content == "1: a", "an error is no sound result"


def test_faults_depend_on_the_seed_and_the_number_of_the_call_alone() -> None:
    def faulty(calls: list[ToolCall]) -> list[bool]:
        env = Desk(fault_rate=0.5, max_turns=100, max_calls=100)
        env.reset(seed=3, options={"task": "train/1"})
        return [env.call(c).fault is not None for c in calls]

    one = faulty([call("write", text=str(i)) for i in range(40)])
    mixed = [call("write", text="x"), call("coin"), call("nonsense"), call("write", text="y")] * 10
    two = faulty(mixed)
    assert all(a == b for i, (a, b) in enumerate(zip(one, two, strict=True)) if i % 4 != 2)
    assert 10 < sum(one) < 30


def test_a_result_that_a_tool_shares_is_not_spoiled_for_others() -> None:
    env = desk(fault_rate=1.0)
    for _ in range(3):
        result = env.call(call("same"))
        assert result.truth == "the same 68" != result.content
    assert SHARED == ToolResult("the same 68")


def test_a_fault_changes_what_is_shown() -> None:
    env = Desk(fault_rate=1.0)
    for seed in range(20):
        env.reset(seed=seed)
        result = env.call(call("write", text="x" * 200_000))
        sound = desk().call(call("write", text="x" * 200_000))
        assert result.truth == sound.content, "the truth is what would have been shown"
        assert result.fault and result.content != sound.content


def test_what_corrupt_raises_is_ours(caplog: pytest.LogCaptureFixture) -> None:
    class Clumsy(Desk):
        def corrupt(self, kind: str, call: ToolCall, content: str, u: float) -> str:
            raise IndexError("in corrupt")

    env = Clumsy(fault_rate=1.0)
    env.reset(seed=1)
    assert "in corrupt" in env.act([call("coin")])[4]["infrastructure_error"]
    assert "Clumsy" in caplog.text


# -- randomness ----------------------------------------------------------------------------------


def test_rng_is_keyed_by_stream_and_call() -> None:
    env, twin = desk(), desk()
    state = random.getstate()
    a, again, b = env.call(call("coin")).content.split()
    assert a == again != b
    assert env.call(call("coin")).content.split()[0] != a
    twin.call(call("read"))
    assert twin.call(call("coin")).content != f"{a} {a} {b}", "another number of calls"
    assert random.getstate() == state


def test_setup_may_not_draw() -> None:
    class Drawing(Desk):
        def setup(self, task: Task) -> None:
            self.rng("x")

    with pytest.raises(RuntimeError, match="derive"):
        Drawing().reset(seed=1)


# -- threads -------------------------------------------------------------------------------------


class Stuck(Desk):
    """A tool, and with `in_setup` a setup, that waits until somebody tears the env down."""

    def __init__(self, in_setup: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.in_setup = in_setup
        self.waiting, self.freed = threading.Event(), threading.Event()

    def setup(self, task: Task) -> None:
        super().setup(task)
        if self.in_setup:
            self.wait()

    @tool
    def hang(self) -> str:
        """Hang."""
        return self.wait()

    def wait(self) -> str:
        self.waiting.set()
        assert self.freed.wait(20), "nobody came"
        raise ConnectionResetError("the pipe is gone")

    def teardown(self) -> None:
        self.freed.set()


def test_close_from_another_thread_ends_a_running_step(caplog: pytest.LogCaptureFixture) -> None:
    env = Stuck()
    env.reset(seed=1)
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(env.act([call("hang")])))
    thread.start()
    assert env.waiting.wait(20)
    env.close()
    thread.join(20)
    _, reward, terminated, truncated, info = results[0]
    assert (reward, terminated, truncated) == (0.0, False, True)
    assert "closed" in info["infrastructure_error"] and not caplog.records


def test_close_from_another_thread_ends_a_running_setup() -> None:
    env = Stuck(in_setup=True)
    errors: list[BaseException] = []

    def reset() -> None:
        try:
            env.reset(seed=1)
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=reset)
    thread.start()
    assert env.waiting.wait(20)
    env.close()
    freed = env.freed.is_set()
    env.freed.set()
    thread.join(20)
    assert freed and isinstance(errors[0], ConnectionResetError | ClosedEnvironmentError)


def test_an_env_that_is_closed_while_it_sets_up_is_torn_down_after() -> None:
    ready, go, told = threading.Event(), threading.Event(), []

    class Slow(Desk):
        def setup(self, task: Task) -> None:
            ready.set()
            assert go.wait(20)
            told.append("set up")

        def teardown(self) -> None:
            told.append("teardown")

    env = Slow()
    results: list[Any] = []

    def reset() -> None:
        try:
            results.append(env.reset(seed=1))
        except ClosedEnvironmentError as error:
            results.append(error)

    thread = threading.Thread(target=reset)
    thread.start()
    assert ready.wait(20)
    env.close()
    go.set()
    thread.join(20)
    assert isinstance(results[0], ClosedEnvironmentError) and told[-2:] == ["set up", "teardown"]


# -- tools and classes ---------------------------------------------------------------------------


def make_tool(method: str, name: str | None = None) -> Tool:
    def fn(self: Any) -> str:
        """Do it."""
        return f"did {method}"

    fn.__name__ = method
    return tool(name=name)(fn)


def refuses_a_tool_named(name: str) -> None:
    with pytest.raises(TypeError, match=rf"hides ToolEnv\.{name}.*@tool\(name="):
        type("Bad", (ToolEnv,), {name: make_tool(name)})


@pytest.mark.parametrize("name", ["act", "close", "np_random", "pay", "reset", "state", "task"])
def test_a_tool_named_like_an_attribute_is_refused(name: str) -> None:
    refuses_a_tool_named(name)


def test_a_tool_named_like_any_attribute_is_refused() -> None:
    for name in {*dir(ToolEnv), *vars(Desk())}:
        if not name.startswith("_"):
            refuses_a_tool_named(name)


def test_a_tool_may_be_called_so_by_the_model() -> None:
    class Good(Desk):
        shut = make_tool("shut", name="close")

    env = Good()
    env.reset(seed=1)
    assert env.call(call("close")).content == "did shut" and not env.closed
    assert env.shut() == "did shut"


def test_two_tools_of_one_name_are_refused() -> None:
    with pytest.raises(TypeError, match="one name"):

        class Bad(Desk):
            one = make_tool("one", name="do")
            two = make_tool("two", name="do")


def test_tools_are_inherited_overridden_and_mixed_in() -> None:
    class Mixin:
        extra = make_tool("extra")

    class Child(Mixin, Desk):
        read = make_tool("read")
        crash = None  # type: ignore[assignment]

    env = Child()
    env.reset(seed=1)
    assert env.call(call("read")).content == "did read"
    assert env.call(call("extra")).content == "did extra"
    assert env.call(call("write", text="x")).content == "1: x"
    assert env.call(call("crash")).error == "unknown_tool", "what is no tool any more is none"
    assert Desk.tools["read"] is not Child.tools["read"] and "extra" not in Desk.tools


def test_render_is_the_transcript() -> None:
    env = desk(render_mode="ansi", tool_docs=False)
    assert env.render() == env.task.prompt
    env.act([call("write", text="a"), call("read")])
    env.act(Malformed("odd"))
    env.rollback(env.snapshot(), seed=4)
    env.act(env.task.data)
    lines = env.render().splitlines()
    assert lines[1] == "> write(text='a'); read()"
    assert "> (malformed: odd)" in lines and lines[-2:] == [
        f"> {env.task.data}",
        "[passed, reward 1]",
    ]


def test_a_very_long_episode_dies_quietly() -> None:
    env = Desk(max_turns=10**9)
    env.reset(seed=1)
    for _ in range(30_000):
        env.act(Malformed("odd"))
    assert len(env.history()["moves"]) == 30_000
    env.reset()


def test_an_env_without_a_grader_says_so(caplog: pytest.LogCaptureFixture) -> None:
    class Blank(ToolEnv):
        tasks = Chores()

    env = Blank()
    env.reset(seed=1)
    with caplog.at_level(logging.ERROR):
        assert "Blank has no grade()" in env.act("x")[4]["infrastructure_error"]
    with pytest.raises(NotImplementedError, match="oracle"):
        env.oracle(env.task, [])


def test_the_spec_has_a_json_form() -> None:
    rates = {"wrong": np.float64(0.25), "stale": 0.25}
    env = gymnasium.make("desk/Desk-v0", fault_rate=rates, tasks=Chores(), level=1)
    assert env.spec is not None
    assert env.spec.kwargs["fault_rate"] == {"wrong": 0.25, "stale": 0.25}
    assert env.spec.kwargs["tasks"][1] == Chores()["train/1"].to_dict()
    assert json.loads(json.dumps(env.spec.kwargs)) == env.spec.kwargs
    assert isinstance(env.spec, EnvSpec) and env.unwrapped is env


def test_envs_that_share_tasks_bring_them_to_json_once(monkeypatch: pytest.MonkeyPatch) -> None:
    source, brought = Chores(), []
    plain = Task.to_dict

    def to_dict(self: Task, *, private: bool = True) -> dict[str, Any]:
        brought.append(self.id)
        return plain(self, private=private)

    monkeypatch.setattr(Task, "to_dict", to_dict)
    envs = [gymnasium.make("desk/Desk-v0", tasks=source) for _ in range(5)]
    assert sorted(brought) == sorted(task.id for task in source)
    assert all(env.spec and env.spec.kwargs["tasks"] == source.to_plain() for env in envs)


@pytest.mark.parametrize("move", ["\ud800", [ToolCall("write", {"text": "a\udfff"})]])
def test_a_lone_surrogate_is_no_turn(move: Any) -> None:
    env = desk()
    info = env.act(move)[4]
    assert info["calls"][0][1].error == "parse" and not env.ended
