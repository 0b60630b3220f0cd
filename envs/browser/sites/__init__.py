"""The built-in sites and their tasks. A new site is one folder here, and nothing else.

`open_site(data, nonce)` gives the database of an episode, `get(data["site"]).respond(request, db)`
answers, `check(data, nonce, db.serialize(), answer)` grades; `data` are a task's private data.
"""

import importlib
import pkgutil
from functools import cache
from typing import Any

from agent_envs.envs.browser.sites.base import Site
from agent_envs.envs.browser.sites.database import Database
from agent_envs.envs.browser.sites.family import Family, Outcome


@cache
def names() -> tuple[str, ...]:
    """The names of all sites, sorted."""
    return tuple(sorted(found.name for found in pkgutil.iter_modules(__path__) if found.ispkg))


@cache
def get(name: str) -> Site:
    """The site of that name. KeyError where there is none."""
    if name not in names():
        raise KeyError(f"no site {name!r}; there are {', '.join(names())}")
    site: Site = importlib.import_module(f"{__name__}.{name}.site").SITE
    return site


@cache
def families() -> dict[str, Family]:
    """All families of tasks by name, site after site."""
    modules = (importlib.import_module(f"{__name__}.{name}.tasks") for name in names())
    return {family.name: family for module in modules for family in module.FAMILIES}


def open_site(data: dict[str, Any], nonce: bytes) -> Database:
    """The database at the start of an episode of the task with these data. The caller closes it."""
    return families()[data["family"]].open(data, nonce)


def check(data: dict[str, Any], nonce: bytes, final: bytes, answer: str | None) -> Outcome:
    """The grade of an episode that left the serialized database `final` and gave that answer."""
    return families()[data["family"]].check(data, nonce, final, answer)
