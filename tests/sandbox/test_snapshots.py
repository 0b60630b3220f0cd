"""Snapshots: exact, reusable, nested, branching; refused by name; budgets, replay and forks."""

import json
import threading
import time
from typing import Any

import pytest

from agent_envs.errors import SnapshotUnsupported
from agent_envs.sandbox import Limits, Sandbox, budget
from tests.sandbox.conftest import Make
from tests.sandbox.leftovers import descendants, wait_until, zygote_pid

ONE_FILE = "open('f', 'w').write(str(x))"


def state(box: Sandbox) -> str | None:
    """The variable and the file that the tests change."""
    return box.run_python("x, open('f').read()").value


def test_rollback_brings_back_interpreter_and_files(box: Sandbox) -> None:
    box.run_python("x = 1; " + ONE_FILE)
    before = box.snapshot()
    box.run_python("x = 2; " + ONE_FILE + "; open('g', 'w').write('new')")
    box.rollback(before)
    assert state(box) == "(1, '1')"
    assert [entry.path for entry in box.list_files()] == ["f"]


def test_snapshots_form_a_tree_and_serve_any_number_of_times(box: Sandbox) -> None:
    taken = {}
    box.run_python("x = 0; " + ONE_FILE)
    taken[0] = box.snapshot()
    for child in (1, 2):
        box.rollback(taken[0])
        box.run_python(f"x += {child}; " + ONE_FILE)
        taken[child] = box.snapshot()
        box.run_python("x += 10; " + ONE_FILE)
        taken[child + 10] = box.snapshot()
    for n in (11, 0, 2, 12, 1, 0, 12, 12):
        box.rollback(taken[n])
        assert state(box) == f"({n}, '{n}')"
        box.run_python("x = 'spoilt'; " + ONE_FILE)


def test_a_hundred_nested_snapshots(backend: str, make: Make) -> None:
    box = make(backend, limits=Limits(entries=200))
    box.run_python("big = bytearray(1 << 20); x = 0")
    taken = []
    for n in range(100):
        box.run_python(f"x = {n}; " + ONE_FILE)
        taken.append(box.snapshot())
    for n in reversed(range(100)):
        box.rollback(taken[n])
        assert state(box) == f"({n}, '{n}')"
    assert box.dropped == 0


def test_a_state_that_is_given_up_is_no_leftover_of_the_next_call(box: Sandbox) -> None:
    for _ in range(25):
        before = box.snapshot()
        box.run_python("x = 1")
        box.rollback(before)
        assert not box.run_python("x = 2").notes
        box.release(before)


def test_snapshot_can_follow_a_rollback_at_once(box: Sandbox) -> None:
    """Also where the state that was gone back to is slow to close what it handed to a call."""
    box.run_python("x = 1; " + ONE_FILE)
    start = box.snapshot()
    for _ in range(50):
        box.run_python("x = 2; " + ONE_FILE)
        box.rollback(start)
        box.release(box.snapshot())
    box.run_python(
        "import os, time\nme, close = os.getpid(), os.close\ndef slow(fd):\n"
        "    if os.getpid() == me: time.sleep(.02)\n    close(fd)\nos.close = slow"
    )
    start = box.snapshot()
    for _ in range(5):
        box.run_python("x = 3; " + ONE_FILE)
        box.rollback(start)
        again = box.snapshot()
    box.rollback(again)
    assert state(box) == "(1, '1')"


def test_random_numbers_are_the_same_after_every_rollback(box: Sandbox) -> None:
    box.run_python("import random; random.seed(5); random.random()")
    before = box.snapshot()
    drawn = set()
    for _ in range(3):
        drawn.add(box.run_python("random.random()").value)
        box.rollback(before)
    assert len(drawn) == 1


def test_unflushed_output_comes_once(box: Sandbox) -> None:
    box.run_python("import sys; sys.stdout.write('half')")
    before = box.snapshot()
    assert box.run_python("print(' whole')").stdout == " whole\n"
    box.rollback(before)
    assert box.run_python("print(' whole')").stdout == " whole\n"


