"""Trajectories: what is written is what is read, whoever is killed while writing."""

import dataclasses
import json
import math
import resource
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
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


@pytest.mark.parametrize("reason", [None, *get_args(EndReason)])
def test_what_may_be_learned_from(reason: EndReason | None) -> None:
    good = {"answer", "done", "max_turns", "deadline", "token_limit"}
    assert episode(end_reason=reason).valid == (reason in good)


# -- files ----------------------------------------------------------------------------------------


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
