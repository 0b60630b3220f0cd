"""The shop's pages about orders: the list, one order, cancelling it, sending things back."""

from typing import Any

from agent_envs.envs.browser.sites.database import now, record
from agent_envs.envs.browser.sites.markup import (
    Markup,
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
from agent_envs.envs.browser.sites.shop.world import REASONS
from agent_envs.envs.browser.sites.visit import Refused, Response, Visit
from agent_envs.envs.browser.sites.words import money

_A_PAGE = 10
_LINES = (
    "SELECT l.*, p.name FROM lines l JOIN products p ON p.id = l.product WHERE l.ordered = ?"
    " ORDER BY p.name"
)


def index(visit: Visit) -> Response:
    """All orders, the latest first."""
    rows, _, pages = visit.listing("SELECT * FROM orders ORDER BY id DESC", [], _A_PAGE)
    cells = [
        (link(f"Order {r['id']}", f"/orders/{r['id']}"), r["day"], r["status"], money(r["total"]))
        for r in rows
    ]
    head = ("Order", "Day", "Status", "Total")
    return visit.page("Orders", table(head, cells), pages)


def show(visit: Visit) -> Response:
    """One order, and what can be done with it."""
    order = visit.row("SELECT * FROM orders WHERE id = ?", visit.id)
    cells = [(r["name"], r["quantity"], money(r["price"])) for r in visit.db.all(_LINES, visit.id)]
    pairs = [(n.capitalize(), order[n]) for n in ("day", "status", "name", "street", "town")]
    return visit.page(
        f"Order {visit.id}",
        paragraphs(order["note"]),
        table(("Product", "Quantity", "Price"), cells),
        facts(*pairs, ("Delivery", order["delivery"]), ("Total", money(order["total"]))),
        _returned(visit),
        _action(order),
    )


def _returned(visit: Visit) -> Markup:
    rows = visit.db.all(
        "SELECT r.*, p.name FROM returns r JOIN products p ON p.id = r.product WHERE ordered = ?",
        visit.id,
    )
    return tag("ul", *(tag("li", f"Returned: {r['quantity']} x {r['name']}") for r in rows))


def _action(order: Any) -> Markup:
    if order["status"] == "Placed":
        return form(f"/orders/{order['id']}/cancel", button("Cancel this order"))
    if order["status"] == "Delivered":
        return tag("p", link("Return something", f"/orders/{order['id']}/return"))
    return tag("p", "This order can no longer be changed.")


def cancel(visit: Visit) -> Response:
    """Cancel an order that has not been shipped; its goods go back into stock."""
    order = visit.row("SELECT * FROM orders WHERE id = ?", visit.id)
    if order["status"] != "Placed":
        raise Refused("Only an order that has not been shipped can be cancelled.")
    visit.db.execute("UPDATE orders SET status = 'Cancelled' WHERE id = ?", (visit.id,))
    for row in visit.db.all(_LINES, visit.id):
        visit.db.execute(
            "UPDATE products SET stock = stock + ? WHERE id = ?", (row["quantity"], row["product"])
        )
    record(visit.db, "order.cancelled", order=visit.id)
    return visit.see(f"/orders/{visit.id}", "cancelled")


def ask_return(visit: Visit) -> Response:
    """The form for sending something back."""
    visit.row("SELECT * FROM orders WHERE id = ? AND status = 'Delivered'", visit.id)
    names = [r["name"] for r in visit.db.all(_LINES, visit.id)]
    return visit.page(
        f"Return from order {visit.id}",
        form(
            f"/orders/{visit.id}/return",
            select("Product", "product", names),
            field("Quantity", "quantity", 1),
            select("Reason", "reason", REASONS),
            button("Send return"),
        ),
    )


def send_back(visit: Visit) -> Response:
    """Register a return of at most what was ordered and not yet returned."""
    visit.row("SELECT * FROM orders WHERE id = ? AND status = 'Delivered'", visit.id)
    rows = {r["name"]: r for r in visit.db.all(_LINES, visit.id)}
    row = rows[visit.choice("product", list(rows))]
    gone = visit.db.value(
        "SELECT coalesce(sum(quantity), 0) FROM returns WHERE ordered = ? AND product = ?",
        visit.id,
        row["product"],
    )
    if gone >= row["quantity"]:
        raise Refused("All of these were returned already.")
    quantity = visit.number("quantity", 1, row["quantity"] - gone)
    reason, number = visit.choice("reason", REASONS), visit.db.next_id("returns")
    visit.db.insert("returns", number, now(visit.db), visit.id, row["product"], quantity, reason)
    record(visit.db, "return.registered", order=visit.id, product=row["product"], count=quantity)
    return visit.see(f"/orders/{visit.id}", "returned")
