"""A Chromium in a container: played in, shut in, lost in mid-episode, and gone at the end."""

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agent_envs import BackendUnavailable, ToolCall, policy, rollout
from agent_envs.envs.browser import engine, memory
from agent_envs.envs.browser.env import BrowserEnv
from agent_envs.sandbox.docker.container import FOLDER, meeting_place
from agent_envs.sandbox.docker.engine import HOST_LABEL, this_host
from agent_envs.sandbox.docker.engine import engine as client
from tests.envs.browser_zoo import PAGES, StillZoo, Visitor, Zoo
from tests.envs.test_browser_isolation import answers, reachable, session_of
from tests.envs.test_browser_robust import browser_of
from tests.sandbox.engine import IMAGE, Engine, end_engine, entry, running
from tests.sandbox.leftovers import alive, descendants, program, wait_until

ROOT = Path(__file__).parents[2]
NAME = "agent-envs/test-browser"
CHROMIUM = Path("/usr/lib/chromium")
LONG: dict[str, Any] = {"max_turns": 10**6, "max_calls": 10**6, "isolation": "container"}
PROGRAMS = ("sh", "socat", "chromium-headless-shell")
UNUSED = re.compile("chromium|chrome_crashpad_handler|libVk.*|locales/(?!en-US).*")
FOLDERS = (CHROMIUM, Path("/etc/fonts"), Path("/usr/share/fonts/truetype/dejavu"))

the_engine = pytest.fixture(scope="session", autouse=True)(end_engine)


def files_of_image() -> dict[str, Path]:
    """What an image of docker/browser.Dockerfile has, as far as it is used."""
    names = {f"/usr/bin/{name}": Path(shutil.which(name) or "") for name in PROGRAMS}
    for top in FOLDERS:
        names |= {str(path): path for path in top.rglob("*") if path.is_file()}
    names = {n: p for n, p in names.items() if not UNUSED.fullmatch(n.removeprefix(f"{CHROMIUM}/"))}
    names |= {str(path): path for path in Path("/usr/lib").glob("*-linux-gnu/lib[sf]*3.so")}
    programs = [p for n, p in names.items() if re.search(r"\.so|/bin/|headless-shell$", n)]
    listed = subprocess.run(["ldd", *programs], capture_output=True, text=True).stdout
    for path in set(re.findall(r"(/\S+\.so\S*) \(", listed)):
        names[f"/usr/{path.removeprefix('/usr').lstrip('/')}"] = Path(path)
    return names


def write_image(target: Path) -> None:
    """The image's root, as a tar archive."""
    names = files_of_image()
    above = {str(folder) for name in names for folder in Path(name[1:]).parents}
    above |= {"usr/lib64", "proc", "sys", "dev", "tmp"}
    with tarfile.open(target, "w") as tar:
        for link in ("bin", "lib", "lib64"):
            tar.addfile(entry(link, tarfile.SYMTYPE, f"usr/{link}"))
        for folder in sorted(above - {"."}):
            tar.addfile(entry(folder, tarfile.DIRTYPE))
        for name, path in names.items():
            tar.add(os.path.realpath(path), name, recursive=False)


@pytest.fixture(scope="module")
def one_engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """An engine that has the image."""
    for needed in PROGRAMS:
        if shutil.which(needed) is None or not CHROMIUM.is_dir():
            pytest.skip(f"no {needed} to make an image of: apt-get install {needed}")
    one = running()
    archive = tmp_path_factory.mktemp("image") / "image.tar"
    write_image(archive)
    with client() as asked:
        asked.api.import_image_from_file(str(archive), NAME, "1")
    archive.unlink()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AGENT_ENVS_BROWSER_IMAGE", f"{NAME}:1")
        yield one
        engine.close_browsers()


@pytest.fixture(scope="module")
def envs(one_engine: Engine) -> Iterator[list[Zoo]]:
    envs = [Zoo(**LONG), StillZoo(**LONG)]
    yield envs
    for env in envs:
        env.close()


@pytest.fixture
def no_browser(envs: list[Zoo]) -> Iterator[None]:
    """None is open here, before and after."""
    for env in envs:
        env.close()
    engine.close_browsers()
    assert containers() == [] and folders(os.getpid()) == []
    yield
    engine.close_browsers()
    assert containers() == [] and folders(os.getpid()) == []


@pytest.fixture
def visits(envs: list[Zoo]) -> list[Visitor]:
    for env in envs:
        env.reset(seed=1)
    found = [Visitor(env) for env in envs]
    for visit in found:
        visit.do("read")
    return found


