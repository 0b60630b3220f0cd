"""The wiki's pages: reading, editing, and the history of a page."""

from typing import Any

from agent_envs.envs.browser.sites.database import record
from agent_envs.envs.browser.sites.markup import (
    Child,
    Markup,
    button,
    field,
    form,
    hidden,
    link,
    paragraphs,
    table,
    tag,
)
from agent_envs.envs.browser.sites.visit import Missing, Refused, Response, Visit
from agent_envs.envs.browser.sites.wiki.world import EDITOR, edit

_A_PAGE = 20


def home(visit: Visit) -> Response:
    """The search and the categories."""
    rows = visit.db.all("SELECT category, count(*) AS n FROM pages GROUP BY category")
    names = ((link(r["category"], f"/category/{r['category']}"), r["n"]) for r in rows)
    return visit.page("Main page", _search(visit), table(("Category", "Pages"), names))


def _search(visit: Visit) -> Markup:
    words = field("Search", "q", visit.asked("q"))
    return form("/search", words, button("Search"), method="get", label="Search the wiki")


def search(visit: Visit) -> Response:
    """Pages by what their title, text or facts have."""
    sql = (
        "SELECT * FROM pages p WHERE instr(lower(title || ' ' || body), lower(?1)) OR EXISTS"
        " (SELECT 1 FROM facts WHERE page = p.id AND instr(lower(value), lower(?1))) ORDER BY title"
    )
    rows, count, pages = visit.listing(sql, [visit.asked("q")], _A_PAGE)
    return visit.page("Search", _search(visit), _titles(rows, f"{count} found"), pages)


def category(visit: Visit) -> Response:
    """All pages of a category."""
    [name] = visit.ids
    sql = "SELECT * FROM pages WHERE category = ? ORDER BY title"
    rows, count, pages = visit.listing(sql, [name], _A_PAGE)
    if not count:
        raise Missing
    return visit.page(f"Category {name}", _titles(rows, f"{count} pages"), pages)


def _titles(rows: list[Any], caption: str) -> Markup:
    cells = ((link(r["title"], f"/wiki/{r['slug']}"), r["category"]) for r in rows)
    return table(("Page", "Category"), cells, caption)


def _page(visit: Visit) -> Any:
    return visit.row("SELECT * FROM pages WHERE slug = ?", visit.ids[0])


def _facts(visit: Visit, page: int) -> list[Any]:
    return visit.db.all(
        "SELECT f.*, p.slug FROM facts f LEFT JOIN pages p ON p.title = f.value WHERE f.page = ?"
        " ORDER BY f.name",
        page,
    )


def show(visit: Visit) -> Response:
    """A page: its text and its facts."""
    page = _page(visit)
    cells: list[tuple[Child, Child]] = [
        (f["name"], link(f["value"], f"/wiki/{f['slug']}") if f["slug"] else f["value"])
        for f in _facts(visit, page["id"])
    ]
    here = f"/wiki/{page['slug']}"
    group = link(page["category"], f"/category/{page['category']}", f"Category {page['category']}")
    return visit.page(
        page["title"],
        paragraphs(page["body"]),
        table(("Fact", "Value"), cells, "Facts"),
        tag("p", "Category: ", group),
        tag("p", link("Edit", f"{here}/edit"), " ", link("History", f"{here}/history")),
    )


def ask_edit(visit: Visit) -> Response:
    """The form to change the facts of a page."""
    page = _page(visit)
    boxes = (
        field(f["name"], f["name"], f["value"], f"fact-{number}")
        for number, f in enumerate(_facts(visit, page["id"]))
    )
    where = f"/wiki/{page['slug']}/edit"
    return visit.page(f"Edit {page['title']}", form(where, *boxes, button("Save page")))


def save(visit: Visit) -> Response:
    """Change the facts that are not as they were."""
    page = _page(visit)
    new = {f["name"]: visit.text(f["name"], 80) for f in _facts(visit, page["id"])}
    old = {f["name"]: f["value"] for f in _facts(visit, page["id"])}
    changed = {name: value for name, value in new.items() if value != old[name]}
    if not changed:
        raise Refused("Nothing was changed.")
    for name, value in changed.items():
        edit(visit.db, page["id"], EDITOR, name, value)
    record(visit.db, "page.edited", page=page["id"], facts=changed)
    return visit.see(f"/wiki/{page['slug']}", "saved")


def history(visit: Visit) -> Response:
    """Who has changed what on a page, and undoing it."""
    page = _page(visit)
    rows = visit.db.all("SELECT * FROM revisions WHERE page = ? ORDER BY id DESC", page["id"])
    cells = [
        (r["id"], r["author"], r["fact"], r["old"], r["new"], _undo(page["slug"], r["id"]))
        for r in rows
    ]
    head = ("Revision", "Editor", "Fact", "Old value", "New value", "")
    return visit.page(f"History of {page['title']}", table(head, cells))


def _undo(slug: str, number: int) -> Markup:
    where = f"/wiki/{slug}/undo"
    return form(where, hidden("revision", number), button("Undo", f"Undo revision {number}"))


def undo(visit: Visit) -> Response:
    """Give the fact that a revision changed its old value back, where it was not changed since."""
    page, number = _page(visit), visit.number("revision", 1, 10**9 - 1)
    row = visit.row("SELECT * FROM revisions WHERE id = ? AND page = ?", number, page["id"])
    sql = "SELECT value FROM facts WHERE page = ? AND name = ?"
    if visit.db.value(sql, page["id"], row["fact"]) != row["new"]:
        raise Refused("This fact was changed again since then.")
    edit(visit.db, page["id"], EDITOR, row["fact"], row["old"])
    record(visit.db, "page.edited", page=page["id"], facts={row["fact"]: row["old"]})
    return visit.see(f"/wiki/{page['slug']}", "undone")
