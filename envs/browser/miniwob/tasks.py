"""MiniWoB++ pages as tasks: a page and a seed each."""

from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version

from agent_envs.envs.browser.miniwob.world import pages
from agent_envs.task import Task, TaskSource

SEEDS = {"train": range(5), "heldout": range(1000, 1002)}
"""The seeds of every page, by split."""
_PROMPT = (
    'A page called "{page}" is open, in its variation {seed}. At its top it says what is to be '
    "done. Do that; the page notices by itself when it is done."
)


def _version() -> str:
    try:
        return f"{version('miniwob')}, page-graded"
    except PackageNotFoundError:
        return "page-graded"


class MiniWoBTasks(TaskSource):
    """All pages, each under some seeds. The page itself says what is to be done, and grades it."""

    splits = ("train", "heldout")
    version = _version()

    def load(self, split: str) -> Iterator[Task]:
        """See `TaskSource.load`."""
        for page in pages():
            for seed in SEEDS[split]:
                data = {"site": "miniwob", "page": page, "seed": seed}
                prompt = _PROMPT.format(page=page, seed=seed)
                tags = ("miniwob", page, "page-graded")
                yield Task(f"miniwob/{page}/{seed}", split, prompt, data, 0, tags)
