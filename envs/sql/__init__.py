"""Questions to a real database, and changes of it, graded on databases that the agent never saw."""

from agent_envs.registry import register

register("agent/SQL-v0", "agent_envs.envs.sql.env:SQL")
