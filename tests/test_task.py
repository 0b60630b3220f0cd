"""Tasks: how answers are read, and sources that are disjoint, deterministic and told apart."""

import dataclasses
import json
import threading
from collections.abc import Iterable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_envs.task import (
    Reads,
    Task,
    TaskList,
    TaskSource,
    as_source,
    check_unique,
    task_file,
)


def task(name: str = "t", split: str = "train", prompt: str | None = None, **more: Any) -> Task:
    """A task."""
    return Task(name, split, f"What is {name}?" if prompt is None else prompt, **more)


def read(reads: Reads, answer: str) -> Any:
    """What an answer is read as; the name of the error where it cannot be."""
    try:
        return task(reads=reads).read(answer)
    except ValueError:
        return ValueError


EXACT = [
    ("68", "68"),
    (" 68\n", "68"),
    ("", ""),
    ("a  b", "a  b"),
    ("6 8", "6 8"),
    ("\u3000東京\u2028", "東京"),
    ("\0", "\0"),
    ("\u200b68", "\u200b68"),
    ("The answer is 68.", "The answer is 68."),
]
NUMBER: list[tuple[str, Any]] = [
    ("68", Fraction(68)),
    (" 68\n", Fraction(68)),
    ("+68", Fraction(68)),
    ("-0", Fraction(0)),
    ("068", Fraction(68)),
    ("68.0", Fraction(68)),
    ("0.1", Fraction(1, 10)),
    ("1,234", Fraction(1234)),
    ("-1,234,567.50", Fraction(-123456750, 100)),
    ("9" * 400, Fraction(10**400 - 1)),
    *(
        (text, ValueError)
        for text in [
            *("", " ", "-", "+", ".", ",", "--5", "+-5", "5-", "- 5"),
            *(
                "5 6",
                "5.5.5",
                "5.",
                ".5",
                "1,23",
                "1,2345",
                ",123",
                "12,34,567",
                "1234,567",
                "1,,234",
            ),
            *("1e3", "0x10", "1_000", "1/2", "50%", "$5", "5 apples", "5\n6", "five", "NaN", "inf"),
            *("١٢", "１２", "²", "\u22125", "5\0", "\u200b5", "[5]", '"5"', "68|", "answer: 5"),
            *("9" * 401, "0." + "1" * 401, "9" * 10**6, ("1," * 10**5) + "1", "1" + ",000" * 101),
        ]
    ),
]
JSON: list[tuple[str, Any]] = [
    ("68", 68),
    (" [1, 2.5] \n", [1, 2.5]),
    ('{"a": null}', {"a": None}),
    ('"x"', "x"),
    ("true", True),
    *(
        (text, ValueError)
        for text in [
            *("", "x", "{'a': 1}", "[1,]", "1 2", "NaN", "-Infinity", "1e999", '{"a": 1, "a": 2}'),
            *(
                "[" * 200_000,
                "[" * 500 + "]" * 500,
                "9" * 5000,
                '"\\ud800"',
                '"\ud800"',
                "```\n1\n```",
            ),
        ]
    ),
]
CHOICE: list[tuple[str, Any]] = [
    ("B", "b"),
    (" (b)\n", "b"),
    ('"B".', "b"),
    ("`[B]`", "b"),
    ("New York", "new york"),
    ("STRASSE", "strasse"),
    ("straße", "strasse"),
    ("B) because", "b) because"),
    ("A or B", "a or b"),
    ("A, B, C, D", "a, b, c, d"),
    *((text, ValueError) for text in ["", " ", "()", ".", "\"'`", "[]"]),
]
TABLE: dict[Reads, list[tuple[str, Any]]] = {
    "exact": EXACT,
    "number": NUMBER,
    "json": JSON,
    "choice": CHOICE,
}


def test_every_way_of_reading_is_in_the_table() -> None:
    assert TABLE.keys() == set(get_args(Reads))


@pytest.mark.parametrize("reads", TABLE)
def test_answers_are_read(reads: Reads) -> None:
    for answer, value in TABLE[reads]:
        found = read(reads, answer)
        assert (type(found), found) == (type(value), value), answer[:80]


@given(st.sampled_from(get_args(Reads)), st.text())
def test_reading_raises_nothing_else(reads: Reads, answer: str) -> None:
    read(reads, answer)


