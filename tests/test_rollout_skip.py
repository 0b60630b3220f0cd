"""rollout: going on with what was stopped, and runs that are longer than memory."""

import tracemalloc
from collections.abc import Iterator, Sequence
from typing import Any

import gymnasium
import pytest

from agent_envs import Task, Trajectory, rollout
from agent_envs.policy import oracle

CALCULATOR = "agent/Calculator-v0"


@pytest.fixture(scope="module")
def env() -> Iterator[Any]:
    env: Any = gymnasium.make(CALCULATOR, split="heldout", level=1, fault_rate=0.3)
    yield env
    env.close()


def told(trajectories: Sequence[Trajectory]) -> dict[str, Any]:
    return {trajectory.episode_id: trajectory.to_dict() for trajectory in trajectories}


@pytest.mark.parametrize("skipped", [{"0.0"}, {"0.1", "2.0", "2.1", "2.2"}, {"3.2", "no.such"}])
def test_what_is_not_skipped_comes_out_as_it_would_have(skipped: set[str], env: Any) -> None:
    policy, tasks = oracle(env), env.tasks.split("heldout", 1)[:4]
    whole = told(rollout(env, policy, tasks, group=3, seed=5))
    some = told(rollout(env, policy, tasks, group=3, seed=5, skip=skipped))
    assert some == {name: one for name, one in whole.items() if name not in skipped}
    assert list(some) == [name for name in whole if name not in skipped], "in the same order"


def test_nothing_is_left_where_all_is_skipped(env: Any) -> None:
    tasks = env.tasks.split("heldout", 1)[:2]
    assert rollout(env, oracle(env), tasks, skip=("0.0", "1.0")) == []


class Endless(Sequence[Task]):
    """Ten billion tasks, of which each is made when it is asked for."""

    def __init__(self, tasks: Sequence[Task]) -> None:
        self.tasks, self.furthest = tasks, 0

    def __len__(self) -> int:
        return 10**10

    def __getitem__(self, index: Any) -> Any:
        self.furthest = max(self.furthest, index)
        return self.tasks[index % len(self.tasks)]


def test_tasks_are_looked_into_as_they_are_played_and_nothing_is_held(env: Any) -> None:
    tasks = Endless(env.tasks.split("heldout", 1))
    count, sizes = 0, []

    def ended(episode: Trajectory) -> None:
        nonlocal count
        count += 1
        if count % 100 == 0:
            sizes.append(tracemalloc.get_traced_memory()[0])
        if count == 300:
            raise StopIteration

    tracemalloc.start()
    with pytest.raises(StopIteration):
        rollout([env], oracle(env), tasks, on_episode=ended, keep=False)
    tracemalloc.stop()
    assert tasks.furthest < 310
    assert sizes[2] - sizes[0] < 100_000, (
        "200 episodes take more than a megabyte where they are kept"
    )


def test_nothing_is_returned_where_nothing_is_kept(env: Any) -> None:
    seen: list[Trajectory] = []
    tasks = env.tasks.split("heldout", 1)[:3]
    assert rollout(env, oracle(env), tasks, on_episode=seen.append, keep=False) == []
    assert told(seen) == told(rollout(env, oracle(env), tasks))


def test_an_unknown_id_in_a_list_is_an_error_before_anything_is_played(env: Any) -> None:
    seen: list[Trajectory] = []
    tasks = [env.tasks.split("heldout", 1)[0], "no such task"]
    with pytest.raises(KeyError, match="no such task"):
        rollout(env, oracle(env), tasks, on_episode=seen.append)
    assert seen == []
