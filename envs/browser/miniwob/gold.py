"""Gold scripts for pages of MiniWoB++ whose problem can be read from the page's text.

Each is a function of what the page says is to be done, of the page, and of the turn; it returns the
turn's calls. Pages that are to be drawn, dragged or looked at have none: see `PAGES`.
"""

import re
from collections.abc import Callable, Sequence
from typing import TypeAlias

from agent_envs.envs.browser.reading import Line, Seen, read
from agent_envs.turns import Message, Move, ToolCall

Calls: TypeAlias = list[ToolCall]
Script: TypeAlias = Callable[[str, Seen, int], Calls]


def move(page: str, messages: Sequence[Message]) -> Move:
    """The next gold move. Raises NotImplementedError for a page without a script."""
    if page not in PAGES:
        raise NotImplementedError(f"no gold script for the page {page!r}")
    turn = sum(m["role"] == "assistant" for m in messages)
    if turn == 0:
        return [ToolCall("read", {})]
    if turn > 12:
        return "done"
    seen = read(messages[-1]["content"])
    return PAGES[page](_query(seen), seen, turn) or "done"


# -- pieces ----------------------------------------------------------------------------------------


def _query(seen: Seen) -> str:
    return seen.lines[0].text if seen.lines else ""


def _click(number: int) -> ToolCall:
    return ToolCall("click", {"ref": number})


def _fill(number: int, text: str) -> ToolCall:
    return ToolCall("fill", {"ref": number, "text": text})


def _all(seen: Seen, role: str) -> list[Line]:
    return [line for line in seen.lines if line.role == role and line.number]


def _quoted(query: str) -> list[str]:
    return re.findall(r'"([^"]*)"', query)


def _button(seen: Seen, name: str = "Submit") -> ToolCall:
    """Press a button, whatever the case of its name."""
    found = [x for x in _all(seen, "button") if x.name.casefold() == name.casefold()]
    return _click(found[0].number)


def _ordinal(query: str) -> int:
    found = re.search(r"(\d+)(?:st|nd|rd|th)", query)
    return int(found[1]) - 1 if found else 0


def _text_then_submit(seen: Seen, *texts: str, button: str = "Submit") -> Calls:
    boxes = _all(seen, "textbox")
    return [
        *(_fill(b.number, t) for b, t in zip(boxes, texts, strict=False)),
        _button(seen, button),
    ]


# -- scripts ---------------------------------------------------------------------------------------


def _only_button(query: str, seen: Seen, turn: int) -> Calls:
    return [_click(_all(seen, "button")[0].number)]


def _button_one(query: str, seen: Seen, turn: int) -> Calls:
    return [_button(seen, "ONE")]


def _button_quoted(query: str, seen: Seen, turn: int) -> Calls:
    return [_button(seen, _quoted(query)[0])]


def _two_buttons(query: str, seen: Seen, turn: int) -> Calls:
    return [_button(seen, "ONE"), _button(seen, "TWO")]


def _close(query: str, seen: Seen, turn: int) -> Calls:
    return [_button(seen, "Close")]


def _dialog(query: str, seen: Seen, turn: int) -> Calls:
    wanted = _quoted(query)[0]
    return [_button(seen, "Close" if wanted == "x" else wanted)]


def _login(query: str, seen: Seen, turn: int) -> Calls:
    return _text_then_submit(seen, *_quoted(query), button="Login")


def _password(query: str, seen: Seen, turn: int) -> Calls:
    return _text_then_submit(seen, _quoted(query)[0], _quoted(query)[0])


def _enter_quoted(query: str, seen: Seen, turn: int) -> Calls:
    return _text_then_submit(seen, _quoted(query)[0])


def _enter_in_case(query: str, seen: Seen, turn: int) -> Calls:
    text = _quoted(query)[0]
    return _text_then_submit(seen, text.upper() if "upper case" in query else text.lower())


def _date(query: str, seen: Seen, turn: int) -> Calls:
    month, day, year = re.findall(r"\d+", query)[:3]
    return _text_then_submit(seen, f"{year}-{month}-{day}")


