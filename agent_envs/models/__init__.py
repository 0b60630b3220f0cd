"""Policies whose model runs elsewhere, behind a server: the standard library is all they need.

from agent_envs.models import OpenAIPolicy

with OpenAIPolicy("my-model", "http://127.0.0.1:8000/v1", tools=env.tool_schemas) as policy:
    rollout("agent/Calculator-v0", policy, tasks)
"""

from agent_envs.models.openai import OpenAIPolicy
from agent_envs.models.reply import Usage
from agent_envs.models.trouble import ModelError

__all__ = ["ModelError", "OpenAIPolicy", "Usage"]
