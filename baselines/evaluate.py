"""How good is a policy? Tasks are played, and what happened is counted."""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from agent_envs.env import ToolEnv
from agent_envs.policy import Policy
from agent_envs.rollout import rollout
from agent_envs.streams import derive
from agent_envs.task import Task
from agent_envs.trajectory import Trajectory

RATES = (0.0, 0.1, 0.2, 0.3, 0.5)
"""Of faults, for the robustness curve of an examination."""

Begin = Callable[[float], Policy]
"""Makes a policy ready to play at a temperature."""


def evaluate(
    policy: Policy,
    envs: list[ToolEnv],
    tasks: Sequence[Task],
    repeats: int = 1,
    step_deadline: float = 60.0,
    episode_deadline: float = 600.0,
) -> dict[str, float]:
    """Success and habits over `repeats` episodes of each task; of the valid ones, that is, and how
    many were not is said.

    The episodes' seeds are always the same, so that two policies meet the same faults.
    `recovered` is the success of episodes that met a fault, `pass@k` that of tasks in k tries.
    """
    trajectories = rollout(
        envs,
        policy,
        tasks,
        group=repeats,
        seed=derive("evaluation"),
        step_deadline=step_deadline,
        episode_deadline=episode_deadline,
        progress=False,
    )
    scored = [t for t in trajectories if t.valid]
    faulty = [t for t in scored if _faults(t)]
    count = max(len(scored), 1)
    found = {
        "success": sum(map(_passed, scored)) / count,
        "turns": sum(len(t.turns) for t in scored) / count,
        "calls": sum(_calls(t) for t in scored) / count,
        "malformed": sum(_malformed(t) for t in scored) / count,
        "unanswered": sum(t.end_reason != "answer" for t in scored) / count,
        "invalid": len(trajectories) - len(scored),
        "tokens": sum(_tokens(t) for t in scored) / count,
        "faulted": len(faulty) / count,
    }
    if faulty:
        found["recovered"] = sum(map(_passed, faulty)) / len(faulty)
    if repeats > 1:
        found |= {f"pass@{k}": pass_at(scored, k) for k in {1, repeats}}
    ended = Counter(str(t.end_reason) for t in trajectories)
    return found | {f"ended/{reason}": n / len(trajectories) for reason, n in ended.items()}


def pass_at(trajectories: Sequence[Trajectory], k: int) -> float:
    """The mean over tasks of 1 - C(n - c, k) / C(n, k), the chance that one of k tries succeeds
    (Chen et al., 2021, arXiv:2107.03374, equation 1). Tasks with fewer than k tries are left out.
    """
    tries: dict[str, list[bool]] = defaultdict(list)
    for trajectory in trajectories:
        tries[trajectory.task.id].append(_passed(trajectory))
    enough = [seen for seen in tries.values() if len(seen) >= k]
    missed = [math.comb(seen.count(False), k) / math.comb(len(seen), k) for seen in enough]
    return 1 - sum(missed) / len(missed) if missed else 0.0


@dataclass
class Examiner:
    """Plays the tasks of a run that are not for training."""

    make: Callable[[float, int], list[ToolEnv]]
    """Environments with a fault rate, at most so many."""
    tasks: dict[str, list[Task]]
    """By split."""
    deadlines: tuple[float, float]
    """Of a step and of an episode, in seconds."""

    def play(self, policy: Policy, split: str, rate: float, repeats: int = 1) -> dict[str, float]:
        """One evaluation, in environments of its own."""
        tasks = self.tasks[split]
        envs = self.make(rate, len(tasks) * repeats)
        try:
            return evaluate(policy, envs, tasks, repeats, *self.deadlines)
        finally:
            for env in envs:
                env.close()

    def examine(self, begin: Begin, samples: int) -> dict[str, float]:
        """All there is to know at the end: sampled success and pass@k, the adversarial split, and
        greedy success over `RATES` of faults."""
        found = {"sampled": self.play(begin(1.0), "heldout", 0.0, samples)}
        found["adversarial"] = self.play(begin(0.0), "adversarial", 0.0)
        for rate in RATES:
            found[f"faults_{rate:.0%}"] = self.play(begin(0.0), "heldout", rate, 1 + 3 * (rate > 0))
        return {f"exam_{name}/{k}": v for name, one in found.items() for k, v in one.items()}


def _passed(trajectory: Trajectory) -> bool:
    return trajectory.verdict is not None and trajectory.verdict.passed


def _calls(trajectory: Trajectory) -> int:
    return sum(call is not None for turn in trajectory.turns for call, _ in turn.info["calls"])


def _malformed(trajectory: Trajectory) -> int:
    return sum(call is None for turn in trajectory.turns for call, _ in turn.info["calls"])


def _faults(trajectory: Trajectory) -> int:
    results = (result for turn in trajectory.turns for _, result in turn.info["calls"])
    return sum(result.fault is not None for result in results)


def _tokens(trajectory: Trajectory) -> int:
    samples = (turn.action.sample for turn in trajectory.turns)
    return sum(len(sample.tokens) for sample in samples if sample is not None)
