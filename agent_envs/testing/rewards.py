"""Who is paid: the oracle on every task, and nobody else."""

import contextlib
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial

from agent_envs.env import ToolEnv
from agent_envs.policy import Policy, ScriptedPolicy, null, oracle, randomly
from agent_envs.rollout import rollout
from agent_envs.task import Task
from agent_envs.testing.earnings import EXACT, GOLD
from agent_envs.testing.play import Subject
from agent_envs.trajectory import Trajectory
from agent_envs.turns import Action, Message

_SPREAD = (200, 40)
"""How many tasks of a split the null, the random and the cheating policies play: where a step
takes microseconds, and elsewhere."""
_HEDGED = (40, 10)
"""How many tasks of a split are answered with a hedge."""


def oracle_passes_every_task(subject: Subject) -> None:
    """The gold solution of every task passes and is paid, and no answer is good for many tasks."""
    env = subject.make()
    for split in env.tasks.splits:
        tasks = env.tasks.split(split)[: subject.tasks]
        played = _play(env, oracle(type(env), env.tasks), tasks)
        failed = [t for t in played if not (t.verdict and t.verdict.passed)]
        assert not failed, f"the oracle fails {len(failed)} tasks of {split}, first {_tell(failed)}"
        _check_pay(env, played)
        _check_guesses(env, split, played)
    env.close()


def nobody_else_passes(subject: Subject) -> None:
    """The null, the random and every cheating policy pass no task and earn nothing."""
    env = subject.make()
    policies: dict[str, Policy] = {"null": null(), "random": randomly(type(env))}
    policies["prompt-repeating"] = ScriptedPolicy(_repeat_the_prompt)
    policies |= {name: ScriptedPolicy(cheat) for name, cheat in env.cheats.items()}
    for split in env.tasks.splits:
        tasks = subject.some(env, split, *_SPREAD)
        for name, policy in policies.items():
            played = _play(env, policy, tasks)
            broken = [t for t in played if t.verdict is None]
            assert not broken, f"the {name} policy broke an episode in {split}: {_tell(broken)}"
            # By accident the random one may be paid for shaping, but never as the oracle is.
            most = GOLD - EXACT if name == "random" else EXACT
            paid = [t for t in played if t.reward > most or (t.verdict and t.verdict.passed)]
            assert not paid, (
                f"the {name} policy is paid {paid[0].reward:g} in {split}: {_tell(paid)}"
            )
    env.close()


def _check_pay(env: ToolEnv, played: list[Trajectory]) -> None:
    for trajectory in played:
        assert trajectory.verdict is not None
        given = trajectory.verdict.components.keys()
        assert given == set(env.components), (
            f"the verdict has the components {sorted(given)} of {sorted(env.components)}: give all "
            f"of them at every end; one that tools pay is 0.0 there. {_tell([trajectory])}"
        )
        assert abs(trajectory.reward - GOLD) <= EXACT, (
            f"the oracle is paid {trajectory.reward:g} in all; a solved task is worth {GOLD:g}, "
            f"what tools pay included: see weights. {_tell([trajectory])}"
        )


def hedged_answers_fail(subject: Subject) -> None:
    """Where the answer counts, the right one beside a wrong one does not pass, nor is it paid."""
    env = subject.make()
    for split in env.tasks.splits:
        tasks = subject.some(env, split, *_HEDGED)
        careless = _play(env, _answering(env, lambda gold: "no idea"), tasks)
        worth = {t.task.id: t.reward for t in careless if not (t.verdict and t.verdict.passed)}
        counts = [task for task in tasks if task.id in worth]
        for hedge in (lambda gold: f"{gold} or not {gold}", lambda gold: f"12345 {gold} 54321"):
            played = _play(env, _answering(env, hedge), counts)
            paid = [
                t
                for t in played
                if t.reward > worth[t.task.id] + EXACT or (t.verdict and t.verdict.passed)
            ]
            assert not paid, (
                f"the answer {paid[0].turns[-1].action.text!r:.80} passes, or is paid more than a "
                "wrong one: compare the whole answer with the gold one, see Task.read. "
                f"{_tell(paid)}"
            )
    env.close()


def _answering(env: ToolEnv, answer: Callable[[str], str]) -> Policy:
    """The oracle, but for what it answers in the end."""
    gold = oracle(type(env), env.tasks)

    def act(messages: list[Message]) -> Action:
        gold.submit("", messages)
        ((_, action),) = gold.collect(0.0)
        if isinstance(action, Exception):
            raise action
        return action if action.calls else Action(answer(action.text), calls=[])

    return ScriptedPolicy(act)


def _always(action: Action, messages: list[Message]) -> Action:
    return action


def _repeat_the_prompt(messages: list[Message]) -> Action:
    prompt = next(m["content"] for m in messages if m["role"] == "user")
    return Action(prompt, calls=[])


def _play(env: ToolEnv, policy: Policy, tasks: Sequence[Task]) -> list[Trajectory]:
    return rollout(env, policy, tasks, seed=1, progress=False)


def _check_guesses(env: ToolEnv, split: str, played: list[Trajectory]) -> None:
    """No single answer, given at once, passes more than one in 500 tasks of a level."""
    levels: dict[int, list[Trajectory]] = {}
    for trajectory in played:
        levels.setdefault(trajectory.task.level, []).append(trajectory)
    for level, ones in levels.items():
        [(answer, count)] = Counter(t.turns[-1].action.text for t in ones).most_common(1)
        if count == 1:
            continue
        guess = Action(answer, calls=[])
        guessed = _play(env, ScriptedPolicy(partial(_always, guess)), [t.task for t in ones])
        passed = sum(bool(t.verdict and t.verdict.passed) for t in guessed)
        assert passed <= max(1, len(ones) // 500), (
            f"{answer!r} can be guessed: it passes {passed} of the {len(ones)} tasks of level "
            f"{level} in {split}"
        )


def _tell(trajectories: list[Trajectory]) -> str:
    first, last = trajectories[0], ""
    with contextlib.suppress(IndexError):
        last = first.turns[-1].observation[:200]
    return (
        f"{first.task.id}: end_reason={first.end_reason}, error={first.error}, "
        f"verdict={first.verdict}, last observation {last!r}"
    )
