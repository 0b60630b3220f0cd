"""The sandboxes that are warm before a verification: used once, replaced, and ended."""

import os
import threading
from typing import Any

import pytest

from agent_envs.sandbox import SandboxClosed, close_zygotes
from agent_envs.verifiers.unit_tests import Stop, close_kept, verify
from agent_envs.verifiers.unit_tests.stock import Stock, fresh, testers

LOOK = """\
import os, tempfile

def f():
    places = os.getcwd(), tempfile.gettempdir()
    return [name for place in places for name in os.listdir(place) if name == 'left']
"""
LEAVE = """\
import os, tempfile
for place in (os.getcwd(), tempfile.gettempdir()):
    open(f'{place}/left', 'w').write('x')
if os.fork() == 0:
    os.setsid()
    while True: pass

def f():
    return []
"""


def task(returns: str, **more: Any) -> dict[str, Any]:
    tests = [{"args": "()", "returns": returns}]
    return {"kind": "cases", "entry_point": "f", "module": "solution.py", "hidden": tests, **more}


def waiting(stock: Stock[Any]) -> int:
    return sum(map(len, stock._free.values()))


def test_no_solution_meets_what_another_left(backend: str) -> None:
    for _ in range(3):
        for source in (LEAVE, LOOK):
            report = verify(task("[]"), {"solution.py": source}, backend=backend)
            assert report.passed, report


def test_one_waits_for_the_next_and_none_is_used_again(backend: str) -> None:
    close_kept()
    seen = []
    for _ in range(3):
        verify(task("1"), {"solution.py": "def f(): return 1"}, backend=backend)
        assert waiting(fresh) == 1
        seen += [box for free in fresh._free.values() for box in free]
    assert len(set(map(id, seen))) == 3
    close_kept()  # waits for those that are ending
    for used in seen:
        with pytest.raises(SandboxClosed):
            used.sandbox.run_python("1")
    assert waiting(fresh) == waiting(testers) == 0


def test_what_waited_in_vain_is_replaced(backend: str) -> None:
    """The zygote has ended, and with it all that came from it."""
    check = "def check(candidate):\n    assert candidate() == 1\n"
    data = task("1") | {"kind": "asserts", "hidden": [check], "prompt_code": ""}
    for _ in range(2):
        assert verify(data, {"solution.py": "def f(): return 1"}, backend=backend).passed
        close_zygotes()


def test_many_at_once_are_right_and_few_are_kept(backend: str) -> None:
    close_kept()
    right: list[bool] = []

    def work(n: int) -> None:
        source = f"def f(): return {n}"
        right.append(verify(task("3"), {"solution.py": source}, backend=backend).passed is (n == 3))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert right == [True] * 12
    assert 0 < waiting(fresh) <= fresh.most


def test_a_verification_can_be_stopped(backend: str) -> None:
    stop, ended = Stop(), []

    def work() -> None:
        try:
            sleeper = "import time\n\ndef f(): time.sleep(19)\n"
            verify(task("1"), {"solution.py": sleeper}, backend=backend, stop=stop)
        except SandboxClosed as error:
            ended.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    while not stop._boxes:
        assert thread.is_alive()
    stop()
    thread.join(10)
    assert ended and not thread.is_alive()
    with pytest.raises(SandboxClosed):
        verify(task("1"), {"solution.py": "def f(): return 1"}, backend=backend, stop=stop)


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_fork_of_this_process_has_none_of_them(backend: str) -> None:
    verify(task("1"), {"solution.py": "def f(): return 1"}, backend=backend)
    pid = os.fork()
    if pid == 0:
        os._exit(waiting(fresh) + waiting(testers))
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert waiting(fresh) > 0