@given(st.integers(), st.integers(0, 10**6))
def test_numbers_are_exact(whole: int, decimals: int) -> None:
    sign = "-" if whole < 0 else ""
    value = Fraction(abs(whole) * 10**7 + decimals, 10**7) * (-1 if whole < 0 else 1)
    for form in (f"{abs(whole)}", f"{abs(whole):,}"):
        assert read("number", f"{sign}{form}.{decimals:07}") == value


BAD: list[tuple[dict[str, Any], str]] = [
    ({"id": 3}, "its id is 3; a string"),
    ({"id": "a\0"}, "its id holds a NUL"),
    ({"split": None}, "its split is None"),
    ({"prompt": 5}, "its prompt is 5"),
    ({"prompt": "a\0b"}, "its prompt holds a NUL character or a lone surrogate"),
    ({"prompt": "a\ud800b"}, "its prompt holds a NUL character or a lone surrogate"),
    ({"level": "1"}, "level='1'; a whole number"),
    ({"level": True}, "level=True"),
    ({"level": 1.0}, "level=1.0"),
    ({"tags": "easy"}, "tags='easy'; a tuple of strings"),
    ({"tags": ["easy", 3]}, r"tags=\('easy', 3\)"),
    ({"reads": "float"}, "reads='float'; one of"),
    ({"reads": None}, "reads=None"),
    ({"gold": 3}, "unexpected keyword argument 'gold'; got the keys .*'gold'"),
]


@pytest.mark.parametrize(("change", "message"), BAD, ids=range(len(BAD)))
def test_bad_fields(change: dict[str, Any], message: str) -> None:
    good = {"id": "t", "split": "train", "prompt": "p"}
    with pytest.raises(ValueError, match=message):
        Task.from_dict(good | change)


@pytest.mark.parametrize("data", [{}, {"id": "t"}, [], "t", None, 3, [1, 2]])
def test_what_is_no_task(data: Any) -> None:
    with pytest.raises(ValueError, match="not a task"):
        Task.from_dict(data)


text = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))
plain: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
tasks = st.builds(
    Task,
    text,
    text,
    text,
    plain,
    st.integers(),
    st.lists(st.text(), max_size=2).map(tuple),
    st.sampled_from(get_args(Reads)),
)


@given(tasks)
def test_tasks_survive_json(made: Task) -> None:
    assert Task.from_dict(json.loads(json.dumps(made.to_dict()))) == made
    public = made.to_dict(private=False)
    assert public.keys() == {f.name for f in dataclasses.fields(Task)} - {"data"}
    assert Task.from_dict(public) == dataclasses.replace(made, data=None)


def test_private_data_stays_private() -> None:
    made = task(data={"gold": "SECRET"}, prompt="and the PROMPT")
    assert "SECRET" not in repr(made) and "PROMPT" not in repr(made)
    assert "SECRET" not in json.dumps(made.to_dict(private=False))
    copy = made.to_dict()
    copy["data"]["gold"] = "changed"
    assert made.data == {"gold": "SECRET"}
    with pytest.raises(dataclasses.FrozenInstanceError):
        made.data = None  # type: ignore[misc]


class Source(TaskSource):
    """A source of given tasks that counts how often it is asked."""

    def __init__(self, **splits: Iterable[Task]) -> None:
        super().__init__()
        self.given = splits
        self.splits = tuple(splits)
        self.loads: list[str] = []

    def load(self, split: str) -> Iterable[Task]:
        self.loads.append(split)
        yield from self.given[split]


def numbered(split: str, count: int = 3) -> list[Task]:
    """Tasks of a split, of levels 0 and 1."""
    return [task(f"{split}/{i}", split, level=i % 2, data=i) for i in range(count)]


def test_a_source_loads_what_is_asked_for_and_once() -> None:
    source = Source(train=numbered("train"), heldout=numbered("heldout"), adversarial=[])
    assert [t.id for t in source.split("train")] == ["train/0", "train/1", "train/2"]
    assert [t.id for t in source.split("train", 1)] == ["train/1"]
    assert source.split("train") is source.split("train") and source.loads == ["train"]
    assert [t.split for t in source] == ["train"] * 3 + ["heldout"] * 3
    assert source["heldout/2"].data == 2 and source["train/0"].data == 0
    assert sorted(source.loads) == ["adversarial", "heldout", "train"]


@pytest.mark.parametrize(
    ("split", "level", "message"),
    [
        ("test", None, r"no split 'test'; there are \['train', 'empty'\]"),
        ("empty", None, "the split 'empty' is empty"),
        ("train", 7, r"'train' has no task of level 7; levels: \[0, 1\]"),
    ],
)
def test_asking_for_what_is_not_there(split: str, level: int | None, message: str) -> None:
    source = Source(train=numbered("train"), empty=[])
    for _ in range(2):
        with pytest.raises(KeyError, match=message):
            source.split(split, level)


