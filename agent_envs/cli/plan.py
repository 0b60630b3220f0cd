"""What an evaluation consists of, and playing it."""

import argparse
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from agent_envs.cli.common import Usage, make
from agent_envs.env import ToolEnv
from agent_envs.policy import Policy, ScriptedPolicy, null, oracle, randomly
from agent_envs.rollout import rollout
from agent_envs.streams import derive
from agent_envs.task import Task
from agent_envs.trajectory import Trajectory

POLICIES = ("oracle", "null", "random", "cheats")

BLOCK = 64
"""About how many episodes one `rollout` plays. So memory stays flat; and since a seed is a function
of the block and the place in it, a resumed evaluation comes out as one that never stopped."""


@dataclass(frozen=True)
class Plan:
    """All that decides what an evaluation comes to. Each player plays `episodes` episodes."""

    env_id: str
    policy: str
    options: dict[str, Any]
    """The arguments of `make`."""
    tasks: tuple[Task, ...]
    group: int
    seed: int
    players: tuple[tuple[str, Policy], ...]
    """A name for each policy; empty where there is only one."""

    @property
    def total(self) -> int:
        """The episodes of all players."""
        return len(self.tasks) * self.group * len(self.players)

    def episodes(self) -> dict[str, str]:
        """The id of each episode, and that of its task."""
        return {
            name: block.tasks[int(local.partition(".")[0])].id
            for block in _blocks(self)
            for local, name in block.names.items()
        }

    def arguments(self) -> dict[str, Any]:
        """What it was asked for, as JSON."""
        return {
            "id": self.env_id,
            "policy": self.policy,
            "episodes": len(self.tasks) * self.group,
            "group": self.group,
            "seed": self.seed,
            **self.options,
        }


def make_plan(env: ToolEnv, options: dict[str, Any], arguments: argparse.Namespace) -> Plan:
    """What the command line asks for: the tasks of the env's split in order, each `group` times;
    over again where there are fewer than `episodes`. Raises Usage where that cannot be."""
    tasks, group = env.tasks.split(env.split, env.level), arguments.group
    if arguments.episodes is not None:
        if arguments.episodes % group:
            raise Usage(f"--episodes {arguments.episodes} is no multiple of --group {group}")
        tasks = tuple(tasks[i % len(tasks)] for i in range(arguments.episodes // group))
    players = tuple(make_players(env, arguments.policy).items())
    if not players:
        raise Usage(f"{arguments.id} ships no cheats; choose another --policy")
    return Plan(arguments.id, arguments.policy, options, tasks, group, arguments.seed, players)


def make_players(env: ToolEnv, policy: str) -> dict[str, Policy]:
    """The policies behind a name in `POLICIES`; of the cheats each by its own name."""
    match policy:
        case "oracle":
            return {"": oracle(type(env), env.tasks)}
        case "null":
            return {"": null()}
        case "random":
            return {"": randomly(type(env))}
    return {name: ScriptedPolicy(act) for name, act in env.cheats.items()}


class _Block(NamedTuple):
    """What one `rollout` plays, and what its episodes are called in the whole."""

    policy: Policy
    tasks: tuple[Task, ...]
    seed: int
    names: dict[str, str]


def play(
    plan: Plan,
    env: ToolEnv,
    on_episode: Callable[[Trajectory], None],
    done: Collection[str] = (),
    workers: int = 16,
) -> None:
    """Play what is not done yet; each episode is handed over as it ends, under an id of its own.

    `env` is one that the plan's arguments made; up to `workers` of its kind play in all, and are
    closed at the end.
    """
    envs = [env]
    try:
        while len(envs) < min(workers, plan.total, BLOCK):
            envs.append(make(plan.env_id, **plan.options))
        for block in _blocks(plan):
            if not all(name in done for name in block.names.values()):
                _play_block(plan, envs, block, on_episode, done)
    finally:
        for used in envs:
            used.close()


def _blocks(plan: Plan) -> Iterator[_Block]:
    size = max(1, BLOCK // plan.group)
    for player, policy in plan.players:
        before = f"{player}:" if player else ""
        for first in range(0, len(plan.tasks), size):
            tasks = plan.tasks[first : first + size]
            places = [(i, g) for i in range(len(tasks)) for g in range(plan.group)]
            names = {f"{i}.{g}": f"{before}{first + i}.{g}" for i, g in places}
            yield _Block(policy, tasks, derive(plan.seed, first), names)


def _play_block(
    plan: Plan,
    envs: list[ToolEnv],
    block: _Block,
    on_episode: Callable[[Trajectory], None],
    done: Collection[str],
) -> None:
    def ended(episode: Trajectory) -> None:
        name = block.names[episode.episode_id]
        if name not in done:
            on_episode(replace(episode, episode_id=name, group_id=name.rpartition(".")[0]))

    rollout(
        envs,
        block.policy,
        block.tasks,
        group=plan.group,
        seed=block.seed,
        on_episode=ended,
        progress=False,
    )
