"""What each kind of grading takes for right, and what it takes for wrong."""

import gc
import json
import math
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent_envs.errors import BackendUnavailable
from agent_envs.verifiers.unit_tests import Report, boxes, verify
from agent_envs.verifiers.unit_tests.codec import NotPlain, pack, same, unpack
from agent_envs.verifiers.unit_tests.literal import literal


def task(kind: str, tests: list[Any], **more: Any) -> dict[str, Any]:
    return {
        "kind": kind,
        "entry_point": "f",
        "module": "solution.py",
        "prompt_code": "",
        "files": {},
        "visible": [],
        "hidden": tests,
        **more,
    }


def grade(kind: str, source: str, tests: list[Any], backend: str, **more: Any) -> Report:
    return verify(task(kind, tests, **more), {"solution.py": source}, backend=backend)


# -- values --

scalars: st.SearchStrategy[Any] = st.none() | st.booleans() | st.integers() | st.floats()
scalars |= st.text() | st.binary() | st.complex_numbers() | st.integers(1 << 60, 1 << 90)
hashable = st.recursive(scalars, lambda x: st.tuples(x, x) | st.frozensets(x, max_size=3))
values = st.recursive(
    hashable | st.sets(hashable, max_size=3),
    lambda x: st.lists(x, max_size=3) | st.tuples(x) | st.dictionaries(hashable, x, max_size=3),
)


@pytest.mark.filterwarnings("ignore:Generating overly large repr")
@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(values)
def test_values_cross_as_they_are(value: Any) -> None:
    assert same(unpack(json.loads(json.dumps(pack(value)))), value)


@pytest.mark.parametrize(
    ("one", "other"),
    [(1, True), (1, 1.0), ([1], (1,)), ({1}, frozenset({1})), ("a", b"a"), ({1: 2}, {True: 2})]
    + [(0, False), (None, False), ([], ()), ([[1]], [[1.0]]), ({1, 2}, {1, 3}), (0.0, math.nan)],
)
def test_types_and_values_are_told_apart(one: Any, other: Any) -> None:
    assert not same(one, other) and not same(other, one)
    assert same(one, one) and same(other, other)


def test_order_of_sets_and_dicts_is_free() -> None:
    assert same({1: "a", 2: "b"}, {2: "b", 1: "a"}) and same({"a", "b", 3}, {3, "b", "a"})
    assert same(0.0, -0.0) and same([math.nan], [math.nan])


def deep(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


def wide() -> list[Any]:
    value: list[Any] = [0]
    for _ in range(40):
        value = [value, value]
    return value


@pytest.mark.parametrize(
    "value",
    [object(), len, deep(100), wide(), "a" * 2_000_000, 1 << 10_000_000, range(3), {"a": object()}],
    ids=lambda value: type(value).__name__,
)
def test_what_is_no_plain_value_does_not_cross(value: Any) -> None:
    with pytest.raises(NotPlain):
        pack(value)


@pytest.mark.parametrize(
    "tree",
    [{}, {"a": 1, "b": 2}, {"eval": "1"}, {"set": [[1]]}, {"dict": [[1]]}, {"int": 3}, {"set": 1}]
    + [{"bytes": "x"}, {"complex": ["a", 1]}, deep(100), {"dict": [[{"set": []}, 1]]}],
    ids=lambda tree: str(tree)[:20],
)
def test_a_tree_that_is_no_value_is_a_value_error(tree: Any) -> None:
    with pytest.raises(ValueError):
        unpack(tree)


def test_literals_of_tasks() -> None:
    text = "(1, -2.5, nan, -inf, {'a': {1}}, set(), frozenset({1}), b'x', 1+2j, None, True)"
    found = literal(text)
    assert same(found[:2], (1, -2.5)) and math.isnan(found[2]) and found[3] == -math.inf
    assert same(found[4:], ({"a": {1}}, set(), frozenset({1}), b"x", 1 + 2j, None, True))
    for bad in ("f(1)", "x", "(1", "__import__('os')", "{**{}}", "[1 for _ in ()]"):
        with pytest.raises(ValueError):
            literal(bad)


@pytest.fixture
def many_turns() -> Iterator[None]:
    """Threads take turns as often as they can, in the collector too."""
    interval, threshold = sys.getswitchinterval(), gc.get_threshold()

    def give_way(phase: str, info: dict[str, int]) -> None:
        time.sleep(0)

    gc.callbacks.append(give_way)
    gc.set_threshold(50)
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(interval)
    gc.set_threshold(*threshold)
    gc.callbacks.remove(give_way)


def test_literals_are_read_by_many_threads_at_once(many_turns: None) -> None:
    text = "[" * 30 + "1" + "]" * 30
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(literal, [text] * 1000))
    assert all(repr(value) == text for value in found)