def test_an_unknown_id() -> None:
    source = Source(train=numbered("train"))
    with pytest.raises(KeyError, match="no task 'nope' in Source; an id looks like 'train/0'"):
        source["nope"]
    with pytest.raises(KeyError, match="no task 'tran/1' in Source .did you mean 'train/1'"):
        source["tran/1"]


@pytest.mark.parametrize("level", ["0", True, 1.0, [1]])
def test_a_level_is_a_whole_number(level: Any) -> None:
    source = Source(train=numbered("train"))
    source.split("train", 1)
    with pytest.raises(ValueError, match="a whole number"):
        source.split("train", level)
    assert source.split("train", np.int64(1)) is source.split("train", 1)  # type: ignore[arg-type]


def test_splits_are_disjoint_by_construction() -> None:
    train, same_id = numbered("train"), [task("train/0", "heldout", "other")]
    same_prompt = [task("h", "heldout", train[1].prompt)]
    wrong_split = [task("h", "train")]
    for heldout, message in [
        (same_id, "two tasks have the id 'train/0'"),
        (same_prompt, "tasks 'train/1' and 'h' have the same prompt"),
        (wrong_split, r"load\('heldout'\) gave Task\('h', split='train', level=0\)"),
    ]:
        source = Source(train=train, heldout=heldout)
        assert source.split("train") == tuple(train)
        for ask in (lambda s: s.split("heldout"), lambda s: s["train/0"], list, Source.digest):
            with pytest.raises(ValueError, match=message):
                ask(source)
    with pytest.raises(ValueError, match="the id 'a'"):
        Source(train=[task("a"), task("a", prompt="other")]).split("train")


def test_check_unique() -> None:
    check_unique(numbered("train") + numbered("heldout"))
    check_unique([])
    with pytest.raises(ValueError, match="the id 'a'"):
        check_unique([task("a"), task("b"), task("a")])


def test_many_threads_may_share_a_source() -> None:
    source = Source(train=numbered("train", 500), heldout=numbered("heldout", 500))
    start, found = threading.Barrier(8), []

    def ask(split: str) -> None:
        start.wait()
        found.append((source[f"{split}/7"].data, len(source.split(split)), source.digest()))

    threads = [threading.Thread(target=ask, args=[s]) for s in ("train", "heldout") * 4]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [(7, 500, source.digest())] * 8


def test_a_digest_sees_everything() -> None:
    base = numbered("train")
    changed = [
        [*base, task("more")],
        base[:-1],
        base[::-1],
        *(
            [dataclasses.replace(base[0], **change), *base[1:]]
            for change in (
                {"id": "x"},
                {"prompt": "x"},
                {"data": "0"},
                {"data": False},
                {"level": 5},
                {"tags": ("x",)},
                {"reads": "json"},
            )
        ),
    ]
    digests = [Source(train=tasks).digest() for tasks in [base, *changed]]
    assert len(set(digests)) == len(digests)
    assert Source(train=numbered("train")).digest() == digests[0]


def test_a_digest_of_data_that_json_has_not() -> None:
    odd = {"set": {"b", "a"}, "bytes": b"x", "fraction": Fraction(1, 3), 5: (1, 2), "nan": 0.0}
    same = {"set": {"a", "b"}, "bytes": b"x", "fraction": Fraction(1, 3), 5: (1, 2), "nan": 0.0}
    assert Source(train=[task(data=odd)]).digest() == Source(train=[task(data=same)]).digest()
    same["bytes"] = b"y"
    assert Source(train=[task(data=odd)]).digest() != Source(train=[task(data=same)]).digest()
    with pytest.raises(TypeError, match="data holds a object; keep plain values there"):
        Source(train=[task(data=[object()])]).digest()


def rows() -> list[dict[str, Any]]:
    return [t.to_dict() for t in numbered("train") + numbered("mine")]


