"""The help desk as a site: its addresses and what it says."""

from agent_envs.envs.browser.sites.base import Site
from agent_envs.envs.browser.sites.helpdesk import pages, world
from agent_envs.envs.browser.sites.visit import Route


class HelpDesk(Site):
    """Tickets of customers, for one of the agents who answer them."""

    name = "helpdesk"
    title = "Beacon Help Desk"
    world = world
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


SITE = HelpDesk()
