"""MiniWoB++ as tasks: pages load, seeds hold, the page's raw reward is paid, gold scripts pass."""

from typing import Any

import pytest

from agent_envs import BackendUnavailable, Task, ToolCall
from agent_envs.envs.browser.env import BrowserEnv
from agent_envs.envs.browser.miniwob import world
from agent_envs.envs.browser.miniwob.gold import PAGES
from agent_envs.envs.browser.miniwob.world import PageWorld, pages, raw_reward
from agent_envs.envs.browser.sites.base import Request
from agent_envs.policy import oracle
from agent_envs.provenance import provenance
from agent_envs.rollout import rollout
from tests.envs.browser_zoo import Visitor

pytest.importorskip("miniwob")

ENDLESS: dict[str, Any] = {"max_turns": 10**6, "max_calls": 10**6}


@pytest.fixture(scope="module")
def env() -> BrowserEnv:
    return BrowserEnv(tasks="miniwob", **ENDLESS)


def task_of(env: BrowserEnv, page: str, seed: int = 0) -> Task:
    return env.tasks[f"miniwob/{page}/{seed}"]


def test_every_page_is_there_with_its_seed() -> None:
    assert len(pages()) >= 125 and set(PAGES) <= set(pages()) and len(PAGES) >= 25
    for page in pages():
        answer = PageWorld({"page": page, "seed": 7}).respond(
            Request("GET", f"/miniwob/{page}.html")
        )
        assert answer.status == 200 and answer.body.count(b"Math.seedrandom(7)") == 2, page


def test_only_the_pages_files_are_served() -> None:
    page = PageWorld({"page": "click-test", "seed": 0})
    for path in ("/../environment.py", "/core/../../environment.py", "/etc/passwd", "//etc/passwd"):
        assert page.respond(Request("GET", path)).status == 404
    assert page.respond(Request("GET", "/core/core.js")).status == 200
    with pytest.raises(KeyError, match="no MiniWoB"):
        PageWorld({"page": "../environment", "seed": 0})


def test_pages_load(env: BrowserEnv) -> None:
    for page in pages()[::8]:
        env.reset(seed=1, options={"task": task_of(env, page)})
        visit = Visitor(env)
        visit.do("read")
        assert visit.seen.lines and not visit.seen.notes, page


def test_gold_scripts_pass(env: BrowserEnv) -> None:
    tasks = [task_of(env, page, seed=1000) for page in sorted(PAGES)[::2]]
    for trajectory in rollout([env], oracle(BrowserEnv, env.tasks), tasks, progress=False):
        assert trajectory.verdict is not None and trajectory.verdict.passed, trajectory.task.id
        assert trajectory.reward == trajectory.verdict.components["page"] == 1.0
        assert trajectory.end_reason == "done"


def test_the_same_seed_gives_the_same_page_and_another_another(env: BrowserEnv) -> None:
    twin = BrowserEnv(tasks="miniwob", **ENDLESS)
    for page in ("click-button", "read-table", "terminal"):
        texts = []
        for one, seed in ((env, 1), (twin, 1), (env, 2)):
            one.reset(seed=seed, options={"task": task_of(one, page, seed)})
            texts.append(Visitor(one).do("read"))
        assert texts[0] == texts[1] != texts[2]
    twin.close()


def test_the_raw_reward_is_paid_and_success_is_a_flag_of_its_own(env: BrowserEnv) -> None:
    env.reset(seed=1, options={"task": task_of(env, "click-test-2")})
    visit = Visitor(env)
    visit.do("read")
    visit.click("TWO")
    verdict = env.finish()
    assert verdict and not verdict.passed and verdict.total == -1.0
    for said, raw in (
        ('{"raw": 0.5}', 0.5), ("null", None), ('{"raw": 7}', None), ("[]", None), (None, None),
        ('{"raw": "NaN"}', None), ('{"raw": -1, "reason": ""}', -1.0),
    ):  # fmt: skip
        assert raw_reward(said) == raw


def test_part_of_a_task_is_not_the_task(env: BrowserEnv) -> None:
    """A page that gives part of its reward has not been solved."""
    env.reset(seed=1, options={"task": task_of(env, "click-checkboxes-large")})
    visit = Visitor(env)
    visit.do("read")
    for name in ("8qiSp3m", "pKybC69", "v8Zs3", "U6gHF"):  # of five
        visit.do("check", ref=visit.number(name, "checkbox"))
    visit.click("Submit")
    verdict = env.finish()
    assert verdict and not verdict.passed and 0.0 < verdict.total < 1.0


def test_doing_nothing_earns_nothing(env: BrowserEnv) -> None:
    for answer in ("", "done", "1.0"):
        env.reset(seed=1, options={"task": task_of(env, "click-test")})
        verdict = env.finish(answer)
        assert verdict and not verdict.passed and verdict.total == 0.0


def test_the_end_is_the_end(env: BrowserEnv) -> None:
    env.reset(seed=1, options={"task": task_of(env, "click-test-2")})
    Visitor(env).do("read")
    env.act([ToolCall("click", {"ref": 2}), ToolCall("click", {"ref": 1})])
    verdict = env.finish()
    assert env.ended and verdict and verdict.total == -1.0


def test_a_page_comes_back_by_being_played_again(env: BrowserEnv) -> None:
    env.reset(seed=1, options={"task": task_of(env, "login-user")})
    visit = Visitor(env)
    visit.do("read")
    first, second = (line.number for line in visit.seen.lines if line.role == "textbox")
    visit.do("fill", ref=first, text="somebody")
    expected, kept = visit.last.content, env.snapshot()
    visit.do("fill", ref=second, text="else")
    env.rollback(kept)
    assert visit.do("read") == expected


def test_provenance_says_who_grades(env: BrowserEnv) -> None:
    told = provenance(env)["tasks"]
    assert told["source"] == "MiniWoBTasks" and "page-graded" in told["version"]
    assert all("page-graded" in task.tags for task in env.tasks.split("heldout"))


def test_without_the_package_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(world, "find_spec", lambda name: None)
    world.folder.cache_clear()
    with pytest.raises(BackendUnavailable, match="pip install miniwob"):
        world.folder()
    world.folder.cache_clear()
