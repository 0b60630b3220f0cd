"""A page as text: the accessibility tree, one element a line, cut into parts that fit a budget.

    page: Results
    url: http://shop.test/search?q=tea
    tabs: 1 "Results" (shown), 2 "Cart"
    note: a new tab was opened

    heading "Results"
    [12] link "Green tea"
    [13] textbox "Search": "tea"
    [14] button "Add to cart" (disabled)

What can be acted on has a number, which no other element of the episode has, gone ones included. An
element that is edited in place (contenteditable) is a textbox, with what is in it below.
Everything that a page says is quoted and stands on one line, so that it cannot pass for a note.
`agent_envs.envs.browser.reading` finds the numbers again.
"""

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

ACTIONABLE = frozenset(
    "button checkbox combobox gridcell link listbox menuitem menuitemcheckbox menuitemradio option "
    "radio searchbox slider spinbutton switch tab textbox treeitem".split()
)
"""Roles that can be acted on; beside them, what has a hand for a cursor, or a name and no role."""
EDITOR_ROLE = "marquee textbox"
"""What `Tab.prepare` makes an element that is edited in place; its first word is not used else."""
_EDITOR = EDITOR_ROLE.split()[0]
_WRAPPERS = frozenset({"generic", "list", "listitem", "rowgroup"})
_LONGEST = 300
"""Characters of a name or a text on one line."""
_ITEM = re.compile(r"(?P<indent> *)- (?P<rest>.*)")
_HEAD = re.compile(
    r'(?P<role>[a-z]+)(?: (?P<name>"(?:[^"\\]|\\.)*"))?(?P<attributes>(?: \[[^\]]*\])*)'
)
_ATTRIBUTE = re.compile(r"\[([a-z]+)(?:=([^\]]*))?\]")
_SHOWN = ("checked", "disabled", "expanded", "pressed", "selected", "invalid")


@dataclass(frozen=True)
class Element:
    """A line of the tree."""

    depth: int
    role: str
    name: str
    states: tuple[str, ...]
    text: str
    ref: str
    """Playwright's own reference, empty where the element cannot be acted on."""


class Numbered(NamedTuple):
    """An element and its number, 0 where it has none."""

    number: int
    element: Element


def read_tree(snapshot: str) -> list[Element]:
    """The elements of Playwright's snapshot (mode "ai"); wrappers that say nothing are left out."""
    elements: list[Element] = []
    inner: list[tuple[int, int]] = []  # indents of open elements, and the depth of what is in them
    for line in snapshot.split("\n"):
        item = _ITEM.fullmatch(line)
        if item is None:
            continue
        indent = len(item["indent"])
        while inner and inner[-1][0] >= indent:
            inner.pop()
        depth = inner[-1][1] if inner else 0
        element = _read_item(item["rest"], depth)
        if element is not None:
            elements.append(element)
        inner.append((indent, depth + 1 if element is not None else depth))
    return [e for i, e in enumerate(elements) if not _repeats(elements, i)]


def _read_item(rest: str, depth: int) -> Element | None:
    """One item: `role "name" [attributes]: text`; None for a wrapper, and for a property."""
    key, text = _split(rest)
    if key.startswith("/"):
        return None
    if key == "text":
        return Element(depth, "text", "", (), text, "")
    head = _HEAD.fullmatch(key)
    if head is None:
        return Element(depth, "text", "", (), f"{key} {text}".strip(), "")
    role, name = head["role"], _unquoted(head["name"]) if head["name"] else ""
    role = "textbox" if role == _EDITOR else role
    attributes = dict(_ATTRIBUTE.findall(head["attributes"]))
    can_act = role in ACTIONABLE or attributes.get("cursor") == "pointer"
    can_act = can_act or (role == "generic" and bool(name))
    if role in _WRAPPERS and not (name or text or can_act):
        return None
    states = tuple(s if not v else f"{s}={v}" for s, v in attributes.items() if s in _SHOWN)
    role = role if role != "generic" else "item" if can_act else "text"
    return Element(depth, role, name, states, text, attributes.get("ref", "") if can_act else "")


def _split(rest: str) -> tuple[str, str]:
    """The key and the value of a YAML line as Playwright writes it."""
    if rest.startswith("'"):
        end = re.match(r"'((?:[^']|'')*)'", rest)
        key = end[1].replace("''", "'") if end else rest
        value = rest[end.end() :] if end else ""
    else:
        quoted = re.match(r'(?:[^":]|"(?:[^"\\]|\\.)*")*', rest)
        key = quoted[0] if quoted else rest
        value = rest[len(key) :]
    value = value.removeprefix(":").strip()
    return key.rstrip(), _unquoted(value) if value.startswith('"') else value


def _unquoted(text: str) -> str:
    try:
        return str(json.loads(text, strict=False))
    except ValueError:  # YAML's \x escapes
        return re.sub(r"\\x([0-9a-fA-F]{2})", lambda m: chr(int(m[1], 16)), text[1:-1])


def _repeats(elements: list[Element], index: int) -> bool:
    """Whether a text only says the name of its neighbour or parent again, as a label does."""
    element = elements[index]
    if element.role != "text" or element.ref or not element.text:
        return False
    near = (elements[i] for i in (index - 1, index + 1) if 0 <= i < len(elements))
    return any(e.name == element.text and e.ref for e in near)


def line_of(number: int, element: Element) -> str:
    """An element as a line."""
    parts = [f"[{number}]"] if number else []
    if element.role != "text":
        parts.append(element.role)
    if element.name:
        parts.append(quoted(element.name))
    if element.states:
        parts.append(f"({', '.join(element.states)})")
    line = " ".join(parts)
    if element.role == "text":
        return f"{'  ' * element.depth}{line + ' ' if line else ''}{quoted(element.text)}"
    return f"{'  ' * element.depth}{line}" + (f": {quoted(element.text)}" if element.text else "")


def quoted(text: str) -> str:
    """A page's text in quotes, on one line, with a limit."""
    text = " ".join(text.split())
    if len(text) > _LONGEST:
        text = f"{text[:_LONGEST]}... ({len(text) - _LONGEST} characters more)"
    return json.dumps(text, ensure_ascii=False)


def parts_of(lines: Iterable[str], budget: int) -> list[str]:
    """The lines as parts of at most `budget` characters each; at least one part."""
    parts: list[list[str]] = [[]]
    size = 0
    for line in lines:
        if size + len(line) + 1 > budget and parts[-1]:
            parts.append([])
            size = 0
        parts[-1].append(line[:budget])
        size += len(line) + 1
    return ["\n".join(part) for part in parts]


def observation(
    title: str,
    url: str,
    tabs: Sequence[tuple[int, str, bool]],
    notes: Sequence[str],
    parts: Sequence[str],
    part: int = 1,
) -> str:
    """The whole text that the model reads. `tabs`: number, title, whether it is the shown one."""
    lines = [f"page: {quoted(title)}", f"url: {url}"]
    if len(tabs) > 1:
        told = (f"{n} {quoted(name)}{' (shown)' if shown else ''}" for n, name, shown in tabs)
        lines.append(f"tabs: {', '.join(told)}")
    lines += [f"note: {note}" for note in notes]
    if len(parts) > 1:
        lines.append(f"note: part {part} of {len(parts)}; read(part=...) shows another one")
    return "\n".join([*lines, "", parts[part - 1]])
