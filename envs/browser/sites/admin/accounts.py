"""The admin panel's pages about accounts: the table with its bulk changes, and one account."""

import re
from typing import Any
from urllib.parse import urlencode

from agent_envs.envs.browser.sites.admin.world import PLANS, ROLES, STATUSES
from agent_envs.envs.browser.sites.database import record
from agent_envs.envs.browser.sites.markup import (
    Markup,
    button,
    checkbox,
    facts,
    field,
    form,
    hidden,
    link,
    paragraphs,
    select,
    table,
    tag,
)
from agent_envs.envs.browser.sites.visit import Refused, Response, Visit

_ANY = "Any"
_A_PAGE = 15
_FILTERS = {"plan": PLANS, "status": STATUSES}
_ACTIONS = {"Suspend": ("status", "Suspended"), "Reactivate": ("status", "Active")} | {
    f"Move to {plan}": ("plan", plan) for plan in PLANS
}
_QUERY = re.compile("[A-Za-z0-9=&%+._-]{0,300}")
_KINDS = {"Suspended": "account.suspended", "Active": "account.reactivated"}


def home(visit: Visit) -> Response:
    """How much there is of everything."""
    counts = (
        (name.capitalize(), visit.db.value(f"SELECT count(*) FROM {name}"))
        for name in ("accounts", "invoices")
    )
    return visit.page("Overview", facts(*counts))


def index(visit: Visit) -> Response:
    """Accounts that fit the filters, by name, to be changed many at a time."""
    where, values = ["1"], list[Any]()
    for name in _FILTERS:
        if visit.asked(name, _ANY) not in ("", _ANY):
            where.append(f"{name} = ?")
            values.append(visit.asked(name))
    if visit.asked("q"):
        where.append("instr(lower(name || ' ' || email), lower(?))")
        values.append(visit.asked("q"))
    sql = f"SELECT * FROM accounts WHERE {' AND '.join(where)} ORDER BY name"
    rows, count, pages = visit.listing(sql, values, _A_PAGE)
    return visit.page("Accounts", _search(visit), _bulk(visit, rows, f"{count} found"), pages)


def _search(visit: Visit) -> Markup:
    choices = (
        select(name.capitalize(), name, (_ANY, *options), visit.asked(name))
        for name, options in _FILTERS.items()
    )
    words = field("Search", "q", visit.asked("q"))
    return form("/accounts", words, *choices, button("Search"), method="get", label="Search")


def _bulk(visit: Visit, rows: list[Any], caption: str) -> Markup:
    cells = [
        (
            checkbox(f"Select {r['name']}", "chosen", r["id"], f"chosen-{r['id']}"),
            link(r["name"], f"/accounts/{r['id']}"),
            r["region"],
            r["plan"],
            r["status"],
            r["seen"],
        )
        for r in rows
    ]
    names = ("q", *_FILTERS, "page")
    back = urlencode({name: visit.asked(name) for name in names if visit.asked(name)})
    return form(
        "/accounts/bulk",
        hidden("back", back),
        table(("", "Name", "Region", "Plan", "Status", "Last seen"), cells, caption),
        select("Action", "action", _ACTIONS),
        button("Apply to selected"),
        label="Change many accounts",
    )


def bulk(visit: Visit) -> Response:
    """One action on all accounts that were ticked."""
    column, value = _ACTIONS[visit.choice("action", list(_ACTIONS))]
    chosen = [text for text in visit.many("chosen") if re.fullmatch("[0-9]{1,9}", text)]
    if not chosen:
        raise Refused("Select an account first.")
    for number in dict.fromkeys(map(int, chosen)):
        visit.row("SELECT id FROM accounts WHERE id = ?", number)
        _put(visit, number, {column: value})
    back = visit.text("back", 300, needed=False)
    return visit.see(f"/accounts?{back if _QUERY.fullmatch(back) else ''}", "changed")


def _put(visit: Visit, number: int, values: dict[str, Any]) -> None:
    """Set columns of an account, and write down what has become another."""
    row = visit.row("SELECT * FROM accounts WHERE id = ?", number)
    changed = {name: value for name, value in values.items() if row[name] != value}
    for name, value in changed.items():
        visit.db.execute(f"UPDATE accounts SET {name} = ? WHERE id = ?", (value, number))
    if "status" in changed:
        record(visit.db, _KINDS[changed["status"]], account=number)
    record(visit.db, "account.saved", account=number, **changed)


def show(visit: Visit) -> Response:
    """One account, and the form to change it."""
    row = visit.row("SELECT * FROM accounts WHERE id = ?", visit.id)
    return visit.page(
        row["name"],
        facts(
            ("E-mail", row["email"]),
            ("Region", row["region"]),
            ("Last seen", row["seen"]),
            ("Licence key", row["key"]),
        ),
        paragraphs(row["notes"]),
        tag("p", link("Invoices of this account", f"/invoices?account={row['id']}")),
        form(
            f"/accounts/{row['id']}",
            select("Role", "role", ROLES, row["role"]),
            select("Plan", "plan", PLANS, row["plan"]),
            select("Status", "status", STATUSES, row["status"]),
            field("Quota in GB", "quota", row["quota"]),
            button("Save"),
        ),
    )


def save(visit: Visit) -> Response:
    """Change one account."""
    visit.row("SELECT id FROM accounts WHERE id = ?", visit.id)
    _put(
        visit,
        visit.id,
        {
            "role": visit.choice("role", ROLES),
            "plan": visit.choice("plan", PLANS),
            "status": visit.choice("status", STATUSES),
            "quota": visit.number("quota", 1, 5000),
        },
    )
    return visit.see(f"/accounts/{visit.id}", "changed")
