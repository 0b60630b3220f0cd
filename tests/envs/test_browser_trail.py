"""A tab's trail against Chromium's entries, by hand: new pages, replaced ones, ways back."""

from typing import Any

from agent_envs.envs.browser.trail import BLANK, Stop, Trail


def entries(*pairs: tuple[int, str]) -> list[dict[str, Any]]:
    return [{"id": number, "url": url} for number, url in pairs]


def urls(trail: Trail) -> list[str]:
    return [stop.url for stop in trail.stops]


def test_an_empty_tab_is_no_stop() -> None:
    trail = Trail()
    trail.update(entries((1, BLANK)), 0, "GET", "")
    assert (urls(trail), trail.at, trail.target(-1), trail.target(1)) == ([], -1, None, None)
    trail.update(entries((1, BLANK), (2, "a")), 1, "GET", "A")
    assert (urls(trail), trail.at, trail.target(-1)) == (["a"], 0, None)


def test_new_pages_and_a_visit_back() -> None:
    trail = Trail()
    trail.update(entries((2, "a")), 0, "GET", "A")
    trail.update(entries((2, "a"), (3, "b")), 1, "GET", "B")
    trail.update(entries((2, "a"), (3, "b"), (4, "c")), 2, "GET", "C")
    assert trail.target(-1) == 1 and trail.target(1) is None
    trail.expect(1)
    trail.update(entries((2, "a"), (3, "b"), (4, "c"), (5, "b")), 3, "GET", "B2")
    assert (urls(trail), trail.at) == (["a", "b", "c"], 1)
    assert trail.target(1) == 2 and trail.target(-1) == 0
    trail.update(entries((2, "a"), (3, "b"), (4, "c"), (5, "b"), (6, "d")), 4, "GET", "D")
    assert (urls(trail), trail.at) == (["a", "b", "d"], 2)


def test_a_page_in_place_of_another() -> None:
    trail = Trail()
    trail.update(entries((2, "a")), 0, "GET", "A")
    trail.update(entries((3, "b")), 0, "GET", "B")
    assert (urls(trail), trail.at) == (["b"], 0)
    trail.update(entries((3, "b?x")), 0, "GET", "B")
    assert urls(trail) == ["b?x"]


def test_the_answer_to_a_form_is_passed_over() -> None:
    trail = Trail([Stop("a", "GET", "A"), Stop("b", "POST", "B"), Stop("c", "GET", "C")], 2)
    trail.update(entries((1, BLANK), (2, "c")), 1, "GET", "C")
    assert trail.target(-1) == 0
    only = Trail([Stop("b", "POST", "B"), Stop("c", "GET", "C")], 1)
    assert only.target(-1) is None


def test_several_entries_at_once_and_travels_of_the_page() -> None:
    trail = Trail()
    trail.update(entries((2, "a")), 0, "GET", "A")
    inner = entries((2, "a"), (3, "a/1"), (4, "a/2"))
    trail.update(inner, 2, "GET", "A")
    assert (urls(trail), trail.at) == (["a", "a/1", "a/2"], 2)
    assert trail.known_as(1) == 3
    trail.update(inner, 0, "GET", "A")
    assert trail.at == 0 and trail.target(1) == 1
