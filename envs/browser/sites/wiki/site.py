"""The wiki as a site: its addresses and what it says."""

import random

from agent_envs.envs.browser.sites.base import Site
from agent_envs.envs.browser.sites.database import Database
from agent_envs.envs.browser.sites.visit import Route
from agent_envs.envs.browser.sites.wiki import pages, world

_ONE = "/wiki/([a-z0-9-]{1,80})"


class Wiki(Site):
    """An encyclopaedia of one region, for one of its editors."""

    name = "wiki"
    title = "Lakeland Wiki"
    schema = world.SCHEMA
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

    def seed(self, db: Database, rng: random.Random) -> None:
        """See `world.seed`."""
        world.seed(db, rng)

    def inject(self, db: Database, target: int) -> None:
        """See `world.inject`."""
        world.inject(db, target)

    def twin(self, db: Database, target: int) -> None:
        """See `world.twin`."""
        world.twin(db, target)


SITE = Wiki()
