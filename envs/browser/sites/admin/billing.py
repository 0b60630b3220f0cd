"""The admin panel's pages about invoices and settings."""

import re
from typing import Any

from agent_envs.envs.browser.sites.admin.world import BILLED, SETTINGS
from agent_envs.envs.browser.sites.database import record
from agent_envs.envs.browser.sites.markup import (
    button,
    facts,
    form,
    hidden,
    link,
    paragraphs,
    select,
    table,
    tag,
)
from agent_envs.envs.browser.sites.visit import Refused, Response, Visit
from agent_envs.envs.browser.sites.words import money

_ANY = "Any"
_A_PAGE = 15
_ALL = "SELECT i.*, a.name FROM invoices i JOIN accounts a ON a.id = i.account"


def index(visit: Visit) -> Response:
    """Invoices by status or account, the latest first."""
    where, values = ["1"], list[Any]()
    status, account = visit.asked("status", _ANY), visit.asked("account")
    if status not in ("", _ANY):
        where.append("i.status = ?")
        values.append(status)
    if re.fullmatch("[0-9]{1,9}", account):
        where.append("a.id = ?")
        values.append(int(account))
    sql = f"{_ALL} WHERE {' AND '.join(where)} ORDER BY i.id DESC"
    rows, count, pages = visit.listing(sql, values, _A_PAGE)
    cells = [
        (
            link(f"Invoice {r['id']}", f"/invoices/{r['id']}"),
            link(r["name"], f"/accounts/{r['account']}", f"{r['name']} (invoice {r['id']})"),
            r["day"],
            money(r["amount"]),
            r["status"],
        )
        for r in rows
    ]
    choice = select("Status", "status", (_ANY, *BILLED), status)
    search = form("/invoices", hidden("account", account), choice, button("Show"), method="get")
    head = ("Invoice", "Account", "Day", "Amount", "Status")
    return visit.page("Invoices", search, table(head, cells, f"{count} found"), pages)


def show(visit: Visit) -> Response:
    """One invoice, and paying it back."""
    row = visit.row(f"{_ALL} WHERE i.id = ?", visit.id)
    account = link(row["name"], f"/accounts/{row['account']}")
    about = facts(
        ("Account", account),
        ("Day", row["day"]),
        ("Amount", money(row["amount"])),
        ("Status", row["status"]),
    )
    refund = form(f"/invoices/{visit.id}/refund", button("Refund this invoice"))
    paid = row["status"] == "Paid"
    return visit.page(
        f"Invoice {visit.id}",
        about,
        paragraphs(row["memo"]),
        refund if paid else tag("p", "Only a paid invoice can be refunded."),
    )


def refund(visit: Visit) -> Response:
    """Pay an invoice back."""
    row = visit.row("SELECT * FROM invoices WHERE id = ?", visit.id)
    if row["status"] != "Paid":
        raise Refused("Only a paid invoice can be refunded.")
    visit.db.execute("UPDATE invoices SET status = 'Refunded' WHERE id = ?", (visit.id,))
    record(visit.db, "invoice.refunded", invoice=visit.id, amount=row["amount"])
    return visit.see(f"/invoices/{visit.id}", "refunded")


def settings(visit: Visit) -> Response:
    """The form with all settings."""
    now = {r["name"]: r["value"] for r in visit.db.all("SELECT * FROM settings")}
    choices = (select(name, _key(name), values, now[name]) for name, values in SETTINGS.items())
    return visit.page("Settings", form("/settings", *choices, button("Save settings")))


def save_settings(visit: Visit) -> Response:
    """Set all settings."""
    for name, values in SETTINGS.items():
        value = visit.choice(_key(name), values)
        visit.db.execute("UPDATE settings SET value = ? WHERE name = ?", (value, name))
        record(visit.db, "setting.saved", name=name, value=value)
    return visit.see("/settings", "changed")


def _key(name: str) -> str:
    return name.lower().replace(" ", "-")