def containers() -> list[dict[str, Any]]:
    """What the engine knows of this process's containers with a browser."""
    with client() as asked:
        found = asked.containers.list(
            all=True, filters={"label": f"{HOST_LABEL}={this_host()}"}, ignore_removed=True
        )
        return [one.attrs for one in found if one.attrs["Path"] == "sh"]


def folders(pid: int) -> list[Path]:
    return list(Path("/tmp").glob(f"{FOLDER}{pid}-*-browser"))


def listening(pids: Iterable[int]) -> set[str]:
    """The addresses of this machine's network at which some processes listen; others, of tests
    that run beside this one, open and close theirs at any time."""
    held = set()
    for pid in pids:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            for entry in Path(f"/proc/{pid}/fd").iterdir():
                with contextlib.suppress(FileNotFoundError):
                    held.add(os.readlink(entry))
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return {row[1] for row in lines if row[3] == "0A" and f"socket:[{row[9]}]" in held}


def test_an_oracle_solves_a_task_in_it(one_engine: Engine) -> None:
    env = BrowserEnv(isolation="container", level=2)
    tasks = [task.id for task in env.tasks.split("train") if task.level == 2][:1]
    played = rollout([env], policy.oracle(env), tasks, progress=False)
    assert [one.verdict.passed for one in played if one.verdict] == [True]
    env.close()


def test_states_come_back(visits: list[Visitor]) -> None:
    for visit in visits:
        visit.do("goto", url="/form")
        visit.do("fill", ref=visit.number("Name", "textbox"), text="typed")
        kept, before = visit.env.snapshot(), visit.do("read")
        assert visit.click("Save") and visit.seen.title == "Saved"
        visit.env.rollback(kept)
        assert visit.do("read") == before and '"typed"' in before


def test_it_looks_as_a_browser_of_this_machine_does(visits: list[Visitor]) -> None:
    local = Zoo(max_turns=10**6, max_calls=10**6)
    local.reset(seed=1)
    here = Visitor(local)
    here.do("read")
    for path in ("/", "/form", "/frames", "/spa", "/cover", "/hidden", "/no/such"):
        assert visits[0].do("goto", url=path) == here.do("goto", url=path), path
    local.close()


def test_what_a_page_can_fetch(visits: list[Visitor], tmp_path: Path) -> None:
    visit, other = visits
    with socket.create_server(("127.0.0.1", 0)) as service:
        targets = [
            f"http://127.0.0.1:{service.getsockname()[1]}/",
            "http://127.0.0.1:8000/",
            "http://192.0.2.1/",
            "http://example.com/",
            f"http://{session_of(other).origin.name}/",
        ]
        assert reachable(visit, targets) == ["shut", "shut", "shut", "shut", "open"]
    assert browser_of(visit) is browser_of(other)
    assert answers(visit, targets[-1:]) == [(403, "no such site")]
    assert answers(visit, ["/data"]) == [(200, "fetched")]


def test_the_container_is_locked_down(visits: list[Visitor]) -> None:
    [attrs] = containers()
    host, config = attrs["HostConfig"], attrs["Config"]
    assert host["ReadonlyRootfs"] and host["NetworkMode"] == "none" and not host["Privileged"]
    assert host["CapDrop"] == ["ALL"] and "no-new-privileges" in host["SecurityOpt"]
    assert host["LogConfig"]["Type"] == "none" and host["AutoRemove"]
    assert host["PidsLimit"] > 0 and host["Memory"] > 0 and "size=" in host["Tmpfs"]["/tmp"]
    assert [mount["RW"] for mount in attrs["Mounts"]] == [False]
    assert int(config["User"].split(":")[0]) > 1000
    main = attrs["State"]["Pid"]
    devices = Path(f"/proc/{main}/net/dev").read_text().splitlines()[2:]
    assert [line.split(":")[0].strip() for line in devices] == ["lo"]
    tcp = Path(f"/proc/{main}/net/tcp").read_text().splitlines()[1:]
    open_ports = {line.split()[1] for line in tcp if line.split()[3] == "0A"}
    assert open_ports == {"0100007F:1F40"}, "the sites' alone: Chromium has no port"
    assert os.stat(f"{folders(os.getpid())[0]}/cdp").st_mode & 0o077 == 0


def ended(visit: Visitor, work: Callable[[int], None]) -> None:
    """End the container's first process, and wait until that is known."""
    browser = browser_of(visit)
    [attrs] = containers()
    work(attrs["State"]["Pid"])
    assert wait_until(lambda: browser.dead)


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)


def kill_chromium(pid: int) -> None:
    """End Chromium's first process: the one above all others of its program."""
    shells = [below for below in descendants(pid) if program(below).endswith("-shell")]
    kill(max(shells, key=lambda shell: len(descendants(shell))))


