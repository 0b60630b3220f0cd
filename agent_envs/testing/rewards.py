"""Who is paid: the oracle on every task, and nobody else."""

import contextlib
import json
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial

from agent_envs.env import ToolEnv
from agent_envs.policy import Policy, ScriptedPolicy, null, oracle, randomly
from agent_envs.rollout import rollout
from agent_envs.task import Task, check_unique
from agent_envs.testing.play import Subject, episode
from agent_envs.trajectory import Trajectory
from agent_envs.turns import Action, Message

_HEDGED = 40
"""How many tasks of a split are answered with a hedge."""


def tasks_are_sound(subject: Subject) -> None:
    """Ids and prompts are unique over all splits, and `load` gives the same tasks every time."""
    env = subject.make()
    tasks = list(env.tasks)
    check_unique(tasks)
    for task in tasks:
        try:
            json.dumps(task.to_dict())
        except TypeError as error:
            raise AssertionError(f"{task}: data needs a plain JSON form: {error}") from error
    for split in env.tasks.splits:
        wrong = [t.id for t in env.tasks.split(split) if t.split != split]
        assert not wrong, f"tasks {wrong[:3]} of split {split!r} name another split"
        assert _loaded(env, split) == _loaded(env, split), (
            f"load({split!r}) gives other tasks each time: derive them from their numbers"
        )
    env.close()


def tasks_stay_as_they_are(subject: Subject) -> None:
    """No episode changes a task: all episodes share it."""
    env = subject.make()
    episode(env, 1, 5)
    for split in env.tasks.splits:
        now = [task.to_dict() for task in env.tasks.split(split)]
        assert now == _loaded(env, split), (
            f"an episode changed the data of a task in {split!r}, which all episodes share: copy "
            "in setup() what tools change"
        )
    env.close()


def _loaded(env: ToolEnv, split: str) -> list[object]:
    return [task.to_dict() for task in env.tasks.load(split)]


def oracle_passes_every_task(subject: Subject) -> None:
    """The gold solution of every task passes and is paid, and no answer is good for many tasks."""
    env = subject.make()
    for split in env.tasks.splits:
        tasks = env.tasks.split(split)[: subject.tasks]
        played = _play(env, oracle(type(env), env.tasks), tasks)
        failed = [t for t in played if not (t.verdict and t.verdict.passed)]
        assert not failed, f"the oracle fails {len(failed)} tasks of {split}, first {_tell(failed)}"
        unpaid = [t for t in played if t.reward <= 0]
        assert not unpaid, f"the oracle passes and earns nothing: see weights. {_tell(unpaid)}"
        _check_guesses(env, split, played)
    env.close()


def nobody_else_passes(subject: Subject) -> None:
    """The null, the random and every cheating policy pass no task and earn nothing."""
    env = subject.make()
    policies: dict[str, Policy] = {"null": null(), "random": randomly(type(env))}
    policies["prompt-repeating"] = ScriptedPolicy(_repeat_the_prompt)
    policies |= {name: ScriptedPolicy(cheat) for name, cheat in env.cheats.items()}
    for split in env.tasks.splits:
        tasks = env.tasks.split(split)[: subject.tasks]
        for name, policy in policies.items():
            played = _play(env, policy, tasks)
            broken = [t for t in played if t.verdict is None]
            assert not broken, f"the {name} policy broke an episode in {split}: {_tell(broken)}"
            paid = [t for t in played if t.verdict and t.verdict.passed]
            if name != "random":  # it may be paid for shaping, by accident
                paid += [t for t in played if t.reward > 0]
            assert not paid, f"the {name} policy is paid in {split}: {_tell(paid)}"
    env.close()


def hedged_answers_fail(subject: Subject) -> None:
    """Where the answer counts, the right one beside a wrong one does not pass."""
    env = subject.make()
    for split in env.tasks.splits:
        tasks = env.tasks.split(split)[: min(_HEDGED, subject.tasks or _HEDGED)]
        careless = _play(env, _answering(env, lambda gold: "no idea"), tasks)
        counts = [t.task for t in careless if not (t.verdict and t.verdict.passed)]
        for hedge in (lambda gold: f"{gold} or not {gold}", lambda gold: f"12345 {gold} 54321"):
            played = _play(env, _answering(env, hedge), counts)
            paid = [t for t in played if t.verdict and t.verdict.passed]
            assert not paid, (
                f"the answer {paid[0].turns[-1].action.text!r:.80} passes: compare the whole "
                f"answer with the gold one, see Task.read. {_tell(paid)}"
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
