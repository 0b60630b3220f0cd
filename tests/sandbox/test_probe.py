"""What machines have and lack, said in words that help; interpreters, packages, identities."""

import io
import os
import subprocess
import sys
import warnings
import zipfile
from pathlib import Path
from typing import Any

import pytest

from agent_envs.errors import BackendUnavailable
from agent_envs.sandbox import (
    Limits,
    Sandbox,
    SandboxWarning,
    backends,
    close_zygotes,
    inner,
    interpreter,
    launch,
    probe,
    probe_all,
)
from agent_envs.sandbox.cgroup import candidates, find_place, new_group
from agent_envs.sandbox.docker import Docker
from agent_envs.sandbox.identity import give_back, take_uid
from agent_envs.sandbox.inner import landlock
from agent_envs.sandbox.probe import _probe, pick, warn_once
from tests.sandbox.conftest import Make, works

is_root = pytest.mark.skipif(os.getuid() != 0, reason="needs root")


def test_every_backend_is_reported_on() -> None:
    reports = {report.backend: report for report in probe_all()}
    known = [name for name in reports if ":" not in name]  # the tests' own images are the others
    assert known == ["namespace", "landlock", "docker", "subprocess"]
    for report in reports.values():
        assert report.works == (report.capabilities is not None) == (report.why == "")
        assert report.works or report.fix in report.text()


def test_auto_takes_the_strongest_that_works() -> None:
    works = [report.backend for report in probe_all() if report.works]
    if works[0] == "subprocess":
        pytest.skip("nothing isolates here")
    with warnings.catch_warnings(), Sandbox() as box:
        warnings.simplefilter("ignore")
        assert box.capabilities.backend == works[0]


def test_unknown_backend_names_those_that_there_are() -> None:
    with pytest.raises(ValueError, match="there are auto, namespace, landlock"):
        Sandbox("vmware")