# -- cases --


def test_cases_are_exact_in_type_and_value(backend: str) -> None:
    tests = [
        {"args": "(1,)", "returns": "1"},
        {"args": "(1,)", "returns": "True"},
        {"args": "(1,)", "returns": "1.0"},
        {"args": "([(1, {2}), nan, inf, 1e400],)", "returns": "[(1, {2}), nan, inf, inf]"},
        {"args": "()", "kwargs": "{'x': b'ab'}", "returns": "b'ab'"},
        {"args": "(frozenset({1}),)", "returns": "{1}"},
        {"args": f"({hex(10**5000)},)", "returns": hex(10**5000)},
        {"args": f"({hex(10**5000)},)", "returns": "1"},
    ]
    report = grade("cases", "def f(x): return x", tests, backend)
    assert [r.passed for r in report.results] == [
        True,
        False,
        False,
        True,
        True,
        False,
        True,
        False,
    ]
    assert not report.passed and report.fraction == 4 / 8


def test_cases_that_raise(backend: str) -> None:
    source = (
        "class Own(ValueError): pass\nclass Bare(Exception): pass\n"
        "def f(n):\n"
        "    if n == 3: return ValueError\n"
        "    raise [ValueError('x'), Own('x'), UnicodeError('x'), 0, Bare(), KeyError('x')][n]"
    )
    tests = [{"args": f"({n},)", "raises": "ValueError"} for n in range(6)]
    tests.append({"args": "(4,)", "raises": "RuntimeError"})
    results = grade("cases", source, tests, backend).results
    assert [r.passed for r in results] == [True, True, True, False, False, False, True]


def test_reasons_tell_what_was_expected_of_visible_tests_only(backend: str) -> None:
    tests = [{"args": "(20,)", "returns": "4242"}]
    data = task("cases", tests, visible=tests)
    files = {"solution.py": "def f(x): return 17"}
    hidden = verify(data, files, backend=backend).results[0]
    visible = verify(data, files, tests="visible", backend=backend).results[0]
    assert "4242" not in hidden.reason and hidden.reason == "wrong value"
    assert visible.reason == "f(20): returned 17, expected 4242"


def test_every_case_is_a_new_fork_of_the_loaded_solution(backend: str) -> None:
    source = (
        "import os\nn = [0]\n"
        "def f():\n"
        "    n[0] += 1\n    open('count', 'a').write('x')\n    return n[0], len(os.listdir())"
    )
    first = grade("cases", source, [{"args": "()", "returns": "(1, 2)"}] * 3, backend)
    assert first.passed, first


def test_solution_may_print_and_use_its_other_files(backend: str) -> None:
    source = "import helper\nprint('x' * 10**7)\ndef f(): print('y' * 10**7); return helper.n"
    files = {"solution.py": source, "helper.py": "n = 7"}
    data = task("cases", [{"args": "()", "returns": "7"}])
    assert verify(data, files, backend=backend).passed


def test_no_tests_is_not_passed(backend: str) -> None:
    report = grade("cases", "def f(): pass", [], backend)
    assert not report.passed and report.fraction == 0.0


# -- programs --


def test_programs_read_and_write(backend: str) -> None:
    source = (
        "import sys, atexit, threading\n"
        "n = int(input())\nrest = sys.stdin.read().split()\n"
        "atexit.register(print, 'last')\n"
        "threading.Timer(0.05, print, ['later', 'é']).start()\n"
        "if __name__ == '__main__': print(n, rest)\n"
        "sys.exit(3)"
    )
    good = {"stdin": "3\na b\nc", "stdout": "3 ['a', 'b', 'c']\nlater é\nlast"}
    bad = {"stdin": "3\na", "stdout": "3 ['a']\nlater é\n last"}
    results = grade("stdin", source, [good, bad, good], backend).results
    assert [r.passed for r in results] == [True, False, True]


