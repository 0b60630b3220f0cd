"""The shop as a site: its addresses and what it says."""

import random

from agent_envs.envs.browser.sites.base import Site
from agent_envs.envs.browser.sites.database import Database
from agent_envs.envs.browser.sites.shop import cart, catalogue, orders, world
from agent_envs.envs.browser.sites.visit import Route


class Shop(Site):
    """Furniture, for one customer."""

    name = "shop"
    title = "Hearth & Beam"
    schema = world.SCHEMA
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

    def seed(self, db: Database, rng: random.Random) -> None:
        """See `world.seed`."""
        world.seed(db, rng)

    def inject(self, db: Database, target: int) -> None:
        """See `world.inject`."""
        world.inject(db, target)

    def twin(self, db: Database, target: int) -> None:
        """See `world.twin`."""
        world.twin(db, target)


SITE = Shop()
