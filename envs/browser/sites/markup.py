"""HTML as nested calls. Every text is escaped unless it is `Markup`, which only `tag` makes."""

import html
from collections.abc import Iterable, Sequence
from typing import TypeAlias


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


Child: TypeAlias = str | int
"""What stands inside a tag."""
Attribute: TypeAlias = str | int | bool

_EMPTY = frozenset({"meta", "link", "input", "br", "hr"})
_NAMES = {"cls": "class", "for_": "for", "aria_label": "aria-label"}


def tag(name: str, /, *children: Child, **attributes: Attribute) -> Markup:
    """An element. An attribute that is False is left out, one that is True has no value."""
    head = "".join(
        f" {_NAMES.get(key, key)}" + ("" if value is True else f'="{html.escape(str(value))}"')
        for key, value in attributes.items()
        if value is not False
    )
    if name in _EMPTY:
        return Markup(f"<{name}{head}>")
    return Markup(f"<{name}{head}>{''.join(map(_inside, children))}</{name}>")


def join(*children: Child) -> Markup:
    """Several things one after the other."""
    return Markup("".join(map(_inside, children)))


def link(text: str, href: str, label: str = "") -> Markup:
    """A link; `label` is its accessible name where the text alone would not say enough."""
    return tag("a", text, href=href, aria_label=label or False)


def form(action: str, *children: Child, method: str = "post", label: str = "") -> Markup:
    """A form that sends to `action`."""
    return tag("form", *children, action=action, method=method, aria_label=label or False)


def button(text: str, label: str = "", **attributes: Attribute) -> Markup:
    """A button that sends its form."""
    return tag("button", text, type="submit", aria_label=label or False, **attributes)


def field(label: str, name: str, value: Child = "", key: str = "") -> Markup:
    """A line of text with its label."""
    key = key or name
    box = tag("input", type="text", id=key, name=name, value=value, autocomplete="off")
    return tag("p", tag("label", label, for_=key), box)


def area(label: str, name: str, value: str = "") -> Markup:
    """Several lines of text with their label. The line feed keeps a first empty line."""
    box = tag("textarea", Markup("\n"), value, id=name, name=name, rows=5)
    return tag("p", tag("label", label, for_=name), box)


def select(
    label: str, name: str, options: Iterable[str | tuple[str, str]], chosen: str = "", key: str = ""
) -> Markup:
    """A choice among values, or pairs of value and text."""
    pairs = [(o, o) if isinstance(o, str) else o for o in options]
    items = [tag("option", text, value=v, selected=v == chosen) for v, text in pairs]
    key = key or name
    return tag("p", tag("label", label, for_=key), tag("select", *items, id=key, name=name))


def checkbox(label: str, name: str, value: Child, key: str, *, checked: bool = False) -> Markup:
    """A box to tick, with its label."""
    box = tag("input", type="checkbox", id=key, name=name, value=value, checked=checked)
    return tag("span", box, tag("label", label, for_=key), cls="tick")


def hidden(name: str, value: Child) -> Markup:
    """A value that goes along with a form."""
    return tag("input", type="hidden", name=name, value=value)


def table(head: Sequence[str], rows: Iterable[Sequence[Child]], caption: str = "") -> Markup:
    """A table with a line of headings."""
    top = tag("tr", *(tag("th", text, scope="col") for text in head))
    body = [tag("tr", *(tag("td", cell) for cell in row)) for row in rows]
    title = tag("caption", caption) if caption else ""
    return tag("table", title, tag("thead", top), tag("tbody", *body))


def facts(*pairs: tuple[str, Child]) -> Markup:
    """Names and values as a list of definitions."""
    return tag("dl", *(join(tag("dt", name), tag("dd", value)) for name, value in pairs))


def paragraphs(text: str) -> Markup:
    """Text as paragraphs, one a line that is not empty."""
    return join(*(tag("p", line) for line in text.split("\n") if line.strip()))


def _inside(child: Child) -> str:
    return child if isinstance(child, Markup) else html.escape(str(child))
