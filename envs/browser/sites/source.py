"""The tasks of all families, cut into splits whose worlds have nothing in common.

A world, with its names, amounts and codes, belongs to one split: no answer that is learnt in one
is of use in another. Adversarial tasks have a twist each.
"""

import random
from collections.abc import Iterator
from functools import cache

from agent_envs.envs.browser.sites import families
from agent_envs.envs.browser.sites.family import TWISTS, Family, Made
from agent_envs.streams import derive
from agent_envs.task import Task, TaskSource

COUNTS = {"train": 6, "heldout": 2, "adversarial": 2}
"""Tasks of a family, by split."""
WORLDS = {"train": range(12), "heldout": range(100, 104), "adversarial": range(200, 204)}
"""Seeds of a split's worlds."""
_ATTEMPTS = 300


class SiteTasks(TaskSource):
    """Tasks on the built-in sites. Level 0: one page. 1: a search or a form. 2: several things to
    find out before it can be done. 3: several pages, and things to put together.
    """

    def load(self, split: str) -> Iterator[Task]:
        """All families of a split; see `TaskSource.load`."""
        for family in families().values():
            for index, (twist, made) in enumerate(_made(family.name)[split]):
                task_id = f"browser/{family.name}/{split}/{index:02}"
                tags = (family.site.name, family.name, twist or "plain")
                yield Task(task_id, split, made.prompt, made.data, family.level, tags, family.reads)


@cache
def _made(name: str) -> dict[str, list[tuple[str, Made]]]:
    """A family's tasks by split, each with its twist. No prompt and no answer stands twice."""
    family, taken = families()[name], set[str]()
    return {split: [*_draw(family, split, taken)] for split in COUNTS}


def _draw(family: Family, split: str, taken: set[str]) -> Iterator[tuple[str, Made]]:
    found, first = 0, [*families()].index(family.name)
    for attempt in range(_ATTEMPTS):
        twist = TWISTS[(first + found) % len(TWISTS)] if split == "adversarial" else ""
        rng = random.Random(derive("browser", family.name, split, attempt))
        made = family.make(rng, seeds=WORLDS[split], twist=twist)
        marks = {made.prompt, f"= {made.data['answer'] or made.prompt}"}
        if marks & taken:
            continue
        taken |= marks
        found += 1
        yield twist, made
        if found == COUNTS[split]:
            return
    raise ValueError(f"{family.name}: fewer than {COUNTS[split]} {split} tasks")
