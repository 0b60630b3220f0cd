"""The parts that run inside, on their own: filters by running their BPF, trees on a real folder."""

import errno
import os
import socket
import stat
import struct
from pathlib import Path

import pytest

from agent_envs.sandbox.channel import parse
from agent_envs.sandbox.inner import seccomp
from agent_envs.sandbox.inner.numbers import AUDIT_ARCH, NUMBERS, number
from agent_envs.sandbox.inner.restore import restore
from agent_envs.sandbox.inner.tree import Kept, Most, Refused, capture
from agent_envs.sandbox.inner.wire import LARGEST, receive, send
from agent_envs.sandbox.payload import Payload

MACHINES = list(AUDIT_ARCH)
NO, GONE = seccomp.refuse(), seccomp.refuse(errno.ENOSYS)
MOST = Most(1000, 1 << 20)


def run_bpf(program: bytes, data: bytes) -> int:
    """What the kernel would answer: loads, AND, the three jumps, return."""
    lines = list(struct.iter_unpack("<HBBI", program))
    at, word = 0, 0
    while True:
        code, when_true, when_false, k = lines[at]
        at += 1
        if code == seccomp.RETURN:
            return int(k)
        if code == seccomp.LOAD:
            (word,) = struct.unpack_from("<I", data, k)
        elif code == seccomp.AND:
            word &= k
        else:
            tests = {
                seccomp.EQUAL: word == k,
                seccomp.AT_LEAST: word >= k,
                seccomp.ANY_BIT: bool(word & k),
            }
            at += when_true if tests[code] else when_false


def asked(program: bytes, machine: str, name: str, *arguments: int) -> int:
    """The answer to a system call by name."""
    nr = number(name, machine)
    assert nr is not None
    padded = (*arguments, *([0] * (6 - len(arguments))))
    return run_bpf(program, struct.pack("<iIQ6Q", nr, AUDIT_ARCH[machine], 0, *padded))


@pytest.fixture(params=MACHINES)
def machine(request: pytest.FixtureRequest) -> str:
    """Each machine that there is a table for."""
    return str(request.param)


@pytest.mark.parametrize("shared", [False, True])
def test_filter_answers_as_meant(machine: str, shared: bool) -> None:
    program = seccomp.model_filter(shared_kernel_view=shared, machine=machine)
    assert len(program) // 8 < 4096
    for name in (*seccomp.DENIED, "pidfd_getfd"):
        if number(name, machine) is not None:
            assert asked(program, machine, name) == NO, name
    for name in seccomp.SIGNALS:
        assert asked(program, machine, name) == seccomp.NOTIFY
    assert asked(program, machine, "clone3") == GONE
    for flags in (0x8111, 0x10000011, 0x20000, 0x18011):
        assert asked(program, machine, "clone", flags) == NO, hex(flags)
    forks = seccomp.NOTIFY if shared else seccomp.ALLOW
    for flags in (0x11, 0x8011, 0x3D0F00, 0x4111):
        assert asked(program, machine, "clone", flags) == forks, hex(flags)
    assert asked(program, machine, "execve") == seccomp.ALLOW
    changed = seccomp.refuse(0) if shared else seccomp.ALLOW
    assert asked(program, machine, "fchmodat") == changed


def test_filter_looks_at_the_words_that_the_kernel_looks_at(machine: str) -> None:
    program = seccomp.model_filter(shared_kernel_view=False, machine=machine)
    high = 1 << 32
    assert asked(program, machine, "socket", 1) == seccomp.ALLOW
    assert asked(program, machine, "socket", 2) == seccomp.refuse(errno.EAFNOSUPPORT)
    assert asked(program, machine, "ioctl", 0, 0x5412 + high) == NO
    assert asked(program, machine, "ioctl", 0, 0x5401) == seccomp.ALLOW
    assert asked(program, machine, "fcntl", 0, 8 + high) == NO
    assert asked(program, machine, "fcntl", 0, 1) == seccomp.ALLOW
    assert asked(program, machine, "prlimit64", 0, 7, 0, 4096) == seccomp.ALLOW
    assert asked(program, machine, "prlimit64", 0, 7, 4096) == NO
    assert asked(program, machine, "prlimit64", 0, 7, high) == NO
    assert asked(program, machine, "prlimit64", 9) == NO
    assert asked(program, machine, "prctl", 15) == seccomp.ALLOW
    assert asked(program, machine, "prctl", 4) == NO


def test_filter_knows_foreign_numbers(machine: str) -> None:
    program = seccomp.model_filter(shared_kernel_view=False, machine=machine)
    data = struct.pack("<iIQ6Q", 0, 0x40000003, 0, *[0] * 6)
    assert run_bpf(program, data) == seccomp.KILL
    if machine == "x86_64":
        data = struct.pack("<iIQ6Q", 0x40000000 + 39, AUDIT_ARCH[machine], 0, *[0] * 6)
        assert run_bpf(program, data) == GONE


