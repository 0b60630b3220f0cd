"""The help desk as a site: its addresses and what it says."""

import random

from agent_envs.envs.browser.sites.base import Site
from agent_envs.envs.browser.sites.database import Database
from agent_envs.envs.browser.sites.helpdesk import pages, world
from agent_envs.envs.browser.sites.visit import Route


class HelpDesk(Site):
    """Tickets of customers, for one of the agents who answer them."""

    name = "helpdesk"
    title = "Beacon Help Desk"
    schema = world.SCHEMA
    menu = (("Overview", "/"), ("Tickets", "/tickets"), ("Agents", "/agents"))
    notices = {"sent": "Your message was added.", "saved": "The ticket was saved."}
    lasting = frozenset({"reply.sent", "note.added"})
    user_name = world.AGENT
    routes = (
        Route("GET", "/", pages.home),
        Route("GET", "/tickets", pages.tickets),
        Route("GET", "/tickets/([0-9]{1,9})", pages.ticket),
        Route("POST", "/tickets/([0-9]{1,9})/messages", pages.send),
        Route("POST", "/tickets/([0-9]{1,9})/properties", pages.save),
        Route("GET", "/customers/([0-9]{1,9})", pages.customer),
        Route("GET", "/agents", pages.agents),
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


SITE = HelpDesk()
