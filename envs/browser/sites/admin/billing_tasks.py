"""What an administrator may have to do with invoices and settings."""

import random
from typing import Any

from agent_envs.envs.browser.sites.admin.account_tasks import to_account
from agent_envs.envs.browser.sites.admin.site import SITE
from agent_envs.envs.browser.sites.admin.world import SETTINGS
from agent_envs.envs.browser.sites.database import Database
from agent_envs.envs.browser.sites.family import Args, Family
from agent_envs.envs.browser.sites.oracle import START, Step, click, press, select
from agent_envs.envs.browser.sites.words import money


class Settings(Family):
    """Change two or three settings, and leave the others."""

    site, name, level = SITE, "admin.settings", 1

    def pick(self, db: Database, rng: random.Random) -> Args | None:
        """Settings, and values that they do not have."""
        now = {r["name"]: r["value"] for r in db.all("SELECT * FROM settings")}
        names = rng.sample(sorted(SETTINGS), rng.choice((2, 3)))
        new = {n: rng.choice([v for v in SETTINGS[n] if v != now[n]]) for n in names}
        return {"values": new}

    def prompt(self, args: Args) -> str:
        """Which ones."""
        changes = ", ".join(f'"{name}" to "{value}"' for name, value in args["values"].items())
        return f"In the settings, change {changes}. Leave the other settings as they are."

    def expect(self, db: Database, args: Args) -> None:
        """Their values."""
        for name, value in args["values"].items():
            db.execute("UPDATE settings SET value = ? WHERE name = ?", (value, name))

    def plan(self, db: Database, args: Args) -> list[Step]:
        """One form."""
        choices = [select(name, value) for name, value in args["values"].items()]
        return [START, click("Settings"), *choices, press("Save settings")]


class Double(Family):
    """Pay back the later of two invoices that are the same."""

    site, name, level = SITE, "admin.double", 2

    def pick(self, db: Database, rng: random.Random) -> Args | None:
        """A paid invoice that is to be charged again."""
        sql = "SELECT i.*, a.name FROM invoices i JOIN accounts a ON a.id = i.account"
        row = rng.choice(db.all(f"{sql} WHERE i.status = 'Paid'"))
        args = {"target": row["account"], "account": row["name"], "day": row["day"]}
        return args | {"amount": row["amount"], "again": db.next_id("invoices")}

    def prepare(self, db: Database, args: Args) -> None:
        """The second invoice."""
        same = (args["target"], args["day"], args["amount"], "Paid", "")
        db.insert("invoices", args["again"], *same)

    def prompt(self, args: Args) -> str:
        """Whose."""
        return (
            f"{args['account']} says that we charged the same amount twice on one day. Find the "
            "two paid invoices of that account with the same day and the same amount, and refund "
            "the one with the higher number."
        )

    def expect(self, db: Database, args: Args) -> None:
        """Its status."""
        db.execute("UPDATE invoices SET status = 'Refunded' WHERE id = ?", (args["again"],))

    def lasting(self, args: Args) -> list[str]:
        """One refund."""
        return ["invoice.refunded"]

    def plan(self, db: Database, args: Args) -> list[Step]:
        """The account, its invoices, the latest."""
        invoice = click(f"Invoice {args['again']}")
        invoices = [*to_account(args["account"]), click("Invoices of this account")]
        return [START, *invoices, invoice, press("Refund this invoice")]


class Unpaid(Family):
    """Add up some of the invoices of an account."""

    site, name, level, looks_up, reads = SITE, "admin.unpaid", 2, True, "number"

    def pick(self, db: Database, rng: random.Random) -> Args | None:
        """An account with two or more such invoices, and others."""
        rows = db.all(
            "SELECT a.id, a.name, sum(status IN ('Open', 'Overdue')) AS due, count(*) AS n FROM"
            " invoices i JOIN (SELECT id, name FROM accounts) a ON a.id = i.account"
            " GROUP BY a.id HAVING due >= 2 AND n > due"
        )
        row = rng.choice(rows) if rows else None
        return {"target": row["id"], "account": row["name"]} if row else None

    def prompt(self, args: Args) -> str:
        """Whose."""
        return (
            f"How much does {args['account']} still have to pay us? Add up the amounts of that "
            "account's invoices that are open or overdue."
        )

    def answer(self, db: Database, args: Args) -> str:
        """The sum, with two decimals."""
        sql = "SELECT sum(amount) FROM invoices WHERE account = ? AND status IN ('Open', 'Overdue')"
        return money(db.value(sql, args["target"]))

    def plan(self, db: Database, args: Args) -> list[Step]:
        """The account, its invoices."""
        return [START, *to_account(args["account"]), click("Invoices of this account")]


class Overdue(Family):
    """Suspend the accounts that a list of invoices names, but for some."""

    site, name, level = SITE, "admin.overdue", 3

    def pick(self, db: Database, rng: random.Random) -> Args | None:
        """An amount that one or two accounts owe, and another one that is excepted."""
        args = {"amount": rng.randrange(60, 140) * 1000}
        args["count"] = len(self._found(db, args))
        fits = 1 <= args["count"] <= 2 and len(self._all(db, args)) > args["count"]
        return args if fits else None

    def prompt(self, args: Args) -> str:
        """Which ones."""
        return (
            f"Suspend every account that has an overdue invoice of more than "
            f"{money(args['amount'])}. Leave accounts on the plan Business as they are."
        )

    def expect(self, db: Database, args: Args) -> None:
        """Their status."""
        for row in self._found(db, args):
            db.execute("UPDATE accounts SET status = 'Suspended' WHERE id = ?", (row["id"],))

    def lasting(self, args: Args) -> list[str]:
        """One account each."""
        return ["account.suspended"] * args["count"]

    def plan(self, db: Database, args: Args) -> list[Step]:
        """The overdue invoices, then one account after the other."""
        steps = [START, click("Invoices"), select("Status", "Overdue"), press("Show")]
        for row in self._found(db, args):
            steps += [*to_account(row["name"]), select("Status", "Suspended"), press("Save")]
        return steps

    def _all(self, db: Database, args: Args) -> list[Any]:
        return db.all(
            "SELECT DISTINCT a.* FROM accounts a JOIN invoices i ON i.account = a.id"
            " WHERE i.status = 'Overdue' AND a.status = 'Active' AND amount > ? ORDER BY a.id",
            args["amount"],
        )

    def _found(self, db: Database, args: Args) -> list[Any]:
        return [row for row in self._all(db, args) if row["plan"] != "Business"]
