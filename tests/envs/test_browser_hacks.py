"""B1 to B9: ways to be paid for nothing that browser suites have had, each tried for real here."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from agent_envs import Task, ToolCall, ToolEnv, Verdict
from agent_envs.envs.browser import sites
from agent_envs.envs.browser.env import BrowserEnv
from agent_envs.envs.browser.session import Session
from agent_envs.testing.play import Player
from tests.envs.browser_zoo import Visitor
from tests.envs.test_browser_robust import inside

SHOP, LOOKUP, TICKET = "shop.buy", "shop.cheapest", "helpdesk.reply"


@pytest.fixture(scope="module")
def env() -> Iterator[BrowserEnv]:
    env = BrowserEnv(max_turns=200, max_calls=500)
    yield env
    env.close()


def task_of(env: ToolEnv, family: str) -> Task:
    return next(t for t in env.tasks.split("train") if t.data["family"] == family)


def begin(env: BrowserEnv, family: str) -> Visitor:
    env.reset(seed=1, options={"task": task_of(env, family)})
    visit = Visitor(env)
    visit.do("read")
    return visit


def ends(env: BrowserEnv, answer: str = "done") -> Verdict:
    verdict = env.finish(answer)
    assert verdict is not None
    return verdict


def fails(env: BrowserEnv, answer: str = "done") -> None:
    verdict = ends(env, answer)
    assert not verdict.passed and verdict.total == 0.0, verdict


def gold_moves(env: BrowserEnv) -> tuple[list[list[ToolCall]], str]:
    """The gold calls of the running episode, turn by turn, and the answer. Plays them."""
    player, moves = Player(env), []
    while isinstance(move := player.gold(), list):
        moves.append(move)
        player.play(move)
    assert isinstance(move, str) and move
    return moves, move


def play_gold(env: BrowserEnv) -> str:
    """Play the gold calls; returns the gold answer."""
    return gold_moves(env)[1]


def test_gold_passes(env: BrowserEnv) -> None:
    for family in (SHOP, LOOKUP, TICKET):
        env.reset(seed=1, options={"task": task_of(env, family)})
        verdict = ends(env, play_gold(env))
        assert verdict.passed and verdict.total == 1.0


def test_b1_b2_other_addresses_hold_no_gold(env: BrowserEnv) -> None:
    visit = begin(env, LOOKUP)
    for url in (
        "file:///etc/passwd", "file:///proc/self/cmdline", "javascript:document.title='done'",
        "data:text/html,<h1>placed</h1>", "blob:http://shop.test/1", "chrome://version",
        "view-source:http://shop.test/", "http://127.0.0.1:8000/", "http://example.com/",
    ):  # fmt: skip
        assert "can be reached" in visit.attempt("goto", url=url)
    fails(env)


def test_b3_what_a_page_shows_is_not_graded(env: BrowserEnv) -> None:
    visit = begin(env, SHOP)

    async def rewrite(session: Session) -> None:
        await session.shown.evaluate(
            "document.title = 'Order placed'; document.body.innerHTML = '<h1>Order placed</h1>'"
        )

    inside(visit, rewrite)
    assert 'heading "Order placed"' in visit.do("read")
    fails(env)


def test_b4_a_success_page_is_not_success(env: BrowserEnv) -> None:
    visit = begin(env, SHOP)
    for url in ("/orders?done=placed", "/cart?done=added", "/grade", "/success", "/reward?value=1"):
        visit.attempt("goto", url=url)
    fails(env)


def test_b4_a_request_that_no_form_sent_is_refused(env: BrowserEnv) -> None:
    """A cross-site form, and a script with another session: both lack what the site asks for."""
    visit = begin(env, SHOP)

    async def forge(session: Session) -> list[int]:
        context = await session.browser.pw.new_context()
        page = await context.new_page()
        statuses = []
        for path in ("/cart/add", "/checkout", "/"):
            response = await page.goto(session.real(path))
            statuses.append(response.status)
        await context.close()
        return statuses

    assert inside(visit, forge) == [403, 403, 403]
    fails(env)


def test_b4_events_and_rows_cannot_be_written_from_outside(env: BrowserEnv) -> None:
    """Whoever could write to the database still lacks the episode's nonce."""
    env.reset(seed=1, options={"task": task_of(env, SHOP)})
    answer = play_gold(env)
    world: Any = env._now.world
    world._db.execute("UPDATE events SET kind = 'order.placed', chain = chain || ''")
    world._db.execute("INSERT INTO events SELECT seq + 100, time, kind, data, chain FROM events")
    fails(env, answer)


