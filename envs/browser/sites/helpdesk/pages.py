"""The help desk's pages."""

from typing import Any

from agent_envs.envs.browser.sites.database import record
from agent_envs.envs.browser.sites.helpdesk.world import (
    AGENT,
    KINDS,
    PRIORITIES,
    PRODUCTS,
    STATUSES,
    say,
)
from agent_envs.envs.browser.sites.markup import (
    Markup,
    area,
    button,
    facts,
    field,
    form,
    link,
    paragraphs,
    select,
    table,
    tag,
)
from agent_envs.envs.browser.sites.visit import Refused, Response, Visit

_ANY = "Any"
_NOBODY = "Nobody"
_A_PAGE = 15
_TICKETS = """SELECT t.*, c.name, c.company, coalesce(a.name, 'Nobody') AS agent_name
    FROM tickets t JOIN customers c ON c.id = t.customer LEFT JOIN agents a ON a.id = t.agent"""
_FILTERS = {"status": STATUSES, "priority": PRIORITIES, "product": PRODUCTS}


def home(visit: Visit) -> Response:
    """How many tickets there are of each status."""
    rows = visit.db.all("SELECT status, count(*) AS n FROM tickets GROUP BY status")
    links = (link(f"{r['status']}: {r['n']}", f"/tickets?status={r['status']}") for r in rows)
    return visit.page("Overview", tag("ul", *(tag("li", item) for item in links)))


def tickets(visit: Visit) -> Response:
    """Tickets that fit the filters, the latest first."""
    where, values = ["1"], list[Any]()
    for name in _FILTERS:
        if visit.asked(name, _ANY) not in ("", _ANY):
            where.append(f"t.{name} = ?")
            values.append(visit.asked(name))
    if visit.asked("q"):
        where.append(
            "instr(lower(t.id || ' ' || subject || ' ' || c.name || ' ' || company), lower(?))"
        )
        values.append(visit.asked("q"))
    sql = f"{_TICKETS} WHERE {' AND '.join(where)} ORDER BY t.id DESC"
    rows, count, pages = visit.listing(sql, values, _A_PAGE)
    return visit.page("Tickets", _search(visit), _list(rows, f"{count} found"), pages)


def _search(visit: Visit) -> Markup:
    choices = (
        select(name.capitalize(), name, (_ANY, *options), visit.asked(name))
        for name, options in _FILTERS.items()
    )
    words = field("Search", "q", visit.asked("q"))
    return form("/tickets", words, *choices, button("Search"), method="get", label="Search tickets")


def _list(rows: list[Any], caption: str) -> Markup:
    cells = [
        (
            link(f"#{r['id']} {r['subject']}", f"/tickets/{r['id']}"),
            link(r["name"], f"/customers/{r['customer']}", f"{r['name']} (#{r['id']})"),
            r["company"],
            r["status"],
            r["priority"],
            r["agent_name"],
            r["day"],
        )
        for r in rows
    ]
    head = ("Ticket", "Customer", "Company", "Status", "Priority", "Agent", "Opened")
    return table(head, cells, caption)


def ticket(visit: Visit) -> Response:
    """One ticket: its messages, and the forms to answer and to change it."""
    row = visit.row(f"{_TICKETS} WHERE t.id = ?", visit.id)
    messages = visit.db.all("SELECT * FROM messages WHERE ticket = ? ORDER BY id", visit.id)
    customer = link(row["name"], f"/customers/{row['customer']}")
    return visit.page(
        f"#{row['id']} {row['subject']}",
        facts(
            ("Customer", customer),
            ("Company", row["company"]),
            ("Product", row["product"]),
            ("Opened", row["day"]),
        ),
        *(_message(m) for m in messages),
        tag("h2", "Answer"),
        form(
            f"/tickets/{visit.id}/messages",
            select("Kind", "kind", KINDS),
            area("Message", "message"),
            button("Send"),
        ),
        tag("h2", "Properties"),
        _properties(visit, row),
    )


def _message(row: Any) -> Markup:
    head = f"{row['author']}, {row['kind'].lower()}"
    return tag("article", tag("h3", head), paragraphs(row["body"]))


def _properties(visit: Visit, row: Any) -> Markup:
    agents = [r["name"] for r in visit.db.all("SELECT name FROM agents ORDER BY name")]
    return form(
        f"/tickets/{row['id']}/properties",
        select("Status", "status", STATUSES, row["status"]),
        select("Priority", "priority", PRIORITIES, row["priority"]),
        select("Agent", "agent", (_NOBODY, *agents), row["agent_name"]),
        button("Save"),
    )


def send(visit: Visit) -> Response:
    """Add a message to a ticket; a public reply goes to the customer."""
    row = visit.row("SELECT * FROM tickets WHERE id = ?", visit.id)
    if row["status"] == "Closed":
        raise Refused("A closed ticket takes no more messages.")
    kind, body = visit.choice("kind", KINDS), visit.text("message", 2000)
    say(visit.db, visit.id, AGENT, body, kind=kind)
    record(visit.db, "reply.sent" if kind == KINDS[0] else "note.added", ticket=visit.id)
    return visit.see(f"/tickets/{visit.id}", "sent")


def save(visit: Visit) -> Response:
    """Set status, priority and agent of a ticket."""
    visit.row("SELECT id FROM tickets WHERE id = ?", visit.id)
    agents = {r["name"]: r["id"] for r in visit.db.all("SELECT * FROM agents")} | {_NOBODY: None}
    status, priority = visit.choice("status", STATUSES), visit.choice("priority", PRIORITIES)
    agent = agents[visit.choice("agent", list(agents))]
    visit.db.execute(
        "UPDATE tickets SET status = ?, priority = ?, agent = ? WHERE id = ?",
        (status, priority, agent, visit.id),
    )
    record(
        visit.db, "ticket.changed", ticket=visit.id, status=status, priority=priority, agent=agent
    )
    return visit.see(f"/tickets/{visit.id}", "saved")


def customer(visit: Visit) -> Response:
    """One customer, and all of his or her tickets."""
    row = visit.row("SELECT * FROM customers WHERE id = ?", visit.id)
    rows = visit.db.all(f"{_TICKETS} WHERE c.id = ? ORDER BY t.id DESC", visit.id)
    about = facts(("E-mail", row["email"]), ("Company", row["company"]))
    return visit.page(row["name"], about, _list(rows, "Tickets"))


def agents(visit: Visit) -> Response:
    """Everybody who answers tickets, and how many open ones each has."""
    rows = visit.db.all(
        "SELECT a.*, (SELECT count(*) FROM tickets t WHERE t.agent = a.id AND t.status = 'Open')"
        " AS open FROM agents a ORDER BY name"
    )
    cells = [(r["name"], r["team"], r["open"]) for r in rows]
    return visit.page("Agents", table(("Agent", "Team", "Open tickets"), cells))