@pytest.mark.parametrize(
    "end", ["raise ValueError('x')", "import os; os._exit(0)", "import os; os.kill(os.getpid(), 9)"]
)
def test_programs_that_crash_have_failed(backend: str, end: str) -> None:
    source = "print('yes', flush=True)\n" + end
    assert not grade("stdin", source, [{"stdin": "", "stdout": "yes"}], backend).passed


# -- asserts --

KINDS_OF_VALUES = """
def check(candidate):
    values = [None, True, 3, 10**5000, 1.5, 1j, 's', b'b', [1], (1,), {1}, frozenset({1})]
    for x in [*values, {1: [2]}]:
        y = candidate(x)
        assert y == x and type(y) is type(x)
    assert candidate(float('inf')) == float('inf')
    nan = candidate(float('nan'))
    assert nan != nan
    assert candidate(x=True) == 1
    assert f is candidate and f(4) == helper(3)
"""
HELPER = "def helper(n):\n    return n + 1\n\ndef f(x):\n    '''The same.'''\n"


def test_asserts_with_all_kinds_of_values(backend: str) -> None:
    source = HELPER + "    return x"
    assert grade("asserts", source, [KINDS_OF_VALUES], backend, prompt_code=HELPER).passed


def test_asserts_use_the_prompts_own_helper(backend: str) -> None:
    test = "def check(candidate):\n    assert candidate(3) == helper(3)"
    for source, passed in [("def f(x): return x + 1", True), ("def f(x): return 0", False)]:
        overridden = "\ndef helper(n): return 0"
        report = grade("asserts", source + overridden, [test], backend, prompt_code=HELPER)
        assert report.passed is passed


@pytest.mark.parametrize(
    ("test", "passed"),
    [
        ("a = [1]; candidate(a); assert a == [1]", True),
        ("assert [candidate([]) for _ in range(3)] == [[1]] * 3", True),
        ("x = candidate([]); y = candidate(x); z = candidate(y); assert z == [1, 1, 1]", True),
        ("assert sorted(map(len, map(candidate, [[], [2, 3]]))) == [1, 3]", True),
        ("import random; assert candidate([random.random()])[1:] == [1]", True),
        ("assert candidate([]) == [2]", False),
        ("candidate(lambda: 1)", False),
        ("assert candidate([]) and False, 'no'", False),
        ("raise SystemExit(0)", False),
        ("pass", False),
        ("import os; os._exit(0) if candidate([]) else 0", False),
        ("while candidate([]): pass", False),
    ],
)
def test_asserts_run_as_written(backend: str, test: str, passed: bool) -> None:
    source = "def f(x):\n    x.append(1)\n    return x"
    check = f"def check(candidate):\n    {test}"
    report = grade("asserts", source, [check], backend, cpu_seconds=1)
    assert report.passed is passed, report


def test_exceptions_cross_as_built_in_ones(backend: str) -> None:
    source = (
        "class Own(ValueError): pass\nclass Bare(Exception): pass\n"
        "def f(n):\n"
        "    raise [ValueError('v'), Own('o'), Bare('b'), StopIteration(), KeyError('k')][n]"
    )
    test = """
def check(candidate):
    for n, kind, text in [(0, ValueError, 'v'), (1, ValueError, 'o'), (2, RuntimeError, 'b'),
                          (3, RuntimeError, ''), (4, KeyError, "'k'")]:
        try:
            candidate(n)
        except Exception as error:
            assert type(error) is kind and str(error) == text, error
        else:
            assert False
"""
    report = grade("asserts", source, [test], backend)
    assert report.passed, report


@pytest.mark.parametrize(
    "body",
    ["raise SystemExit(0)", "raise KeyboardInterrupt", "raise GeneratorExit", "os._exit(0)"]
    + ["return object()", "yield 1", "return f", "while True: pass", "return 'x' * 10**7"],
)
def test_what_does_not_cross_fails_the_test_whatever_it_catches(backend: str, body: str) -> None:
    source = f"import os\ndef f(x):\n    {body}"
    test = """
def check(candidate):
    try:
        candidate(1)
    except BaseException:
        pass
"""
    report = grade("asserts", source, [test], backend, cpu_seconds=1)
    assert not report.passed, report


