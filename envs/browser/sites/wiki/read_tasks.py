"""What a reader of the wiki may want to know."""

import random
from typing import Any

from agent_envs.envs.browser.sites.database import Database
from agent_envs.envs.browser.sites.family import Args, Family
from agent_envs.envs.browser.sites.oracle import BACK, START, Step, click, fill, press
from agent_envs.envs.browser.sites.wiki.site import SITE

_ASKED = {
    "Lakes": ("Depth in metres", "Area in km2"),
    "Towns": ("Population", "Postal code"),
    "People": ("Archive number",),
    "Museums": ("Visitors a year",),
}
_BEST = {
    "has the largest population": ("Population", max),
    "has the smallest population": ("Population", min),
    "lies highest": ("Elevation in metres", max),
    "lies lowest": ("Elevation in metres", min),
}


def find(title: str) -> list[Step]:
    """The steps to a page."""
    return [click("Search"), fill("Search", title), press("Search"), click(title)]


def fact(db: Database, title: str, name: str) -> str:
    """What a page gives as a fact."""
    sql = "SELECT value FROM facts f JOIN pages p ON p.id = f.page WHERE p.title = ? AND f.name = ?"
    return str(db.value(sql, title, name))


def number_of(db: Database, title: str) -> int:
    """The number of a page."""
    return int(db.value("SELECT id FROM pages WHERE title = ?", title))


def any_title(db: Database, rng: random.Random, category: str) -> str:
    """The title of a page of a category."""
    return str(rng.choice(db.all("SELECT title FROM pages WHERE category = ?", category))["title"])


class Fact(Family):
    """Read one fact on one page."""

    site, name, level, looks_up = SITE, "wiki.fact", 0, True

    def pick(self, db: Database, rng: random.Random) -> Args | None:
        """A page and a fact."""
        category = rng.choice(sorted(_ASKED))
        title = any_title(db, rng, category)
        return {
            "target": number_of(db, title),
            "path": [title],
            "fact": rng.choice(_ASKED[category]),
        }

    def prompt(self, args: Args) -> str:
        """What to look up."""
        return f'What does the page "{args["path"][0]}" give as "{args["fact"]}"?'

    def answer(self, db: Database, args: Args) -> str:
        """The fact on the last page."""
        return fact(db, args["path"][-1], args["fact"])

    def plan(self, db: Database, args: Args) -> list[Step]:
        """Search for the first page, follow links to the last."""
        first, *others = args["path"]
        return [START, *find(first), *(click(title) for title in others)]


class Hop(Fact):
    """Read a fact on a page that another page leads to."""

    site, name, level, looks_up = SITE, "wiki.hop", 1, True

    def pick(self, db: Database, rng: random.Random) -> Args | None:
        """A person and a fact about the town where he or she was born."""
        person = any_title(db, rng, "People")
        town, asked = fact(db, person, "Born in"), rng.choice(_ASKED["Towns"])
        return {"target": number_of(db, town), "path": [person, town], "fact": asked}

    def prompt(self, args: Args) -> str:
        """Where to begin, and what to look up."""
        return f'What is the "{args["fact"]}" of the town where {args["path"][0]} was born?'


class Chain(Fact):
    """Read a fact at the end of a chain of pages."""

    site, name, level, looks_up = SITE, "wiki.chain", 2, True

    def pick(self, db: Database, rng: random.Random) -> Args | None:
        """A museum, and a fact about the lake of the town where its founder was born."""
        museum = any_title(db, rng, "Museums")
        person = fact(db, museum, "Founder")
        town = fact(db, person, "Born in")
        lake, asked = fact(db, town, "Lake"), rng.choice(_ASKED["Lakes"])
        path = [museum, person, town, lake]
        return {"target": number_of(db, lake), "path": path, "fact": asked}

    def prompt(self, args: Args) -> str:
        """Where to begin, and what to look up."""
        return (
            f"The founder of the {args['path'][0]} was born in a town by a lake. What does the "
            f'page of that lake give as "{args["fact"]}"?'
        )


class Compare(Family):
    """Compare all towns by a lake, and read a fact of the one that is meant."""

    site, name, level, looks_up = SITE, "wiki.compare", 3, True

    def pick(self, db: Database, rng: random.Random) -> Args | None:
        """A lake, and a comparison that one town wins."""
        lake, how = any_title(db, rng, "Lakes"), rng.choice(sorted(_BEST))
        name, _ = _BEST[how]
        figures = [fact(db, town, name) for town in self._towns(db, lake)]
        return {"lake": lake, "how": how} if len({*figures}) == len(figures) else None

    def prompt(self, args: Args) -> str:
        """What to compare."""
        return (
            f'Among all towns in the category "Towns" whose fact "Lake" is {args["lake"]}, find '
            f'the one that {args["how"]}. What is its "Postal code"?'
        )

    def answer(self, db: Database, args: Args) -> str:
        """The postal code of that town."""
        name, best = _BEST[args["how"]]
        towns: list[str] = self._towns(db, args["lake"])
        return fact(db, best(towns, key=lambda town: int(fact(db, town, name))), "Postal code")

    def plan(self, db: Database, args: Args) -> list[Step]:
        """Look for the towns of the lake by its name, and open each."""
        steps = [START, click("Search"), fill("Search", args["lake"]), press("Search")]
        for town in self._towns(db, args["lake"]):
            steps += [click(town), BACK]
        return steps

    def _towns(self, db: Database, lake: str) -> list[Any]:
        sql = (
            "SELECT p.title FROM pages p JOIN facts f ON f.page = p.id WHERE f.name = 'Lake'"
            " AND f.value = ? AND p.category = 'Towns' ORDER BY p.title"
        )
        return [row["title"] for row in db.all(sql, lake)]
