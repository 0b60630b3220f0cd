"""The families of tasks of the shop."""

from agent_envs.envs.browser.sites.shop.buy_tasks import Again, Buy, BuyBest, Cheapest, Code
from agent_envs.envs.browser.sites.shop.order_tasks import Cancel, Cart, Return, Spent

FAMILIES = (Code(), Cheapest(), Buy(), Cart(), BuyBest(), Cancel(), Return(), Again(), Spent())
