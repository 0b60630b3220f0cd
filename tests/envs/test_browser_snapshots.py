"""States come back: forms, history, tabs, stores; what cannot is played again or refused."""

from collections.abc import Iterator
from typing import Any

import pytest

from agent_envs import SnapshotUnsupported
from tests.envs.browser_zoo import StillZoo, Visitor, Zoo

LONG: dict[str, Any] = {"max_turns": 10**6, "max_calls": 10**6}


@pytest.fixture(params=[Zoo, StillZoo], ids=["scripted", "still"])
def visit(request: pytest.FixtureRequest) -> Iterator[Visitor]:
    env = request.param(patience=5.0, **LONG)
    env.reset(seed=1)
    yield Visitor(env)
    env.close()


def fill_in(visit: Visitor) -> None:
    visit.do("goto", url="/form")
    visit.do("fill", ref=visit.number("Name", "textbox"), text="Ann")
    visit.do("fill", ref=visit.number("Note", "textbox"), text="one\ntwo")
    visit.do("select", ref=visit.number("Size", "combobox"), option="large")
    visit.do("check", ref=visit.number("gift", "checkbox"))
    visit.do("check", ref=visit.number("air", "radio"))
    visit.do("click", ref=visit.number("More", "item"))
    visit.do("scroll", to="down")


def test_a_form_half_filled_in(visit: Visitor) -> None:
    fill_in(visit)
    expected = visit.do("read")
    assert '"Ann"' in expected and "inner" in expected
    kept, history = visit.env.snapshot(), visit.env.history()
    for _ in range(2):
        visit.do("goto", url="/second")
        visit.env.rollback(kept)
        assert visit.do("read") == expected
        visit.do("press", key="End", ref=visit.number("Name", "textbox"))
        visit.do("press", key="!")
        visit.click("Save")
        assert '\\"name\\": \\"Ann!\\"' in visit.last.content
        assert '\\"size\\": \\"large\\", \\"way\\": \\"air\\"' in visit.last.content
    visit.env.replay(history)
    assert visit.do("read") == expected


def test_scrolling_comes_back(visit: Visitor) -> None:
    fill_in(visit)
    kept = visit.env.snapshot()
    expected = visit.do("scroll", to="down")
    assert "scrolled to 0 of" in visit.do("scroll", to="top")
    visit.env.rollback(kept)
    assert visit.do("scroll", to="down") == expected


def test_history_and_tabs(visit: Visitor) -> None:
    visit.do("read")
    visit.click("second", "link")
    visit.click("third", "link")
    visit.do("back")
    visit.do("tab", action="new")
    visit.do("goto", url="/form")
    visit.do("goto", url="/windows")
    expected = visit.last.content
    kept = visit.env.snapshot()
    visit.do("tab", action="close", number=1)
    visit.env.rollback(kept)
    twin = Visitor(visit.env.fork(kept))
    for one in (visit, twin):
        assert one.do("read") == expected
        assert 'page: "Form"' in one.do("back")
        one.do("tab", action="switch", number=1)
        assert one.seen.title == "Second"
        one.do("forward")
        assert one.seen.title == "Third"
        assert "no page after" in one.attempt("forward")
        one.do("back")
        one.do("back")
        assert one.seen.title == "Zoo" and "no page before" in one.attempt("back")
    twin.env.close()


def test_a_page_that_a_form_has_led_to(visit: Visitor) -> None:
    visit.do("goto", url="/form")
    expected = visit.click("Save")
    saved, kept = visit.env._now.world.save(), visit.env.snapshot()
    visit.do("goto", url="/third")
    visit.env.rollback(kept)
    assert visit.do("read") == expected
    visit.do("goto", url="/second")
    assert "passed over" in visit.do("back") and visit.seen.title == "Form"
    assert visit.env._now.world.save() == saved, "nothing is sent again"


def test_going_back_is_the_same_in_another_life_of_a_page(visit: Visitor) -> None:
    """A browser would bring typed text back, which cannot be taken out of it and put in again."""
    fill_in(visit)
    visit.do("goto", url="/second")
    kept = visit.env.snapshot()
    expected = visit.do("back")
    visit.env.rollback(kept)
    assert visit.do("back") == expected and '"Ann"' not in expected


def test_a_snapshot_costs_nothing_where_nothing_was_looked_at(visit: Visitor) -> None:
    start = visit.env.snapshot()
    assert visit.env._now._session is None
    visit.do("goto", url="/second")
    kept = visit.env.snapshot()
    visit.env.rollback(start)
    assert visit.do("read") and visit.seen.title == "Zoo"
    visit.env.rollback(kept)
    assert visit.do("read") and visit.seen.title == "Second"


def test_stores_and_indexed_databases(monkeypatch: pytest.MonkeyPatch) -> None:
    env = Zoo(**LONG)
    env.reset(seed=1)
    visit = Visitor(env)
    visit.do("goto", url="/stored")
    visit.click("Store")
    visit.click("Database")
    visit.do("wait")
    expected = visit.do("goto", url="/stored")
    assert '"kept,too"' in expected
    kept = env.snapshot()
    monkeypatch.setattr(env._now, "_replayed", None)  # it comes back without being played again
    for _ in range(2):
        env.rollback(kept)
        assert visit.do("read") == expected
        visit.click("Look")
        assert any('"kept,too deep"' in visit.do("wait") for _ in range(5))
    env.close()


def test_state_in_scripts_is_played_again() -> None:
    env = Zoo(**LONG)
    env.reset(seed=1)
    visit = Visitor(env)
    visit.do("goto", url="/heap")
    visit.click("More")
    visit.click("More")
    expected, kept = visit.last.content, env.snapshot()
    visit.click("More")
    env.rollback(kept)
    assert visit.do("read") == expected
    assert '"3"' in visit.click("More")
    env.close()


def test_state_that_is_another_every_time_is_refused() -> None:
    env = Zoo(**LONG)
    env.reset(seed=1)
    visit = Visitor(env)
    visit.do("goto", url="/entropy")
    kept = env.snapshot()
    with pytest.raises(SnapshotUnsupported, match="lives in its scripts"):
        env.rollback(kept)
    env.close()


def test_what_was_edited_in_place_comes_back(visit: Visitor) -> None:
    """What the tree does not show of it, too: the form of a text, and the place of the caret."""
    visit.do("goto", url="/bold")
    visit.do("click", ref=visit.number("", "textbox"))
    visit.do("press", key="Home")
    visit.do("press", key="Shift+End")
    visit.do("press", key="Control+b")
    visit.do("press", key="ArrowRight")
    visit.do("press", key="ArrowLeft")
    expected, kept = visit.do("read"), visit.env.snapshot()
    for _ in range(2):
        visit.do("goto", url="/second")
        visit.env.rollback(kept)
        assert visit.do("read") == expected
        visit.do("press", key="k")
        assert '"<b>workd</b>"' in visit.click("Show")


def test_an_upload_is_played_again(visit: Visitor) -> None:
    visit.do("goto", url="/form")
    visit.do("fill", ref=visit.number("Paper", "button"), text="kept text")
    expected, kept = visit.do("read"), visit.env.snapshot()
    visit.do("goto", url="/second")
    visit.env.rollback(kept)
    assert visit.do("read") == expected
    visit.click("Save")
    assert "upload.txt=kept text" in visit.last.content
