"""What somebody may want of one meeting."""

import random
import re
from typing import Any

from agent_envs.envs.browser.sites.calendar.site import SITE
from agent_envs.envs.browser.sites.calendar.world import (
    MINE,
    ROOMS,
    TITLES,
    clock,
    rooms_free,
    working_days,
)
from agent_envs.envs.browser.sites.database import Database
from agent_envs.envs.browser.sites.family import Args, Family
from agent_envs.envs.browser.sites.oracle import START, Step, click, fill, press, select


def to_day(day: str) -> list[Step]:
    """The steps to the user's meetings of a day."""
    return [click("Today"), fill("Day", day), press("Show")]


def details(args: Args) -> list[Step]:
    """Filling in what a meeting is about and when it is."""
    times = [fill("Start", clock(args["start"])), fill("End", clock(args["stop"]))]
    return [
        fill("Title", args["title"]),
        fill("Day", args["day"]),
        *times,
        select("Room", args["room"]),
    ]


class Create(Family):
    """A new meeting in a free room."""

    site, name, level = SITE, "calendar.create", 0

    def pick(self, db: Database, rng: random.Random) -> Args | None:
        """A day, times and a room."""
        day, start = rng.choice(working_days(db)), rng.randrange(36, 66) * 15
        stop = start + rng.choice((30, 45, 60))
        free = [r["name"] for r in rooms_free(db, day, start, stop)]
        title = f"{rng.choice(TITLES)} {rng.choice(('follow-up', 'kick-off', 'wrap-up'))}"
        if not free:
            return None
        return {"title": title, "day": day, "start": start, "stop": stop, "room": rng.choice(free)}

    def prompt(self, args: Args) -> str:
        """What, when and where."""
        return (
            f'Create a meeting called "{args["title"]}" (without the quotation marks) on '
            f"{args['day']} from {clock(args['start'])} to {clock(args['stop'])} in the room "
            f"{args['room']}. Invite nobody yet."
        )

    def expect(self, db: Database, args: Args) -> None:
        """One meeting more."""
        room = list(ROOMS).index(args["room"]) + 1
        when = (args["day"], args["start"], args["stop"])
        db.insert("meetings", db.next_id("meetings"), args["title"], *when, room, 1, "")

    def plan(self, db: Database, args: Args) -> list[Step]:
        """One form."""
        return [START, click("New meeting"), *details(args), press("Create meeting")]


class Pin(Family):
    """Find a value in the notes of a meeting."""

    site, name, level, looks_up = SITE, "calendar.pin", 1, True

    def pick(self, db: Database, rng: random.Random) -> Args | None:
        """One of the user's meetings."""
        row = rng.choice(db.all(MINE))
        return {"target": row["id"], "title": row["title"], "day": row["day"]}

    def prompt(self, args: Args) -> str:
        """Which meeting."""
        return (
            f"Which PIN do I need to dial in to the meeting {args['title']} on {args['day']}? "
            "(There are meetings of that title on other days too.)"
        )

    def answer(self, db: Database, args: Args) -> str:
        """Six digits."""
        notes = db.value("SELECT notes FROM meetings WHERE id = ?", args["target"])
        return str(re.findall("[0-9]{6}", notes)[0])

    def plan(self, db: Database, args: Args) -> list[Step]:
        """The day, the meeting."""
        return [START, *to_day(args["day"]), click(args["title"])]


class Move(Family):
    """Another day and time for a meeting, in the room that it has."""

    site, name, level = SITE, "calendar.move", 1

    def pick(self, db: Database, rng: random.Random) -> Args | None:
        """A meeting of the user's and a time when its room is free."""
        row = rng.choice(db.all(f"{MINE} AND m.organiser = 1 AND m.room IS NOT NULL"))
        day, start = rng.choice(working_days(db)), rng.randrange(18, 33) * 30
        stop = start + row["stop"] - row["start"]
        free = [r["id"] for r in rooms_free(db, day, start, stop)]
        if row["room"] not in free or day == row["day"]:
            return None
        args: dict[str, Any] = {"target": row["id"], "title": row["title"], "from": row["day"]}
        return args | {"day": day, "start": start, "stop": stop, "room": row["room_name"]}

    def prompt(self, args: Args) -> str:
        """From when to when."""
        return (
            f"Move my meeting {args['title']} from {args['from']} to {args['day']}, where it is to "
            f"start at {clock(args['start'])}. It stays as long as it is, and in the same room."
        )

    def expect(self, db: Database, args: Args) -> None:
        """Another time."""
        db.execute(
            "UPDATE meetings SET day = ?, start = ?, stop = ? WHERE id = ?",
            (args["day"], args["start"], args["stop"], args["target"]),
        )

    def lasting(self, args: Args) -> list[str]:
        """Its guests are told."""
        return ["meeting.moved"]

    def plan(self, db: Database, args: Args) -> list[Step]:
        """The day, the meeting, the form."""
        to = [*to_day(args["from"]), click(args["title"])]
        return [START, *to, *details(args), press("Save changes")]
