"""Programming tasks in a sandbox, graded by hidden tests in a sandbox of their own."""

from agent_envs.registry import register

register("agent/Code-v0", "agent_envs.envs.code.env:Code")
