"""The admin panel as a site: its addresses and what it says."""

from agent_envs.envs.browser.sites.admin import accounts, billing, world
from agent_envs.envs.browser.sites.base import Site
from agent_envs.envs.browser.sites.visit import Route


class Admin(Site):
    """Accounts, invoices and settings, for an administrator."""

    name = "admin"
    title = "Ledgerline Admin"
    world = world
    menu = (
        ("Overview", "/"),
        ("Accounts", "/accounts"),
        ("Invoices", "/invoices"),
        ("Settings", "/settings"),
    )
    notices = {"changed": "Your changes were saved.", "refunded": "The invoice was refunded."}
    lasting = frozenset({"account.suspended", "account.reactivated", "invoice.refunded"})
    user_name = world.ADMIN
    routes = (
        Route("GET", "/", accounts.home),
        Route("GET", "/accounts", accounts.index),
        Route("POST", "/accounts/bulk", accounts.bulk),
        Route("GET", "/accounts/([0-9]{1,9})", accounts.show),
        Route("POST", "/accounts/([0-9]{1,9})", accounts.save),
        Route("GET", "/invoices", billing.index),
        Route("GET", "/invoices/([0-9]{1,9})", billing.show),
        Route("POST", "/invoices/([0-9]{1,9})/refund", billing.refund),
        Route("GET", "/settings", billing.settings),
        Route("POST", "/settings", billing.save_settings),
    )


SITE = Admin()
