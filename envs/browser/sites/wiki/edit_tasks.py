"""What an editor of the wiki may have to put right."""

import random

from agent_envs.envs.browser.sites.database import Database
from agent_envs.envs.browser.sites.family import Args, Family
from agent_envs.envs.browser.sites.oracle import START, Step, click, fill, press
from agent_envs.envs.browser.sites.wiki.read_tasks import any_title, find, number_of
from agent_envs.envs.browser.sites.wiki.site import SITE
from agent_envs.envs.browser.sites.wiki.world import EDITOR, edit, someone

_COUNTED = {"Towns": "Population", "Museums": "Visitors a year"}


class Correct(Family):
    """Give one fact another value."""

    site, name, level = SITE, "wiki.correct", 1

    def pick(self, db: Database, rng: random.Random) -> Args | None:
        """A page with a figure, and another figure."""
        category = rng.choice(sorted(_COUNTED))
        title, name = any_title(db, rng, category), _COUNTED[category]
        value = str(rng.randrange(2000, 400000))
        return {"target": number_of(db, title), "title": title, "fact": name, "value": value}

    def prompt(self, args: Args) -> str:
        """Which one."""
        return (
            f'On the page "{args["title"]}", change the fact "{args["fact"]}" to {args["value"]}, '
            "and nothing else."
        )

    def expect(self, db: Database, args: Args) -> None:
        """The fact, and its revision."""
        edit(db, args["target"], EDITOR, args["fact"], args["value"])

    def lasting(self, args: Args) -> list[str]:
        """One edit."""
        return ["page.edited"]

    def plan(self, db: Database, args: Args) -> list[Step]:
        """Search, edit, save."""
        box = fill(args["fact"], args["value"])
        return [START, *find(args["title"]), click("Edit"), box, press("Save page")]


class Undo(Family):
    """Undo what one editor did to a page that others have edited too."""

    site, name, level = SITE, "wiki.undo", 2

    def pick(self, db: Database, rng: random.Random) -> Args | None:
        """A town, and what three editors have made of it."""
        title = any_title(db, rng, "Towns")
        names = rng.sample(("Population", "Elevation in metres", "Postal code"), 3)
        values = [str(rng.randrange(1000, 90000)) for _ in names]
        editors = [someone(rng) for _ in names]
        args = {"target": number_of(db, title), "title": title, "guilty": rng.randrange(3)}
        edits = [list(parts) for parts in zip(editors, names, values, strict=True)]
        return args | {"edits": edits} if len({*editors}) == 3 else None

    def prepare(self, db: Database, args: Args) -> None:
        """Their edits."""
        for editor, name, value in args["edits"]:
            edit(db, args["target"], editor, name, value)

    def prompt(self, args: Args) -> str:
        """Whose."""
        editor, *_ = args["edits"][args["guilty"]]
        return (
            f'The editor {editor} has put a wrong value on the page "{args["title"]}". Undo that '
            "revision, and leave what others have changed."
        )

    def expect(self, db: Database, args: Args) -> None:
        """The old value, and one revision more."""
        _, name, _ = args["edits"][args["guilty"]]
        sql = "SELECT old FROM revisions WHERE page = ? AND fact = ?"
        edit(db, args["target"], EDITOR, name, db.value(sql, args["target"], name))

    def lasting(self, args: Args) -> list[str]:
        """One edit."""
        return ["page.edited"]

    def plan(self, db: Database, args: Args) -> list[Step]:
        """Search, history, undo."""
        number = args["guilty"] + 1
        undo = press(f"Undo revision {number}")
        return [START, *find(args["title"]), click("History"), undo]
