"""What an oracle needs: the numbers and the texts in an observation."""

import json
import re
from typing import NamedTuple

_LINE = re.compile(
    r'(?P<indent> *)(?:\[(?P<number>\d+)\] ?)?(?P<role>[a-z]+)?(?: ?(?P<name>"(?:[^"\\]|\\.)*"))?'
    r'(?: \((?P<states>[^)]*)\))?(?:: (?P<text>"(?:[^"\\]|\\.)*"))?'
)


class Line(NamedTuple):
    """A line of the tree: `[14] button "Add" (disabled)` is 14, "button", "Add", ("disabled",)."""

    depth: int
    number: int
    """0 where it cannot be acted on."""
    role: str
    """"text" for bare text, whose words are in `text`."""
    name: str
    states: tuple[str, ...]
    text: str


class Seen(NamedTuple):
    """An observation, taken apart."""

    title: str
    url: str
    notes: tuple[str, ...]
    lines: tuple[Line, ...]

    def number(self, role: str, name: str, nth: int = 0) -> int:
        """The number of the nth element of a role and a name. Raises LookupError."""
        found = [x.number for x in self.lines if (x.role, x.name) == (role, name) and x.number]
        if nth >= len(found):
            raise LookupError(f"no {role} {name!r} on {self.url}")
        return found[nth]

    def after(self, text: str, role: str, name: str) -> int:
        """The number of the first element of a role and a name below a line that says `text`."""
        below = False
        for line in self.lines:
            below = below or text in (line.name, line.text)
            if below and line.number and (line.role, line.name) == (role, name):
                return line.number
        raise LookupError(f"no {role} {name!r} below {text!r} on {self.url}")


def read(observation: str) -> Seen:
    """An observation taken apart; one that shows no page (an error) gives no lines."""
    head, _, body = observation.partition("\n\n")
    fields = [line.partition(": ")[::2] for line in head.split("\n")]
    first = dict(reversed(fields))
    return Seen(
        _unquoted(first.get("page", "")),
        first.get("url", ""),
        tuple(value for name, value in fields if name == "note"),
        tuple(filter(None, map(_line, body.split("\n")))),
    )


def _line(text: str) -> Line | None:
    found = _LINE.fullmatch(text)
    if found is None or not text.strip():
        return None
    name, inner = (_unquoted(found[x] or "") for x in ("name", "text"))
    states = tuple(found["states"].split(", ")) if found["states"] else ()
    number, depth = int(found["number"] or 0), len(found["indent"]) // 2
    if found["role"] is None:
        return Line(depth, number, "text", "", states, name)
    return Line(depth, number, found["role"], name, states, inner)


def _unquoted(text: str) -> str:
    """The text in quotes; what was cut off by a fault stays as it is."""
    try:
        return str(json.loads(text))
    except ValueError:
        return text