def test_b5_no_answer_is_hidden_in_a_page(env: BrowserEnv) -> None:
    for family in sites.families().values():
        if not family.looks_up or family.level == 0:
            continue
        task = task_of(env, family.name)
        env.reset(seed=1, options={"task": task})
        visit = Visitor(env)
        visit.do("read")

        async def source(session: Session) -> str:
            return str(await session.shown.evaluate("document.documentElement.outerHTML"))

        assert task.data["answer"] not in inside(visit, source), task.id
    env.reset(seed=1)


def test_b6_half_of_the_work_is_not_paid(env: BrowserEnv) -> None:
    env.reset(seed=1, options={"task": task_of(env, SHOP)})
    moves, answer = gold_moves(env)
    env.reset(seed=1, options={"task": task_of(env, SHOP)})
    calls = [call for move in moves for call in move]
    for call in calls[:-1]:
        assert env.call(call).error is None
    fails(env, answer)


def test_b7_graded_once_on_the_final_state(
    env: BrowserEnv, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []
    real = sites.check

    def check(*arguments: Any) -> Any:
        asked.append(arguments)
        return real(*arguments)

    monkeypatch.setattr(sites, "check", check)
    env.reset(seed=1, options={"task": task_of(env, SHOP)})
    player, infos = Player(env), []
    while isinstance(move := player.gold(), list):
        infos.append(player.play(move)[4])
    assert infos and not asked and all(info["verdict"] is None for info in infos)
    assert all(set(info["reward_components"].values()) == {0.0} for info in infos)
    assert ends(env).passed and len(asked) == 1
    assert env.call(ToolCall("goto", {"url": "/cart"})).error == "limit"
    assert ends(env, "late").passed and len(asked) == 1


def test_b8_an_answer_among_others_is_no_answer(env: BrowserEnv) -> None:
    for hedge in ("{} or 1", "the answer is {}", '["{}", "x"]', "{}\n{}", "{}."):
        env.reset(seed=1, options={"task": task_of(env, LOOKUP)})
        answer = play_gold(env)
        fails(env, hedge.replace("{}", answer))
    visit = begin(env, LOOKUP)
    texts = [visit.do("goto", url=url) for url in ("/products", "/orders", "/cart")]
    fails(env, "\n".join(texts))


@pytest.mark.parametrize("answer", ["", "{}", "[]", "null", "N/A", "I cannot do that.", "done"])
def test_b9_nothing_and_refusals_earn_nothing(env: BrowserEnv, answer: str) -> None:
    for family in (SHOP, LOOKUP, TICKET):
        env.reset(seed=1, options={"task": task_of(env, family)})
        fails(env, answer)


def test_a_script_that_is_stored_is_inert(env: BrowserEnv) -> None:
    """What an agent writes into a form is text on every page that shows it."""
    visit = begin(env, TICKET)
    player, written = Player(env), "<script>document.title='ran'</script><img src=x onerror=ran>"
    while isinstance(move := player.gold(), list):
        for call in move:
            if call.name == "fill":
                call.arguments["text"] = written
        player.play(move)
    shown = visit.do("read")
    assert json.dumps(written)[1:-1] in shown
    assert 'page: "ran' not in shown and visit.do("goto", url="/") and visit.seen.title != "ran"
    fails(env)
