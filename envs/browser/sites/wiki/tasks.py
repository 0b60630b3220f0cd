"""The families of tasks of the wiki."""

from agent_envs.envs.browser.sites.wiki.edit_tasks import Correct, Undo
from agent_envs.envs.browser.sites.wiki.read_tasks import Chain, Compare, Fact, Hop

FAMILIES = (Fact(), Hop(), Correct(), Chain(), Undo(), Compare())
