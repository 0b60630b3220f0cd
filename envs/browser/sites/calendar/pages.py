"""The calendar's pages to look at: days, people, rooms, the search, one meeting."""

from datetime import date
from typing import Any

from agent_envs.envs.browser.sites.calendar.world import MINE, REPLIES, busy, clock
from agent_envs.envs.browser.sites.database import moment, now
from agent_envs.envs.browser.sites.markup import (
    Child,
    Markup,
    button,
    facts,
    field,
    form,
    join,
    link,
    paragraphs,
    select,
    table,
    tag,
)
from agent_envs.envs.browser.sites.visit import Response, Visit

_A_PAGE = 15


def day_asked(visit: Visit) -> str:
    """The day that the query names, or else today."""
    text = visit.asked("day")
    try:
        return date.fromisoformat(text).isoformat() if len(text) == 10 else _today(visit)
    except ValueError:
        return _today(visit)


def _today(visit: Visit) -> str:
    return f"{moment(now(visit.db)):%Y-%m-%d}"


def _choose_day(path: str, day: str) -> Markup:
    return form(path, field("Day", "day", day), button("Show"), method="get", label="Choose a day")


def home(visit: Visit) -> Response:
    """The user's meetings of a day."""
    day = day_asked(visit)
    rows = visit.db.all(f"{MINE} AND m.day = ? ORDER BY m.start, m.id", day)
    here = date.fromisoformat(day)
    there = [("Day before", -1), ("Day after", 1)]
    links = [
        link(text, f"/?day={date.fromordinal(here.toordinal() + days)}")
        for text, days in there
        if 2 < here.toordinal() < date.max.toordinal()
    ]
    return visit.page(
        f"{here:%A} {day}",
        _choose_day("/", day),
        tag("p", *links, cls="links"),
        _list(rows, "Meetings"),
    )


def _list(rows: list[Any], caption: str) -> Markup:
    cells = [
        (
            r["day"],
            _times(r),
            link(r["title"], f"/meetings/{r['id']}"),
            r["room_name"] or "None",
            r["organiser_name"],
            r["reply"] or "Organiser",
        )
        for r in rows
    ]
    return table(("Day", "Time", "Title", "Room", "Organiser", "Your reply"), cells, caption)


def _times(row: Any) -> str:
    return f"{clock(row['start'])} to {clock(row['stop'])}"


def search(visit: Visit) -> Response:
    """The user's meetings by title."""
    sql = f"{MINE} AND instr(lower(m.title), lower(?)) ORDER BY m.day, m.start, m.id"
    rows, count, pages = visit.listing(sql, [visit.asked("q")], _A_PAGE)
    box = form("/search", field("Title", "q", visit.asked("q")), button("Search"), method="get")
    return visit.page("Search", box, _list(rows, f"{count} found"), pages)


def people(visit: Visit) -> Response:
    """All colleagues."""
    rows = visit.db.all("SELECT * FROM people ORDER BY name")
    cells = [(link(r["name"], f"/people/{r['id']}"), r["team"], r["email"]) for r in rows]
    return visit.page("People", table(("Name", "Team", "E-mail"), cells))


def person(visit: Visit) -> Response:
    """When somebody is busy on a day."""
    row, day = visit.row("SELECT * FROM people WHERE id = ?", visit.id), day_asked(visit)
    times = [tag("li", f"Busy {_times(r)}") for r in busy(visit.db, visit.id, day)]
    return visit.page(
        row["name"],
        facts(("Team", row["team"]), ("E-mail", row["email"])),
        _choose_day(f"/people/{visit.id}", day),
        tag("h2", f"On {day}"),
        tag("ul", *times) if times else tag("p", "Free all day."),
    )


def rooms(visit: Visit) -> Response:
    """All rooms, and when they are taken on a day."""
    day = day_asked(visit)
    cells: list[list[Child]] = []
    for row in visit.db.all("SELECT * FROM rooms ORDER BY seats"):
        taken = visit.db.all(
            "SELECT * FROM meetings WHERE room = ? AND day = ? ORDER BY start", row["id"], day
        )
        cells.append([row["name"], row["seats"], ", ".join(map(_times, taken)) or "Free all day"])
    head = ("Room", "Seats", "Taken")
    return visit.page("Rooms", _choose_day("/rooms", day), table(head, cells, f"On {day}"))


def meeting(visit: Visit) -> Response:
    """One meeting of the user's, and what the user can do about it."""
    row = visit.row(f"{MINE} AND m.id = ?", visit.id)
    guests = visit.db.all(
        "SELECT p.id, p.name, g.reply FROM guests g JOIN people p ON p.id = g.person"
        " WHERE g.meeting = ? ORDER BY p.name",
        visit.id,
    )
    about = facts(
        ("Day", row["day"]),
        ("Time", _times(row)),
        ("Room", row["room_name"] or "None"),
        ("Organiser", row["organiser_name"]),
    )
    forms = _to_organise(visit, row, guests) if row["organiser"] == visit.user else _to_reply(row)
    list_of = tag("ul", *(tag("li", f"{g['name']}: {g['reply']}") for g in guests))
    day = tag("p", link(f"All of {row['day']}", f"/?day={row['day']}"))
    return visit.page(
        row["title"], day, about, paragraphs(row["notes"]), tag("h2", "Guests"), list_of, forms
    )


def _to_reply(row: Any) -> Markup:
    where = f"/meetings/{row['id']}/reply"
    answers = (("Accept", REPLIES[1]), ("Decline", REPLIES[2]))
    buttons = (button(text, name="reply", value=value) for text, value in answers)
    return form(where, tag("p", f"Your reply: {row['reply']}"), *buttons)


def _to_organise(visit: Visit, row: Any, guests: list[Any]) -> Markup:
    there = {g["id"] for g in guests} | {visit.user}
    people = visit.db.all("SELECT * FROM people ORDER BY name")
    others = [p["name"] for p in people if p["id"] not in there]
    where = f"/meetings/{row['id']}"
    removals = (button(f"Remove {g['name']}", name="person", value=g["name"]) for g in guests)
    return join(
        form(f"{where}/invite", select("Guest", "person", others), button("Invite")),
        form(f"{where}/remove", *removals),
        tag("h2", "Change"),
        details(visit, where, "Save changes", row),
        form(f"{where}/cancel", button("Cancel this meeting")),
    )


def details(visit: Visit, where: str, text: str, row: Any = None) -> Markup:
    """The form with title, day, times and room of a meeting, or of a new one."""
    rooms = [r["name"] for r in visit.db.all("SELECT name FROM rooms ORDER BY name")]
    return form(
        where,
        field("Title", "title", row["title"] if row else ""),
        field("Day", "day", row["day"] if row else ""),
        field("Start", "start", clock(row["start"]) if row else ""),
        field("End", "end", clock(row["stop"]) if row else ""),
        select("Room", "room", ("None", *rooms), (row["room_name"] or "None") if row else "None"),
        button(text),
    )


def new(visit: Visit) -> Response:
    """The form for a new meeting."""
    return visit.page("New meeting", details(visit, "/new", "Create meeting"))
