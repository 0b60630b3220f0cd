"""agent/Browser-v0 as a whole: the kit, every site's snapshots, and how it is made."""

from collections.abc import Iterator
from typing import Any

import gymnasium
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import agent_envs
from agent_envs.envs.browser import sites
from agent_envs.envs.browser.env import BrowserEnv
from agent_envs.testing import check_tool_env
from tests.envs.browser_walk import check_detours
from tests.envs.browser_zoo import Visitor

BROWSER = "agent/Browser-v0"
LONG: dict[str, Any] = {"max_turns": 10**6, "max_calls": 10**6}


def test_the_kit() -> None:
    check_tool_env(BROWSER, examples=2, depth=8, tasks=1)


@pytest.fixture(scope="module")
def pair() -> Iterator[tuple[BrowserEnv, BrowserEnv]]:
    envs = BrowserEnv(**LONG), BrowserEnv(**LONG)
    yield envs
    for env in envs:
        env.close()


@pytest.mark.parametrize("site", sites.names())
def test_a_detour_leaves_no_trace_on_any_site(
    pair: tuple[BrowserEnv, BrowserEnv], site: str
) -> None:
    tasks = [t.id for t in pair[0].tasks.split("train") if t.data["site"] == site]

    @settings(
        max_examples=2,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(st.sampled_from(tasks), st.integers(0, 2**30))
    def walk(task: str, seed: int) -> None:
        check_detours(*pair, task, seed)

    walk()


def test_built_in_sites_come_back_without_being_played_again(
    pair: tuple[BrowserEnv, BrowserEnv], monkeypatch: pytest.MonkeyPatch
) -> None:
    env = pair[0]
    for site in sites.names():
        task = next(t for t in env.tasks.split("train") if t.data["site"] == site)
        env.reset(seed=1, options={"task": task})
        visit = Visitor(env)
        visit.do("read")
        for _ in range(3):
            links = [x.number for x in visit.seen.lines if x.role == "link"]
            visit.do("click", ref=links[-1])
        expected, kept = visit.last.content, env.snapshot()
        visit.do("goto", url="/")
        monkeypatch.setattr(env._now, "_replayed", None)
        env.rollback(kept)
        assert visit.do("read") == expected


def test_the_model_reads_a_stable_name_and_never_the_real_one(
    pair: tuple[BrowserEnv, BrowserEnv],
) -> None:
    texts = []
    for env in pair:
        env.reset(seed=1, options={"task": env.tasks.split("train")[0].id})
        visit = Visitor(env)
        texts.append(visit.do("goto", url="/no/such/page"))
        session = env._now._session
        assert session is not None and session.origin.name not in texts[-1]
    assert texts[0] == texts[1] and ".test/no/such/page" in texts[0]


def test_it_is_made_by_its_id_and_imports_nothing_heavy_before() -> None:
    assert BROWSER in agent_envs.ids()
    env = gymnasium.make(BROWSER, isolation="shared", page_chars=1000).unwrapped
    assert isinstance(env, BrowserEnv)
    env.close()
    for wrong in ({"isolation": "jail"}, {"page_chars": 3}, {"patience": 0}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            gymnasium.make(BROWSER, **wrong)


def test_a_small_budget_shows_the_page_in_parts() -> None:
    env = BrowserEnv(page_chars=500, **LONG)
    env.reset(seed=1)
    visit = Visitor(env)
    first = visit.do("read")
    assert "part 1 of" in first
    assert visit.do("read", part=2).partition("\n\n")[2] not in first
    env.close()
