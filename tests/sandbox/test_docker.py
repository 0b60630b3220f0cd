"""What only containers have: an engine that may stop, images, limits for all, what is left over."""

import contextlib
import inspect
import io
import json
import os
import signal
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import pytest

from agent_envs import ToolEnv, policy, rollout
from agent_envs.errors import BackendUnavailable
from agent_envs.sandbox import BACKENDS, Limits, Sandbox, close_zygotes, probe
from agent_envs.sandbox.docker import ContainerLimits, Docker, asked
from agent_envs.sandbox.docker.backend import InContainer
from agent_envs.sandbox.docker.commit import commit, resume
from agent_envs.sandbox.docker.container import FOLDER, profile
from agent_envs.sandbox.docker.engine import HOST_LABEL, engine, sweep, this_host
from agent_envs.sandbox.docker.groups import place_below
from agent_envs.sandbox.docker.image import look_into
from agent_envs.sandbox.probe import _probe
from tests.sandbox.conftest import Make, works
from tests.sandbox.engine import IMAGE, Engine, running
from tests.sandbox.leftovers import alive, descendants, wait_until, zygote_pid

ROOT = Path(__file__).parents[2]
unwarned = pytest.mark.filterwarnings("ignore::agent_envs.sandbox.SandboxWarning")


@pytest.fixture
def docker() -> str:
    """The backend."""
    return works("docker")


@pytest.fixture
def one_engine(docker: str) -> Iterator[Engine]:
    """The engine, which runs again afterwards."""
    one = running()
    yield one
    if one.process is None or one.process.poll() is not None:
        one.start()


def containers() -> list[dict[str, Any]]:
    """What the engine knows of all containers of ours."""
    with engine() as client:
        ours = {"label": HOST_LABEL}
        found = client.containers.list(all=True, filters=ours, ignore_removed=True)
        return [container.attrs for container in found]


def test_container_is_locked_down(docker: str, make: Make) -> None:
    make(docker)
    [attrs] = containers()
    host, config = attrs["HostConfig"], attrs["Config"]
    assert host["ReadonlyRootfs"] and host["NetworkMode"] == "none" and not host["Privileged"]
    assert host["CapDrop"] == ["ALL"] and not host["CapAdd"]
    assert "no-new-privileges" in host["SecurityOpt"]
    assert host["LogConfig"]["Type"] == "none" and host["AutoRemove"]
    assert host["PidsLimit"] > 0 and host["Memory"] > 0 and host["NanoCpus"] > 0
    assert host["MemorySwap"] == host["Memory"]
    assert "size=" in host["Tmpfs"]["/tmp"] and "uid=" in host["Tmpfs"]["/tmp"]
    assert [mount["RW"] for mount in attrs["Mounts"]] == [False]
    assert int(config["User"].split(":")[0]) > 1000
    status = Path(f"/proc/{zygote_pid(docker)}/status").read_text()
    fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    assert all(int(fields[kind], 16) == 0 for kind in ("CapEff", "CapPrm", "CapBnd", "CapAmb"))
    assert (fields["NoNewPrivs"].strip(), fields["Seccomp"].strip()) == ("1", "2")


def test_profile_refuses_what_leads_out_and_not_what_a_zygote_needs() -> None:
    named = {name for rule in profile()["syscalls"] for name in rule["names"]}
    assert {"mount", "unshare", "setns", "bpf", "ptrace", "clone3", "clone"} <= named
    assert not {"seccomp", "personality", "pidfd_getfd", "landlock_restrict_self"} & named