def test_sources_from_lists_and_files(tmp_path: Path) -> None:
    path = tmp_path / "tasks.jsonl"
    lines = [json.dumps(row, ensure_ascii=False) for row in rows()]
    path.write_bytes(("\r\n".join(lines[:3]) + "\n\n \n" + "\n".join(lines[3:])).encode())
    made = [Task.from_dict(row) for row in rows()]
    sources = [as_source(x) for x in (rows(), made, path, str(path), tuple(made), iter(made))]  # type: ignore[arg-type]
    for source in sources:
        assert source.splits == ("train", "mine") and list(source) == made
        assert source.split("mine", 1) == (made[4],) and source["mine/2"] == made[5]
        assert source.digest() == sources[0].digest()
    assert as_source(sources[0]) is sources[0]


def test_lines_end_where_json_lines_end(tmp_path: Path) -> None:
    path = tmp_path / "tasks.jsonl"
    prompt = "a\u2028b\x85c\x0bd\x0ce\x1df é"
    line = json.dumps({"id": "a", "split": "s", "prompt": prompt}, ensure_ascii=False)
    assert len(line.splitlines()) > 1
    path.write_text(line, encoding="utf-8")
    assert next(iter(as_source(path))).prompt == prompt


GOOD_LINE = '{"id": "a", "split": "s", "prompt": "p"}'


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"{'id': 3}", "Expecting property name"),
        (GOOD_LINE[:-2].encode(), "Unterminated string"),
        (b'{"id": "b", "split": "s", "prompt": "q", "data": NaN}', "NaN is not JSON"),
        (b'{"id": "b", "id": "c", "split": "s", "prompt": "q"}', "the key 'id' stands twice"),
        (b'{"id": "b", "split": "s"}', "not a task: .*'prompt'"),
        (b'{"id": "b", "split": "s", "prompt": "q", "answer": 1}', "not a task: .*'answer'"),
        (b'{"id": 3, "split": "s", "prompt": "q"}', "its id is 3; a string"),
        (b'{"id": "b", "split": "s", "prompt": "q", "tags": "x"}', "tags='x'"),
        (b"[]", "not a task but a list"),
        (b'"\xff"', "'utf-8' codec can't decode byte 0xff"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, line: bytes, message: str) -> None:
    path = tmp_path / "tasks.jsonl"
    path.write_bytes(GOOD_LINE.encode() + b"\n\n" + line + b"\n")
    with pytest.raises(ValueError, match=f"tasks.jsonl:3: .*{message}"):
        as_source(path)


def test_lists_that_are_no_source(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="empty list of tasks"):
        as_source([])
    (tmp_path / "empty.jsonl").write_text("\n")
    with pytest.raises(ValueError, match="empty list of tasks"):
        as_source(tmp_path / "empty.jsonl")
    for path in (tmp_path / "none.jsonl", tmp_path, "", "x" * 5000, json.dumps(rows())):
        with pytest.raises(FileNotFoundError, match="no such file.*the path of a .jsonl file"):
            as_source(path)
    with pytest.raises(FileNotFoundError, match=r"did you mean '\S*/empty.jsonl'"):
        as_source(tmp_path / "emtpy.jsonl")
    with pytest.raises(FileNotFoundError, match="did you mean 'pages'.*; 'pages', the path"):
        task_file("page", ["pages"])
    with pytest.raises(ValueError, match="the id 'a'"):
        TaskList([task("a"), task("a")])
    with pytest.raises(ValueError, match="same prompt"):
        TaskList([task("a", "s", "p"), task("b", "t", "p")])
    for wrong in (["a"], [3]):
        with pytest.raises(ValueError, match="not a task"):
            as_source(wrong)  # type: ignore[arg-type]
    for no_tasks in (5, None, b"[]", task("a").to_dict()):
        with pytest.raises(ValueError, match="tasks=.*: a TaskSource, the path of a file, or a li"):
            as_source(no_tasks)  # type: ignore[arg-type]


class Sums(TaskSource):
    """Two training tasks, and others like them."""

    def load(self, split: str) -> Iterable[Task]:
        return [task(f"{split}/{n}", split, level=1) for n in range(2)]

    def drawn(self, level: int) -> Iterator[Task]:
        return (task(f"train/{n}", level=level) for n in range(5))


def test_more_training_tasks_leave_the_other_splits_as_they_are() -> None:
    source = Sums()
    more = source.more(4, level=1)
    assert [t.id for t in more.split("train")] == ["train/0", "train/1", "train/2", "train/3"]
    assert more.split("heldout") == source.split("heldout")
    assert len(source.more(9, level=1).split("train")) == 5
    with pytest.raises(ValueError, match="count=0: a whole number from 1 up"):
        source.more(0)
    with pytest.raises(ValueError, match="TaskList makes no tasks but those it has"):
        more.more(9)
