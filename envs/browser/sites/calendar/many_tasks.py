"""What somebody may want that takes a look at several meetings, people or rooms."""

import random
from typing import Any

from agent_envs.envs.browser.sites.calendar.one_tasks import details, to_day
from agent_envs.envs.browser.sites.calendar.site import SITE
from agent_envs.envs.browser.sites.calendar.world import (
    MINE,
    TEAMS,
    TITLES,
    busy,
    clock,
    pin,
    rooms_free,
    working_days,
)
from agent_envs.envs.browser.sites.database import Database
from agent_envs.envs.browser.sites.family import Args, Family
from agent_envs.envs.browser.sites.oracle import START, Step, click, fill, press, select

_HOURS = range(540, 1020 - 60 + 1, 30)
"""When an hour's meeting may start: from 09:00, and so that it ends by 17:00."""


def _overlap(one: Any, other: Any) -> bool:
    return bool(one["start"] < other["stop"] and other["start"] < one["stop"])


class Replies(Family):
    """Answer the invitations of a day by what else there is on it."""

    site, name, level = SITE, "calendar.replies", 2

    def pick(self, db: Database, rng: random.Random) -> Args | None:
        """Three or four invitations, at least one of which can be accepted, and one not."""
        day = rng.choice(working_days(db))
        own = busy(db, 1, day)
        new: list[dict[str, Any]] = []
        for title in rng.sample(TITLES, 4):
            start = rng.randrange(18, 33) * 30
            meeting = {"title": f"{title} update", "start": start, "stop": start + 30}
            if not any(_overlap(meeting, other) for other in new):
                clash = any(_overlap(meeting, other) for other in own)
                reply = "Declined" if clash else "Accepted"
                by = rng.randint(2, 13)
                new.append(meeting | {"reply": reply, "by": by, "notes": pin(rng)})
        return {"day": day, "new": new} if len({m["reply"] for m in new}) == 2 else None

    def prepare(self, db: Database, args: Args) -> None:
        """The invitations."""
        for meeting in args["new"]:
            number = db.next_id("meetings")
            when = (args["day"], meeting["start"], meeting["stop"], None)
            db.insert("meetings", number, meeting["title"], *when, meeting["by"], meeting["notes"])
            db.insert("guests", number, 1, "Invited")

    def prompt(self, args: Args) -> str:
        """Which, and how."""
        return (
            f"Answer all invitations for {args['day']} that I have not replied to. Accept those "
            "that overlap with no meeting that I organise or have accepted; decline the others. "
            "(One that ends when another starts does not overlap with it.)"
        )

    def expect(self, db: Database, args: Args) -> None:
        """The replies."""
        for meeting in args["new"]:
            db.execute(
                "UPDATE guests SET reply = ? WHERE person = 1 AND meeting ="
                " (SELECT id FROM meetings WHERE day = ? AND title = ?)",
                (meeting["reply"], args["day"], meeting["title"]),
            )

    def lasting(self, args: Args) -> list[str]:
        """One reply each."""
        return ["reply.sent"] * len(args["new"])

    def plan(self, db: Database, args: Args) -> list[Step]:
        """One meeting after the other."""
        steps = [START, *to_day(args["day"])[1:]]
        for meeting in args["new"]:
            answer = "Accept" if meeting["reply"] == "Accepted" else "Decline"
            steps += [click(meeting["title"]), press(answer), click(f"All of {args['day']}")]
        return steps[:-1]


class Clear(Family):
    """Cancel all meetings that fit two conditions, and no others."""

    site, name, level = SITE, "calendar.clear", 2

    def pick(self, db: Database, rng: random.Random) -> Args | None:
        """A part of a day with two or three meetings of the user's own, and others' too."""
        day, start = rng.choice(working_days(db)), rng.randrange(18, 27) * 30
        args = {"day": day, "start": start}
        others = [r for r in db.all(f"{MINE} AND m.day = ?", day) if r["reply"]]
        later = [r for r in others if r["start"] >= start]
        args["count"] = len(self._found(db, args))
        return args if args["count"] in (2, 3) and later else None

    def prompt(self, args: Args) -> str:
        """Which ones."""
        return (
            f"Cancel all meetings on {args['day']} that I organise and that start at "
            f"{clock(args['start'])} or later. Leave everything else as it is."
        )

    def expect(self, db: Database, args: Args) -> None:
        """They are gone, with their guests."""
        for row in self._found(db, args):
            db.execute("DELETE FROM guests WHERE meeting = ?", (row["id"],))
            db.execute("DELETE FROM meetings WHERE id = ?", (row["id"],))

    def lasting(self, args: Args) -> list[str]:
        """As many as there are."""
        return ["meeting.cancelled"] * args["count"]

    def plan(self, db: Database, args: Args) -> list[Step]:
        """One meeting after the other; after each the day is shown again."""
        rows = self._found(db, args)
        cancel = press("Cancel this meeting")
        return [START, *to_day(args["day"])] + [
            s for r in rows for s in (click(r["title"]), cancel)
        ]

    def _found(self, db: Database, args: Args) -> list[Any]:
        where = "AND m.organiser = 1 AND m.day = ? AND m.start >= ? ORDER BY m.id"
        return db.all(f"{MINE} {where}", args["day"], args["start"])


