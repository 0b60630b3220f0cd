"""Gymnasium-style environments for language-model agents that use tools.

Importing this registers every id: `gymnasium.make("agent/Calculator-v0")` works afterwards.
"""

from agent_envs import registry as _registry
from agent_envs.env import ToolEnv
from agent_envs.errors import BackendUnavailable, SnapshotUnsupported, ToolError
from agent_envs.fault import FaultModel
from agent_envs.policy import BatchPolicy, Policy, ScriptedPolicy
from agent_envs.protocol import PROTOCOLS, Protocol
from agent_envs.registry import ids, register
from agent_envs.rollout import rollout
from agent_envs.snapshot import Snapshot
from agent_envs.space import UnicodeText
from agent_envs.streams import derive, draw
from agent_envs.task import Task, TaskSource
from agent_envs.tool import Tool, tool
from agent_envs.trajectory import Trajectory, TrajectoryWriter, read_trajectories
from agent_envs.turns import Action, Malformed, Message, Sample, ToolCall, ToolResult, Turn
from agent_envs.verdict import Verdict

__version__ = "0.1.0"

__all__ = [
    "PROTOCOLS",
    "Action",
    "BackendUnavailable",
    "BatchPolicy",
    "FaultModel",
    "Malformed",
    "Message",
    "Policy",
    "Protocol",
    "Sample",
    "ScriptedPolicy",
    "Snapshot",
    "SnapshotUnsupported",
    "Task",
    "TaskSource",
    "Tool",
    "ToolCall",
    "ToolEnv",
    "ToolError",
    "ToolResult",
    "Trajectory",
    "TrajectoryWriter",
    "Turn",
    "UnicodeText",
    "Verdict",
    "derive",
    "draw",
    "ids",
    "read_trajectories",
    "register",
    "rollout",
    "tool",
]

_registry.discover("agent_envs.envs")
