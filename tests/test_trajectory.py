"""Trajectories: what is written is what is read, whoever is killed while writing."""

import copy
import dataclasses
import gc
import json
import math
import os
import resource
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_envs.policy import Messages, ScriptedPolicy
from agent_envs.rollout import rollout
from agent_envs.task import Task
from agent_envs.trajectory import (
    EndReason,
    Trajectory,
    TrajectoryWriter,
    assistant_message,
    read_trajectories,
)
from agent_envs.turns import Action, Error, FaultKind, Sample, ToolCall, ToolResult, Turn
from agent_envs.verdict import Verdict

TESTS = Path(__file__).parent
BANK = "bank_env:mine/Bank-v0"


@pytest.fixture(autouse=True, scope="module")
def _importable() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(TESTS))
        yield


def public(episode: Trajectory) -> Trajectory:
    """An episode as a file keeps it."""
    return dataclasses.replace(episode, task=dataclasses.replace(episode.task, data=None))


def play(messages: Messages) -> Action:
    """Native calls with a sample, calls as text, nonsense, an answer."""
    match sum(m["role"] == "assistant" for m in messages):
        case 0:
            call = ToolCall("balance", {"name": "ada"}, "call_0")
            return Action("é", Sample([1, 2], [-0.5, -math.inf], 3), calls=[call, call])
        case 1:
            return Action('<tool_call>{"name": "balance", "arguments": {"name": 3}}</tool_call>')
        case 2:
            return Action("<tool_call>", Sample([], []), cut=True)
        case 3:
            return Action("", calls=[ToolCall("no_such", {"x": [1, {"y": None}]})])
    return Action("17", Sample([5], [0.0]), calls=[])


def bank_episodes(**more: Any) -> list[Trajectory]:
    """Real episodes, with branches and faults."""
    tasks = ["train/0", "train/1"]
    return rollout(BANK, ScriptedPolicy(play), tasks, group=2, workers=2, progress=False, **more)


def test_real_episodes_survive(tmp_path: Path) -> None:
    episodes = bank_episodes(branch=lambda episode: [(1, 2), (4, 1)])
    assert len(episodes) == 2 * 2 * 4 and sum(e.parent is not None for e in episodes) == 12
    path = tmp_path / "new" / "folder" / "episodes.jsonl"
    with TrajectoryWriter(path) as writer:
        for episode in episodes:
            writer.write(episode)
            assert path.read_bytes().endswith(b"\n")
    found = list(read_trajectories(path))
    assert found == [public(e) for e in episodes]
    assert [e.messages() for e in found] == [e.messages() for e in episodes]
    assert [(e.valid, e.reward, e.provenance) for e in found] == [
        (e.valid, e.reward, e.provenance) for e in episodes
    ]
    assert '"data"' not in path.read_text()


texts = st.text()
numbers = st.floats(allow_nan=False, allow_infinity=False)
plain: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**20), 10**20) | numbers | texts,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(texts, inner, max_size=2),
    max_leaves=4,
)
arguments = st.dictionaries(texts, plain, max_size=2)
calls = st.builds(ToolCall, texts, arguments, texts)
results = st.builds(
    ToolResult,
    texts,
    st.none() | st.sampled_from(get_args(Error)),
    st.none() | st.sampled_from(get_args(FaultKind)),
    st.none() | texts,
)
logprobs = numbers | st.just(-math.inf)
samples = st.lists(st.tuples(st.integers(), logprobs), max_size=3).flatmap(
    lambda pairs: st.builds(
        Sample, st.just([a for a, _ in pairs]), st.just([b for _, b in pairs]), st.integers()
    )
)
actions = st.builds(
    Action,
    texts,
    st.none() | samples,
    st.booleans(),
    st.none() | st.lists(calls, max_size=2),
)
small = st.floats(-1e6, 1e6)
verdicts = st.builds(
    Verdict, st.dictionaries(texts, small), st.dictionaries(texts, small), st.booleans(), texts
)
messages = st.lists(st.fixed_dictionaries({"role": texts, "content": texts}), max_size=2)
infos = st.fixed_dictionaries(
    {
        "messages": messages,
        "calls": st.lists(st.tuples(st.none() | calls, results), max_size=2),
        "verdict": st.none() | verdicts,
        "end_reason": st.none() | st.sampled_from(get_args(EndReason)),
    },
    optional={"more": plain},
)
turns = st.builds(Turn, actions, texts, small, infos)
prompt_texts = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))
episodes_of_any_kind = st.builds(
    Trajectory,
    texts,
    texts,
    st.builds(Task, prompt_texts, prompt_texts, prompt_texts),
    st.integers(0, 2**63),
    messages,
    st.none() | st.tuples(texts, st.integers()),
    st.lists(turns, max_size=2),
    st.none() | verdicts,
    st.none() | st.sampled_from(get_args(EndReason)),
    st.none() | texts,
    st.dictionaries(texts, plain, max_size=2),
)