def test_sessions_share_a_container_and_calls_ask_no_engine(
    docker: str, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = make(docker)
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere")
    second = make(docker)
    first.run_python("x = 1")
    before = first.snapshot()
    first.run_python("x = 2")
    first.rollback(before)
    assert (first.run_python("x").value, second.run_python("6 * 7").value) == ("1", "42")
    monkeypatch.undo()
    assert len(containers()) == 1


def test_memory_of_a_session_is_limited_below_its_containers(docker: str, make: Make) -> None:
    make(docker)
    [attrs] = containers()
    place = place_below(attrs["State"]["Pid"], attrs["Id"])
    if place is None:
        pytest.skip("no writable cgroup with a memory controller")
    assert BACKENDS[docker].capabilities().total_memory
    before = set(place[0].glob("agent-envs-*"))
    box = make(docker)
    [group] = set(place[0].glob("agent-envs-*")) - before
    assert "docker" in str(group)
    code = "import os; os.mkdir('/sys/fs/cgroup/memory/mine')"
    assert box.run_python(code).ended == "error"
    assert box.run_python("os.listdir('/sys')").ended == "error"
    box.close()
    assert not group.exists()


def test_lost_session_is_the_models_failure(docker: str, make: Make) -> None:
    others = descendants(zygote_pid(docker))
    box = make(docker)
    box.run_python("x = 1; open('f', 'w').write('1')")
    before = box.snapshot()
    os.kill(min(descendants(zygote_pid(docker)) - others), signal.SIGKILL)
    result = box.run_python("x")
    assert result.ended == "killed" and "sandbox was lost" in result.notes[0]
    box.rollback(before)
    assert box.run_python("x, open('f').read()").value == "(1, '1')"


def test_container_that_ends_is_our_fault_once_and_then_there_is_another(
    docker: str, make: Make
) -> None:
    box = make(docker)
    box.run_python("x = 1")
    before = box.snapshot()
    os.kill(zygote_pid(docker), signal.SIGKILL)
    with pytest.raises(BackendUnavailable, match="container has ended"):
        box.run_python("x")
    box.rollback(before)
    assert box.run_python("x").value == "1"


def test_engine_that_stops_in_mid_episode(
    one_engine: Engine, docker: str, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    box = make(docker)
    box.run_python("x = 1")
    one_engine.stop()
    with pytest.raises(BackendUnavailable, match="container has ended"):
        box.run_python("x")
    for again in range(2):
        with pytest.raises(BackendUnavailable, match="no engine at .*start it"):
            box.run_python("x") if again else make(docker)
    one_engine.start()
    assert make(docker).run_python("6 * 7").value == "42"
    assert "lost" in box.run_python("x").notes[0]
    assert "NameError" in (box.run_python("x").error or ""), "a new session"
    assert len(containers()) == 1


def test_engine_that_is_killed_and_comes_back_leaves_nothing(
    one_engine: Engine, docker: str, make: Make
) -> None:
    box = make(docker)
    one_engine.kill()
    assert box.run_python("6 * 7").value == "42", "a session does not need it"
    one_engine.start()
    for _ in range(2):  # that its container has ended is said once; then there is a new one
        with contextlib.suppress(BackendUnavailable):
            box.run_python("1")
    assert box.run_python("6 * 7").value == "42"
    box.close()
    close_zygotes()
    assert wait_until(lambda: containers() == [])


HOST = """
import sys, threading, warnings
warnings.simplefilter("ignore")
from agent_envs.sandbox import Sandbox
boxes = [Sandbox("docker") for _ in range(2)]
for box in boxes:
    box.run_python("x = 1"); box.snapshot()
print("ready", flush=True)
boxes[0].run_python("import os\\nif os.fork() == 0: os.setsid()\\nwhile True: pass", seconds=60)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_host_that_is_ended_leaves_nothing(docker: str, number: int) -> None:
    close_zygotes()
    with subprocess.Popen(
        [sys.executable, "-c", HOST],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    ) as host:
        assert host.stdout is not None and host.stdout.readline() == "ready\n"
        [attrs] = containers()
        init = attrs["State"]["Pid"]
        assert wait_until(lambda: len(descendants(init)) > 4), attrs["State"]
        below = {init, *descendants(init)}
        os.killpg(host.pid, number)
    assert wait_until(lambda: not any(map(alive, below))), "processes"
    assert wait_until(lambda: containers() == []), "containers"
    assert not list(Path("/tmp").glob(f"{FOLDER}{host.pid}-*")), "folders"
    assert not list(Path("/sys/fs/cgroup").glob(f"**/docker/{attrs['Id']}")), "cgroups"


def test_leftovers_of_a_crash_are_swept_and_the_living_are_not(docker: str, make: Make) -> None:
    make(docker)
    boot, space, _, _ = this_host().split()
    dead = {"dead": f"{boot} {space} {os.getpid()} 1", "elsewhere": f"{boot} pid:[1] 1 1"}
    with engine() as client:
        ids = {
            name: client.containers.create(IMAGE, ["none"], labels={HOST_LABEL: label}).id
            for name, label in dead.items()
        }
        assert sweep(client) == [ids["dead"]]
        assert sweep(client) == []
        client.containers.get(ids["elsewhere"]).remove()
    assert len(containers()) == 1


@pytest.fixture
def changed(docker: str) -> Iterator[Any]:
    """`changed(name, changes)` imports an image with other settings, or of an empty root."""
    made = []

    def one(name: str, changes: list[str], source: bytes | None = None) -> str:
        with engine() as client:
            if source is None:
                container = client.containers.create(IMAGE, ["none"])
                container.commit(name, "1", changes="\n".join(changes))
                container.remove()
            else:
                client.api.import_image_from_data(source, name, "1", changes)
        made.append(f"{name}:1")
        return made[-1]

    yield one
    with engine() as client:
        for name in made:
            client.images.remove(name, force=True)


def refusal(image: str, interpreter: str | None = None, packages: tuple[str, ...] = ()) -> str:
    """Why an image is refused."""
    with pytest.raises(BackendUnavailable) as refused:
        look_into(image, interpreter, packages)
    return str(refused.value)


def test_what_an_image_lacks_is_said(docker: str, changed: Any) -> None:
    assert "docker pull no/such:1" in refusal("no/such:1")
    empty = changed("agent-envs/empty", [], bytes(10240))
    assert "Python 3.11 or newer" in refusal(empty)
    assert "cannot run /no/python" in refusal(IMAGE, "/no/python")
    assert "lacks the package no-such-thing" in refusal(IMAGE, None, ("no-such-thing",))
    assert "there is no /no/such" in refusal(IMAGE, None, ("/no/such",))
    source = inspect.getsource(asked).replace("sys.version_info[:2]", "(3, 9)")
    source = source.replace('missing(question["modules"])', "['zlib']")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(inspect, "getsource", lambda module: source)
        said = refusal(IMAGE, "/usr/bin/python3", ())
    assert "lacks Python 3.11 (it has 3.9), Python's module zlib" in said


@unwarned
def test_another_image_and_other_limits_under_another_name(docker: str, changed: Any) -> None:
    labelled = changed("agent-envs/more", ["LABEL agent-envs.read=/var:/root", "ENV PATH=/bin"])
    BACKENDS["mine"] = Docker(labelled, ContainerLimits(memory=256 << 20, cpus=1), name="mine")
    try:
        with Sandbox("mine") as box, box.fork() as other:
            assert box.run_python("import os; os.listdir('/var')").value == "[]"
            assert box.run_python("os.environ['PATH']").value == "'/bin'"
            assert other.capabilities.backend == "mine"
            [memory] = [
                attrs["HostConfig"]["Memory"]
                for attrs in containers()
                if attrs["HostConfig"]["NanoCpus"] == 10**9
            ]
            assert memory == 256 << 20
    finally:
        del BACKENDS["mine"]
        close_zygotes()


def test_folders_of_the_host_are_seen_read_only(docker: str, make: Make, tmp_path: Path) -> None:
    for folder in (tmp_path, *tmp_path.parents[:2]):
        folder.chmod(0o755)
    (tmp_path / "project.py").write_text("name = 'mine'")
    box = make(docker, packages=[str(tmp_path)])
    assert box.run_python("import project; project.name").value == "'mine'"
    assert box.run_python(f"open({str(tmp_path / 'new')!r}, 'w')").ended == "error"
    box.close()
    close_zygotes()


@unwarned
def test_a_sandbox_as_an_image(docker: str, make: Make) -> None:
    box = make(docker)
    box.write_file("data/a.txt", "1")
    box.run_python("import os\nx = [1, 2]; os.symlink('data', 'link')")
    name = "agent-envs/episode:7"
    commit(box, name)
    box.run_python("x.append(3)")
    try:
        with resume(name) as other:
            assert other.run_python("x, os.readlink('link')").value == "([1, 2], 'data')"
            assert other.read_file("data/a.txt") == b"1"
        with engine() as client:
            shown = client.containers.create(name, ["none"])
            parts, _ = shown.get_archive("/workspace/data/a.txt")
            with tarfile.open(fileobj=io.BytesIO(b"".join(parts))) as tar:
                assert [member.size for member in tar] == [1]
            shown.remove()
        with pytest.raises(ValueError, match="has no history"):
            resume(IMAGE)
    finally:
        close_zygotes()
        BACKENDS.pop(f"docker:{name}", None)
        with engine() as client:
            client.images.remove(name)


def test_only_sandboxes_of_docker_become_images(make: Make) -> None:
    with pytest.raises(ValueError, match="docker backend, not subprocess"):
        commit(make(works("subprocess")), "x:1")


def test_no_engine_no_permission_no_sdk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    look_into.cache_clear()
    _probe.cache_clear()
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nobody.sock")
    report = probe("docker")
    assert not report.works and "no engine at" in report.text() and "DOCKER_HOST" in report.text()
    monkeypatch.setitem(sys.modules, "docker", None)
    assert "pip install 'agent-envs[docker]'" in probe("docker").text()
    look_into.cache_clear()
    _probe.cache_clear()


def test_a_socket_that_one_may_not_use(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: object, address: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("socket.socket.connect", refuse)
    with pytest.raises(BackendUnavailable, match="usermod -aG docker"), engine():
        pass


def test_zygote_that_does_not_start_says_why(
    docker: str, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    close_zygotes()
    monkeypatch.setattr("agent_envs.sandbox.launch.BOOT", "raise SystemExit('broken here')")
    backend = BACKENDS[docker]
    with pytest.raises(BackendUnavailable, match="does not start: broken here"):
        backend.start(backend.inside(None, ()), Limits())
    monkeypatch.undo()
    assert containers() == []
    channel = backend.start(backend.inside(None, ()), Limits())
    assert isinstance(channel, InContainer)
    channel.close()


@unwarned
def test_dockerfile_of_the_sandbox_builds_offline_from_an_imported_base(docker: str) -> None:
    with engine() as client:
        image, _ = client.images.build(
            path=str(ROOT / "docker"),
            dockerfile="sandbox.Dockerfile",
            buildargs={"BASE": IMAGE, "PACKAGES": ""},
            network_mode="none",
            rm=True,
            forcerm=True,
        )
    BACKENDS["built"] = Docker(image.id, name="built")
    try:
        with Sandbox("built") as box:
            assert box.run_python("6 * 7").value == "42"
    finally:
        del BACKENDS["built"]
        close_zygotes()
        with engine() as client:
            client.images.remove(image.id, force=True)


@pytest.mark.parametrize(
    "file", sorted((ROOT / "docker").glob("*.Dockerfile")), ids=lambda f: f.name
)
def test_every_dockerfile_takes_its_base_as_an_argument(file: Path) -> None:
    lines = [line for line in file.read_text().splitlines() if line and not line.startswith("#")]
    base = lines[0].removeprefix("ARG BASE=")
    assert lines[0].startswith("ARG BASE=") and lines[1] == "FROM ${BASE}"
    assert ":" in base and not base.endswith(":latest"), "pinned by version"


def said(move: Any) -> str:
    """A move as a model writes it."""
    calls = [{"name": call.name, "arguments": dict(call.arguments)} for call in move]
    return "".join(f"<tool_call>{json.dumps(call)}</tool_call>" for call in calls)


@unwarned
@pytest.mark.parametrize(
    ("id", "where"), [("agent/Code-v0", "backend"), ("agent/SQL-v0", "sandbox")]
)
def test_environments_play_in_it_and_mark_a_stopped_engine(
    id: str, where: str, one_engine: Engine
) -> None:
    options: dict[str, Any] = {where: "docker"}
    env = gymnasium.make(id, **options).unwrapped
    assert isinstance(env, ToolEnv)
    try:
        tasks = [task.id for task in env.tasks.split("train")[:1]]
        [played] = rollout(env, policy.oracle(env), tasks)
        assert played.reward == 1.0
        _, info = env.reset(seed=0, options={"task": tasks[0]})
        one_engine.stop()
        *_, terminated, truncated, info = env.step(said(env.oracle(env.task, info["messages"])))
        assert (terminated, truncated) == (False, True)
        assert "docker" in info["infrastructure_error"] and info["verdict"] is None
        one_engine.start()
        [again] = rollout(env, policy.oracle(env), tasks)
        assert again.reward == 1.0
    finally:
        env.close()
        close_zygotes()
