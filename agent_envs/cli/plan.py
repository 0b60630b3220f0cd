"""What an evaluation consists of, and playing it."""

import math
from collections.abc import Callable, Collection, Container, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, TypeAlias, overload

from agent_envs.cli.common import Usage, make
from agent_envs.env import ToolEnv
from agent_envs.models import OpenAIPolicy
from agent_envs.policy import Policy, ScriptedPolicy, null, oracle, randomly
from agent_envs.rollout import rollout
from agent_envs.task import Task
from agent_envs.trajectory import Trajectory

POLICIES = ("oracle", "null", "random", "cheats")

OnEpisode: TypeAlias = Callable[[Trajectory], None]

_LONGEST_ID = 60


@dataclass(frozen=True)
class Player:
    """A policy; the name is empty where there is only one."""

    name: str
    policy: Policy

    def close(self) -> None:
        """End what the policy runs, if it has such a thing."""
        close = getattr(self.policy, "close", None)
        if callable(close):
            close()


class Again(Sequence[Task]):
    """Some tasks in order, and over again until there are `count`: no list of them is made."""

    def __init__(self, tasks: Sequence[Task], count: int) -> None:
        self._tasks, self._count = tasks, count

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> Task: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Task]: ...
    def __getitem__(self, index: int | slice) -> Task | Sequence[Task]:
        """A task by its place, counted from 0; also from the end, as in a list."""
        places = range(self._count)[index]
        if isinstance(places, range):
            return [self._tasks[i % len(self._tasks)] for i in places]
        return self._tasks[places % len(self._tasks)]


@dataclass(frozen=True)
class Plan:
    """All that decides what an evaluation comes to. Each player plays `episodes` episodes."""

    env_id: str
    policy: str
    options: dict[str, Any]
    """The arguments of `make`."""
    tasks: Sequence[Task]
    group: int
    seed: int
    players: tuple[Player, ...]
    splits: tuple[str, ...]
    model: dict[str, Any]
    """How a model is asked, where that decides what it says."""

    @property
    def episodes(self) -> int:
        """How many each player plays."""
        return len(self.tasks) * self.group

    @property
    def total(self) -> int:
        """The episodes of all players."""
        return self.episodes * len(self.players)

    def place(self, episode_id: str) -> tuple[str, int] | None:
        """The player of an episode, and its number in the order of play; None for a wrong id."""
        player, _, local = episode_id.rpartition(":")
        task, _, member = local[:_LONGEST_ID].partition(".")
        if not (task.isdecimal() and member.isdecimal() and f"{int(task)}.{int(member)}" == local):
            return None
        if int(member) >= self.group or int(task) >= len(self.tasks):
            return None
        known = any(one.name == player for one in self.players)
        return (player, int(task) * self.group + int(member)) if known else None

    def arguments(self) -> dict[str, Any]:
        """What it was asked for, as JSON."""
        return {
            "id": self.env_id,
            "policy": self.policy,
            "episodes": self.episodes,
            "group": self.group,
            "seed": self.seed,
            **self.options,
            "split": ",".join(self.splits),
            **({"model": self.model} if self.model else {}),
        }


class Done:
    """Which episodes of a plan were played. They end nearly in order, so this stays small."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._before = {player.name: 0 for player in plan.players}
        """All below this number were."""
        self._beyond: dict[str, set[int]] = {player.name: set() for player in plan.players}

    def add(self, episode_id: str) -> None:
        """Note an episode. Raises ValueError for one that is not of the plan, or was noted."""
        place = self._plan.place(episode_id)
        if place is None or episode_id in self:
            raise ValueError(f"no episode {episode_id!r:.60} is missing")
        name, number = place
        beyond = self._beyond[name]
        beyond.add(number)
        while self._before[name] in beyond:
            beyond.remove(self._before[name])
            self._before[name] += 1

    def __contains__(self, episode_id: object) -> bool:
        place = self._plan.place(str(episode_id))
        return place is not None and (
            place[1] < self._before[place[0]] or place[1] in self._beyond[place[0]]
        )

    def all_of(self, name: str) -> bool:
        """Whether a player is through."""
        return self._before[name] == self._plan.episodes


@dataclass(frozen=True)
class _Prefixed(Container[str]):
    """The episodes of one player, by the ids that they have in its own rollout."""

    done: Done
    before: str

    def __contains__(self, local: object) -> bool:
        return f"{self.before}{local}" in self.done


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


def make_plan(
    env: ToolEnv,
    options: dict[str, Any],
    *,
    env_id: str,
    policy: str,
    players: Collection[Player],
    splits: Sequence[str] = (),
    tasks: Sequence[Task] | None = None,
    episodes: int | None = None,
    group: int = 1,
    seed: int = 0,
    model: dict[str, Any] | None = None,
) -> Plan:
    """`tasks`, or those of the splits in order (the env's own, if none is named), each `group`
    times; over again where there are fewer than `episodes`. Raises Usage where that cannot be."""
    splits = tuple(splits) or (env.split,)
    if tasks is None:
        tasks = _tasks(env, env_id, splits)
    if episodes is not None and episodes % group:
        raise Usage(f"--episodes {episodes} is no multiple of --group {group}")
    count = len(tasks) if episodes is None else episodes // group
    played = Again(tasks, count)
    return Plan(env_id, policy, options, played, group, seed, tuple(players), splits, model or {})


def _tasks(env: ToolEnv, env_id: str, splits: Sequence[str]) -> list[Task]:
    try:
        return [task for split in splits for task in env.tasks.split(split, env.level)]
    except KeyError as error:
        raise Usage(f"{env_id}: {error.args[0]}") from None


def play(plan: Plan, env: ToolEnv, on_episode: OnEpisode, done: Done, workers: int = 16) -> None:
    """Play what is not done yet; each episode is handed over as it ends, under an id of its own.

    `env` is one that the plan's arguments made; up to `workers` of its kind play in all, and are
    closed at the end. An episode's seed is the one that `rollout` gives it, from the plan's seed
    and its id, so that one that is gone on with comes out as one that never stopped.
    """
    envs = [env]
    try:
        while len(envs) < min(workers, plan.total):
            envs.append(make(plan.env_id, **plan.options))
        for player in plan.players:
            if not done.all_of(player.name):
                _play(plan, player, envs, on_episode, done)
    finally:
        for used in envs:
            used.close()


def _play(
    plan: Plan, player: Player, envs: list[ToolEnv], on_episode: OnEpisode, done: Done
) -> None:
    before = f"{player.name}:" if player.name else ""
    model = player.policy if isinstance(player.policy, OpenAIPolicy) else None

    def ended(episode: Trajectory) -> None:
        name = f"{before}{episode.episode_id}"
        told: dict[str, Any] = {"name": plan.policy}
        if model is not None:
            told = {**model.describe(), "usage": asdict(model.spent(episode.episode_id))}
        by = {**episode.provenance, "policy": told}
        group = name.rpartition(".")[0]
        on_episode(replace(episode, episode_id=name, group_id=group, provenance=by))

    rollout(
        envs,
        player.policy,
        plan.tasks,
        group=plan.group,
        seed=plan.seed,
        episode_deadline=math.inf if model else 600.0,
        on_episode=ended,
        progress=False,
        skip=_Prefixed(done, before),
        keep=False,
    )