def test_file_offsets_are_rolled_back(box: Sandbox) -> None:
    box.run_python("f = open('o', 'w+'); f.write('abcdefgh'); f.flush(); f.seek(2)")
    before = box.snapshot()
    for _ in range(2):
        assert box.run_python("f.read(3), f.tell()").value == "('cde', 5)"
        box.rollback(before)
    assert box.run_python("f.read(3)\nwhile True: pass", seconds=1.0).ended == "timeout"
    assert box.run_python("f.tell()").value == "2", "a call that timed out moved it"


def test_unflushed_file_is_part_of_the_interpreter(box: Sandbox) -> None:
    box.run_python("f = open('o', 'w'); f.write('one ')")
    before = box.snapshot()
    box.run_python("f.write('two'); f.close()")
    assert box.read_file("o") == b"one two"
    box.rollback(before)
    assert box.read_file("o") == b""
    box.run_python("f.write('three'); f.close()")
    assert box.read_file("o") == b"one three"


def test_open_file_that_is_replaced_is_played_again(box: Sandbox) -> None:
    box.run_python("import os; f = open('o', 'w+'); f.write('old'); f.flush()")
    before = box.snapshot()
    box.run_python("os.remove('o'); open('o', 'w').write('other')")
    box.rollback(before)
    assert box.run_python("f.write('+'); f.flush(); open('o').read()").value == "'old+'"


def test_working_directory_that_is_removed_is_played_again(box: Sandbox) -> None:
    box.run_python("import os; os.mkdir('d'); os.chdir('d'); here = os.getcwd()")
    before = box.snapshot()
    box.run_python("os.chdir('..'); os.rmdir('d')")
    box.rollback(before)
    assert box.run_python("os.getcwd() == here, os.listdir('.')").value == "(True, [])"


def test_modes_times_links_and_folders_come_back(box: Sandbox) -> None:
    box.run_python(
        "import os\n"
        "def look():\n"
        "    out = []\n"
        "    for where, _, names in sorted(os.walk('.')):\n"
        "        for name in sorted([*names, '.']):\n"
        "            s = os.lstat(os.path.join(where, name))\n"
        "            out.append((where, name, oct(s.st_mode), s.st_nlink, s.st_mtime_ns))\n"
        "    return out\n"
        "os.makedirs('a/b'); open('a/one', 'w').write('1'); os.link('a/one', 'a/b/two')\n"
        "os.symlink('nowhere', 'l'); os.mkdir('empty'); open('x', 'w').close()\n"
        "os.chmod('x', 0o755)\n"
        "before = look()"
    )
    before = box.snapshot()
    box.run_python(
        "import shutil\nopen('a/b/two', 'a').write('2'); os.remove('a/one'); os.remove('l')\n"
        "os.mkdir('l'); os.chmod('x', 0o700); shutil.rmtree('empty'); open('empty', 'w').close()\n"
        "os.link('x', 'y')"
    )
    box.rollback(before)
    assert box.run_python("look() == before or (before, look())").value == "True"
    assert box.run_python("open('a/one', 'a').write('!'); open('a/b/two').read()").value == "'1!'"


def test_locked_files_and_folders_come_back(box: Sandbox) -> None:
    box.run_python(
        "import os\nos.makedirs('q/r'); open('q/r/f', 'w').write('in'); g = os.open('g', 65, 0)\n"
        "os.close(g); os.mkdir('locked', 0); os.chmod('q/r', 0); os.chmod('q', 0)"
    )
    before = box.snapshot()
    box.run_python("os.chmod('q', 0o700); os.chmod('q/r', 0o700); os.remove('q/r/f')")
    box.run_python("import shutil; shutil.rmtree('q', ignore_errors=True)")
    box.rollback(before)
    box.run_python("os.chmod('q', 0o700); os.chmod('q/r', 0o700)")
    assert box.run_python("open('q/r/f').read()").value == "'in'"


