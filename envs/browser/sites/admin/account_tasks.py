"""What an administrator may have to do with accounts."""

import random
from typing import Any

from agent_envs.envs.browser.sites.admin.site import SITE
from agent_envs.envs.browser.sites.admin.world import PLANS, REGIONS
from agent_envs.envs.browser.sites.database import Database
from agent_envs.envs.browser.sites.family import Args, Family
from agent_envs.envs.browser.sites.oracle import START, Step, click, fill, press, select, tick

_A_PAGE = 15


def to_account(name: str) -> list[Step]:
    """The steps to an account."""
    return [click("Accounts"), fill("Search", name), press("Search"), click(name)]


class Plan(Family):
    """Move one account to another plan."""

    site, name, level = SITE, "admin.plan", 0

    def pick(self, db: Database, rng: random.Random) -> Args | None:
        """An account and a plan that it does not have."""
        row = rng.choice(db.all("SELECT * FROM accounts"))
        plan = rng.choice([plan for plan in PLANS if plan != row["plan"]])
        return {"target": row["id"], "account": row["name"], "plan": plan}

    def prompt(self, args: Args) -> str:
        """Whose, and to which."""
        return f"Move the account of {args['account']} to the plan {args['plan']}."

    def expect(self, db: Database, args: Args) -> None:
        """Another plan."""
        db.execute("UPDATE accounts SET plan = ? WHERE id = ?", (args["plan"], args["target"]))

    def plan(self, db: Database, args: Args) -> list[Step]:
        """Search, open, save."""
        return [START, *to_account(args["account"]), select("Plan", args["plan"]), press("Save")]


class Key(Family):
    """Find a value on the page of an account, known by its e-mail address."""

    site, name, level, looks_up = SITE, "admin.key", 0, True

    def pick(self, db: Database, rng: random.Random) -> Args | None:
        """Any account."""
        row = rng.choice(db.all("SELECT * FROM accounts"))
        return {"target": row["id"], "account": row["name"], "email": row["email"]}

    def prompt(self, args: Args) -> str:
        """Whose."""
        return f"What is the licence key of the account with the e-mail address {args['email']}?"

    def answer(self, db: Database, args: Args) -> str:
        """The key."""
        return str(db.value("SELECT key FROM accounts WHERE id = ?", args["target"]))

    def plan(self, db: Database, args: Args) -> list[Step]:
        """Search, open."""
        search = [click("Accounts"), fill("Search", args["email"]), press("Search")]
        return [START, *search, click(args["account"])]


class Suspend(Family):
    """One change to all accounts that fit four conditions, over several pages."""

    site, name, level = SITE, "admin.suspend", 2

    def pick(self, db: Database, rng: random.Random) -> Args | None:
        """A plan, a region and a day that two to five accounts fit, others only nearly."""
        seen = [row["seen"] for row in db.all("SELECT seen FROM accounts")]
        args = {"plan": rng.choice(PLANS), "region": rng.choice(REGIONS), "day": rng.choice(seen)}
        args["count"] = len(self._found(db, args))
        return args if 2 <= args["count"] <= 5 else None

    def prompt(self, args: Args) -> str:
        """Which ones."""
        return (
            f"Suspend all active accounts on the plan {args['plan']} in the region "
            f"{args['region']} that were last seen before {args['day']}."
        )

    def expect(self, db: Database, args: Args) -> None:
        """Their status."""
        for row in self._found(db, args):
            db.execute("UPDATE accounts SET status = 'Suspended' WHERE id = ?", (row["id"],))

    def lasting(self, args: Args) -> list[str]:
        """One account each."""
        return ["account.suspended"] * args["count"]

    def plan(self, db: Database, args: Args) -> list[Step]:
        """Filter by plan, and page by page tick what fits."""
        steps = [START, click("Accounts"), select("Plan", args["plan"]), press("Search")]
        wanted = {row["id"] for row in self._found(db, args)}
        rows = db.all("SELECT * FROM accounts WHERE plan = ? ORDER BY name", args["plan"])
        pages = [rows[at : at + _A_PAGE] for at in range(0, len(rows), _A_PAGE)]
        for number, page in enumerate(pages):
            steps += [click("Next page")] if number else []
            ticks = [tick(f"Select {row['name']}") for row in page if row["id"] in wanted]
            if ticks:
                steps += [*ticks, select("Action", "Suspend"), press("Apply to selected")]
        return steps

    def _found(self, db: Database, args: Args) -> list[Any]:
        return db.all(
            "SELECT * FROM accounts WHERE status = 'Active' AND plan = ? AND region = ?"
            " AND seen < ? ORDER BY name",
            *(args[key] for key in ("plan", "region", "day")),
        )
