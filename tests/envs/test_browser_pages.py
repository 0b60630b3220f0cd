"""What pages do, and what is said of it: forms, dialogs, tabs, files, frames, hostile ones."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.envs.browser_zoo import Visitor, Zoo

LONG: dict[str, Any] = {"max_turns": 10**6, "max_calls": 10**6}


@pytest.fixture(scope="module")
def env() -> Iterator[Zoo]:
    env = Zoo(patience=3.0, **LONG)
    yield env
    env.close()


@pytest.fixture
def visit(env: Zoo) -> Visitor:
    env.reset(seed=1)
    return Visitor(env)


def test_a_form(visit: Visitor) -> None:
    visit.do("goto", url="/form")
    visit.do("fill", ref=visit.number("Name", "textbox"), text='Ann "A" <b>')
    visit.do("fill", ref=visit.number("Note", "textbox"), text="one\ntwo")
    visit.do("select", ref=visit.number("Size", "combobox"), option="large")
    visit.do("check", ref=visit.number("gift", "checkbox"))
    visit.do("check", ref=visit.number("air", "radio"))
    assert "given to the field as a file" in visit.do(
        "fill", ref=visit.number("Paper", "button"), text="inside"
    )
    line = next(x for x in visit.seen.lines if x.name == "gift")
    assert "checked" in line.states
    visit.click("Save")
    assert visit.seen.url == "http://zoo.test/save"
    world = visit.env._now.world
    assert world.save() == (
        '{"gift": "on", "name": "Ann \\"A\\" <b>", "note": "one\\r\\ntwo", '
        '"paper": "upload.txt=inside", "size": "large", "way": "air"}',
    )


def test_what_cannot_be_done_is_said(visit: Visitor) -> None:
    visit.do("goto", url="/form")
    off, name = visit.number("Off"), visit.number("Name", "textbox")
    size = visit.number("Size", "combobox")
    tried: list[tuple[str, dict[str, Any], str | None]] = [
        ("click", {"ref": off}, "disabled"),
        ("click", {"ref": 987}, "there is no [987]"),
        ("select", {"ref": size, "option": "huge"}, 'there are "small", "large"'),
        ("select", {"ref": name, "option": "huge"}, "no list to select from"),
        ("check", {"ref": name}, "Not a checkbox"),
        ("press", {"key": "Nonsense"}, "Unknown key"),
        ("press", {"key": "Control+c"}, "there is no clipboard"),
        ("press", {"key": "Control+Shift+KeyV"}, "there is no clipboard"),
        ("press", {"key": "Shift+Insert"}, "there is no clipboard"),
        ("fill", {"ref": off, "text": "x"}, "disabled"),
        ("fill", {"ref": name, "text": "x" * 60_000}, "too long"),
        ("tab", {"action": "switch", "number": 7}, "no tab 7"),
        ("read", {"part": 9}, "no part 9"),
        ("back", {}, None),
        ("back", {}, "no page before"),
        ("goto", {"url": "http://"}, "only http://zoo.test/"),
    ]
    for tool, arguments, said in tried:
        text = visit.attempt(tool, **arguments)
        assert said in text if said else visit.last.error is None, text
    assert visit.last.error == "failed"


def test_covered_removed_and_read_only_elements(visit: Visitor) -> None:
    visit.do("goto", url="/cover")
    assert "something else lies over it" in visit.attempt("click", ref=visit.number("Under"))
    visit.do("goto", url="/hidden")
    assert not any(line.name == "Gone" for line in visit.seen.lines)
    gone = visit.number("Vanish")
    assert "cannot be edited" in visit.attempt("fill", ref=visit.number("ro", "textbox"), text="y")
    visit.do("read")
    visit.click("Remove")
    assert f"there is no [{gone}]" in visit.attempt("click", ref=gone)


def test_numbers_are_of_one_page(visit: Visitor) -> None:
    visit.do("read")
    link = visit.number("second", "link")
    assert visit.do("read").count(f"[{link}]") == 1
    visit.do("click", ref=link)
    assert visit.seen.title == "Second"
    assert "there is no" in visit.attempt("click", ref=link)
    visit.do("back")
    assert f"[{link}]" not in visit.last.content and visit.number("second", "link") > link


def test_keys_scrolling_and_focus(visit: Visitor) -> None:
    visit.do("goto", url="/form")
    name = visit.number("Name", "textbox")
    visit.do("click", ref=name)
    visit.do("press", key="a")
    visit.do("press", key="b", ref=name)
    assert next(x for x in visit.seen.lines if x.number == name).text == "ab"
    assert "scrolled to 720 of" in visit.do("scroll", to="down")
    assert "scrolled to 0 of" in visit.do("scroll", to="top")
    visit.do("press", key="Enter", ref=name)
    assert visit.seen.title == "Saved"


def test_dialogs(visit: Visitor) -> None:
    visit.do("goto", url="/dialogs")
    assert 'alert "hello" was answered with OK' in visit.click("Alert")
    assert '"alerted"' in visit.last.content
    assert 'confirm "sure?" was answered with Cancel' in visit.click("Confirm")
    assert '"false"' in visit.last.content
    assert '"true"' in visit.click("Confirm", dialog="accept")
    assert '"me"' in visit.click("Prompt", dialog="accept")
    assert "dialogs without end" in visit.click("Storm")
    assert visit.seen.url == "about:blank"
    visit.do("goto", url="/leaving")
    visit.click("Stay")
    assert visit.click("away", "link") and visit.seen.title == "Zoo"


def test_tabs(visit: Visitor) -> None:
    visit.do("goto", url="/windows")
    assert "a new tab opened" in visit.click("blank", "link")
    assert (visit.seen.title, visit.seen.url) == ("Second", "http://zoo.test/second")
    visit.do("tab", action="switch", number=1)
    visit.click("Open")
    assert visit.seen.title == "Third" and 'tabs: 1 "W", 2 "Second", 3 "Third" (shown)' in (
        visit.last.content
    )
    visit.do("tab", action="close", number=3)
    assert "a tab was closed" in visit.last.content
    visit.do("tab", action="switch", number=1)
    assert "a new tab was not opened" in visit.click("Many")
    assert "there can be no more" in visit.attempt("tab", action="new")
    for _ in range(5):
        visit.attempt("tab", action="close", number=1)
    assert visit.seen.url == "about:blank"


def test_downloads(visit: Visitor) -> None:
    visit.do("goto", url="/files")
    for name, file in (("Get", "file.bin"), ("Forced", "a.bin")):
        assert (
            f"'{file}' is not kept" in visit.click(name, "link") or "'a.bin'" in visit.last.content
        )
        assert visit.seen.title == "F"
    assert "is not kept" in visit.do("goto", url="/forced")


def test_frames_and_shadows(visit: Visitor) -> None:
    visit.do("goto", url="/frames")
    assert "clicked inside" in visit.click("Inside")
    visit.do("fill", ref=visit.number("In", "textbox"), text="in a frame")
    assert '"on"' in visit.click("Shadow") and '"in a frame"' in visit.last.content


def editors(visit: Visitor) -> list[tuple[str, str]]:
    """Name and text of the fields."""
    return [(x.name, x.text) for x in visit.seen.lines if x.role == "textbox" and x.number]


def field(visit: Visitor, text: str) -> int:
    return next(x.number for x in visit.seen.lines if x.role == "textbox" and x.text == text)


def test_elements_that_are_edited_in_place(visit: Visitor) -> None:
    visit.do("goto", url="/editors")
    assert editors(visit) == [
        ("", "plain bold text"), ("", ""), ("", ""), ("", "Heading"), ("", "shadowed"),
        ("Named", ""), ("", "framed"), ("", ""), ("", "island"),
    ]  # fmt: skip
    numbered = [x for x in visit.seen.lines if x.number]
    assert len(numbered) == 10, "what is in one has no number for being edited"
    inner = {x.text or x.name: x.role for x in visit.seen.lines}
    assert inner["one"] == inner["two"] == "paragraph" and inner["three"] == "listitem"
    assert inner["fixed"] == "text"
    for old in ("plain bold text", "Heading", "shadowed", "framed", "island"):
        visit.do("fill", ref=field(visit, old), text=f"new {old}")
        assert ("", f"new {old}") in editors(visit)
    number = field(visit, "new Heading")
    visit.do("click", ref=number)
    visit.do("press", key="End")
    visit.do("press", key="!", ref=number)
    assert field(visit, "new Heading!") == number
    [around, _] = [x.number for x in visit.seen.lines if x.role == "textbox"][-2:]
    visit.click("Shut")
    assert around not in [x.number for x in visit.seen.lines] and field(visit, "new island")
    assert "there is no" in visit.attempt("fill", ref=around, text="more")


def test_a_page_that_builds_itself(visit: Visitor) -> None:
    visit.do("goto", url="/spa")
    assert "at /spa/a" in visit.click("A", "link") and visit.seen.url.endswith("/spa/a")
    assert "fetched" in visit.click("Fetch")
    assert "at /spa" in visit.do("back") and visit.seen.url.endswith("/spa")
    assert "at /spa/a" in visit.do("forward")


def test_a_long_page_has_parts(visit: Visitor) -> None:
    text = visit.do("goto", url="/many")
    assert "part 1 of" in text and len(text) < 9000
    assert 'link "link 9999"' not in text
    parts = int(visit.seen.notes[0].split()[3].rstrip(";"))
    assert 'link "link 9999"' in visit.do("read", part=parts)
    visit.click("link 9999", "link")
    assert visit.seen.url == "http://zoo.test/x9999"


def test_what_a_page_says_cannot_pass_for_something_else(visit: Visitor) -> None:
    text = visit.do("goto", url="/spoof")
    assert visit.seen.notes == () and '[1] button "x" note: nothing' in str(visit.seen.lines)
    assert text.startswith('page: "note: fake [1] button"')


@pytest.mark.parametrize("page", ["/loop", "/loops"])
def test_a_page_that_loops_costs_a_turn(visit: Visitor, page: str) -> None:
    visit.do("goto", url=page)
    if page == "/loop":
        visit.click("Loop")
    assert "did not answer, and was closed" in visit.last.content
    assert visit.do("goto", url="/") and visit.seen.title == "Zoo"


def test_endless_redirects_and_large_pages(visit: Visitor) -> None:
    visit.do("goto", url="/links")
    assert "ERR_TOO_MANY_REDIRECTS" in visit.click("round", "link")
    visit.do("goto", url="/big")
    assert visit.seen.title == "Big"
    assert visit.do("goto", url="/moved") and visit.seen.title == "Second"


def test_a_picture(env: Zoo, visit: Visitor) -> None:
    pictures = Zoo(render_mode="rgb_array")
    pictures.reset(seed=1)
    picture = pictures.render()
    assert picture.shape == (720, 1280, 3) and picture.min() < picture.max() == 255
    pictures.close()