def test_supervisor_starts_nothing(machine: str) -> None:
    program = seccomp.supervisor_filter(machine)
    for name in ("execve", "clone", "clone3", "socket", "connect", "ptrace", "mount"):
        assert asked(program, machine, name) == NO
    for name in ("kill", "pidfd_getfd", "fchmodat", "pidfd_send_signal"):
        assert asked(program, machine, name) == seccomp.ALLOW


def test_numbers_are_unique_on_each_machine(machine: str) -> None:
    known = [nr for name in NUMBERS if (nr := number(name, machine)) is not None]
    assert len(known) == len(set(known))
    assert number("clone", "riscv64") is None


def test_unknown_machine_has_no_filter() -> None:
    with pytest.raises(OSError, match="riscv64"):
        seccomp.Filter("riscv64")


# -- trees --


def open_folder(path: Path) -> int:
    """A descriptor of a folder."""
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY)


def plant(path: Path) -> None:
    """A tree of all that can be captured."""
    (path / "a" / "b").mkdir(parents=True)
    (path / "a" / "one").write_text("1")
    os.link(path / "a" / "one", path / "a" / "b" / "two")
    (path / "link").symlink_to("/etc/passwd")
    (path / "script").write_text("#!")
    (path / "script").chmod(0o750)
    os.utime(path / "script", ns=(5, 7))


def test_capture_and_restore_in_a_folder(tmp_path: Path) -> None:
    plant(tmp_path)
    root = open_folder(tmp_path)
    tree = capture(root, {}, MOST)
    assert tree["link"].data == "/etc/passwd" and tree["script"].mtime == 7
    (tmp_path / "a" / "one").write_text("changed")
    (tmp_path / "link").unlink()
    (tmp_path / "link").mkdir()
    (tmp_path / "link" / "new").write_text("n")
    (tmp_path / "script").unlink()
    os.mkfifo(tmp_path / "script")
    restore(root, tree, tree, MOST)
    again = capture(root, tree, MOST)
    assert {path: entry._replace(link=0) for path, entry in again.items()} == {
        path: entry._replace(link=0) for path, entry in tree.items()
    }
    assert (tmp_path / "a" / "one").samefile(tmp_path / "a" / "b" / "two")
    os.close(root)


def test_equal_contents_are_the_same_object(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"x" * 1000)
    root = open_folder(tmp_path)
    first = capture(root, {}, MOST)
    second = capture(root, first, MOST)
    assert second["f"].data is first["f"].data
    kept = Kept()
    kept.add(first)
    kept.add(second)
    assert kept.size == 1000
    kept.remove(first)
    assert kept.size == 1000
    kept.remove(second)
    assert kept.size == 0
    os.close(root)


def test_nothing_outside_is_touched_through_links(tmp_path: Path) -> None:
    outside, inside = tmp_path / "outside", tmp_path / "inside"
    outside.mkdir()
    (outside / "f").write_text("precious")
    inside.mkdir()
    (inside / "d").mkdir()
    (inside / "d" / "f").write_text("mine")
    root = open_folder(inside)
    tree = capture(root, {}, MOST)
    (inside / "d" / "f").unlink()
    (inside / "d").rmdir()
    (inside / "d").symlink_to(outside)
    restore(root, tree, tree, MOST)
    assert (outside / "f").read_text() == "precious"
    assert stat.S_ISDIR(os.lstat(inside / "d").st_mode)
    assert (inside / "d" / "f").read_text() == "mine"
    os.close(root)


@pytest.mark.parametrize(("most", "said"), [(Most(2, 99), "more than 2"), (Most(9, 3), "3 bytes")])
def test_walks_stop_at_limits(tmp_path: Path, most: Most, said: str) -> None:
    for name in "abc":
        (tmp_path / name).write_text("12")
    root = open_folder(tmp_path)
    with pytest.raises(Refused, match=said):
        capture(root, {}, most)
    restore(root, {}, {}, most)
    assert not any(tmp_path.iterdir())
    os.close(root)


# -- what crosses --


def test_messages_that_are_no_object_are_refused() -> None:
    mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with mine, theirs:
        for data in (b"[1]", b"{", b"[" * 50_000, b"\xff"):
            theirs.send(data)
            with pytest.raises(ValueError):
                receive(mine)
        send(theirs, {"a": 1}, [theirs.fileno()])
        message, fds = receive(mine)
        assert (message, fds) == ({"a": 1}, []), "no descriptor is taken that is not wanted"
        assert LARGEST > 200_000


@pytest.mark.parametrize(
    "data", [b"", b"{", b"[" * 99_999, b"[]", b'{"value": 3}', b"\xff", b"nan"]
)
def test_words_of_the_model_are_one_object_or_nothing(data: bytes) -> None:
    assert "value" not in parse(data) and "error" not in parse(data)


def test_payload_cannot_grow() -> None:
    with Payload(room=10) as payload:
        os.pwrite(payload.fd, b"0123456789", 0)
        with pytest.raises(PermissionError):
            os.pwrite(payload.fd, b"x", 10)
        with pytest.raises(PermissionError):
            os.ftruncate(payload.fd, 1 << 40)
        assert payload.read(99) == b"0123456789"