@given(episodes_of_any_kind)
def test_any_episode_survives(episode: Trajectory) -> None:
    line = json.dumps(episode.to_dict(), allow_nan=False)
    assert "\n" not in line
    assert Trajectory.from_dict(json.loads(line)) == episode


def episode(**more: Any) -> Trajectory:
    """A small episode."""
    info: dict[str, Any] = {"messages": [], "calls": [], "verdict": None}
    return Trajectory(
        "0.0", "0", Task("t", "s", "p"), 1, [], turns=[Turn(Action("x"), "y", 1.0, info)], **more
    )


def deep(levels: int) -> Any:
    """A list in a list in a list."""
    value: Any = 0
    for _ in range(levels):
        value = [value]
    return value


HOSTILE: list[Any] = [
    {"x": deep(100_000)},
    {"x": deep(990)},
    {"x": math.nan, "y": [math.inf, -math.inf]},
    {"x": 10**5000},
    {"\ud800": "\udfff\0"},
    {"x": {1, 2}, "y": (3,)},
    "no object",
    None,
    [1],
]


@pytest.mark.parametrize("given", HOSTILE, ids=range(len(HOSTILE)))
def test_no_native_call_of_a_model_loses_an_episode(tmp_path: Path, given: Any) -> None:
    made = episode()
    made.turns[0].action.calls = [ToolCall("f", given)]
    [said] = [m for m in made.messages() if m["role"] == "assistant"]
    text = said["tool_calls"][0]["function"]["arguments"]
    text.encode()
    json.loads(text)
    with TrajectoryWriter(tmp_path / "a.jsonl") as writer:
        writer.write(made)
    assert len(list(read_trajectories(tmp_path / "a.jsonl"))) == 1


def test_an_info_that_json_has_not(tmp_path: Path) -> None:
    made = episode()
    made.turns[0].info["own"] = object()
    with TrajectoryWriter(tmp_path / "a.jsonl") as writer:
        with pytest.raises(TypeError, match="no JSON form for a object"):
            writer.write(made)
        writer.write(episode())
    assert list(read_trajectories(tmp_path / "a.jsonl")) == [episode()]


def test_what_the_assistant_said() -> None:
    assert assistant_message(Action("hi")) == {"role": "assistant", "content": "hi"}
    assert assistant_message(Action("hi", calls=[])) == {"role": "assistant", "content": "hi"}
    assert assistant_message(Action("hi", calls=[ToolCall("f", {"x": "東"}, "c1")])) == {
        "role": "assistant",
        "content": "hi",
        "tool_calls": [
            {
                "id": "c1",
                "type": "function",
                "function": {"name": "f", "arguments": '{"x": "東"}'},
            }
        ],
    }


def test_a_conversation_is_the_callers_to_change() -> None:
    [made] = bank_episodes()[:1]
    before = json.dumps(made.to_dict())
    said = made.messages()
    for message in said:
        message["content"] = "changed"
        message.pop("role")
    said.clear()
    assert json.dumps(made.to_dict()) == before
    roles = [m["role"] for m in made.messages()]
    assert roles == [
        *["system", "user"],
        *["assistant", "tool", "tool", "assistant", "tool", "assistant", "user"],
        *["assistant", "tool", "assistant"],
    ]
    assert [m["role"] for m in made.messages(1)] == roles[:5]
    assert [m["role"] for m in made.messages(0)] == roles[:2]