def test_writes_through_a_mapping_are_seen_and_undone(box: Sandbox) -> None:
    box.run_python("open('m', 'wb').write(b'a' * 100)")
    first = box.snapshot()
    write = "with open('m', 'r+b') as f: m = mmap.mmap(f.fileno(), 100); m[0:3] = b'XYZ'; m.close()"
    assert box.run_python("import mmap\n" + write).ended == "ok"
    second = box.snapshot()
    box.rollback(first)
    assert box.read_file("m")[:4] == b"aaaa"
    box.rollback(second)
    assert box.read_file("m")[:4] == b"XYZa"


REFUSED = {
    "a socket": ("import socket; s = socket.socketpair()", "socket:"),
    "a pipe": ("import os; p = os.pipe()", "pipe:"),
    "a memfd": ("import os; m = os.memfd_create('x')", "memfd:x"),
    "an event loop": ("import select; e = select.epoll()", "eventpoll"),
    "a shared mapping": ("import mmap; m = mmap.mmap(-1, 4096)", "shared mapping"),
    "a shared mapping of a file": (
        "import mmap; f = open('f', 'w+b'); f.truncate(9); m = mmap.mmap(f.fileno(), 9)",
        "shared mapping",
    ),
    "a removed file": ("import os; f = open('f', 'w'); os.remove('f')", "deleted"),
    "a FIFO": ("import os; os.mkfifo('fifo')", "fifo' is a FIFO"),
    "a socket's name": (
        "import socket; s = socket.socket(1); s.bind('sock'); s.close()",
        "sock' is a socket",
    ),
    "holes": (
        "for i in range(3):\n  with open(f'h{i}', 'wb') as f: f.truncate(30 << 20)\ndel f",
        "holes",
    ),
    "deep folders": (
        "import os\nfor i in range(300): os.mkdir('d'); os.chdir('d')\nos.chdir('/')",
        "deep",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_captured_is_refused_by_name(what: str, box: Sandbox) -> None:
    code, named = REFUSED[what]
    if what == "a socket's name" and box.capabilities.backend in ("landlock", "docker"):
        pytest.skip("there are no sockets at all")
    box.run_python("x = 1; " + ONE_FILE)
    before = box.snapshot()
    assert box.run_python("x = 2; " + ONE_FILE).ended == "ok"
    assert box.run_python(code).ended == "ok"
    with pytest.raises(SnapshotUnsupported, match=named):
        box.snapshot()
    assert box.run_python("x").value == "2", "a refusal changes nothing"
    box.rollback(before)
    assert state(box) == "(1, '1')"
    box.snapshot()


def test_too_many_bytes_of_snapshots_are_refused(backend: str, make: Make) -> None:
    box = make(backend, limits=Limits(snapshot_files=3 << 20, workspace=8 << 20))
    taken = []
    for n in range(2):
        box.run_python(f"open('f', 'wb').write(bytes([{n}]) * (1 << 20))")
        taken.append(box.snapshot())
    box.run_python("open('f', 'wb').write(b'9' * (2 << 20))")
    with pytest.raises(SnapshotUnsupported, match="snapshots that hold more"):
        box.snapshot()
    box.release(taken[0])
    box.snapshot()
    box.rollback(taken[1])
    assert box.read_file("f")[:1] == b"\1"


def test_released_and_foreign_snapshots_are_refused(backend: str, make: Make) -> None:
    box, other = make(backend), make(backend)
    mine = box.snapshot()
    with pytest.raises(ValueError, match="another sandbox"):
        other.rollback(mine)
    box.release(mine)
    with pytest.raises(ValueError, match="released"):
        box.rollback(mine)
    with pytest.raises(ValueError, match="released"):
        box.release(mine)
    wrong: Any
    for wrong in ("x", 5, [mine], {}):
        for use in (box.rollback, box.release, box.fork, box.history):
            with pytest.raises(TypeError, match=r"a snapshot is what box.snapshot\(\) gives"):
                use(wrong)


def test_least_recently_used_copy_goes_first_and_is_played_again(backend: str, make: Make) -> None:
    box = make(backend, max_snapshots=2)
    taken = []
    for n in range(4):
        box.run_python(f"x = {n}; " + ONE_FILE)
        taken.append(box.snapshot())
    assert box.dropped == 2
    for n in (0, 3, 1, 2):
        box.rollback(taken[n])
        assert state(box) == f"({n}, '{n}')"


def test_copies_of_all_sandboxes_share_a_budget(
    backend: str, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(budget, "most", 2)
    first, second = make(backend), make(backend)
    first.run_python("x = 1; " + ONE_FILE)
    mine = first.snapshot()
    for _ in range(2):
        second.snapshot()
    assert (len(budget), first.dropped, second.dropped) == (2, 1, 0)
    first.run_python("x = 2; " + ONE_FILE)
    first.rollback(mine)
    assert state(first) == "(1, '1')"
    first.close()
    second.close()
    assert len(budget) == 0


def test_budget_waits_for_a_sandbox_that_is_busy(
    namespace: str, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(budget, "most", 1)
    busy, other = make(namespace), make(namespace)
    mine = busy.snapshot()
    thread = threading.Thread(target=lambda: busy.run_python("import time; time.sleep(.5)"))
    thread.start()
    other.snapshot()
    thread.join()
    busy.run_python("1")
    assert busy.dropped == 1
    busy.rollback(mine)


def test_state_that_the_kernel_ended_is_played_again(namespace: str, make: Make) -> None:
    box = make(namespace, limits=Limits(total_memory=96 << 20))
    box.run_python("x = 1; " + ONE_FILE)
    before = box.snapshot()
    killed = box.run_python("b = []\nwhile True: b.append(bytearray(1 << 20))")
    assert killed.ended == "memory", "the live side dies first"
    assert state(box) == "(1, '1')"
    box.rollback(before)
    assert state(box) == "(1, '1')"


def test_fork_is_a_second_sandbox_in_the_same_state(box: Sandbox) -> None:
    box.write_file("f", "start")
    box.run_python("import random; x = random.random()")
    box.exec("echo more >> f")
    before = box.snapshot()
    box.run_python("x = 7; " + ONE_FILE)
    with box.fork() as now, box.fork(before) as then:
        assert state(now) == state(box) == "(7, '7')"
        assert then.read_file("f") == b"startmore\n"
        then.run_python("x = 'other'; " + ONE_FILE)
        box.rollback(before)
        assert then.run_python("x").value == "'other'"
        assert box.run_python("x < 1").value == "True"
        assert state(now) == "(7, '7')"


def test_fork_of_what_cannot_be_repeated_is_refused(box: Sandbox) -> None:
    box.run_python("import os; print(os.urandom(8).hex())")
    with pytest.raises(SnapshotUnsupported, match="came out differently"):
        box.fork()
    assert box.run_python("1").value == "1"


def test_fork_whose_files_differ_is_refused(box: Sandbox) -> None:
    box.run_python("import os; open('f', 'wb').write(os.urandom(8)); None")
    with pytest.raises(SnapshotUnsupported, match="other files"):
        box.fork()


def test_history_is_json_and_can_be_played_anywhere(backend: str, make: Make) -> None:
    box, other = make(backend), make(backend)
    box.write_file("b", bytes(range(256)))
    box.run_python("x = 3")
    before = box.snapshot()
    box.run_python("x = 4; " + ONE_FILE)
    box.run_python("1 / 0")
    text = json.dumps(box.history())
    assert len(box.history(before)) == 2
    other.run_python("y = 'gone'; open('gone', 'w').close()")
    other.replay(json.loads(text))
    assert other.history() == box.history()
    assert state(other) == "(4, '4')"
    assert other.read_file("b") == bytes(range(256))
    assert sorted(entry.path for entry in other.list_files()) == ["b", "f"]


NO_ACTIONS: list[Any] = [
    {"do": "close"},
    {"do": "run_python"},
    {"do": "run_python", "code": "1", "seconds": None},
    {"do": "run_python", "code": 1, "seconds": None, "digest": ""},
    {"do": ["run_python"], "code": "1", "seconds": None, "digest": ""},
    {},
    {"do": "lost", "x": 1},
    "x",
    5,
]


@pytest.mark.parametrize("action", NO_ACTIONS, ids=str)
def test_only_a_history_can_be_replayed(action: Any, box: Sandbox) -> None:
    with pytest.raises(ValueError, match="no action of a sandbox"):
        box.replay([action])


@pytest.mark.parametrize("junk", ["x", 5, None, {}])
def test_a_history_is_a_list(junk: Any, box: Sandbox) -> None:
    with pytest.raises(ValueError, match="a history is the list"):
        box.replay(junk)


def test_tracebacks_name_the_same_cell_after_a_rollback(box: Sandbox) -> None:
    before = box.snapshot()
    first = box.run_python("1 / 0").error
    box.rollback(before)
    assert box.run_python("1 / 0").error == first


def test_snapshot_outlives_any_number_of_branches(backend: str, make: Make) -> None:
    """Each fork takes CPU time of the process that is forked, which may use so much of it."""
    zygote = zygote_pid(backend)
    others = descendants(zygote)
    box = make(backend, limits=Limits(cpu_seconds=2))
    code = "import time\nf = open('f', 'w+'); f.write('abc'); f.seek(0); x = f.read(1)"
    assert box.run_python(f"{code}\nwhile time.process_time() < 1.4: pass").ok
    before = box.snapshot()
    for _ in range(3):
        assert box.run_python("x += f.read(1); x").value == "'ab'"
        box.rollback(before)
    young = wait_until(lambda: all(seconds_used(pid) < 1 for pid in descendants(zygote) - others))
    assert young, "the old one ends"


def seconds_used(pid: int) -> float:
    """CPU time of a process; 0 when it has ended."""
    try:
        return time.clock_gettime(~pid << 3 | 2)
    except OSError:
        return 0.0


def test_how_a_file_is_open_is_rolled_back(box: Sandbox) -> None:
    box.run_python(
        "import fcntl, os\nf = os.open('f', os.O_RDWR | os.O_CREAT); os.write(f, b'abc')"
    )
    before = box.snapshot()
    box.run_python("fcntl.fcntl(f, fcntl.F_SETFL, os.O_APPEND)")
    box.rollback(before)
    code = "os.lseek(f, 0, 0); os.write(f, b'x'); open('f').read()"
    assert box.run_python(code).value == "'xbc'"


def test_descriptors_that_have_no_place_break_nothing(box: Sandbox) -> None:
    box.run_python("import os\nplace = os.open('.', os.O_PATH)")
    assert box.run_python("os._exit(1)").ended == "killed"
    assert box.run_python("1").value == "1"


@pytest.mark.parametrize(
    ("code", "what"),
    [
        ("import fcntl\nf = open('f', 'w'); fcntl.flock(f, fcntl.LOCK_EX)", "a lock on"),
        ("import mmap\nf = open('f', 'w+b'); f.write(b'abc'); f.flush()\n"
         "m = mmap.mmap(f.fileno(), 3, flags=mmap.MAP_PRIVATE); f.close()", "a mapping of"),
        ("import ctypes, mmap\nm = mmap.mmap(-1, 4096); p = ctypes.c_char.from_buffer(m)\n"
         "ctypes.CDLL(None).mprotect(ctypes.c_void_p(ctypes.addressof(p)), 4096, 1)",
         "a shared mapping of"),
    ],
)  # fmt: skip
def test_what_forks_would_share_is_refused(code: str, what: str, box: Sandbox) -> None:
    assert box.run_python(code).ok
    with pytest.raises(SnapshotUnsupported, match=what):
        box.snapshot()


def test_replay_that_leads_to_other_files_is_refused(backend: str, make: Make) -> None:
    box = make(backend, max_snapshots=1)
    box.run_python("import time; open('f', 'w').write(str(time.time_ns())); None")
    before = box.snapshot()
    box.run_python("1")
    box.snapshot()
    assert box.dropped == 1
    with pytest.raises(SnapshotUnsupported, match="other files"):
        box.rollback(before)