def test_refusal_gives_every_reason_and_a_command(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {"user.max_user_namespaces": "0"}
    monkeypatch.setattr(backends, "sysctl", settings.get)
    monkeypatch.setattr(landlock, "abi", lambda: 1)
    monkeypatch.setattr(Docker, "lacks", lambda self: backends.Lack("no whale", "find one"))
    _probe.cache_clear()
    with pytest.raises(BackendUnavailable) as refusal:
        Sandbox()
    _probe.cache_clear()
    text = str(refusal.value)
    assert "user.max_user_namespaces is 0: " in text
    assert "sysctl -w user.max_user_namespaces=10000" in text
    assert "landlock: Landlock version 3 (kernel 6.2; here it is 1)" in text
    assert "docker: " in text
    assert "doctor" in text


def test_auto_never_falls_back_to_no_isolation(monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in (backends.Local, Docker):
        monkeypatch.setattr(kind, "lacks", lambda self: backends.Lack("everything", "wait"))
    _probe.cache_clear()
    with pytest.raises(BackendUnavailable, match="no sandbox for untrusted code"):
        Sandbox()
    _probe.cache_clear()


@is_root
@pytest.mark.skipif(not Path("/usr/bin/unshare").exists(), reason="needs unshare")
def test_dry_run_finds_out_where_namespaces_are_forbidden() -> None:
    """In a user namespace of one uid whose kernel gives out no more: namespace says so, and
    auto goes on to landlock."""
    code = (
        "import warnings; warnings.simplefilter('ignore')\n"
        "from agent_envs.sandbox import Sandbox, probe\n"
        "report = probe('namespace'); print(report.works, report.why)\n"
        "with Sandbox() as box: print(box.capabilities.backend, box.run_python('6*7').value)"
    )
    inner = f'echo 0 > /proc/sys/user/max_user_namespaces; exec {sys.executable} -c "$1"'
    done = subprocess.run(
        ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", inner, "sh", code],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
    )
    if "Permission denied" in done.stderr:
        pytest.skip("no user namespace to try this in")
    lines = done.stdout.splitlines()
    assert lines and lines[0].startswith("False"), done.stderr
    if probe("landlock").works:
        assert lines[-1] == "landlock 42", done.stderr


def test_strict_takes_only_what_enforces_everything() -> None:
    if probe("landlock").works:
        with pytest.raises(BackendUnavailable, match="strict=True asks for: .*workspace bytes"):
            pick("landlock", strict=True)
    if probe("namespace").works and find_place():
        assert pick("auto", strict=True)[0].name == "namespace"


@pytest.mark.parametrize(
    ("name", "said"), [("subprocess", "no isolation at all"), ("landlock", "workspace bytes")]
)
def test_weakness_is_warned_about_once(name: str, said: str) -> None:
    if not probe(name).works:
        pytest.skip(probe(name).why)
    warn_once.cache_clear()
    with pytest.warns(SandboxWarning, match=said):
        Sandbox(name).close()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Sandbox(name).close()


def test_capabilities_say_what_holds(backend: str, make: Make) -> None:
    box = make(backend)
    assert box.capabilities.backend == backend
    assert box.capabilities.isolated == (backend != "subprocess")
    assert box.capabilities.unprivileged_uid
    uid = box.run_python("import os; os.getuid()").value
    assert uid is not None and (int(uid) >= 1000 or os.getuid() != 0)
    assert box.run_python("os.getresuid() == (os.getuid(),) * 3").value == "True"
    assert box.run_python("os.getgroups() in ([], [os.getgid()])").value == "True"


def test_total_memory_is_limited_where_a_group_can_be_made(backend: str, make: Make) -> None:
    if not find_place():
        pytest.skip("no writable cgroup with a memory controller")
    box = make(backend, limits=Limits(total_memory=80 << 20, memory=400 << 20))
    code = (
        "import os, time\n"
        "for i in range(5):\n"
        "    if os.fork() == 0:\n"
        "        x = bytearray(30 << 20); time.sleep(3); os._exit(0)\n"
        "x = bytearray(30 << 20)\n"
        "time.sleep(3)"
    )
    assert box.run_python("x = bytearray(200 << 20)").ended == "memory"
    box.run_python(code, seconds=10)
    assert box._channel.new_kills() > 0 or box._channel.killed > 0
    assert box.run_python("'alive'").value == "'alive'"


MOUNTED = {  # /proc/self/mountinfo, /proc/self/cgroup, and where groups could be made
    "version 2": ("/ {} - cgroup2 cgroup2 rw", "0::/user.slice/s", ["/user.slice/s", ""], 2),
    "version 2 in a container": ("/docker/c {} - cgroup2 c rw", "0::/docker/c", ["", ""], 2),
    "version 1": ("/ {} - cgroup cgroup rw,memory", "4:memory:/job\n0::/", ["/job", ""], 1),
    "version 1 in a container": ("/c {} - cgroup c rw,memory", "4:memory:/c/d", ["/d", ""], 1),
    "another controller": ("/ {} - cgroup cgroup rw,cpu", "2:cpu:/job", [], 1),
    "version 2 without memory": ("/ {}/empty - cgroup2 cgroup2 rw", "0::/", [], 2),
    "none": ("/ {} - tmpfs tmpfs rw", "", [], 2),
}


@pytest.mark.parametrize("machine", MOUNTED)
def test_places_for_groups_are_those_that_are_mounted(machine: str, tmp_path: Path) -> None:
    """Which folders are tried, of either version; what the kernel does there is another matter."""
    line, own, places, version = MOUNTED[machine]
    tree = tmp_path / "tree"
    for folder in ("user.slice/s", "job", "d", "docker/c", "empty"):
        (tree / folder).mkdir(parents=True)
    for folder in ("", "user.slice/s", "job", "d"):
        (tree / folder / "cgroup.subtree_control").write_text("cpu memory\n")
        (tree / folder / "memory.limit_in_bytes").write_text("1\n")
    (tree / "empty" / "cgroup.subtree_control").write_text("cpu\n")
    (tmp_path / "mountinfo").write_text(
        f"30 23 0:26 {line.format(tree)}\n".replace(" - ", " rw - ")
    )
    (tmp_path / "cgroup").write_text(own + "\n" if own else "")
    found = candidates(tmp_path)
    assert [(str(path), which) for path, which in found] == [
        (str(tree) + place, version) for place in places
    ]


def test_groups_go_with_their_sandbox() -> None:
    group = new_group(1 << 26)
    if group is None:
        pytest.skip("no writable cgroup with a memory controller")
    assert group.path.is_dir() and group.kills() == 0
    group.close()
    group.close()
    assert not group.path.exists()


@is_root
def test_every_session_has_a_uid_of_its_own() -> None:
    first, second = take_uid(), take_uid()
    assert first is not None and second is not None and first != second
    give_back(first)
    assert take_uid() == first
    give_back(first)
    give_back(second)


def test_interpreter_that_cannot_be_used_is_refused_with_what_to_do(tmp_path: Path) -> None:
    for path in ("/no/such/python", str(tmp_path)):
        with pytest.raises(BackendUnavailable, match="interpreter='/path/to/python3'"):
            Sandbox(interpreter=path)


def test_interpreter_that_is_too_old_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    old = Path("/tmp") / f"old-python-{os.getpid()}"
    old.write_text('#!/bin/sh\necho \'[[3, 8], "/x", "/x"]\'\n')
    old.chmod(0o755)
    try:
        with pytest.raises(BackendUnavailable, match=r"version 3\.8 is too old"):
            Sandbox(interpreter=str(old))
    finally:
        old.unlink()


def test_packages_are_seen_read_only_with_what_they_require(isolated: str, make: Make) -> None:
    try:
        box = make(isolated, packages=["pytest"])
    except BackendUnavailable as error:
        if "cannot be read" in str(error):
            pytest.skip(f"these tests are installed where only root may read: {error}")
        raise
    assert box.run_python("import pytest, pluggy, iniconfig; pytest.__name__").value == "'pytest'"
    assert box.run_python("import hypothesis").ended == "error"
    result = box.run_python("open(pytest.__file__, 'a')")
    assert result.ended == "error"
    assert box.exec(["python3", "-c", "import pluggy"]).ok


def test_folders_are_seen_read_only(isolated: str, make: Make) -> None:
    folder = Path(subprocess.check_output(["mktemp", "-d"], text=True).strip())
    folder.chmod(0o755)
    try:
        (folder / "project.py").write_text("name = 'mine'")
        box = make(isolated, packages=[str(folder)])
        assert box.run_python("import project; project.name").value == "'mine'"
        assert box.run_python(f"open({str(folder / 'project.py')!r}, 'w')").ended == "error"
    finally:
        (folder / "project.py").unlink()
        folder.rmdir()


def test_modules_are_there_from_the_start_and_nowhere_else(backend: str, make: Make) -> None:
    second = "from our.first.values import x\ny = sum(x)"
    sources = {"our.first.values": "x = [1, 2]", "second": second}
    box, other = make(backend, modules=sources), make(backend)
    assert box.run_python("import our.first.values, second\nsecond.y").value == "3"
    box.run_python("second.y = 4; our.first.values.x.append(3)")
    with box.fork() as twin:
        assert twin.run_python("second.y, second.x").value == "(4, [1, 2, 3])"
    box.replay([])
    assert box.run_python("from our.first import values\nvalues.x").value == "[1, 2]"
    assert make(backend, modules=sources).run_python("import second; second.x").value == "[1, 2]"
    assert "No module named 'second'" in other.run_python("import second").text()
    box.close()
    close_zygotes()


@pytest.mark.parametrize(
    ("modules", "said"),
    [
        ("x = 1", "modules='x = 1': sources by name"),
        ({"no name": ""}, "'no name' in it is no name of a module"),
        ({"mine": b""}, "'mine' is bytes, and not its source"),
        ({"mine": "x ="}, r"'mine' does not compile: invalid syntax \(mine, line 1\)"),
        ({"mine": "#" * 150_000}, "over 150000 bytes; put them in a folder"),
    ],
    ids=["text", "name", "bytes", "syntax", "long"],
)
def test_modules_that_cannot_be_are_refused(modules: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Sandbox(modules=modules)


@pytest.mark.parametrize(
    ("modules", "said"),
    [
        ({"json": ""}, "module json: there is one of that name"),
        ({"mine": "1 / 0"}, "module mine: ZeroDivisionError: division by zero"),
        ({"mine": "raise SystemExit(3)"}, "module mine: SystemExit: 3"),
    ],
    ids=["known", "error", "exit"],
)
def test_modules_that_fail_are_named(modules: Any, said: str) -> None:
    with pytest.raises(BackendUnavailable, match=said):
        Sandbox(modules=modules)


@is_root
def test_package_that_nobody_may_read_is_refused_with_the_folder(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    (tmp_path / "p").mkdir()
    with pytest.raises(BackendUnavailable, match=r"chmod o\+rx"):
        Sandbox("subprocess", packages=[str(tmp_path / "p")])


def test_package_that_is_not_there_is_refused() -> None:
    with pytest.raises(BackendUnavailable, match="pip install no-such-package"):
        Sandbox(packages=["no-such-package"])
    with pytest.raises(BackendUnavailable, match="there is no /no/such"):
        Sandbox(packages=["/no/such"])


def test_zygote_that_cannot_start_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    close_zygotes()
    monkeypatch.setattr("agent_envs.sandbox.launch.BOOT", "raise SystemExit('broken here')")
    with pytest.raises(BackendUnavailable, match="broken here"):
        backends.BACKENDS["subprocess"].start(interpreter.choose(None, ()), Limits())


def test_sessions_build_their_own_rooms_where_the_zygote_cannot(
    namespace: str, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = Path(inner.__file__).parent / "zygote.py"
    changed = source.read_text().replace("return rooms.build(read)", "return None")
    assert changed != source.read_text()
    archive = io.BytesIO(launch.packed())
    name = "agent_envs/sandbox/inner/zygote.py"
    patched = io.BytesIO()
    with zipfile.ZipFile(archive) as old, zipfile.ZipFile(patched, "w") as new:
        for info in old.infolist():
            new.writestr(info, changed if info.filename == name else old.read(info))
    monkeypatch.setattr(launch, "packed", patched.getvalue)
    close_zygotes()
    box = make(namespace)
    box.run_python("x = 1; open('f', 'w').write('in')")
    before = box.snapshot()
    box.run_python("x = 2")
    box.rollback(before)
    assert box.run_python("x, open('f').read()").value == "(1, 'in')"
    assert box.exec("ls /proc; ls /usr | head -1; touch /usr/x").stdout == "bin\n"
    box.close()
    close_zygotes()


@pytest.mark.parametrize("name", ["namespace", "landlock"])
def test_this_package_is_not_seen_wherever_it_lies(
    name: str, make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Installed beside the interpreter, its tasks and their solutions would be there to read."""
    for file in ("hidden/gold.py", "shown.py", "folder/other.py"):
        (tmp_path / "site" / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "site" / file).write_text("x = 1")
    for folder in (tmp_path, *tmp_path.parents[:-2]):
        folder.chmod(0o755)
    monkeypatch.setattr(interpreter, "OURS", str(tmp_path / "site/hidden"))
    interpreter.choose.cache_clear()
    box = make(works(name), packages=[str(tmp_path / "site")])
    interpreter.choose.cache_clear()
    seen = box.run_python("import shown; shown.x")
    assert seen.value == "1"
    assert box.run_python("import folder.other; folder.other.x").value == "1"
    assert "No module" in (box.run_python("import hidden.gold").error or "")
    gold = str(tmp_path / "site/hidden/gold.py")
    assert box.run_python(f"open({gold!r})").ended == "error"
