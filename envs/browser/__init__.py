"""Tasks on web sites, done with a browser, graded by what the sites' databases hold in the end."""

from agent_envs.registry import register

register("agent/Browser-v0", "agent_envs.envs.browser.env:BrowserEnv")