def test_a_subclass_of_a_plain_type_crosses_as_its_base(backend: str) -> None:
    source = "from collections import Counter\ndef f(x): return Counter(x)"
    test = "def check(candidate):\n    assert candidate('aab') == {'a': 2, 'b': 1}"
    assert grade("asserts", source, [test], backend).passed


# -- limits and faults --


def test_code_that_runs_out_of_time_fails_and_the_rest_is_not_run(
    backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(boxes, "MOST_TIMEOUTS", 1)
    tests = [{"args": "()", "returns": "1"}] * 8
    report = grade("cases", "def f():\n    while True: pass", tests, backend, cpu_seconds=1)
    reasons = [r.reason for r in report.results]
    assert reasons == ["out of time"] + [boxes.TOTAL] * 7


def test_total_limit(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent_envs.verifiers.unit_tests.TOTAL_SECONDS", 0)
    report = grade("cases", "def f(): return 1", [{"args": "()", "returns": "1"}], backend)
    assert [r.reason for r in report.results] == [boxes.TOTAL]


def test_tests_that_cannot_run_are_a_fault_of_ours(backend: str) -> None:
    test = "import os\ndef check(candidate): os._exit(1)"
    with pytest.raises(BackendUnavailable, match="the tests do not run"):
        grade("asserts", "def f(): pass", [test], backend)


def test_a_backend_that_is_not_there() -> None:
    with pytest.raises(ValueError, match="nonsense"):
        grade("cases", "", [{"args": "()", "returns": "1"}], "nonsense")


def test_a_task_of_no_kind() -> None:
    with pytest.raises(ValueError, match="magic"):
        verify({"kind": "magic"}, {})


@pytest.mark.parametrize("path", ["../x.py", "a\0b", ""])
def test_files_that_cannot_be_written_are_the_solutions_fault(backend: str, path: str) -> None:
    files = {"solution.py": "def f(): return 1", path: ""}
    data = task("cases", [{"args": "()", "returns": "1"}])
    report = verify(data, files, backend=backend)
    assert not report.passed and len(report.results) == 1


# -- forged answers --


@pytest.mark.parametrize(
    "tree",
    [
        {"float": 10**400},
        {"complex": [10**400, 0]},
        {"set": [n * (2**61 - 1) for n in range(1000)]},
        {"dict": [[n * (2**61 - 1), 0] for n in range(1000)]},
    ],
)
def test_forged_values_are_refused_at_once(tree: Any) -> None:
    with pytest.raises(ValueError):
        unpack(tree)


FORGED = """
import json
dumps, called = json.dumps, []
json.dumps = lambda said: dumps({} if called else said)
def f(*args): called.append(1)
"""
ENDED, NO_REASON = "{'raised': 'StopIteration', 'text': ''}", "{'broken': ''}"
LOOP = "def check(f):\n    assert all(map(lambda x: f(x) == x, [1, 2]))"
TAKES_ALL = (
    "def check(f):\n    try:\n        assert f(1) == 1\n"
    "    except TypeError:\n        raise\n    except:\n        pass"
)


@pytest.mark.parametrize(
    ("said", "test"), [(ENDED, LOOP), (NO_REASON, LOOP), (NO_REASON, TAKES_ALL)]
)
def test_forged_words_end_no_test_well(said: str, test: str, backend: str) -> None:
    source = FORGED.replace("{}", said)
    assert not grade("asserts", source, [test], backend).passed


def test_code_that_goes_elsewhere_is_asked_all_the_same(backend: str) -> None:
    """A question too long for its cell lies in a file, where the session began."""
    source = "import os, tempfile\nos.chdir(tempfile.gettempdir())\ndef f(x): return len(x)\n"
    tests = [{"args": repr(("x" * n,)), "returns": str(n)} for n in (3, 50_000)]
    report = grade("cases", source, tests, backend)
    assert report.passed, report
