"""What a customer may want once there is a cart or an order."""

import random

from agent_envs.envs.browser.sites.database import Database, now
from agent_envs.envs.browser.sites.family import Args, Family
from agent_envs.envs.browser.sites.oracle import START, Step, click, fill, press, select
from agent_envs.envs.browser.sites.shop.site import SITE
from agent_envs.envs.browser.sites.shop.world import REASONS
from agent_envs.envs.browser.sites.words import money

_SAME = """SELECT o.id, o.status, l.product, l.quantity, p.name FROM lines l
    JOIN orders o ON o.id = l.ordered JOIN products p ON p.id = l.product WHERE p.name = ?"""
_A_PAGE = 10


def to_order(db: Database, number: int) -> list[Step]:
    """The steps to an order of the customer's, over the pages of the list."""
    newer = db.value("SELECT count(*) FROM orders WHERE id > ?", number)
    return [START, click("Orders"), *[click("Next page")] * (newer // _A_PAGE), _order(number)]


def _order(number: int) -> Step:
    return click(f"Order {number}")


class Cart(Family):
    """Change what is in the cart, without ordering it."""

    site, name, level = SITE, "shop.cart", 1

    def pick(self, db: Database, rng: random.Random) -> Args | None:
        """Four products in the cart, of which one goes, one changes, and two stay."""
        rows = rng.sample(db.all("SELECT * FROM products WHERE stock > 6"), 4)
        cart = [[row["id"], rng.randint(1, 3)] for row in rows]
        quantity, (out, other) = rng.randint(4, 6), (rows[0]["name"], rows[1]["name"])
        return {"cart": cart, "out": out, "other": other, "quantity": quantity}

    def prepare(self, db: Database, args: Args) -> None:
        """Fill the cart."""
        for product, quantity in args["cart"]:
            db.insert("cart", product, quantity)

    def prompt(self, args: Args) -> str:
        """What to change."""
        return (
            f"In my cart, change the quantity of the {args['other']} to {args['quantity']} and "
            f"take the {args['out']} out. Leave the rest, and do not order anything yet."
        )

    def expect(self, db: Database, args: Args) -> None:
        """Three products, one of them in another number."""
        (out, _), (other, _), *_ = args["cart"]
        db.execute("DELETE FROM cart WHERE product = ?", (out,))
        db.execute("UPDATE cart SET quantity = ? WHERE product = ?", (args["quantity"], other))

    def plan(self, db: Database, args: Args) -> list[Step]:
        """One change after the other."""
        other = args["other"]
        box = fill(f"Quantity of {other}", args["quantity"])
        return [START, click("Cart"), box, press(f"Change {other}"), press(f"Remove {args['out']}")]


class Cancel(Family):
    """Cancel the one order, among several with the same product, that can be cancelled."""

    site, name, level = SITE, "shop.cancel", 2

    def pick(self, db: Database, rng: random.Random) -> Args | None:
        """A product in just one order that was not shipped."""
        rows = db.all(
            "SELECT p.name, max(o.id) AS number FROM lines l JOIN orders o ON o.id = l.ordered"
            " JOIN products p ON p.id = l.product WHERE o.status = 'Placed'"
            " GROUP BY p.id HAVING count(*) = 1"
        )
        row = rng.choice(rows) if rows else None
        return {"product": row["name"], "order": row["number"]} if row else None

    def prompt(self, args: Args) -> str:
        """Which order, by its contents."""
        return f"Cancel my order with the {args['product']}: the one that has not been shipped yet."

    def expect(self, db: Database, args: Args) -> None:
        """Its status, and its goods back in stock."""
        number = args["order"]
        db.execute("UPDATE orders SET status = 'Cancelled' WHERE id = ?", (number,))
        for row in db.all("SELECT * FROM lines WHERE ordered = ?", number):
            db.execute(
                "UPDATE products SET stock = stock + ? WHERE id = ?",
                (row["quantity"], row["product"]),
            )

    def lasting(self, args: Args) -> list[str]:
        """One order cancelled."""
        return ["order.cancelled"]

    def plan(self, db: Database, args: Args) -> list[Step]:
        """Open it and cancel it."""
        return [*to_order(db, args["order"]), press("Cancel this order")]


class Return(Family):
    """Send something back from the one delivered order that has it."""

    site, name, level = SITE, "shop.return", 2

    def pick(self, db: Database, rng: random.Random) -> Args | None:
        """A product in just one delivered order, not all of it to be returned."""
        row = rng.choice(db.all("SELECT p.name FROM lines l JOIN products p ON p.id = l.product"))
        found = [r for r in db.all(_SAME, row["name"]) if r["status"] == "Delivered"]
        if len(found) != 1 or found[0]["quantity"] < 2:
            return None
        [one] = found
        quantity, reason = rng.randint(1, one["quantity"] - 1), rng.choice(REASONS)
        args = {"product": one["name"], "number": one["product"], "order": one["id"]}
        return args | {"quantity": quantity, "reason": reason}

    def prompt(self, args: Args) -> str:
        """What goes back, and why."""
        return (
            f"Return {args['quantity']} x {args['product']} from the order that was delivered "
            f"to me. Give as the reason: {args['reason']}."
        )

    def expect(self, db: Database, args: Args) -> None:
        """One return more."""
        what = (args["order"], args["number"], args["quantity"], args["reason"])
        db.insert("returns", db.next_id("returns"), now(db), *what)

    def lasting(self, args: Args) -> list[str]:
        """One return."""
        return ["return.registered"]

    def plan(self, db: Database, args: Args) -> list[Step]:
        """Open the order and fill the form in."""
        boxes = [
            select("Product", args["product"]),
            fill("Quantity", args["quantity"]),
            select("Reason", args["reason"]),
        ]
        start = to_order(db, args["order"])
        return [*start, click("Return something"), *boxes, press("Send return")]


class Spent(Family):
    """Add up the orders of some weeks, found over several pages."""

    site, name, level, looks_up, reads = SITE, "shop.spent", 3, True, "number"

    def pick(self, db: Database, rng: random.Random) -> Args | None:
        """From one order to another one, with a cancelled one between them."""
        rows = db.all("SELECT day, status FROM orders ORDER BY id")
        first, count = rng.randrange(len(rows) - 6), rng.randint(4, 7)
        chosen = rows[first : first + count]
        if "Cancelled" not in [row["status"] for row in chosen[1:-1]]:
            return None
        return {"first": chosen[0]["day"], "last": chosen[-1]["day"]}

    def prompt(self, args: Args) -> str:
        """What to add up."""
        return (
            f"How much did I spend from {args['first']} to {args['last']}, both days included? "
            "Add up the totals of the orders of these days, without those that were cancelled."
        )

    def answer(self, db: Database, args: Args) -> str:
        """The sum, with two decimals."""
        sql = "SELECT sum(total) FROM orders WHERE day BETWEEN ? AND ? AND status <> 'Cancelled'"
        return money(db.value(sql, args["first"], args["last"]))

    def plan(self, db: Database, args: Args) -> list[Step]:
        """Page through the orders up to the first of these days."""
        first = db.value("SELECT min(id) FROM orders WHERE day >= ?", args["first"])
        return to_order(db, first)[:-1]
