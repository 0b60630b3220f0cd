"""The shop's pages about products: the front page, the search, one product."""

import re
from typing import Any

from agent_envs.envs.browser.sites.markup import (
    Markup,
    button,
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
from agent_envs.envs.browser.sites.shop import world
from agent_envs.envs.browser.sites.visit import Response, Visit
from agent_envs.envs.browser.sites.words import money

_ANY = "Any"
_SORTS = {
    "Name": "name",
    "Price, lowest first": "price, id",
    "Price, highest first": "price DESC, id",
    "Rating": "rating DESC, name",
}
_RATINGS = (_ANY, "3.0", "3.5", "4.0", "4.5")
_A_PAGE = 12


def home(visit: Visit) -> Response:
    """The front page."""
    links = [tag("li", link(c, f"/products?category={c}")) for c in world.CATEGORIES]
    return visit.page("Welcome", tag("p", "Furniture that lasts."), tag("ul", *links))


def index(visit: Visit) -> Response:
    """Products that fit the filters."""
    where, values = _filters(visit)
    order = _SORTS.get(visit.asked("sort"), "name")
    sql = f"SELECT * FROM products WHERE {where} ORDER BY {order}"
    rows, count, pages = visit.listing(sql, values, _A_PAGE)
    cells = [
        (
            link(r["name"], f"/products/{r['id']}"),
            r["category"],
            r["colour"],
            money(r["price"]),
            f"{r['rating'] / 10:.1f}",
        )
        for r in rows
    ]
    head = ("Product", "Category", "Colour", "Price", "Rating")
    return visit.page(
        "Products",
        _search(visit),
        table(head, cells, f"{count} found"),
        pages,
    )


def _search(visit: Visit) -> Markup:
    def chosen(label: str, name: str, options: tuple[str, ...]) -> Markup:
        return select(label, name, options, visit.asked(name))

    return form(
        "/products",
        field("Search", "q", visit.asked("q")),
        chosen("Category", "category", (_ANY, *world.CATEGORIES)),
        chosen("Colour", "colour", (_ANY, *world.COLOURS)),
        chosen("Lowest rating", "rating", _RATINGS),
        field("Highest price", "most", visit.asked("most")),
        chosen("Sort by", "sort", tuple(_SORTS)),
        button("Search"),
        method="get",
        label="Search products",
    )


def _filters(visit: Visit) -> tuple[str, list[Any]]:
    """The condition that the query asks for. What it does not understand is no condition."""
    where, values = ["1"], list[Any]()
    for name in ("category", "colour"):
        if visit.asked(name, _ANY) not in ("", _ANY):
            where.append(f"{name} = ?")
            values.append(visit.asked(name))
    if visit.asked("q"):
        where.append("instr(lower(name), lower(?))")
        values.append(visit.asked("q"))
    for name, condition, unit in (("rating", "rating >= ?", 10), ("most", "price <= ?", 100)):
        if re.fullmatch(r"[0-9]{1,6}(\.[0-9]{1,2})?", visit.asked(name)):
            where.append(condition)
            values.append(round(float(visit.asked(name)) * unit))
    return " AND ".join(where), values


def show(visit: Visit) -> Response:
    """One product, to be put in the cart."""
    row = visit.row("SELECT * FROM products WHERE id = ?", visit.id)
    pairs = [(n.capitalize(), row[n]) for n in ("category", "colour", "stock")]
    pairs += [("Price", money(row["price"])), ("Rating", f"{row['rating'] / 10:.1f}")]
    return visit.page(
        row["name"],
        paragraphs(row["description"]),
        facts(*pairs, ("Article code", row["code"])),
        form(
            "/cart/add",
            hidden("product", row["id"]),
            field("Quantity", "quantity", 1),
            button("Add to cart"),
        ),
    )