def test_a_conversation_shares_nothing_with_its_episode() -> None:
    made = episode()
    made.turns[0].action.calls = [
        ToolCall("f", {"x": [1]}, "c1"),
        ToolCall(["no name"], {}),  # type: ignore[arg-type]
    ]
    made.turns[0].info["messages"] = [{"role": "user", "content": "", "parts": [{"text": "a"}]}]
    branch = dataclasses.replace(made, prompt=made.messages(), turns=[])
    for one in (made, branch):
        before = json.dumps(one.to_dict())
        said = one.messages()
        calls, parts = said[-2]["tool_calls"], said[-1]["parts"]
        assert calls[1]["function"]["name"] == '["no name"]'
        calls[0]["function"]["arguments"] = {"x": [2]}  # as chat templates want it
        parts[0]["text"] = "b"
        assert json.dumps(one.to_dict()) == before


@pytest.mark.parametrize("reason", [None, *get_args(EndReason)])
def test_what_may_be_learned_from(reason: EndReason | None) -> None:
    good = {"answer", "done", "max_turns", "deadline", "token_limit"}
    assert episode(end_reason=reason).valid == (reason in good)


# -- files ----------------------------------------------------------------------------------------


def test_a_writer_works_out_no_provenance(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    episodes = bank_episodes()
    monkeypatch.setattr("agent_envs.provenance._work_out", None)
    monkeypatch.setattr("agent_envs.provenance._hash", None)
    with TrajectoryWriter(tmp_path / "a.jsonl") as writer:
        for one in episodes:
            writer.write(one)
    found = list(read_trajectories(tmp_path / "a.jsonl"))
    assert [e.provenance for e in found] == [e.provenance for e in episodes]
    assert all(e.provenance["env"]["hash"] for e in found)


def lines_of(path: Path, count: int = 3) -> bytes:
    """What a file of so many episodes holds."""
    with TrajectoryWriter(path) as writer:
        for i in range(count):
            writer.write(episode(error=f"é{i}"))
    return path.read_bytes()


def read(path: Path) -> tuple[list[str | None], list[str]]:
    """The errors of all episodes in a file, and the warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = [e.error for e in read_trajectories(path)]
    return found, [str(w.message) for w in caught]


def test_a_file_cut_at_any_byte(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    data = lines_of(path)
    length = len(data) // 3
    edges = {line * length + byte for line in range(4) for byte in (-2, -1, 0, 1, 2)}
    for cut in sorted({*range(0, len(data), 7), *edges} & {*range(len(data) + 1)}):
        path.write_bytes(data[:cut])
        whole, rest = divmod(cut, length)
        complete = whole + (rest == length - 1)  # only the line break is missing
        found, said = read(path)
        assert found == [f"é{i}" for i in range(complete)]
        broken = 0 < rest < length - 1
        assert [f"line {complete + 1} is broken off" in text for text in said] == [True] * broken
        with warnings.catch_warnings(record=True) as caught, TrajectoryWriter(path) as writer:
            warnings.simplefilter("always")
            writer.write(episode(error="next"))
        assert ["cut off a broken line" in str(w.message) for w in caught] == [True] * broken
        assert read(path) == ([*(f"é{i}" for i in range(complete)), "next"], [])


def test_a_long_broken_line_is_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    data = lines_of(path, 2)
    path.write_bytes(data + b'{"x": "' + b"y" * (3 << 20))
    with TrajectoryWriter(path) as writer:
        with pytest.warns(UserWarning, match=r"a\.jsonl: cut off a broken line"):
            writer.write(episode(error="é2"))
    assert path.read_bytes() == lines_of(tmp_path / "b.jsonl")


def test_a_line_broken_in_the_middle_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    first, second, third = lines_of(path).splitlines(keepends=True)
    path.write_bytes(first + second[:40] + third)
    found = read_trajectories(path)
    assert next(found).error == "é0"
    with pytest.raises(ValueError, match=r"a\.jsonl:2: "):
        next(found)


@pytest.mark.parametrize("key", sorted(episode().to_dict().keys() - {"reward"}))
def test_a_line_that_lacks_something_is_an_error(tmp_path: Path, key: str) -> None:
    path = tmp_path / "a.jsonl"
    data = episode().to_dict()
    del data[key]
    path.write_text(json.dumps(data) + "\n")
    with pytest.raises(ValueError, match=rf"a\.jsonl:1: .*{key}"):
        list(read_trajectories(path))


@pytest.mark.parametrize(
    "line",
    [
        b"3",
        b"[]",
        b"null",
        b"{}",
        b"",
        b"\xff\xfe",
        b"[" * 100_000,
        b"[" * 100_000 + b"]" * 100_000,
        json.dumps(episode().to_dict() | {"end_reason": "gave up"}).encode(),
        json.dumps(episode().to_dict() | {"end_reason": ["answer"]}).encode(),
        json.dumps(episode().to_dict() | {"turns": [{"action": {}}]}).encode(),
        json.dumps(episode().to_dict() | {"task": {"id": 3}}).encode(),
        json.dumps(episode().to_dict() | {"verdict": {"components": {}}}).encode(),
    ],
    ids=range(13),
)
def test_a_line_that_is_something_else_is_an_error(tmp_path: Path, line: bytes) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(lines_of(path, 1) + line + b"\n")
    with pytest.raises(ValueError, match=r"a\.jsonl:2: "):
        list(read_trajectories(path))


def rich() -> dict[str, Any]:
    """The JSON form of an episode that has something in every field."""
    call, result = ToolCall("f", {"x": 1}, "c1"), ToolResult("y", "failed", "error", "z")
    verdict = Verdict({"a": 1.0}, {"a": 1.0}, True)
    said = {"role": "user", "content": "hi"}
    info: dict[str, Any] = {
        "task_id": "t",
        "turn": 1,
        "calls": [(call, result)],
        "reward_components": {"a": 1.0},
        "messages": [said],
        "verdict": verdict,
        "end_reason": "answer",
        "infrastructure_error": "none",
    }
    action = Action("x", Sample([1], [-0.5], 2), calls=[call])
    made = Trajectory("0.0", "0", Task("t", "s", "p"), 1, [said], ("1.0", 2), error="e")
    made.turns, made.verdict, made.end_reason = [Turn(action, "y", 1.0, info)], verdict, "answer"
    made.provenance = {"python": "3"}
    return made.to_dict()


LARGE = 10**400
BAD: list[Any] = [None, True, 5, "x", math.nan, -math.inf, LARGE, ["x"], {"x": [None]}]
MAY_BE_NULL = {"sample", "parent", "verdict", "end_reason", "error", "fault", "truth"}
MAY_BE_NULL |= {"infrastructure_error"}


def places(data: Any, *path: Any) -> Iterator[tuple[Any, ...]]:
    """The paths to everything in an object that is no total and may not be anything."""
    for key in data if isinstance(data, dict) else range(len(data)):
        here = (*path, key)
        if (
            here == ("reward",)
            or key in ("total", "arguments")
            or here[-3:] == ("calls", 0, "name")
        ):
            continue
        yield here
        if isinstance(data[key], dict | list) and key != "provenance":
            yield from places(data[key], *here)


def is_sound(path: tuple[Any, ...], before: Any, value: Any) -> bool:
    """Whether a value may stand where another one stood."""
    if value is None:
        native_or_no_call = path[-2:] == ("action", "calls") or path[-3:] == ("calls", 0, 0)
        return path[-1] in MAY_BE_NULL or native_or_no_call
    if type(before) is float:
        if "logprobs" in path:
            return type(value) is float or value == 5
        return value == 5 or (value is True and path[-1] == "a")  # a grader may pay true
    if path[-1] in ("provenance", "tags"):
        return type(value) is type(before)
    return type(value) is type(before) and not isinstance(value, dict | list)


@pytest.mark.parametrize("path", list(places(rich())), ids=str)
def test_every_field_is_checked(path: tuple[Any, ...]) -> None:
    for bad in BAD:
        data = rich()
        holder = data
        for key in path[:-1]:
            holder = holder[key]
        if not is_sound(path, holder[path[-1]], bad):
            holder[path[-1]] = copy.deepcopy(bad)
            with pytest.raises(ValueError) as caught:
                Trajectory.from_dict(data)
            assert any(str(key) in str(caught.value) for key in path if isinstance(key, str))


@pytest.mark.parametrize(
    ("path", "known"),
    [
        (("end_reason",), "answer"),
        (("turns", 0, "info", "calls", 0, 1, "error"), "parse"),
        (("turns", 0, "info", "calls", 0, 1, "fault"), "stale"),
        (("turns", 0, "action", "sample", "logprobs", 0), "-inf"),
    ],
    ids=str,
)
def test_a_closed_set_is_closed(path: tuple[Any, ...], known: str) -> None:
    for word, fits in (known, True), ("x", False), ("1", False), ("", False):
        holder = data = rich()
        for key in path[:-1]:
            holder = holder[key]
        holder[path[-1]] = word
        if fits:
            Trajectory.from_dict(data)
        else:
            with pytest.raises(ValueError, match=str(path[-1] or path[-2])):
                Trajectory.from_dict(data)


def test_reading_changes_nothing_of_what_is_read() -> None:
    data = rich()
    first = Trajectory.from_dict(data)
    assert data == rich() and Trajectory.from_dict(data) == first


def test_empty_and_missing_files(tmp_path: Path) -> None:
    TrajectoryWriter(tmp_path / "a.jsonl").close()
    assert read(tmp_path / "a.jsonl") == ([], [])
    with pytest.raises(FileNotFoundError):
        list(read_trajectories(tmp_path / "none.jsonl"))


def test_a_full_disk_breaks_one_line_at_most(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    size = len(lines_of(path))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with TrajectoryWriter(path) as writer:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + 40, hard))
        try:
            for _ in range(2):
                with pytest.raises(OSError), warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    writer.write(episode(error="lost"))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert path.stat().st_size == size + 40
        assert read(path)[0] == ["é0", "é1", "é2"]
        with pytest.warns(UserWarning, match="cut off"):
            writer.write(episode(error="kept"))
    assert read(path) == (["é0", "é1", "é2", "kept"], [])


def test_two_writers_and_one_that_was_killed(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    with TrajectoryWriter(path) as one, TrajectoryWriter(path) as other:
        one.write(episode(error="1"))
        other.write(episode(error="2"))
        with path.open("ab") as killed:
            killed.write(b'{"episode_id": "0.')
        with pytest.warns(UserWarning, match="cut off"):
            one.write(episode(error="3"))
        other.write(episode(error="4"))
    assert read(path) == (["1", "2", "3", "4"], [])


def interrupted_at(step: int, work: Callable[[], None]) -> KeyboardInterrupt | None:
    """Do work, with Ctrl-C at its `step`th begin or end of a function; None where it has fewer."""
    seen = 0

    def trace(frame: FrameType, event: str, arg: Any) -> Any:
        nonlocal seen
        if event in ("call", "return"):
            seen += 1
            if seen == step:
                raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    except KeyboardInterrupt as error:
        return error
    finally:
        sys.settrace(before)
    return None


def test_ctrl_c_anywhere_in_a_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", said.append)
    path = tmp_path / "a.jsonl"
    tries = 0
    interrupt: KeyboardInterrupt | None = KeyboardInterrupt()
    while interrupt is not None:
        tries += 1
        writer = TrajectoryWriter(path)
        interrupt = interrupted_at(tries, partial(writer.write, episode(error="interrupted")))
        closing = threading.Thread(target=writer.close)
        closing.start()
        closing.join(10)
        assert not closing.is_alive()
        with TrajectoryWriter(path) as other:
            other.write(episode(error=f"after {tries}"))
    gc.collect()
    assert tries > 20
    found, warned = read(path)
    assert warned == said == []
    assert [x for x in found if x != "interrupted"] == [f"after {n + 1}" for n in range(tries)]


def test_closing_waits_for_a_thread_that_writes(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    writer = TrajectoryWriter(path)
    kept: list[int] = []

    def write() -> None:
        for number in range(10**9):
            try:
                writer.write(episode(error=f"{number}" + "x" * 200_000))
            except ValueError as error:
                assert "is closed; make a new one" in str(error)
                return
            kept.append(number)

    thread = threading.Thread(target=write)
    thread.start()
    while len(kept) < 20:
        time.sleep(0.001)
    writer.close()
    thread.join(30)
    found, said = read(path)
    assert said == [] and [str(x).rstrip("x") for x in found] == [str(x) for x in kept]


def test_many_threads_and_writers(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    writers = [TrajectoryWriter(path) for _ in range(3)]

    def write(number: int) -> None:
        for i in range(30):
            writers[number % 3].write(episode(error=f"{number}.{i}" + "x" * 20_000))

    threads = [threading.Thread(target=write, args=[n]) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for writer in writers:
        writer.close()
    found, said = read(path)
    assert said == []
    names = [str(error).rstrip("x") for error in found]
    assert sorted(names) == sorted(f"{n}.{i}" for n in range(6) for i in range(30))
    for n in range(6):
        assert [x for x in names if x[0] == str(n)] == [f"{n}.{i}" for i in range(30)]


WRITER = """
import sys
sys.path.insert(0, sys.argv[2])
from agent_envs.task import Task
from agent_envs.trajectory import Trajectory, TrajectoryWriter
with TrajectoryWriter(sys.argv[1]) as writer:
    for i in range(int(sys.argv[3])):
        error = f"{sys.argv[4]}.{i}" + "x" * 1_000_000
        writer.write(Trajectory("0.0", "0", Task("t", "s", "p"), 1, [], error=error))
"""


def start_writer(path: Path, count: int, name: str) -> subprocess.Popen[bytes]:
    """A process that writes large episodes."""
    root = str(TESTS.parent)
    command = [sys.executable, "-W", "ignore", "-c", WRITER, str(path), root, str(count), name]
    return subprocess.Popen(command)


def wait_for(path: Path, size: int) -> None:
    """Until a file has so many bytes."""
    until = time.monotonic() + 60
    while not path.exists() or path.stat().st_size < size:
        assert time.monotonic() < until
        time.sleep(0.001)


def test_a_killed_writer_leaves_at_most_one_broken_line(tmp_path: Path) -> None:
    paths = [tmp_path / f"{i}.jsonl" for i in range(4)]
    for number, path in enumerate(paths):
        process = start_writer(path, 10**6, "a")
        try:
            wait_for(path, 1 + number * 2_300_000)
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait()
    for path in paths:
        found, said = read(path)
        assert len(said) <= 1
        assert [str(e).rstrip("x") for e in found] == [f"a.{i}" for i in range(len(found))]
        whole = len(found)
        with warnings.catch_warnings(), TrajectoryWriter(path) as writer:
            warnings.simplefilter("ignore")
            writer.write(episode(error="next"))
        found, said = read(path)
        assert (len(found), found[-1], said) == (whole + 1, "next", [])


def test_processes_share_a_file_though_one_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    others = [start_writer(path, 10, name) for name in "ab"]
    victim = start_writer(path, 10**6, "v")
    try:
        wait_for(path, 5_000_000)
    finally:
        victim.kill()
        victim.wait()
    assert [other.wait(60) for other in others] == [0, 0]
    found, said = read(path)
    assert len(said) <= 1
    names = [str(error).rstrip("x") for error in found]
    for name, count in ("a", 10), ("b", 10), ("v", sum(x[0] == "v" for x in names)):
        assert [x for x in names if x[0] == name] == [f"{name}.{i}" for i in range(count)]


FORK = """
import os, sys, threading
sys.path.insert(0, sys.argv[2])
from agent_envs.task import Task
from agent_envs.trajectory import Trajectory, TrajectoryWriter, _lock
def write(writer, name, count):
    for i in range(count):
        more = "x" * (i * 37 % 400)
        writer.write(Trajectory(f"{name}.{i}", "0", Task("t", "s", "p"), 1, [], error=more))
def fork(work):
    pid = os.fork()
    if pid == 0:
        try:
            work()
            os._exit(0)
        finally:
            os._exit(1)
    return pid
def join(pids):
    assert [os.waitpid(pid, 0)[1] for pid in pids] == [0] * len(pids)
"""

CHILDREN = """
os.chdir(os.path.dirname(sys.argv[1]))
writer = TrajectoryWriter(os.path.basename(sys.argv[1]))
def work(name):
    os.chdir("/")
    grandchild = fork(lambda: write(writer, name + "x", 100))
    write(writer, name, 400)
    join([grandchild])
children = [fork(lambda: work(name)) for name in "abcd"]
write(writer, "p", 400)
join(children)
"""

WHILE_A_THREAD_WRITES = """
writer = TrajectoryWriter(sys.argv[1])
thread = threading.Thread(target=write, args=[writer, "t", 2000])
thread.start()
for number in range(30):
    join([fork(lambda: write(writer, f"c{number}", 3))])
thread.join()
writer.close()
"""

KILLED_WITH_THE_LOCK = """
writer = TrajectoryWriter(sys.argv[1])
_lock(writer._opened())
print(fork(threading.Event().wait), flush=True)
os.kill(os.getpid(), 9)
"""

CLOSED = """
writer = TrajectoryWriter(sys.argv[1])
write(writer, "p", 1)
def after():
    writer.close()
    try:
        write(writer, "c", 1)
    except ValueError as error:
        assert "is closed; make a new one" in str(error)
        os._exit(0)
join([fork(after)])
writer.close()
join([fork(after)])
"""


def forking(path: Path, script: str) -> int:
    """Run a script that forks, in a session of its own, of which nothing is left. Its exit code."""
    command = [sys.executable, "-W", "error", "-c", FORK + script, str(path), str(TESTS.parent)]
    with subprocess.Popen(command, start_new_session=True) as process:
        try:
            return process.wait(60)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def names_in(path: Path) -> list[str]:
    """The ids of all episodes in a file."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return [e.episode_id for e in read_trajectories(path)]


def test_forked_children_write_to_the_file_that_they_inherited(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    assert forking(path, CHILDREN) == 0
    found = names_in(path)
    assert len(found) == 5 * 400 + 4 * 100
    for name, count in [*((x, 400) for x in "abcdp"), *((x + "x", 100) for x in "abcd")]:
        own = [x for x in found if x.partition(".")[0] == name]
        assert own == [f"{name}.{i}" for i in range(count)]


def test_a_fork_while_another_thread_writes(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    script = "import warnings\nwarnings.simplefilter('ignore', DeprecationWarning)\n"
    assert forking(path, script + WHILE_A_THREAD_WRITES) == 0
    assert len(names_in(path)) == 2000 + 30 * 3


def test_a_child_does_not_keep_the_lock_of_a_parent_that_was_killed(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    command = [sys.executable, "-c", FORK + KILLED_WITH_THE_LOCK, str(path), str(TESTS.parent)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        try:
            assert parent.wait(60) == -signal.SIGKILL
            other = start_writer(path, 1, "n")
            try:
                assert other.wait(60) == 0
            finally:
                other.kill()
        finally:
            os.kill(child, signal.SIGKILL)
    assert len(names_in(path)) == 1


def test_a_closed_writer_is_closed_in_children_too(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    assert forking(path, CLOSED) == 0
    assert names_in(path) == ["p.0"]


# -- verdicts and samples -------------------------------------------------------------------------


def test_a_verdict_adds_up() -> None:
    verdict = Verdict({"a": 1, "b": 0.5, "c": 9}, {"a": 2, "b": -1, "d": 7}, True)
    assert verdict.total == 1.5
    total = Verdict({}, {}, False).total
    assert (total, type(total)) == (0.0, float)
    plain = verdict.to_dict()
    assert plain["total"] == 1.5 and Verdict.from_dict(plain) == verdict
    plain["weights"]["a"] = 100.0
    assert verdict.total == 1.5


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_rewards_are_finite(bad: float) -> None:
    with pytest.raises(ValueError, match="reward component 'a' is .*: rewards are finite"):
        Verdict({"a": bad}, {}, True)
    with pytest.raises(ValueError, match="reward weight 'a' is .*: rewards are finite"):
        Verdict({}, {"a": bad}, True)
    with pytest.raises(ValueError, match="adds up to inf"):
        Verdict({"a": 1e308}, {"a": 1e308}, True)


def test_a_sample_is_as_long_as_its_logprobs() -> None:
    with pytest.raises(ValueError, match="2 tokens but 1 log-probs"):
        Sample([1, 2], [0.5])
