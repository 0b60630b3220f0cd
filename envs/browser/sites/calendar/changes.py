"""What can be done in the calendar. Guests are told of it, so it cannot be undone unnoticed."""

import re
from datetime import date
from typing import Any

from agent_envs.envs.browser.sites.calendar.world import REPLIES, rooms_free
from agent_envs.envs.browser.sites.database import record
from agent_envs.envs.browser.sites.visit import Missing, Refused, Response, Visit

_TIME = re.compile("([01][0-9]|2[0-3]):([0-5][0-9])")


def create(visit: Visit) -> Response:
    """A new meeting, without guests so far."""
    number = visit.db.next_id("meetings")
    title, day, start, stop, room = _details(visit, 0)
    visit.db.insert("meetings", number, title, day, start, stop, room, visit.user, "")
    record(visit.db, "meeting.created", meeting=number)
    return visit.see(f"/meetings/{number}", "created")


def change(visit: Visit) -> Response:
    """Another title, time or room."""
    _own(visit)
    what = _details(visit, visit.id)
    visit.db.execute(
        "UPDATE meetings SET title = ?, day = ?, start = ?, stop = ?, room = ? WHERE id = ?",
        (*what, visit.id),
    )
    told = visit.db.value("SELECT count(*) FROM guests WHERE meeting = ?", visit.id)
    record(visit.db, "meeting.moved" if told else "meeting.changed", meeting=visit.id)
    return visit.see(f"/meetings/{visit.id}", "changed")


def cancel(visit: Visit) -> Response:
    """Take a meeting out of everybody's calendar."""
    row = _own(visit)
    visit.db.execute("DELETE FROM meetings WHERE id = ?", (visit.id,))
    record(visit.db, "meeting.cancelled", meeting=visit.id, title=row["title"])
    return visit.see(f"/?day={row['day']}", "cancelled")


def invite(visit: Visit) -> Response:
    """One guest more."""
    _own(visit)
    person = _person(visit)
    if person == visit.user or _is_guest(visit, person):
        raise Refused("This person takes part already.")
    visit.db.insert("guests", visit.id, person, REPLIES[0])
    record(visit.db, "invitation.sent", meeting=visit.id, person=person)
    return visit.see(f"/meetings/{visit.id}", "invited")


def remove(visit: Visit) -> Response:
    """One guest less."""
    _own(visit)
    person = _person(visit)
    if not _is_guest(visit, person):
        raise Refused("This person is not invited.")
    visit.db.execute("DELETE FROM guests WHERE meeting = ? AND person = ?", (visit.id, person))
    record(visit.db, "guest.removed", meeting=visit.id, person=person)
    return visit.see(f"/meetings/{visit.id}", "removed")


def reply(visit: Visit) -> Response:
    """Accept or decline an invitation."""
    sql = "SELECT reply FROM guests WHERE meeting = ? AND person = ?"
    before = visit.row(sql, visit.id, visit.user)["reply"]
    given = visit.choice("reply", REPLIES[1:])
    if given == before:
        raise Refused(f"You have {given.lower()} already.")
    visit.db.execute(
        "UPDATE guests SET reply = ? WHERE meeting = ? AND person = ?",
        (given, visit.id, visit.user),
    )
    record(visit.db, "reply.sent", meeting=visit.id, reply=given)
    return visit.see(f"/meetings/{visit.id}", "replied")


def _own(visit: Visit) -> Any:
    row = visit.row("SELECT * FROM meetings WHERE id = ?", visit.id)
    if row["organiser"] != visit.user:
        raise Missing
    return row


def _person(visit: Visit) -> int:
    people = {r["name"]: r["id"] for r in visit.db.all("SELECT * FROM people")}
    return int(people[visit.choice("person", list(people))])


def _is_guest(visit: Visit, person: int) -> bool:
    sql = "SELECT 1 FROM guests WHERE meeting = ? AND person = ?"
    return visit.db.one(sql, visit.id, person) is not None


def _details(visit: Visit, number: int) -> tuple[str, str, int, int, int | None]:
    """What the form says, with a room that is free apart from the meeting itself."""
    title, day = visit.text("title", 80), _day(visit.text("day", 10))
    start, stop = _minutes(visit, "start"), _minutes(visit, "end")
    if stop <= start:
        raise Refused("A meeting must end after its start.")
    rooms = {r["name"]: r["id"] for r in visit.db.all("SELECT * FROM rooms")} | {"None": None}
    room = rooms[visit.choice("room", list(rooms))]
    free = {r["id"] for r in rooms_free(visit.db, day, start, stop, number)} | {None}
    if room not in free:
        raise Refused("The room is taken at that time.")
    return title, day, start, stop, room


def _day(text: str) -> str:
    try:
        return date.fromisoformat(text).isoformat()
    except ValueError:
        raise Refused("Day must be a date like 2026-03-14.") from None


def _minutes(visit: Visit, name: str) -> int:
    found = _TIME.fullmatch(visit.text(name, 5))
    if not found:
        raise Refused(f"{name.capitalize()} must be a time like 09:30.")
    return int(found[1]) * 60 + int(found[2])
