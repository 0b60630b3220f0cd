"""The calendar as a site: its addresses and what it says."""

from agent_envs.envs.browser.sites.base import Site
from agent_envs.envs.browser.sites.calendar import changes, pages, world
from agent_envs.envs.browser.sites.visit import Route

_ONE = "/meetings/([0-9]{1,9})"


class Calendar(Site):
    """Meetings, guests and rooms, for one of the colleagues."""

    name = "calendar"
    title = "Orchard Calendar"
    world = world
    menu = (
        ("Today", "/"),
        ("Search", "/search"),
        ("People", "/people"),
        ("Rooms", "/rooms"),
        ("New meeting", "/new"),
    )
    notices = {
        "created": "The meeting was created.",
        "changed": "The meeting was changed, and its guests were told.",
        "cancelled": "The meeting was cancelled, and its guests were told.",
        "invited": "The invitation was sent.",
        "removed": "The guest was removed.",
        "replied": "Your reply was sent.",
    }
    lasting = frozenset({"meeting.moved", "meeting.cancelled", "invitation.sent", "reply.sent"})
    user_name = world.USER
    routes = (
        Route("GET", "/", pages.home),
        Route("GET", "/search", pages.search),
        Route("GET", "/people", pages.people),
        Route("GET", "/people/([0-9]{1,9})", pages.person),
        Route("GET", "/rooms", pages.rooms),
        Route("GET", "/new", pages.new),
        Route("POST", "/new", changes.create),
        Route("GET", _ONE, pages.meeting),
        Route("POST", _ONE, changes.change),
        Route("POST", f"{_ONE}/invite", changes.invite),
        Route("POST", f"{_ONE}/remove", changes.remove),
        Route("POST", f"{_ONE}/cancel", changes.cancel),
        Route("POST", f"{_ONE}/reply", changes.reply),
    )


SITE = Calendar()
