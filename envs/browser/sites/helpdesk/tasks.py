"""What an agent at the help desk may have to do."""

import random
from typing import Any

from agent_envs.envs.browser.sites.database import Database
from agent_envs.envs.browser.sites.family import Args, Family
from agent_envs.envs.browser.sites.helpdesk.site import SITE
from agent_envs.envs.browser.sites.helpdesk.world import (
    AGENT,
    COMPANIES,
    KINDS,
    PRIORITIES,
    PRODUCTS,
    TEAMS,
    say,
    serial,
)
from agent_envs.envs.browser.sites.oracle import START, Step, click, fill, press, select

_TEXTS = (
    "We are sending you a new {} today.",
    "Please update the software of the {} and try again.",
    "A technician will ring you about the {} tomorrow.",
    "Could you send us a photograph of the {}?",
)
_ALL = """SELECT t.*, c.name, c.company FROM tickets t JOIN customers c ON c.id = t.customer"""


def _open_ticket(row: Any) -> list[Step]:
    search = [click("Tickets"), fill("Search", row["id"]), press("Search")]
    return [*search, click(f"#{row['id']} {row['subject']}")]


def _set(**values: str) -> list[Step]:
    return [*(select(name.capitalize(), value) for name, value in values.items()), press("Save")]


def _say(kind: str, text: str) -> list[Step]:
    return [select("Kind", kind), fill("Message", text), press("Send")]


def _agents(db: Database, team: str) -> list[Any]:
    """The agents of a team, the least busy first, with their open tickets."""
    return db.all(
        "SELECT a.*, (SELECT count(*) FROM tickets t WHERE t.agent = a.id AND t.status = 'Open')"
        " AS open FROM agents a WHERE team = ? ORDER BY open",
        team,
    )


class Assign(Family):
    """Give one ticket to an agent."""

    site, name, level = SITE, "helpdesk.assign", 0

    def pick(self, db: Database, rng: random.Random) -> Args | None:
        """A ticket, and an agent who has not got it."""
        row = rng.choice(db.all(_ALL))
        agent = rng.choice(db.all("SELECT * FROM agents WHERE id <> ?", row["agent"] or 0))
        return {"target": row["id"], "agent": agent["name"], "number": agent["id"]}

    def prompt(self, args: Args) -> str:
        """Which ticket, and who."""
        return f"Assign ticket {args['target']} to {args['agent']}."

    def expect(self, db: Database, args: Args) -> None:
        """Another agent."""
        db.execute("UPDATE tickets SET agent = ? WHERE id = ?", (args["number"], args["target"]))

    def plan(self, db: Database, args: Args) -> list[Step]:
        """Search, open, save."""
        row = db.one(_ALL + " WHERE t.id = ?", args["target"])
        return [START, *_open_ticket(row), *_set(agent=args["agent"])]


class Serial(Family):
    """Find a value that a customer wrote in a ticket."""

    site, name, level, looks_up = SITE, "helpdesk.serial", 1, True

    def pick(self, db: Database, rng: random.Random) -> Args | None:
        """The only ticket of a customer about a product."""
        row = rng.choice(db.all(_ALL))
        same = "SELECT count(*) FROM tickets WHERE customer = ? AND product = ?"
        if db.value(same, row["customer"], row["product"]) > 1:
            return None
        keys = ("name", "company", "product")
        return {"target": row["id"]} | {key: row[key] for key in keys}

    def prompt(self, args: Args) -> str:
        """Whose, and about what."""
        return (
            f"{args['name']} of {args['company']} has written to us about the {args['product']}. "
            "Which serial number did the message give?"
        )

    def answer(self, db: Database, args: Args) -> str:
        """The serial number."""
        return serial(db, args["target"])

    def plan(self, db: Database, args: Args) -> list[Step]:
        """Search, open."""
        return [START, *_open_ticket(db.one(_ALL + " WHERE t.id = ?", args["target"]))]


class Reply(Family):
    """Answer a customer, and leave the ticket pending."""

    site, name, level = SITE, "helpdesk.reply", 1
    kind, status = KINDS[0], "Pending"

    def pick(self, db: Database, rng: random.Random) -> Args | None:
        """An open ticket and a text."""
        row = rng.choice(db.all(_ALL + " WHERE t.status = 'Open'"))
        text = rng.choice(_TEXTS).format(row["product"])
        return {"target": row["id"], "customer": row["name"], "text": text}

    def prompt(self, args: Args) -> str:
        """Which ticket, and what to say."""
        return (
            f"Send a public reply to {args['customer']} in ticket {args['target']}: "
            f'"{args["text"]}" (without the quotation marks). Then set the ticket to Pending.'
        )

    def expect(self, db: Database, args: Args) -> None:
        """One message more, and the status."""
        say(db, args["target"], AGENT, args["text"], kind=self.kind)
        db.execute("UPDATE tickets SET status = ? WHERE id = ?", (self.status, args["target"]))

    def lasting(self, args: Args) -> list[str]:
        """One message."""
        return ["reply.sent"]

    def plan(self, db: Database, args: Args) -> list[Step]:
        """Search, open, answer, save."""
        row = db.one(_ALL + " WHERE t.id = ?", args["target"])
        answer = _say(self.kind, args["text"])
        return [START, *_open_ticket(row), *answer, *_set(status=self.status)]


