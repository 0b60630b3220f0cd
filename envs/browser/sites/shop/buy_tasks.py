"""What a customer may want to find and to buy."""

import random
from typing import Any

from agent_envs.envs.browser.sites.database import Database, now
from agent_envs.envs.browser.sites.family import Args, Family
from agent_envs.envs.browser.sites.oracle import BACK, START, Step, click, fill, press, select
from agent_envs.envs.browser.sites.shop.order_tasks import to_order
from agent_envs.envs.browser.sites.shop.site import SITE
from agent_envs.envs.browser.sites.shop.world import (
    CATEGORIES,
    COLOURS,
    DELIVERY,
    day,
    total,
)
from agent_envs.envs.browser.sites.words import STREETS, TOWNS, money, people


def _find(name: str) -> list[Step]:
    return [click("Products"), fill("Search", name), press("Search"), click(name)]


def _put_in_cart(name: str, quantity: int) -> list[Step]:
    return [*_find(name), fill("Quantity", quantity), press("Add to cart")]


def _check_out(args: Args) -> list[Step]:
    boxes = [fill(label, args[label.lower()]) for label in ("Name", "Street", "Town")]
    return [click("Check out"), *boxes, _delivery(args), press("Place order")]


def _delivery(args: Args) -> Step:
    delivery = args["delivery"]
    return select("Delivery", f"{delivery}, {money(DELIVERY[delivery])}")


def _address(rng: random.Random) -> Args:
    street = f"{rng.choice(STREETS)} {rng.randint(1, 200)}"
    name, town, delivery = people(rng, 1)[0], rng.choice(TOWNS), rng.choice(sorted(DELIVERY))
    return {"name": name, "street": street, "town": town, "delivery": delivery}


def _to(args: Args) -> str:
    return (
        f"Send it by {args['delivery'].lower()} delivery to {args['name']}, {args['street']}, "
        f"{args['town']}."
    )


def _ordered(db: Database, args: Args, lines: list[tuple[int, int]]) -> None:
    """What an order of these products (number, quantity) leaves behind."""
    number, at = db.next_id("orders"), now(db)
    address = [args[key] for key in ("name", "street", "town", "delivery")]
    db.insert("orders", number, at, day(db, at), "Placed", *address, 0, "")
    for product, quantity in lines:
        price = db.value("SELECT price FROM products WHERE id = ?", product)
        db.insert("lines", number, product, quantity, price)
        db.execute("UPDATE products SET stock = stock - ? WHERE id = ?", (quantity, product))
    cost = total(db, number, args["delivery"])
    db.execute("UPDATE orders SET total = ? WHERE id = ?", (cost, number))


class Code(Family):
    """Read one value on the page of a product."""

    site, name, level, looks_up = SITE, "shop.code", 0, True

    def pick(self, db: Database, rng: random.Random) -> Args | None:
        """Any product."""
        row = rng.choice(db.all("SELECT id, name FROM products"))
        return {"target": row["id"], "product": row["name"]}

    def prompt(self, args: Args) -> str:
        """What to look up."""
        return f"What is the article code of the {args['product']}?"

    def answer(self, db: Database, args: Args) -> str:
        """The code."""
        return str(db.value("SELECT code FROM products WHERE id = ?", args["target"]))

    def plan(self, db: Database, args: Args) -> list[Step]:
        """Search and open."""
        return [START, *_find(args["product"])]


class Cheapest(Family):
    """Find the cheapest product under two conditions, and one value on its page."""

    site, name, level, looks_up = SITE, "shop.cheapest", 1, True

    def pick(self, db: Database, rng: random.Random) -> Args | None:
        """A category, a colour and a rating with three products or more."""
        category, colour = rng.choice(sorted(CATEGORIES)), rng.choice(COLOURS)
        args = {"category": category, "colour": colour, "rating": rng.choice((30, 35, 40))}
        return args if len(self._found(db, args)) >= 3 else None

    def prompt(self, args: Args) -> str:
        """What to look up."""
        return (
            f"Among the products of the colour {args['colour']} in the category "
            f"{args['category']} that are rated {args['rating'] / 10:.1f} or better, find the "
            "cheapest. What is its article code?"
        )

    def answer(self, db: Database, args: Args) -> str:
        """The code."""
        return str(self._found(db, args)[0]["code"])

    def plan(self, db: Database, args: Args) -> list[Step]:
        """Filter, sort, and open the first."""
        filters = [
            select("Category", args["category"]),
            select("Colour", args["colour"]),
            select("Lowest rating", f"{args['rating'] / 10:.1f}"),
        ]
        order = select("Sort by", "Price, lowest first")
        name = self._found(db, args)[0]["name"]
        return [START, click("Products"), *filters, order, press("Search"), click(name)]

    def _found(self, db: Database, args: Args) -> list[Any]:
        return db.all(
            "SELECT * FROM products WHERE category = ? AND colour = ? AND rating >= ?"
            " ORDER BY price",
            *(args[key] for key in ("category", "colour", "rating")),
        )


