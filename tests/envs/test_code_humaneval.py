"""Tasks from files in HumanEval's format, and from our own."""

import ast
import gzip
import json
from pathlib import Path
from typing import Any

import gymnasium
import pytest
from gymnasium.envs.registration import EnvSpec

from agent_envs.envs.code.env import Code
from agent_envs.envs.code.humaneval import from_humaneval, read_tasks
from agent_envs.task import Task
from agent_envs.verifiers.unit_tests import verify

REAL = Path(__file__).parents[3] / "shared/data/code/humaneval_000_081.jsonl.gz"
needs_the_file = pytest.mark.skipif(not REAL.exists(), reason=f"no {REAL}")

RECORD = {
    "task_id": "Mine/0",
    "prompt": 'def twice(x):\n    """Double it.\n    >>> twice(2)\n    4\n    >>> twice([1])\n'
    '    [1, 1]\n    >>> print(twice(1))\n    two\n    """\n',
    "entry_point": "twice",
    "canonical_solution": "    return x + x\n",
    "test": "def check(c):\n    assert c(3) == 6\n    assert c('a') == 'aa'\n",
}


def write(path: Path, *records: dict[str, Any]) -> Path:
    """A file of these, zipped if its name says so."""
    content = "\n".join(map(json.dumps, records)).encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


@pytest.mark.parametrize("name", ["x.jsonl", "x.jsonl.gz"])
def test_an_env_is_made_from_a_file(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / name, RECORD)
    env = gymnasium.make("agent/Code-v0", tasks=str(path), split="heldout")
    assert isinstance(env, Code) and env.spec is not None
    again = gymnasium.make(EnvSpec.from_json(env.spec.to_json()))
    assert env.reset(seed=1)[0] == again.reset(seed=1)[0]
    assert env.task.id == "Mine/0" and RECORD["prompt"] in env.task.prompt
    messages = list(env.reset(seed=1)[1]["messages"])
    while not env.ended:
        said = env.act(env.oracle(env.task, messages))[4]["messages"]
        messages += [{"role": "assistant", "content": ""}, *said]
    assert env.finish() is not None and env.finish().passed  # type: ignore[union-attr]
    env.close()
    again.close()


def test_our_own_form_works_too(tmp_path: Path) -> None:
    task = from_humaneval(RECORD, "adversarial")
    assert read_tasks(write(tmp_path / "x.jsonl", task.to_dict()), "train") == [task]


def test_examples_of_the_docstring_are_the_visible_tests() -> None:
    data = from_humaneval(RECORD, "train").data
    assert [test.split("assert ")[1] for test in data["visible"]] == [
        "twice(2) == 4\n",
        "twice([1]) == [1, 1]\n",
    ]


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        (">>> twice(1) # so it is\n    2", ["twice(1) == 2"]),
        ('twice("a") ==> "aa".', ["twice('a') == 'aa'"]),
        ("twice(1) = 2", ["twice(1) == 2"]),
        ("> twice((1,)) should return (1, 1)", ["twice((1,)) == (1, 1)"]),
        ("twice(1) => two", []),
        ("For twice(1) it is 2", []),
        ("twice(1 == 2", []),
    ],
)
def test_examples_are_read_in_many_forms(line: str, shown: list[str]) -> None:
    prompt = f'def twice(x):\n    """Double it.\n    {line}\n    """\n'
    data = from_humaneval({**RECORD, "prompt": prompt}, "train").data
    assert [test.split("assert ")[1].strip() for test in data["visible"]] == shown


WRONG = RECORD["prompt"].replace("    4\n", "    5\n", 1)


@pytest.mark.parametrize(
    ("prompt", "report"),
    [
        (RECORD["prompt"], "2 of 2 visible tests pass\npassed: check 1\npassed: check 2"),
        (WRONG, "1 of 1 visible tests pass\npassed: check 1"),
        (WRONG.replace("[1, 1]", "[2]"), "error: this task has no visible tests"),
    ],
)
def test_an_example_that_the_gold_solution_fails_is_no_test(prompt: str, report: str) -> None:
    """So the oracle is paid in full, or has nothing to run."""
    env = Code(tasks=[from_humaneval({**RECORD, "prompt": prompt}, "train")])
    messages = list(env.reset(seed=1)[1]["messages"])
    said = []
    while not env.ended:
        told = env.act(env.oracle(env.task, messages))[4]["messages"]
        messages += [{"role": "assistant", "content": ""}, *told]
        said += told
    assert said[1]["content"] == report
    verdict = env.finish()
    assert verdict is not None and verdict.passed
    assert verdict.components["visible"] == float(not report.startswith("error"))
    env.close()