class Duplicate(Reply):
    """Solve the later of two tickets about the same thing, with a note that names the earlier."""

    site, name, level = SITE, "helpdesk.duplicate", 2
    kind, status = KINDS[1], "Solved"

    def pick(self, db: Database, rng: random.Random) -> Args | None:
        """A ticket that is to be reported a second time."""
        row = rng.choice(db.all(_ALL + " WHERE t.status = 'Open'"))
        same = "SELECT count(*) FROM tickets WHERE customer = ? AND product = ?"
        if db.value(same, row["customer"], row["product"]) > 1:
            return None
        keys = ("name", "company", "product", "subject", "customer", "priority", "day")
        text = f"Duplicate of #{row['id']}"
        number = db.next_id("tickets")
        return {"first": row["id"], "target": number, "text": text} | {k: row[k] for k in keys}

    def prepare(self, db: Database, args: Args) -> None:
        """The second ticket."""
        what = (args["subject"], args["customer"], args["product"], "Open", args["priority"])
        db.insert("tickets", args["target"], *what, None, args["day"])
        said = f"Hello, it is me again about our {args['product']}.\nNobody has answered so far."
        say(db, args["target"], args["name"], said)

    def prompt(self, args: Args) -> str:
        """Who, and what to do."""
        return (
            f"{args['name']} of {args['company']} has reported the same problem with the "
            f"{args['product']} twice. Leave the earlier ticket as it is. To the later one add the "
            'internal note "Duplicate of #N" (without the quotation marks, with the number of the '
            "earlier ticket for N), and set it to Solved."
        )

    def lasting(self, args: Args) -> list[str]:
        """One note."""
        return ["note.added"]


class Escalate(Family):
    """Change all tickets that fit two conditions, and no others."""

    site, name, level = SITE, "helpdesk.escalate", 2

    def pick(self, db: Database, rng: random.Random) -> Args | None:
        """A company with two or three open tickets of a priority."""
        company, priority = rng.choice(COMPANIES), rng.choice(PRIORITIES[:3])
        args = {"company": company, "priority": priority}
        return args if len(self._found(db, args)) in (2, 3) else None

    def prompt(self, args: Args) -> str:
        """Which tickets."""
        return (
            f"Raise the priority of all open tickets of {args['company']} that have the priority "
            f"{args['priority']} to Urgent. Tickets that are not open stay as they are."
        )

    def expect(self, db: Database, args: Args) -> None:
        """Their priority."""
        for row in self._found(db, args):
            db.execute("UPDATE tickets SET priority = 'Urgent' WHERE id = ?", (row["id"],))

    def plan(self, db: Database, args: Args) -> list[Step]:
        """One ticket after the other."""
        rows = self._found(db, args)
        return [START] + [s for r in rows for s in (*_open_ticket(r), *_set(priority="Urgent"))]

    def _found(self, db: Database, args: Args) -> list[Any]:
        where = " WHERE t.status = 'Open' AND c.company = ? AND t.priority = ? ORDER BY t.id"
        return db.all(_ALL + where, args["company"], args["priority"])


class LeastBusy(Family):
    """Give all tickets that fit some conditions to whoever another page names."""

    site, name, level = SITE, "helpdesk.least_busy", 3

    def pick(self, db: Database, rng: random.Random) -> Args | None:
        """A product with one to three tickets to give away, a team with one least busy agent."""
        product, team = rng.choice(PRODUCTS), rng.choice(TEAMS)
        first, second, *_ = _agents(db, team)
        args = {"product": product, "team": team, "agent": first["name"], "number": first["id"]}
        sound = first["open"] < second["open"] and first["name"] != AGENT
        return args if sound and 1 <= len(self._found(db, args)) <= 3 else None

    def prompt(self, args: Args) -> str:
        """Which tickets, and to whom."""
        return (
            f"Assign every open ticket about the {args['product']} that nobody has to one agent: "
            f"to the one of the team {args['team']} who has the fewest open tickets now."
        )

    def expect(self, db: Database, args: Args) -> None:
        """Their agent."""
        for row in self._found(db, args):
            db.execute("UPDATE tickets SET agent = ? WHERE id = ?", (args["number"], row["id"]))

    def plan(self, db: Database, args: Args) -> list[Step]:
        """Look at the agents, then one ticket after the other."""
        steps = [START, click("Agents")]
        for row in self._found(db, args):
            steps += [*_open_ticket(row), *_set(agent=args["agent"])]
        return steps

    def _found(self, db: Database, args: Args) -> list[Any]:
        where = " WHERE t.status = 'Open' AND t.product = ? AND t.agent IS NULL ORDER BY t.id"
        return db.all(_ALL + where, args["product"])


FAMILIES = (Assign(), Serial(), Reply(), Duplicate(), Escalate(), LeastBusy())