def _time(query: str, seen: Seen, turn: int) -> Calls:
    hour, minute, half = re.findall(r"(\d+):(\d+) ([AP]M)", query)[0]
    hours = int(hour) % 12 + (12 if half == "PM" else 0)
    return _text_then_submit(seen, f"{hours:02}:{minute}")


def _list(query: str, seen: Seen, turn: int) -> Calls:
    wanted = re.findall(r"Select (.*) from the list", query)[0]
    box = _all(seen, "combobox")[0].number
    return [ToolCall("select", {"ref": box, "option": wanted}), _button(seen)]


def _scroll_list(query: str, seen: Seen, turn: int) -> Calls:
    wanted = re.findall(r"Select (.*) from the scroll list", query)[0].split(", ")
    box = _all(seen, "listbox")[0].number
    return [ToolCall("select", {"ref": box, "option": wanted}), _button(seen)]


def _option(query: str, seen: Seen, turn: int) -> Calls:
    wanted = re.findall(r"Select (.*) and click", query)[0]
    return [ToolCall("check", {"ref": seen.number("radio", wanted)}), _button(seen)]


def _boxes(query: str, seen: Seen, turn: int) -> Calls:
    wanted = re.findall(r"Select (.*) and click", query)[0].split(", ")
    chosen = [x.number for x in _all(seen, "checkbox") if x.name in wanted]
    return [*(ToolCall("check", {"ref": number}) for number in chosen), _button(seen)]


def _tab(query: str, seen: Seen, turn: int) -> Calls:
    return [_click(seen.number("link", re.findall(r"Tab #\d+", query)[0]))]


def _expand(query: str, seen: Seen, turn: int) -> Calls:
    if turn == 1:
        return [_click(_all(seen, "tab")[0].number), ToolCall("wait", {})]
    return [_button(seen)]


def _word(query: str, seen: Seen, turn: int) -> Calls:
    text = next(x.text for x in seen.lines if x.role == "paragraph")
    word = re.findall(r"[A-Za-z]+", text)[_ordinal(query)]
    return _text_then_submit(seen, word)


def _focus(query: str, seen: Seen, turn: int) -> Calls:
    return [_click(_all(seen, "textbox")[_ordinal(query)].number)]


def _cells(seen: Seen) -> dict[str, str]:
    names = [x.name for x in seen.lines if x.role == "cell"]
    return dict(zip(names[::2], names[1::2], strict=True))


def _table(query: str, seen: Seen, turn: int) -> Calls:
    wanted = re.findall(r"value of (.*) into", query)[0]
    return _text_then_submit(seen, _cells(seen)[wanted])


def _table_labels(query: str, seen: Seen, turn: int) -> Calls:
    labels = [x.text.rstrip(":") for x in seen.lines if x.role == "text" and x.text.endswith(":")]
    return _text_then_submit(seen, *(_cells(seen)[label] for label in labels))


def _sum(query: str, seen: Seen, turn: int) -> Calls:
    one, sign, two = re.findall(r"(\d+) ([-+x*]) (\d+)", seen.lines[1].text)[0]
    a, b = int(one), int(two)
    return _text_then_submit(seen, str({"+": a + b, "-": a - b}.get(sign, a * b)))


def _equation(query: str, seen: Seen, turn: int) -> Calls:
    """`a + x = c`, `x + a = c`, and the same with a minus."""
    left, sign, right, total = re.findall(r"(\w+) ([-+]) (\w+) = (-?\d+)", seen.lines[1].text)[0]
    if left == "x":
        x = int(total) - int(right) if sign == "+" else int(total) + int(right)
    else:
        x = int(total) - int(left) if sign == "+" else int(left) - int(total)
    return _text_then_submit(seen, str(x))


def _radio_and_text(query: str, seen: Seen, turn: int) -> Calls:
    kind, number = re.findall(r"(\d+)(?:st|nd|rd|th) (radio|check)", query)[0][::-1]
    role = "radio" if kind == "radio" else "checkbox"
    box = re.findall(r"(\d+)(?:st|nd|rd|th) textbox", query)[0]
    text = _quoted(query)[0]
    return [
        ToolCall("check", {"ref": _all(seen, role)[int(number) - 1].number}),
        _fill(_all(seen, "textbox")[int(box) - 1].number, text),
        _button(seen),
    ]


