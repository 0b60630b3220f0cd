"""Names, links, holes and heaps of files that the model leaves for whoever looks at them."""

import time

import pytest

from agent_envs.errors import SnapshotUnsupported
from agent_envs.sandbox import Limits, Sandbox, SandboxFileError
from tests.sandbox.conftest import Make

PLANTED = {
    "link to a host file": "os.symlink('/etc/passwd', 'x')",
    "link to a file": "open('y', 'w').close(); os.symlink('y', 'x')",
    "link that dangles": "os.symlink('nowhere', 'x')",
    "link to itself": "os.symlink('x', 'x')",
    "FIFO": "os.mkfifo('x')",
    "folder": "os.mkdir('x')",
}


@pytest.mark.parametrize("what", PLANTED)
def test_nothing_but_a_regular_file_is_read_or_written(what: str, box: Sandbox) -> None:
    before = box.snapshot()
    assert box.run_python("import os; " + PLANTED[what]).ok
    with pytest.raises(SandboxFileError):
        box.read_file("x")
    with pytest.raises(SandboxFileError):
        box.write_file("x", "data")
    assert "x" in [entry.path for entry in box.list_files()]
    box.rollback(before)
    assert box.list_files() == []


@pytest.mark.parametrize("target", ["/tmp", "/", ".", "..", "d"])
def test_linked_folders_are_not_entered(target: str, box: Sandbox) -> None:
    box.run_python(f"import os; os.mkdir('d'); os.symlink({target!r}, 'x')")
    with pytest.raises(SandboxFileError):
        box.write_file("x/planted", "data")
    with pytest.raises(SandboxFileError):
        box.read_file("x/planted")
    assert [e.path for e in box.list_files() if e.path.startswith("x/")] == []


def test_hard_links_stay_within_the_workspace(box: Sandbox) -> None:
    box.run_python("import os; open('a', 'w').write('1'); os.link('a', 'b')")
    box.write_file("b", "2")
    assert box.read_file("a") == b"2"
    result = box.run_python("os.link('/usr/bin/env', 'c')")
    assert box.capabilities.backend == "subprocess" or result.ended == "error"


NAMES = [b"\xff\xfe", b"new\nline", b"; $(reboot) `x`", b"-rf", b" ", "é".encode(), b"%s{0}"]


@pytest.mark.parametrize("name", NAMES)
def test_odd_names_survive_everything(name: bytes, box: Sandbox) -> None:
    box.run_python(f"import os; open({name!r}, 'w').write('in'); os.mkdir(b'd' + {name!r})")
    before = box.snapshot()
    path = name.decode("utf-8", "surrogateescape")
    assert path in [entry.path for entry in box.list_files()]
    assert box.read_file(path) == b"in"
    box.write_file(f"d{path}/{path}", "deep")
    box.exec(["rm", "-r", "--", "d" + path]) if name.isascii() else box.run_python(
        f"import shutil; shutil.rmtree(b'd' + {name!r}); os.remove({name!r})"
    )
    box.rollback(before)
    assert box.read_file(path) == b"in"
    assert "d" + path in [entry.path for entry in box.list_files()]


def test_chain_of_5000_folders_neither_breaks_nor_stalls(backend: str, make: Make) -> None:
    box = make(backend, limits=Limits(entries=6000))
    box.write_file("kept", "1")
    before = box.snapshot()
    code = "import os\nfor i in range(5000): os.mkdir('d'); os.chdir('d')\nos.chdir('/')"
    assert box.run_python(code, seconds=60).ok
    started = time.monotonic()
    with pytest.raises(SnapshotUnsupported, match="deep"):
        box.snapshot()
    with pytest.raises(SandboxFileError, match="deep"):
        box.list_files()
    box.rollback(before)
    assert box.read_file("kept") == b"1"
    assert [entry.path for entry in box.list_files()] == ["kept"]
    assert time.monotonic() - started < 60
    assert box.run_python(code.replace("5000", "500")).ok, "and close removes it too"


def test_heaps_of_files_stop_at_the_limit(backend: str, make: Make) -> None:
    box = make(backend, limits=Limits(entries=1000))
    before = box.snapshot()
    code = "import os\nfor i in range(300_000): os.close(os.open(f'f{i}', os.O_CREAT))"
    result = box.run_python(code, seconds=30)
    if box.capabilities.entries == "enforced":
        assert result.ended == "error" and "No space left" in (result.error or "")
    else:
        assert "removed" in " ".join(result.notes)
    assert box.run_python("1").ok
    box.rollback(before)
    assert box.list_files() == []


def test_workspace_bytes_are_limited_in_all_its_folders(backend: str, make: Make) -> None:
    box = make(backend, limits=Limits(workspace=4 << 20))
    code = (
        "import os\n"
        "for d in (os.environ['TMPDIR'], os.environ['HOME']):\n"
        "    for i in range(30):\n"
        "        with open(f'{d}/b{i}', 'wb') as f: f.write(bytes(1 << 20))\n"
        "import time; time.sleep(1)"
    )
    result = box.run_python(code)
    if box.capabilities.workspace_bytes == "enforced":
        assert result.ended == "error" and "No space left" in (result.error or "")
    else:
        assert result.ended == "killed" and "over its limit" in result.notes[0]
        assert any(note.startswith("removed") for note in result.notes)
    assert box.exec("echo 1 > small; cat small").stdout in ("1\n", "")
    held = box.run_python("import subprocess as s; s.run(['du', '-sk', '.'], capture_output=True)")
    assert held.ok


def test_tree_of_more_folders_than_descriptors(box: Sandbox) -> None:
    before = box.snapshot()
    assert box.run_python("import os\nfor i in range(2000): os.mkdir(f'd{i}')").ok
    after = box.snapshot()
    box.rollback(before)
    box.rollback(after)
    assert len(box.list_files()) == 2000


HIDDEN = {
    "locked": "os.mkdir('x'); fill('x/'); os.chmod('x', 0)",
    "locked above": "os.makedirs('x/y'); fill('x/y/'); os.chmod('x/y', 0); os.chmod('x', 0)",
    "too deep to name": "for _ in range(20):\n os.mkdir('n' * 250); os.chdir('n' * 250)\nfill('')",
}


@pytest.mark.parametrize("where", HIDDEN)
def test_what_is_hidden_counts_too(where: str, backend: str, make: Make) -> None:
    box = make(backend, limits=Limits(workspace=2 << 20))
    assert box.run_python("import os; home = os.getcwd(); open('small', 'w').write('kept')").ok
    write = "open(f'{at}{i}', 'wb').write(bytes(1 << 20))"
    box.run_python(f"def fill(at):\n for i in range(12): {write}\n{HIDDEN[where]}")
    box.run_python("os.chdir(home)")
    sizes = box.exec("chmod -R u+rwx . 2>/dev/null; find . -type f -printf '%s\\n'").stdout
    assert sum(map(int, sizes.split())) <= 2 << 20
    assert box.run_python("6 * 7").value == "42"
