"""The families of tasks of the admin panel."""

from agent_envs.envs.browser.sites.admin.account_tasks import Key, Plan, Suspend
from agent_envs.envs.browser.sites.admin.billing_tasks import Double, Overdue, Settings, Unpaid

FAMILIES = (Plan(), Key(), Settings(), Suspend(), Double(), Unpaid(), Overdue())
