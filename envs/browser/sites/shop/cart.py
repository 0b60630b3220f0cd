"""The shop's cart, and the order that is made of it."""

from typing import Any

from agent_envs.envs.browser.sites.database import now, record
from agent_envs.envs.browser.sites.markup import (
    Markup,
    button,
    field,
    form,
    hidden,
    join,
    link,
    select,
    table,
    tag,
)
from agent_envs.envs.browser.sites.shop import world
from agent_envs.envs.browser.sites.visit import Refused, Response, Visit
from agent_envs.envs.browser.sites.words import money


def add(visit: Visit) -> Response:
    """Put a number of a product in the cart."""
    product, quantity = visit.number("product", 1, 10**6), visit.number("quantity", 1, 99)
    row = visit.row("SELECT stock FROM products WHERE id = ?", product)
    held = visit.db.value("SELECT quantity FROM cart WHERE product = ?", product) or 0
    _set(visit, product, held + quantity, row["stock"])
    return visit.see("/cart", "added")


def change(visit: Visit) -> Response:
    """Have another number of a product in the cart; 0 takes it out."""
    product, quantity = visit.number("product", 1, 10**6), visit.number("quantity", 0, 99)
    row = visit.row(
        "SELECT stock FROM products WHERE id = ? AND id IN (SELECT product FROM cart)", product
    )
    _set(visit, product, quantity, row["stock"])
    return visit.see("/cart", "changed")


def _set(visit: Visit, product: int, quantity: int, stock: int) -> None:
    if quantity > stock:
        raise Refused(f"There are only {stock} in stock.")
    visit.db.execute("DELETE FROM cart WHERE product = ?", (product,))
    if quantity:
        visit.db.insert("cart", product, quantity)
    record(visit.db, "cart.changed", product=product, quantity=quantity)


def show(visit: Visit) -> Response:
    """What is in the cart."""
    rows = visit.db.all("SELECT p.*, c.quantity FROM cart c JOIN products p ON p.id = c.product")
    if not rows:
        return visit.page("Cart", tag("p", "Your cart is empty."))
    cells = [
        (
            link(r["name"], f"/products/{r['id']}"),
            money(r["price"]),
            _quantity(r),
            money(r["price"] * r["quantity"]),
        )
        for r in rows
    ]
    goods = sum(r["price"] * r["quantity"] for r in rows)
    return visit.page(
        "Cart",
        table(("Product", "Price", "Quantity", "Sum"), cells),
        tag("p", f"Goods: {money(goods)}"),
        tag("p", link("Check out", "/checkout")),
    )


def _quantity(row: Any) -> Markup:
    name, key = row["name"], f"quantity-{row['id']}"
    product = hidden("product", row["id"])
    return join(
        form(
            "/cart/change",
            product,
            field(f"Quantity of {name}", "quantity", row["quantity"], key),
            button("Change", f"Change {name}"),
        ),
        form("/cart/change", product, hidden("quantity", 0), button("Remove", f"Remove {name}")),
    )


def ask(visit: Visit) -> Response:
    """The form for ordering what is in the cart."""
    rows = visit.db.all("SELECT p.name, c.quantity FROM cart c JOIN products p ON p.id = c.product")
    if not rows:
        return visit.page("Check out", tag("p", "Your cart is empty."))
    options = [(name, f"{name}, {money(cost)}") for name, cost in world.DELIVERY.items()]
    return visit.page(
        "Check out",
        tag("ul", *(tag("li", f"{r['quantity']} x {r['name']}") for r in rows)),
        form(
            "/checkout",
            field("Name", "name"),
            field("Street", "street"),
            field("Town", "town"),
            select("Delivery", "delivery", options),
            button("Place order"),
        ),
    )


def place(visit: Visit) -> Response:
    """Order what is in the cart: all of it, or nothing where something is out of stock."""
    db, number = visit.db, visit.db.next_id("orders")
    address = [visit.text(name, 80) for name in ("name", "street", "town")]
    delivery = visit.choice("delivery", list(world.DELIVERY))
    rows = db.all("SELECT p.*, c.quantity FROM cart c JOIN products p ON p.id = c.product")
    if not rows:
        raise Refused("Your cart is empty.")
    at = now(db)
    db.insert("orders", number, at, world.day(db, at), "Placed", *address, delivery, 0, "")
    for row in rows:
        if row["quantity"] > row["stock"]:
            raise Refused(f"There are only {row['stock']} of {row['name']} in stock.")
        db.insert("lines", number, row["id"], row["quantity"], row["price"])
        db.execute(
            "UPDATE products SET stock = stock - ? WHERE id = ?", (row["quantity"], row["id"])
        )
    cost = world.total(db, number, delivery)
    db.execute("UPDATE orders SET total = ? WHERE id = ?", (cost, number))
    db.execute("DELETE FROM cart")
    record(db, "order.placed", order=number, total=cost)
    return visit.see(f"/orders/{number}", "placed")