class Invite(Family):
    """Invite everybody who fits a condition and is not invited."""

    site, name, level = SITE, "calendar.invite", 2

    def pick(self, db: Database, rng: random.Random) -> Args | None:
        """A meeting, and a team of which two or more are missing and one is there."""
        row, team = rng.choice(db.all(f"{MINE} AND m.organiser = 1")), rng.choice(TEAMS)
        guests = "SELECT person FROM guests WHERE meeting = ?"
        sql = f"SELECT id, name, id IN ({guests}) AS there FROM people WHERE team = ? AND id > 1"
        people = db.all(sql, row["id"], team)
        missing = [[p["id"], p["name"]] for p in people if not p["there"]]
        if len(missing) < 2 or len(missing) == len(people):
            return None
        args = {"target": row["id"], "title": row["title"], "day": row["day"]}
        return args | {"team": team, "missing": missing}

    def prompt(self, args: Args) -> str:
        """To what, and whom."""
        return (
            f"Invite all members of the team {args['team']} who are not guests yet to my meeting "
            f"{args['title']} on {args['day']}."
        )

    def expect(self, db: Database, args: Args) -> None:
        """More guests."""
        for person, _ in args["missing"]:
            db.insert("guests", args["target"], person, "Invited")

    def lasting(self, args: Args) -> list[str]:
        """One invitation each."""
        return ["invitation.sent"] * len(args["missing"])

    def plan(self, db: Database, args: Args) -> list[Step]:
        """Who is in the team, then one guest after the other."""
        steps = [START, click("People"), *to_day(args["day"]), click(args["title"])]
        for _, name in args["missing"]:
            steps += [select("Guest", name), press("Invite")]
        return steps


class Slot(Family):
    """Find the first hour when three people are free, and the smallest room that is."""

    site, name, level = SITE, "calendar.slot", 3

    def pick(self, db: Database, rng: random.Random) -> Args | None:
        """A day on which the first hour will not do."""
        day, people = rng.choice(working_days(db)), rng.sample(range(2, 14), 2)
        taken = [row for person in (1, *people) for row in busy(db, person, day)]
        hours = [{"start": start, "stop": start + 60} for start in _HOURS]
        free = [hour for hour in hours if not any(_overlap(hour, row) for row in taken)]
        rooms = rooms_free(db, day, free[0]["start"], free[0]["stop"]) if free else []
        if not rooms or free[0]["start"] <= 600:
            return None
        names = [db.value("SELECT name FROM people WHERE id = ?", person) for person in people]
        title = f"{rng.choice(TITLES)} special"
        args = {"title": title, "day": day, "people": people, "names": names}
        return args | free[0] | {"room": rooms[0]["name"], "number": rooms[0]["id"]}

    def prompt(self, args: Args) -> str:
        """With whom, and on which day."""
        one, other = args["names"]
        return (
            f"On {args['day']}, find the first hour in which {one}, {other} and I are all free "
            "(what is not yet answered counts as busy, as on the pages of people): it "
            "starts on the hour or half past, at 09:00 or later, and ends at 17:00 or earlier. "
            f'Create a meeting called "{args["title"]}" (without the quotation marks) then, in the '
            "room with the fewest seats that is free, and invite both."
        )

    def expect(self, db: Database, args: Args) -> None:
        """One meeting more, with two guests."""
        number, when = db.next_id("meetings"), (args["day"], args["start"], args["stop"])
        db.insert("meetings", number, args["title"], *when, args["number"], 1, "")
        for person in args["people"]:
            db.insert("guests", number, person, "Invited")

    def lasting(self, args: Args) -> list[str]:
        """Two invitations."""
        return ["invitation.sent"] * 2

    def plan(self, db: Database, args: Args) -> list[Step]:
        """Look at both people and at the rooms, then fill in the forms."""
        look = [fill("Day", args["day"]), press("Show")]
        steps = [START]
        for name in args["names"]:
            steps += [click("People"), click(name), *look]
        steps += [click("Rooms"), *look, click("New meeting"), *details(args)]
        steps.append(press("Create meeting"))
        for name in args["names"]:
            steps += [select("Guest", name), press("Invite")]
        return steps
