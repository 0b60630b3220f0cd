"""A page that takes all the memory it can get ends; its episode, others and the host go on."""

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agent_envs import SnapshotUnsupported
from agent_envs.envs.browser import chromium, engine, memory
from agent_envs.envs.browser.memory import MemoryLimits
from agent_envs.sandbox.cgroup import find_place
from tests.envs import browser_zoo
from tests.envs.browser_zoo import Visitor, Zoo
from tests.envs.test_browser_robust import browser_of, processes, same_as_before

MB = 1 << 20
LONG: dict[str, Any] = {"max_turns": 10**6, "max_calls": 10**6, "patience": 8.0}
EATS = {
    "arrays": "for(;;)kept.push(new Uint8Array(1<<23).fill(1))",
    "strings": "for(;;)kept.push(String.fromCharCode(300+kept.length%9).repeat(1<<22)+kept.length,"
    "new Uint8Array(1<<20).fill(1))",
    "nodes": "for(;;){let d=document.createElement('p');d.textContent='x'.repeat(1e5);"
    "document.body.append(d)}",
    "bitmaps": "(async()=>{for(;;)kept.push(await createImageBitmap("
    "new ImageData(new Uint8ClampedArray(16e6).fill(7),2000,2000)))})()",
    "workers": "new Worker(window.URL.createObjectURL(new Blob(["
    "'let a=[];for(;;)a.push(new Uint8Array(1<<23).fill(1))'])))",
    "caught": "try{for(;;)kept.push(new Uint8Array(1<<23).fill(1))}catch{p.textContent='full'}",
}
BLOBS = "(async()=>{for(;;)kept.push(new Blob([new Uint8Array(1<<24).fill(7)]))})()"


@pytest.fixture(autouse=True)
def hungry(monkeypatch: pytest.MonkeyPatch) -> None:
    later = {name: f"setTimeout(()=>{{{code}}},400)" for name, code in EATS.items()}
    codes = {**later, "at once": EATS["arrays"]}
    buttons = "".join(f'<button onclick="{code}">{name}</button>' for name, code in codes.items())
    page = f"<title>Hungry</title><p id=p></p>{buttons}<script>let kept=[]</script>"
    monkeypatch.setitem(browser_zoo.PAGES, "/hungry", page)


class Pair:
    """Two episodes in a new browser with limits of its own."""

    def __init__(self, isolation: str = "shared") -> None:
        self.envs = [Zoo(isolation=isolation, **LONG) for _ in range(2)]
        for env in self.envs:
            env.reset(seed=1)
        self.one, self.other = map(Visitor, self.envs)
        self.other.do("goto", url="/form")
        self.other.do("fill", ref=self.other.number("Name", "textbox"), text="typed")
        self.browser = browser_of(self.one)
        assert browser_of(self.other) is self.browser

    def eat(self, name: str) -> str:
        """What is said when the page has ended."""
        self.one.do("goto", url="/hungry")
        text = self.one.click(name)
        deadline = time.monotonic() + 20
        while "crashed, and was closed" not in text and time.monotonic() < deadline:
            text = self.one.do("wait")
        return text

    def all_is_well(self) -> None:
        """The episode goes on, and nobody else has noticed."""
        assert self.one.do("goto", url="/second") and self.one.seen.title == "Second"
        same_as_before(self.other)
        assert browser_of(self.one) is browser_of(self.other) is self.browser
        assert not self.browser.dead


@pytest.fixture
def limited(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Pair]]:
    """Makes pairs whose browser has limits."""
    made: list[Pair] = []

    def make(limits: MemoryLimits, isolation: str = "shared") -> Pair:
        monkeypatch.setattr(memory, "LIMITS", limits)
        made.append(Pair(isolation))
        return made[-1]

    engine.close_browsers()
    yield make
    for pair in made:
        for env in pair.envs:
            env.close()
    engine.close_browsers()


@pytest.fixture
def no_cgroup(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chromium, "new_group", lambda limit: None)


def groups() -> set[Path]:
    """This process's own."""
    place = find_place()
    return set(place[0].glob(f"agent-envs-{os.getpid()}-*")) if place else set()


def test_a_page_that_takes_too_much_ends(no_cgroup: None, limited: Callable[..., Pair]) -> None:
    pair = limited(MemoryLimits(process=400 * MB))
    for name in (*EATS, "at once"):
        assert "crashed, and was closed" in pair.eat(name), name
        pair.all_is_well()


@pytest.mark.filterwarnings("ignore::agent_envs.envs.browser.chromium.BrowserWarning")
def test_it_ends_without_a_wall_too(no_cgroup: None, limited: Callable[..., Pair]) -> None:
    pair = limited(MemoryLimits(process=400 * MB), "none")
    assert "crashed, and was closed" in pair.eat("arrays")
    pair.all_is_well()


def test_the_kernel_ends_the_largest_page(
    monkeypatch: pytest.MonkeyPatch, limited: Callable[..., Pair]
) -> None:
    if find_place() is None:
        pytest.skip("no cgroup can be made here")
    before = groups()
    monkeypatch.setattr(memory, "PAUSE", 600)
    pair = limited(MemoryLimits(process=16 << 30, total=1000 * MB))
    assert len(groups() - before) == 1
    for name in ("arrays", "bitmaps"):
        assert "crashed, and was closed" in pair.eat(name), name
        pair.all_is_well()
    for env in pair.envs:
        env.close()
    engine.close_browsers()
    assert groups() == before


def test_a_page_faster_than_the_looking_is_stopped(
    monkeypatch: pytest.MonkeyPatch, no_cgroup: None, limited: Callable[..., Pair]
) -> None:
    monkeypatch.setattr(memory, "PAUSE", 600)
    pair = limited(MemoryLimits(process=300 * MB))
    pair.one.do("goto", url="/hungry")
    pair.one.click("caught")
    time.sleep(0.5)
    assert '"full"' in pair.one.do("read")
    pages = [memory._resident(pid) for pid in processes("--type=renderer")]
    assert 300 * MB < max(pages) < 1300 * MB
    pair.all_is_well()


def test_what_the_browser_keeps_for_a_page_ends_it(
    monkeypatch: pytest.MonkeyPatch, no_cgroup: None, limited: Callable[..., Pair]
) -> None:
    page = f'<title>B</title><script>let kept=[]</script><button onclick="{BLOBS}">blobs</button>'
    monkeypatch.setitem(browser_zoo.PAGES, "/blobs", page)
    pair = limited(MemoryLimits(process=500 * MB))
    pair.one.do("goto", url="/blobs")
    pair.one.attempt("click", ref=pair.one.number("blobs"))
    deadline = time.monotonic() + 20
    while not pair.browser.dead and time.monotonic() < deadline:
        time.sleep(0.1)
    assert pair.browser.dead
    same_as_before(pair.other)
    assert browser_of(pair.other) is not pair.browser


def test_a_crashed_page_cannot_be_kept_and_is_no_fault_of_ours(
    no_cgroup: None, limited: Callable[..., Pair]
) -> None:
    pair = limited(MemoryLimits(process=400 * MB))
    kept = pair.one.env.snapshot()
    pair.one.do("goto", url="/hungry")
    pair.one.click("arrays")
    time.sleep(3)
    with pytest.raises(SnapshotUnsupported, match="does not answer"):
        pair.one.env.snapshot()
    pair.one.env.rollback(kept)
    pair.all_is_well()
