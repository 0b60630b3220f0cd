"""Who is paid: the oracle on every task, and nobody else."""

from collections import Counter

from agent_envs.env import ToolEnv
from agent_envs.policy import Policy, ScriptedPolicy, null, oracle, randomly
from agent_envs.rollout import rollout
from agent_envs.task import Task, check_unique
from agent_envs.testing.play import Subject
from agent_envs.trajectory import Trajectory


def tasks_are_sound(subject: Subject) -> None:
    """Ids and prompts are unique over all splits; no answer is guessed more than once in 500."""
    env = subject.make()
    tasks = list(env.tasks)
    try:
        check_unique(tasks)
    except ValueError as error:
        raise AssertionError(str(error)) from None
    fresh = list(subject.make().tasks)
    assert [t.to_dict() for t in tasks] == [t.to_dict() for t in fresh], "the tasks change"
    for split in env.tasks.splits:
        wrong = [t.id for t in env.tasks.split(split) if t.split != split]
        assert not wrong, f"tasks {wrong[:3]} of split {split!r} name another split"
    env.close()


def oracle_passes_every_task(subject: Subject) -> None:
    """The gold solution of every task of every split is graded as passed."""
    env = subject.make()
    for split in env.tasks.splits:
        tasks = env.tasks.split(split)[: subject.tasks]
        played = _play(env, oracle(type(env), env.tasks), tasks)
        failed = [t for t in played if not (t.verdict and t.verdict.passed)]
        assert not failed, f"the oracle fails {len(failed)} tasks of {split}, first {_tell(failed)}"
        _check_guesses(split, played)
    env.close()


def nobody_else_passes(subject: Subject) -> None:
    """The null, the random and every cheating policy pass no task and earn nothing."""
    env = subject.make()
    policies: dict[str, Policy] = {"null": null(), "random": randomly(type(env))}
    policies |= {name: ScriptedPolicy(cheat) for name, cheat in env.cheats.items()}
    for split in env.tasks.splits:
        tasks = env.tasks.split(split)[: subject.tasks]
        for name, policy in policies.items():
            played = _play(env, policy, tasks)
            paid = [t for t in played if t.verdict is None or t.verdict.passed or t.reward > 0]
            if name == "random":
                paid = [t for t in paid if t.verdict is None or t.verdict.passed]
            assert not paid, f"the {name} policy is paid in {split}: {_tell(paid)}"
    env.close()


def _play(env: ToolEnv, policy: Policy, tasks: tuple[Task, ...]) -> list[Trajectory]:
    return rollout(env, policy, tasks, seed=1, progress=False)


def _check_guesses(split: str, played: list[Trajectory]) -> None:
    families: dict[int, Counter[str]] = {}
    for trajectory in played:
        answer = trajectory.turns[-1].action.text
        if answer:
            families.setdefault(trajectory.task.level, Counter())[answer] += 1
    for level, answers in families.items():
        answer, count = answers.most_common(1)[0]
        share = count / answers.total()
        assert count == 1 or share <= 1 / 500, (
            f"{answer!r} is the answer to {share:.1%} of level {level} in {split}: it can be guessed"
        )


def _tell(trajectories: list[Trajectory]) -> str:
    first = trajectories[0]
    last = first.turns[-1].observation[:200] if first.turns else ""
    return (
        f"{first.task.id}: end_reason={first.end_reason}, error={first.error}, "
        f"verdict={first.verdict}, last observation {last!r}"
    )
