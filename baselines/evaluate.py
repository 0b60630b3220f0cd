"""How good is a policy? Every held-out task is played, and what happened is counted."""

from collections.abc import Sequence

from agent_envs.env import ToolEnv
from agent_envs.policy import Policy
from agent_envs.rollout import rollout
from agent_envs.streams import derive
from agent_envs.task import Task
from agent_envs.trajectory import Trajectory


def evaluate(
    policy: Policy, envs: list[ToolEnv], tasks: Sequence[Task], repeats: int = 1
) -> dict[str, float]:
    """Success and habits over `repeats` episodes of each task.

    The episodes' seeds are always the same, so that two policies meet the same faults.
    """
    trajectories = rollout(
        envs, policy, tasks, group=repeats, seed=derive("evaluation"), progress=False
    )
    scored = [t for t in trajectories if t.valid]
    count = max(len(scored), 1)
    return {
        "success": sum(bool(t.verdict and t.verdict.passed) for t in scored) / count,
        "turns": sum(len(t.turns) for t in scored) / count,
        "calls": sum(_calls(t) for t in scored) / count,
        "malformed": sum(_malformed(t) for t in scored) / count,
        "unanswered": sum(t.end_reason != "answer" for t in scored) / count,
        "invalid": len(trajectories) - len(scored),
    }


def _calls(trajectory: Trajectory) -> int:
    return sum(call is not None for turn in trajectory.turns for call, _ in turn.info["calls"])


def _malformed(trajectory: Trajectory) -> int:
    return sum(call is None for turn in trajectory.turns for call, _ in turn.info["calls"])
