"""What a person types for a call."""

from typing import Any

import pytest

from agent_envs import ToolCall, tool
from agent_envs.cli.common import Usage
from agent_envs.cli.typed import shorthand
from agent_envs.tool import Tool


class Tools:
    """Some tools of different shapes."""

    @tool
    def search(self, query: str, limit: int = 5, exact: bool = False) -> str:
        """Look for text."""
        return query

    @tool
    def wait(self, seconds: float) -> str:
        """Do nothing."""
        return str(seconds)

    @tool
    def mark(self, lines: list[int], note: str | None = None) -> str:
        """Mark lines."""
        return str(lines)

    @tool
    def move(self, name: str, to: str, times: int = 1) -> str:
        """Move a file."""
        return to

    @tool(name="go-back")
    def go_back(self) -> str:
        """Go back."""
        return ""


TOOLS = {t.name: t for t in vars(Tools).values() if isinstance(t, Tool)}

READ: dict[str, tuple[str, dict[str, Any]]] = {
    "search 23+45": ("search", {"query": "23+45"}),
    "  search   two  words ": ("search", {"query": "two  words"}),
    'search {"query": "x", "limit": 2}': ("search", {"query": "x", "limit": 2}),
    'search {"a": 1}': ("search", {"query": '{"a": 1}'}),
    "search (1+2)*3": ("search", {"query": "(1+2)*3"}),
    "search()": ("search", {}),
    "search(1+2)": ("search", {"query": "1+2"}),
    "search(5)": ("search", {"query": "5"}),
    "search(true)": ("search", {"query": "true"}),
    "search('a', 3)": ("search", {"query": "a", "limit": 3}),
    'search(query="a(b", limit=3, exact=True)': (
        "search",
        {"query": "a(b", "limit": 3, "exact": True},
    ),
    "search(query=tea, exact=false)": ("search", {"query": "tea", "exact": False}),
    "search((1+2)*3)": ("search", {"query": "(1+2)*3"}),
    "search('naïve', limit=-2)": ("search", {"query": "naïve", "limit": -2}),
    "search(é+1)": ("search", {"query": "é+1"}),
    "search('a', limit='many')": ("search", {"query": "a", "limit": "many"}),
    "wait 2.5": ("wait", {"seconds": 2.5}),
    "wait long": ("wait", {"seconds": "long"}),
    "mark [1, 2]": ("mark", {"lines": [1, 2]}),
    "mark([1, 2], note=null)": ("mark", {"lines": [1, 2], "note": None}),
    "mark([1], note=7)": ("mark", {"lines": [1], "note": "7"}),
    "go-back": ("go-back", {}),
    "go-back()": ("go-back", {}),
    "move a.txt work": ("move", {"name": "a.txt", "to": "work"}),
    "move 1 'my folder' 2": ("move", {"name": "1", "to": "my folder", "times": 2}),
    'move {"name": "a", "to": "b"}': ("move", {"name": "a", "to": "b"}),
    'search {"query": NaN}': ("search", {"query": '{"query": NaN}'}),
    "wait NaN": ("wait", {"seconds": "NaN"}),
    "wait(1e999)": ("wait", {"seconds": "1e999"}),
    "mark({1, 2})": ("mark", {"lines": "{1, 2}"}),
    "mark((1, 2))": ("mark", {"lines": [1, 2]}),
}


@pytest.mark.parametrize("line", READ)
def test_a_call(line: str) -> None:
    assert shorthand(line, TOOLS) == ToolCall(*READ[line])


@pytest.mark.parametrize("line", ["", "68", "searching for it", "go", "(search)", "<tool_call>{}"])
def test_no_call(line: str) -> None:
    assert shorthand(line, TOOLS) is None


@pytest.mark.parametrize(
    "line",
    [
        "search",
        "search(",
        "search(two words)",
        "search('a', 1, True, 4)",
        "search(**{'query': 1})",
        "search('a')*2",
        "search('a'))",
        "search(" + "(" * 5000,
        "search(\0)",
    ],
)
def test_a_call_that_cannot_be_read_says_how_to_write_it(line: str) -> None:
    with pytest.raises(Usage, match=r"write search\(query=\.\.\., limit=\.\.\., exact=\.\.\.\)"):
        shorthand(line, TOOLS)


@pytest.mark.parametrize(
    "line",
    [
        "move",
        "move a",
        "move a b c",
        "move a b 1 2",
        "move a it's",
        r"move a\ b c",
        'move "a" b"c"',
    ],
)
def test_words_that_are_not_the_arguments(line: str) -> None:
    with pytest.raises(Usage, match=r"write move\(name=\.\.\., to=\.\.\., times=\.\.\.\)"):
        shorthand(line, TOOLS)


def test_words_for_a_tool_without_parameters() -> None:
    with pytest.raises(Usage, match=r"cannot read go-back now; write go-back\(\)"):
        shorthand("go-back now", TOOLS)