def test_data_that_are_none_are_refused() -> None:
    env = Code(tasks=[Task("x", "train", "Do it.", {"kind": "cases", "files": {}})])
    with pytest.raises(ValueError, match="its data lack entry_point, hidden, module,"):
        env.reset()
    env.close()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"test": None}, "test must be texts"),
        ({"prompt": 1, "entry_point": 2}, "prompt, entry_point must be texts"),
        ({"entry_point": "thrice"}, "defines no function 'thrice'"),
        ({"prompt": "def twice(x"}, "no beginning of a function"),
        ({"prompt": "-" * 100_000 + "1"}, "no beginning of a function: it is nested too deeply"),
        ({"prompt": "def twice(x):\n    nonlocal x\n"}, "its prompt does not compile: name 'x'"),
        ({"canonical_solution": None}, "canonical_solution must be texts; every task needs a gold"),
        ({"canonical_solution": "    return (\n"}, "canonical_solution does not compile: .*closed"),
        ({"test": "def check(c:\n"}, "its test does not compile: .*test, line 1"),
        ({"test": "return 1"}, "its test does not compile: 'return' outside function"),
        ({"test": "a\0"}, "its test does not compile: .*null bytes"),
        ({"test": "-" * 100_000 + "1"}, "its test does not compile: it is nested too deeply"),
        *(
            ({"test": test}, r"its test defines no check\(candidate\)")
            for test in ("", "x = 1", "check(twice)", "class X:\n    def check(c): pass\n")
        ),
    ],
    ids=lambda x: str(x)[:60],
)
def test_what_is_no_task_is_told_with_its_line(
    tmp_path: Path, change: dict[str, Any], said: str
) -> None:
    path = write(tmp_path / "x.jsonl", RECORD, {**RECORD, **change})
    with pytest.raises(ValueError, match=f"x.jsonl:2: task 'Mine/0': .*{said}"):
        Code(tasks=path)


@pytest.mark.parametrize(
    "test",
    [
        "check = lambda c: None",
        "from somewhere import check",
        "if True:\n    def check(c): pass\n",
        "def check(c):\n    assert c('\\d')\n",
        "open('ran', 'w')\nraise SystemExit\ncheck = None",
    ],
)
def test_a_test_that_compiles_is_read_and_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, test: str
) -> None:
    monkeypatch.chdir(tmp_path)
    [task] = read_tasks(write(tmp_path / "x.jsonl", {**RECORD, "test": test}), "train")
    assert task.data["hidden"] == [test] and [p.name for p in tmp_path.iterdir()] == ["x.jsonl"]


def test_a_file_that_is_not_there() -> None:
    with pytest.raises(FileNotFoundError, match="tasks='none.jsonl': no such file"):
        Code(tasks="none.jsonl")


@pytest.mark.parametrize("content", [b"\x1f\x8bnonsense", b"{", b"[1]", b"\xff", b""])
def test_what_is_no_file_of_tasks_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.jsonl.gz"
    path.write_bytes(content)
    with pytest.raises(ValueError):
        Code(tasks=path)


# -- the real ones ---------------------------------------------------------------------------------


def broken(task: Task) -> list[str]:
    """Wrong solutions: none, a changed result, the prompt's helpers made to agree with anything."""
    prompt, name = task.data["prompt_code"], task.data["entry_point"]
    tree = ast.parse(task.data["solution"]["solution.py"])
    for node in ast.walk(tree):
        if isinstance(node, ast.Return) and node.value is not None:
            node.value = ast.Tuple([node.value, ast.Constant("more")], ast.Load())
    helpers = [
        f"def {node.name}(*args):\n    return None\n"
        for node in ast.parse(f"{prompt}    pass\n").body
        if isinstance(node, ast.FunctionDef) and node.name != name
    ]
    constant = f"def {name}(*args, **kwargs):\n    return None\n"
    return ["", ast.unparse(ast.fix_missing_locations(tree)), "".join(helpers) + constant]


@needs_the_file
def test_all_real_tasks_are_read() -> None:
    tasks = read_tasks(REAL, "train")
    assert len({task.id for task in tasks}) == len({task.prompt for task in tasks}) == 82
    assert sum(bool(task.data["visible"]) for task in tasks) > 55


@needs_the_file
@pytest.mark.soak(410)
def test_real_tasks_tell_right_from_wrong(rounds: int) -> None:
    tasks = read_tasks(REAL, "train")
    count = min(rounds, len(tasks))
    for task in tasks[:: len(tasks) // count][:count]:
        report = verify(task.data, task.data["solution"])
        assert report.passed, (task, report)
        if task.data["visible"]:
            shown = verify(task.data, task.data["solution"], tests="visible")
            assert shown.passed, (task, shown)
        wrong = [mutant["solution.py"] for mutant in task.data["mutants"]]
        for source in wrong + broken(task):
            assert not verify(task.data, {"solution.py": source}).passed, (task, source)
