"""The shop as a site: its addresses and what it says."""

from agent_envs.envs.browser.sites.base import Site
from agent_envs.envs.browser.sites.shop import cart, catalogue, orders, world
from agent_envs.envs.browser.sites.visit import Route


class Shop(Site):
    """Furniture, for one customer."""

    name = "shop"
    title = "Hearth & Beam"
    world = world
    menu = (("Home", "/"), ("Products", "/products"), ("Cart", "/cart"), ("Orders", "/orders"))
    notices = {
        "added": "Added to your cart.",
        "changed": "Your cart was changed.",
        "placed": "Thank you, your order was placed.",
        "cancelled": "The order was cancelled.",
        "returned": "Your return was registered.",
    }
    lasting = frozenset({"order.placed", "order.cancelled", "return.registered"})
    user_name = world.CUSTOMER
    routes = (
        Route("GET", "/", catalogue.home),
        Route("GET", "/products", catalogue.index),
        Route("GET", "/products/([0-9]{1,9})", catalogue.show),
        Route("GET", "/cart", cart.show),
        Route("POST", "/cart/add", cart.add),
        Route("POST", "/cart/change", cart.change),
        Route("GET", "/checkout", cart.ask),
        Route("POST", "/checkout", cart.place),
        Route("GET", "/orders", orders.index),
        Route("GET", "/orders/([0-9]{1,9})", orders.show),
        Route("POST", "/orders/([0-9]{1,9})/cancel", orders.cancel),
        Route("GET", "/orders/([0-9]{1,9})/return", orders.ask_return),
        Route("POST", "/orders/([0-9]{1,9})/return", orders.send_back),
    )


SITE = Shop()
