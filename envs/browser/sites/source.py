"""The tasks of all families, cut into splits whose worlds have nothing in common.

A world, with its names, amounts and codes, belongs to one split: no answer that is learnt in one
is of use in another. Adversarial tasks have a twist each.
"""

import random
from collections.abc import Iterator
from functools import cache
from itertools import chain, count, islice, zip_longest
from typing import TypeAlias

from agent_envs.envs.browser.sites import families
from agent_envs.envs.browser.sites.family import TWISTS, Family, Made
from agent_envs.streams import derive
from agent_envs.task import Task, TaskSource

COUNTS = {"train": 6, "heldout": 2, "adversarial": 2}
"""Tasks of a family, by split."""
WORLDS = {
    "train": range(12),
    "heldout": range(100, 104),
    "adversarial": range(200, 204),
    "more": range(1000, 100_000),
}
"""Seeds of a split's worlds, and of those of the training tasks that are drawn on request."""
_MISSES = 300
"""After so many tasks in a row that there are already, no more are looked for."""

Twisted: TypeAlias = tuple[str, Made]
"""A task with its twist."""


class SiteTasks(TaskSource):
    """Tasks on the built-in sites. Level 0: one page. 1: a search or a form. 2: several things to
    find out before it can be done. 3: several pages, and things to put together.
    """

    def load(self, split: str) -> Iterator[Task]:
        """All families of a split; see `TaskSource.load`."""
        for family in families().values():
            for index, made in enumerate(_made(family.name)[split]):
                yield _task(family, split, index, made)

    def drawn(self, level: int) -> Iterator[Task]:
        """See `TaskSource.drawn`: the level's families in turn, in worlds of their own. Raises
        ValueError for a level that there is not."""
        levels = sorted({family.level for family in families().values()})
        if level not in levels:
            raise ValueError(f"level={level}: one of {', '.join(map(str, levels))}")
        others = zip_longest(*(_others(f) for f in families().values() if f.level == level))
        return chain(self.split("train", level), filter(None, chain.from_iterable(others)))


@cache
def _made(name: str) -> dict[str, list[Twisted]]:
    """A family's tasks by split. No prompt and no answer stands twice."""
    family, taken = families()[name], set[str]()
    made = {split: [*islice(_draw(family, split, taken), COUNTS[split])] for split in COUNTS}
    for split, tasks in made.items():
        if len(tasks) < COUNTS[split]:
            raise ValueError(f"{name}: fewer than {COUNTS[split]} {split} tasks")
    return made


def _others(family: Family) -> Iterator[Task]:
    """Training tasks of a family beside those of `load`, all unlike any of these."""
    taken = {
        mark for made in _made(family.name).values() for _, task in made for mark in _marks(task)
    }
    for index, made in enumerate(_draw(family, "more", taken), COUNTS["train"]):
        yield _task(family, "train", index, made)


def _draw(family: Family, where: str, taken: set[str]) -> Iterator[Twisted]:
    """Tasks in the worlds of that name, until too many have been taken already."""
    found, missed, first = 0, 0, [*families()].index(family.name)
    for attempt in count():
        twist = TWISTS[(first + found) % len(TWISTS)] if where == "adversarial" else ""
        rng = random.Random(derive("browser", family.name, where, attempt))
        made = family.make(rng, seeds=WORLDS[where], twist=twist)
        if _marks(made) & taken:
            missed += 1
            if missed == _MISSES:
                return
            continue
        taken |= _marks(made)
        found, missed = found + 1, 0
        yield twist, made


def _marks(made: Made) -> set[str]:
    """What no other task of the family has."""
    return {made.prompt, f"= {made.data['answer'] or made.prompt}"}


def _task(family: Family, split: str, index: int, made: Twisted) -> Task:
    twist, (prompt, data) = made
    task_id = f"browser/{family.name}/{split}/{index:02}"
    tags = (family.site.name, family.name, twist or "plain")
    return Task(task_id, split, prompt, data, family.level, tags, family.reads)
