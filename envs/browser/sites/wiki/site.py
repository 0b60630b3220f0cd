"""The wiki as a site: its addresses and what it says."""

from agent_envs.envs.browser.sites.base import Site
from agent_envs.envs.browser.sites.visit import Route
from agent_envs.envs.browser.sites.wiki import pages, world

_ONE = "/wiki/([a-z0-9-]{1,80})"


class Wiki(Site):
    """An encyclopaedia of one region, for one of its editors."""

    name = "wiki"
    title = "Lakeland Wiki"
    world = world
    menu = (("Main page", "/"), ("Search", "/search"))
    notices = {"saved": "The page was saved.", "undone": "The revision was undone."}
    lasting = frozenset({"page.edited"})
    user_name = world.EDITOR
    routes = (
        Route("GET", "/", pages.home),
        Route("GET", "/search", pages.search),
        Route("GET", "/category/([A-Za-z ]{1,40})", pages.category),
        Route("GET", _ONE, pages.show),
        Route("GET", f"{_ONE}/edit", pages.ask_edit),
        Route("POST", f"{_ONE}/edit", pages.save),
        Route("GET", f"{_ONE}/history", pages.history),
        Route("POST", f"{_ONE}/undo", pages.undo),
    )


SITE = Wiki()
