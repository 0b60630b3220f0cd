"""verifiers 0.4: its runner, harness and interception server, with a scripted model behind them."""

import asyncio
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import verifiers.v1 as vf  # noqa: TID251
from verifiers.v1.clients import (  # noqa: TID251
    EvalClientConfig,
    ModelContext,
)
from verifiers.v1.utils.loaders import (  # noqa: TID251
    load_environment,
)

from agent_envs.adapters.verifiers import EnvTasksConfig, PlayConfig
from tests.adapters.chat_server import serving
from tests.adapters.direct import BANK, CALCULATOR, NOISE, Played, as_text, play_row

MODULE = "from agent_envs.adapters.verifiers import EnvTasks, Play\n__all__ = ['EnvTasks', 'Play']"
SETTINGS = {"fault_rate": NOISE}


@pytest.fixture(scope="module", autouse=True)
def taskset(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The two lines that the docstring asks for."""
    folder = tmp_path_factory.mktemp("modules")
    (folder / "our_tasks.py").write_text(MODULE)
    sys.path.insert(0, str(folder))
    yield
    sys.path.remove(str(folder))


def environment(env_id: str, **chosen: Any) -> Any:
    """The environment as `vf-eval` would load it."""
    tasks = EnvTasksConfig(id="our_tasks", env_id=env_id, n=2, seed=5, **chosen)
    return load_environment(PlayConfig(taskset=tasks))


def rollouts(env: Any, url: str, tasks: list[Any], group: int) -> list[Any]:
    """Episodes through verifiers' own machinery."""
    client = EvalClientConfig(base_url=url, api_key_var="NO_KEY")
    context = ModelContext(model="script", client=client)

    async def go() -> list[Any]:
        async with env.serving():
            slots = [slot for task in tasks for slot in env.slots(task, group)]
            return await asyncio.gather(*(env.run_slot(slot, context) for slot in slots))

    return asyncio.run(go())


def said_by(role: str, messages: list[dict[str, Any]]) -> list[str]:
    """The texts of one role."""
    return [m["content"] for m in messages if m["role"] == role]


class Script:
    """A model that repeats what was played by hand, found by the task's prompt."""

    def __init__(self, played: list[Played]) -> None:
        self.by_prompt = {p.opening[-1]["content"]: p for p in played}
        self.shown: list[tuple[Played, list[dict[str, Any]]]] = []

    def __call__(self, messages: list[dict[str, Any]], body: dict[str, Any]) -> dict[str, Any]:
        assert not body.get("tools"), "the env's tools are text; the model is offered no others"
        played = self.by_prompt[said_by("user", messages)[0]]
        self.shown.append((played, messages))
        turn = len(said_by("assistant", messages))
        return {"content": as_text(played.moves[turn])}


@pytest.mark.parametrize("env_id", [CALCULATOR, BANK])
def test_groups_are_the_same_as_by_hand(env_id: str) -> None:
    env = environment(env_id, make=SETTINGS)
    tasks = list(env.taskset)
    data = [task.data for task in tasks]
    played = [play_row(env_id, d.task, d.seed, fault_rate=NOISE) for d in data]
    script = Script(played)
    with serving(script) as url:
        episodes = rollouts(env, url, tasks, group=2)
    assert [e.ok for e in episodes] == [True] * 4, [e.errors for e in episodes]
    for episode, by_hand in zip(episodes, [p for p in played for _ in range(2)], strict=True):
        [trace] = episode.traces
        assert trace.rewards["reward"].score == by_hand.reward
        assert trace.metrics["passed"] == by_hand.passed
    for by_hand, messages in script.shown:
        assert said_by("system", messages) == [by_hand.opening[0]["content"]]
        seen = said_by("user", messages)[1:]
        assert seen == by_hand.observations[: len(seen)]
    assert max(len(messages) for _, messages in script.shown) > 3


def one(reply: Any, **settings: Any) -> Any:
    """One episode of the calculator with a model that always replies alike."""
    env = environment(CALCULATOR, make=settings)
    with serving(reply) as url:
        [episode] = rollouts(env, url, list(env.taskset)[:1], group=1)
    return episode


def test_the_end_of_an_episode_ends_the_rollout() -> None:
    asked = []

    def broken(messages: Any, body: Any) -> dict[str, Any]:
        asked.append(len(messages))
        return {"content": "<tool_call>no JSON</tool_call>"}

    episode = one(broken, max_turns=2)
    assert len(asked) == 2
    [trace] = episode.traces
    assert trace.info["end_reason"] == "max_turns"
    assert (trace.rewards["reward"].score, trace.metrics["passed"]) == (0.0, 0.0)


def test_a_turn_that_was_cut_is_no_answer() -> None:
    env = environment(CALCULATOR)
    [task, _] = env.taskset
    answer = play_row(CALCULATOR, task.data.task, task.data.seed).answer
    episode = one(lambda *_: {"content": answer, "finish_reason": "length"}, max_turns=2)
    [trace] = episode.traces
    assert (trace.rewards["reward"].score, trace.info["end_reason"]) == (0.0, "max_turns")


def test_what_verifiers_ends_is_graded_without_an_answer() -> None:
    tasks = EnvTasksConfig(id="our_tasks", n=1)
    config = PlayConfig(taskset=tasks)
    config.player.max_turns = 1
    call = '<tool_call>{"name": "calculate", "arguments": {"expression": "1"}}</tool_call>'
    with serving(lambda *_: {"content": call}) as url:
        env = load_environment(config)
        [episode] = rollouts(env, url, list(env.taskset), group=1)
    [trace] = episode.traces
    assert (trace.rewards["reward"].score, trace.info["end_reason"]) == (0.0, "done")


def test_tasks_are_stable() -> None:
    first, again = ([t.data for t in environment(BANK).taskset] for _ in range(2))
    assert first == again
    assert isinstance(first[0], vf.TaskData)
