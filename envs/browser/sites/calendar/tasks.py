"""The families of tasks of the calendar."""

from agent_envs.envs.browser.sites.calendar.many_tasks import Clear, Invite, Replies, Slot
from agent_envs.envs.browser.sites.calendar.one_tasks import Create, Move, Pin

FAMILIES = (Create(), Pin(), Move(), Replies(), Clear(), Invite(), Slot())