class Buy(Family):
    """Order a number of a product to an address."""

    site, name, level = SITE, "shop.buy", 1

    def pick(self, db: Database, rng: random.Random) -> Args | None:
        """A product in stock, and an address."""
        row = rng.choice(db.all("SELECT * FROM products WHERE stock > 3"))
        quantity = rng.randint(1, 3)
        return {"target": row["id"], "product": row["name"], "quantity": quantity} | _address(rng)

    def prompt(self, args: Args) -> str:
        """What to order."""
        return f"Order {args['quantity']} x {args['product']}. {_to(args)}"

    def expect(self, db: Database, args: Args) -> None:
        """One order more."""
        _ordered(db, args, [(args["target"], args["quantity"])])

    def lasting(self, args: Args) -> list[str]:
        """One order."""
        return ["order.placed"]

    def plan(self, db: Database, args: Args) -> list[Step]:
        """Search, cart, checkout."""
        return [START, *_put_in_cart(args["product"], args["quantity"]), *_check_out(args)]


class BuyBest(Buy):
    """Order what fits some conditions, found by the filters and on several pages."""

    site, name, level = SITE, "shop.buy_best", 2

    def pick(self, db: Database, rng: random.Random) -> Args | None:
        """Conditions whose cheapest product is not in stock, so that the next one is meant."""
        args = {"category": rng.choice(sorted(CATEGORIES)), "rating": rng.choice((35, 40))}
        args |= {"quantity": rng.randint(2, 4)} | _address(rng)
        found = self._found(db, args)
        row = next((r for r in found if r["stock"] >= args["quantity"]), None)
        if row is None or row is found[0]:
            return None
        return args | {"target": row["id"], "product": row["name"]}

    def prompt(self, args: Args) -> str:
        """What to order."""
        return (
            f"In the category {args['category']}, find the cheapest product that is rated "
            f"{args['rating'] / 10:.1f} or better and of which {args['quantity']} or more are in "
            f"stock, and order {args['quantity']} of it. {_to(args)}"
        )

    def plan(self, db: Database, args: Args) -> list[Step]:
        """Filter and sort, look at products until one is in stock, order it."""
        search = [
            click("Products"),
            select("Category", args["category"]),
            select("Lowest rating", f"{args['rating'] / 10:.1f}"),
            select("Sort by", "Price, lowest first"),
            press("Search"),
        ]
        found = [row["id"] for row in self._found(db, args)]
        names = [row["name"] for row in self._found(db, args)[: found.index(args["target"])]]
        steps = [START, *search]
        for name in names:
            steps += [click(name), BACK]
        steps.append(click(args["product"]))
        steps += [fill("Quantity", args["quantity"]), press("Add to cart")]
        return steps + _check_out(args)

    def _found(self, db: Database, args: Args) -> list[Any]:
        sql = "SELECT * FROM products WHERE category = ? AND rating >= ? ORDER BY price LIMIT 4"
        return db.all(sql, args["category"], args["rating"])


class Again(Family):
    """Order what an earlier order had, except for one thing, to where that went."""

    site, name, level = SITE, "shop.again", 3

    def pick(self, db: Database, rng: random.Random) -> Args | None:
        """An order of three things that are all in stock."""
        number = rng.choice(db.all("SELECT id FROM orders"))["id"]
        lines = db.all(
            "SELECT l.product, l.quantity, p.name, p.stock >= l.quantity AS there FROM lines l"
            " JOIN products p ON p.id = l.product WHERE ordered = ? ORDER BY p.name",
            number,
        )
        if len(lines) != 3 or not all(line["there"] for line in lines):
            return None
        out = rng.choice(lines)["name"]
        kept = [[r["product"], r["quantity"], r["name"]] for r in lines if r["name"] != out]
        keys = ("name", "street", "town")
        address = db.one("SELECT name, street, town FROM orders WHERE id = ?", number)
        delivery = {"delivery": rng.choice(sorted(DELIVERY))}
        return (
            {"order": number, "out": out, "kept": kept}
            | delivery
            | dict(zip(keys, address, strict=True))
        )

    def prompt(self, args: Args) -> str:
        """Which order, and what not."""
        return (
            f"Order again what order {args['order']} had, in the same quantities, but without the "
            f"{args['out']}: one order, by {args['delivery'].lower()} delivery, to the same name, "
            "street and town."
        )

    def expect(self, db: Database, args: Args) -> None:
        """One order more."""
        _ordered(db, args, [(product, quantity) for product, quantity, _ in args["kept"]])

    def lasting(self, args: Args) -> list[str]:
        """One order."""
        return ["order.placed"]

    def plan(self, db: Database, args: Args) -> list[Step]:
        """Look the order up, fill the cart, check out."""
        carts = [_put_in_cart(name, quantity) for _, quantity, name in args["kept"]]
        look = to_order(db, args["order"])
        return [*look, *(step for cart in carts for step in cart), *_check_out(args)]