@pytest.mark.parametrize("work", [kill, kill_chromium])
def test_its_end_in_mid_episode_is_not_noticed(
    visits: list[Visitor], work: Callable[[int], None]
) -> None:
    one, other = visits
    before = one.do("goto", url="/second")
    other.do("goto", url="/form")
    other.do("fill", ref=other.number("Name", "textbox"), text="typed")
    ended(one, work)
    assert one.do("read") == before
    assert '"typed"' in other.do("read") and browser_of(one) is browser_of(other)
    assert wait_until(lambda: len(containers()) == 1) and len(folders(os.getpid())) == 1


def test_without_an_engine_an_episode_ends_as_our_fault(
    one_engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    env = Zoo(**LONG)
    env.reset(seed=1)
    visit = Visitor(env)
    visit.do("read")
    with monkeypatch.context() as patch:
        ended(visit, kill)
        patch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
        _, _, _, truncated, info = env.act([ToolCall("read", {})])
        assert truncated and "no engine at /nowhere" in info["infrastructure_error"]
        with pytest.raises(BackendUnavailable, match="start it"):
            env.reset(seed=1)
    env.reset(seed=1)
    assert visit.do("read") and visit.seen.title == "Zoo"
    env.close()


@pytest.mark.parametrize(
    ("image", "said"),
    [
        ("no/such:1", "no/such.*docker build -t agent-envs/browser"),
        (IMAGE, "start: socat: not found$"),
    ],
)
def test_what_an_image_lacks_is_said(
    no_browser: None, monkeypatch: pytest.MonkeyPatch, image: str, said: str
) -> None:
    monkeypatch.setenv("AGENT_ENVS_BROWSER_IMAGE", image)
    ours = engine.engine()
    with pytest.raises(BackendUnavailable, match=said):
        ours.call(ours.lease("container", own=False))


def test_a_page_that_takes_too_much_memory_ends(
    no_browser: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where its process can be seen; where not, the engine's own limit holds."""
    eats = "let a=[];onclick=()=>{for(;;)a.push(new Uint8Array(1<<23).fill(1))}"
    page = f"<title>Hungry</title><script>{eats}</script><button>Eat</button>"
    monkeypatch.setitem(PAGES, "/hungry", page)
    monkeypatch.setattr(memory, "LIMITS", memory.MemoryLimits(process=400 << 20))
    mine = [Zoo(**LONG), Zoo(**LONG)]
    for env in mine:
        env.reset(seed=1)
    one, other = map(Visitor, mine)
    before = other.do("goto", url="/form")
    one.do("goto", url="/hungry")
    assert "crashed, and was closed" in one.click("Eat")
    assert one.do("goto", url="/second") and other.do("read") == before
    assert browser_of(one) is browser_of(other) and not browser_of(one).dead
    [attrs] = containers()
    assert attrs["HostConfig"]["Memory"] == memory.MemoryLimits().here
    for env in mine:
        env.close()


def test_nothing_is_left_after_close(no_browser: None) -> None:
    me = os.getpid()
    before = listening([me, *descendants(me)])
    env = Zoo(isolation="container")
    env.reset(seed=1)
    Visitor(env).do("read")
    [attrs] = containers()
    below = {attrs["State"]["Pid"], *descendants(attrs["State"]["Pid"])}
    after = listening([me, *descendants(me), *below])
    assert len(below) > 5 and after <= before, "it opens no port here"
    assert not attrs["HostConfig"]["PortBindings"], "nor has the engine opened one for it"
    env.close()
    engine.close_browsers()
    assert containers() == [] and folders(os.getpid()) == []
    assert not any(map(alive, below))


HOST = """
import os, sys
from tests.envs.browser_zoo import StillZoo, Visitor
env = StillZoo(isolation="container")
env.reset(seed=1)
Visitor(env).do("read")
if os.fork() == 0:
    sys.exit()  # what a fork ends with must not end the browser of its parent
os.wait()
Visitor(env).do("goto", url="/form")
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, None])
def test_nothing_is_left_of_a_host_that_ends(no_browser: None, number: int | None) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOST],
        cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as host:  # fmt: skip
        assert host.stdout is not None and host.stdin is not None
        assert host.stdout.readline() == "ready\n"
        mine = f" {host.pid} "
        assert len(labels(mine)) == 1 == len(folders(host.pid))
        if number is None:
            host.stdin.close()
        else:
            host.send_signal(number)
    assert wait_until(lambda: labels(mine) == [])
    with meeting_place():  # as at the next start
        assert folders(host.pid) == []


def labels(part: str) -> list[str]:
    """Those of containers of ours that have a text in them."""
    with client() as asked:
        found = asked.containers.list(all=True, filters={"label": HOST_LABEL}, ignore_removed=True)
        return [one.id for one in found if part in one.labels[HOST_LABEL]]