def _choose_and_press(query: str, seen: Seen, turn: int) -> Calls:
    wanted = re.findall(r"Choose (.*) from the dropdown", query)[0]
    box = _all(seen, "combobox")[0].number
    return [ToolCall("select", {"ref": box, "option": wanted}), _button(seen, _quoted(query)[0])]


def _movies(query: str, seen: Seen, turn: int) -> Calls:
    genre, who, year = re.findall(r"for (.*) movies directed by (.*) from year (\d+)", query)[0]
    wanted = {"genre": genre, "director": who, "year": year}
    labels = [
        x.name or x.text for x in seen.lines if (x.name or x.text).rstrip(":").lower() in wanted
    ]
    texts = [wanted[label.rstrip(":").lower()] for label in labels]
    boxes = _all(seen, "textbox")
    submit = next(x for x in seen.lines if x.number and "Submit" in (x.name, x.text))
    fills = [_fill(b.number, t) for b, t in zip(boxes, texts, strict=True)]
    return [*fills, _click(submit.number)]


def _ticket(query: str, seen: Seen, turn: int) -> Calls:
    """By price or by duration, the least or the most."""
    durations = [x.text for x in seen.lines if re.fullmatch(r"\d+h \d+m", x.text)]
    lengths = [int(h) * 60 + int(m) for h, m in (re.findall(r"\d+", d) for d in durations)]
    buttons = _all(seen, "button")
    prices = [int(button.name.rpartition("$")[2]) for button in buttons]
    values = lengths if "duration" in query else prices
    best = min(values) if re.search("cheapest|shortest", query) else max(values)
    return [_click(buttons[values.index(best)].number)]


def _parity(query: str, seen: Seen, turn: int) -> Calls:
    calls: Calls = []
    for index, line in enumerate(seen.lines):
        if line.role == "text" and re.fullmatch(r"-?\d+", line.text):
            near = seen.lines[index + 1 if int(line.text) % 2 == 0 else index - 1]
            calls.append(_click(near.number))
    return [*calls, _button(seen)]


def _guess(query: str, seen: Seen, turn: int) -> Calls:
    """Every number, one after the other, until the page is content."""
    box = _all(seen, "spinbutton")[0].number
    return [call for n in range(10) for call in (_fill(box, str(n)), _button(seen))]


def _letters(query: str, seen: Seen, turn: int) -> Calls:
    return _text_then_submit(seen, "".join(x.text for x in seen.lines[1:] if x.role == "text"))


def _spinner(query: str, seen: Seen, turn: int) -> Calls:
    wanted = re.findall(r"Select (-?\d+) with", query)[0]
    return [_fill(_all(seen, "spinbutton")[0].number, wanted), _button(seen)]


PAGES: dict[str, Script] = {
    "buy-ticket": _ticket,
    "choose-list": _list,
    "click-button": _button_quoted,
    "click-button-sequence": _two_buttons,
    "click-checkboxes": _boxes,
    "click-checkboxes-transfer": _boxes,
    "click-collapsible": _expand,
    "click-collapsible-nodelay": _expand,
    "click-dialog": _close,
    "click-dialog-2": _dialog,
    "click-option": _option,
    "click-scroll-list": _scroll_list,
    "click-tab": _tab,
    "click-test": _only_button,
    "click-test-2": _button_one,
    "click-test-transfer": _button_one,
    "enter-date": _date,
    "enter-password": _password,
    "enter-text": _enter_quoted,
    "enter-text-2": _enter_in_case,
    "enter-text-dynamic": _enter_quoted,
    "enter-time": _time,
    "find-word": _word,
    "focus-text": _focus,
    "focus-text-2": _focus,
    "form-sequence-2": _radio_and_text,
    "form-sequence-3": _choose_and_press,
    "guess-number": _guess,
    "login-user": _login,
    "multi-orderings": _movies,
    "odd-or-even": _parity,
    "read-table": _table,
    "read-table-2": _table_labels,
    "simple-algebra": _equation,
    "simple-arithmetic": _sum,
    "text-transform": _letters,
    "unicode-test": _button_quoted,
    "use-spinner": _spinner,
}
"""The pages that have a script, and it."""
