"""OpenEnv: our server behind its own clients, and our client before our and other servers."""

import asyncio
import json
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import gymnasium
import pytest
import uvicorn
from gymnasium.utils.env_checker import check_env
from openenv.core import GenericEnvClient
from openenv.core.env_server.http_server import create_app
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import (
    Action,
    Observation,
    State,
)

from agent_envs.adapters.openenv import server
from agent_envs.adapters.openenv_client import OpenEnvClient
from agent_envs.errors import SnapshotUnsupported
from tests.adapters.direct import BANK, CALCULATOR, ERRORS, NOISE, TASKS, Played, as_text, play

IDS = [CALCULATOR, BANK]


@contextmanager
def up(app: Any) -> Iterator[str]:
    """A server on this machine, in a thread."""
    running = uvicorn.Server(uvicorn.Config(app, port=0, log_level="warning"))
    thread = threading.Thread(target=running.run, daemon=True)
    thread.start()
    while not running.started:
        time.sleep(0.01)
    yield f"http://127.0.0.1:{running.servers[0].sockets[0].getsockname()[1]}"
    running.should_exit = True
    thread.join()


@pytest.fixture(scope="module")
def urls() -> Iterator[dict[str, str]]:
    """A noisy server for each id."""
    with (
        up(server(CALCULATOR, fault_rate=NOISE)) as calculator,
        up(server(BANK, fault_rate=NOISE)) as bank,
    ):
        yield {CALCULATOR: calculator, BANK: bank}


async def drive(url: str, env_id: str, seed: int, played: Played) -> None:
    """Play what was played by hand with OpenEnv's own client, and find the same."""
    total = 0.0
    async with GenericEnvClient(base_url=url) as client:
        result = await client.reset(seed=seed, task=TASKS[env_id])
        opening = "\n\n".join(message["content"] for message in played.opening)
        assert (result.observation["text"], result.done) == (opening, False)
        for move, observation in zip(played.moves, played.observations, strict=True):
            assert not result.done
            result = await client.step({"text": as_text(move)})
            assert result.observation["text"] == observation
            assert "truth" not in json.dumps(result.observation)
            total += result.reward
        assert result.done and total == played.reward
        assert result.observation["end_reason"] == "answer"
        assert result.metadata["verdict"]["passed"] == played.passed
        with pytest.raises(RuntimeError, match="over"):
            await client.step({"text": "once more"})


@pytest.mark.parametrize("env_id", IDS)
def test_groups_play_at_once_and_are_the_same_as_by_hand(urls: dict[str, str], env_id: str) -> None:
    played = {seed: play(env_id, seed, ERRORS, fault_rate=NOISE) for seed in (3, 4)}
    assert played[3].observations != played[4].observations

    async def go() -> None:
        alone = [drive(urls[env_id], env_id, seed, played[seed]) for seed in (3, 3, 3, 4)]
        await asyncio.gather(*alone)

    asyncio.run(go())


@pytest.mark.parametrize("env_id", IDS)
def test_our_client_is_a_gymnasium_env(urls: dict[str, str], env_id: str) -> None:
    with OpenEnvClient(urls[env_id], task=TASKS[env_id]) as env:
        for seed in (3, 4):
            played = play(env_id, seed, ERRORS, fault_rate=NOISE)
            env.reset(seed=seed)
            total = 0.0
            for move, observation in zip(played.moves, played.observations, strict=True):
                seen, reward, terminated, truncated, _ = env.step(as_text(move))
                assert seen == observation
                total += reward
            assert (terminated, truncated, total) == (True, False, played.reward)
            with pytest.raises(gymnasium.error.ResetNeeded):
                env.step("more")


@pytest.mark.filterwarnings("ignore:.*")
def test_gymnasiums_own_check_of_our_client(urls: dict[str, str]) -> None:
    with OpenEnvClient(urls[CALCULATOR]) as env:
        check_env(env, skip_render_check=True)


@pytest.mark.parametrize("env_id", IDS)
def test_states_are_gone_back_to_exactly(urls: dict[str, str], env_id: str) -> None:
    played = play(env_id, 3, fault_rate=NOISE)
    with OpenEnvClient(urls[env_id], snapshots=True) as env:
        opening, _ = env.reset(seed=3, options={"task": TASKS[env_id]})
        start = env.snapshot()
        turns = [env.step(as_text(move))[:4] for move in played.moves]
        end = env.snapshot()
        for _ in range(3):
            assert env.rollback(start)[0] == opening
            assert [env.step(as_text(move))[:4] for move in played.moves] == turns
        env.rollback(start, seed=4)
        other = play(env_id, 4, fault_rate=NOISE)
        assert [env.step(as_text(m))[0] for m in other.moves] == other.observations
        env.rollback(end)
        with pytest.raises(gymnasium.error.ResetNeeded):
            env.step("over")
        with pytest.raises(RuntimeError, match="no snapshot 999"):
            env.rollback(999)


def test_no_turn_of_the_model_reaches_the_hosts_side(urls: dict[str, str]) -> None:
    with GenericEnvClient(base_url=urls[BANK]).sync() as client:
        client.reset(seed=1, task=TASKS[BANK])
        with pytest.raises(RuntimeError, match="VALIDATION"):
            client.step({"text": "x", "rollback": 1})
        assert "snapshot" not in client.step({"text": "<tool_call>"}).metadata
        number = client.step({"text": 42})
        assert number.done, "a host that reads JSON sends the answer 42 as a number"
    with OpenEnvClient(urls[BANK]) as env:
        env.reset(seed=1)
        with pytest.raises(SnapshotUnsupported, match="snapshots=True"):
            env.snapshot()


def test_the_state_goes_on_elsewhere_and_tasks_are_listed(urls: dict[str, str]) -> None:
    from agent_envs.adapters.hosted import make

    played = play(BANK, 3, fault_rate=NOISE)
    with GenericEnvClient(base_url=urls[BANK]).sync() as client:
        assert client.state()["task"] is None
        client.reset(seed=3, split="heldout", index=3)
        client.step({"text": as_text(played.moves[0])})
        state = client.state()
    assert (state["task"], state["step_count"]) == (TASKS[BANK], 1)
    env = make(BANK, fault_rate=NOISE)
    assert env.replay(state["history"])[0] == played.observations[0]
    with urllib.request.urlopen(f"{urls[BANK]}/agent-envs/splits") as reply:
        assert [split["name"] for split in json.load(reply)] == list(env.tasks.splits)


def test_max_turns_truncates() -> None:
    with up(server(CALCULATOR, max_turns=1)) as url, OpenEnvClient(url) as env:
        env.reset(seed=1)
        _, reward, terminated, truncated, info = env.step("<tool_call>broken")
        assert (reward, terminated, truncated) == (0.0, False, True)
        assert info["observation"]["end_reason"] == "max_turns"
    with pytest.raises(KeyError, match="no such split|no split"):
        server(CALCULATOR, split="nowhere")


class Guess(Action):
    """Two fields, as other people's servers have them."""

    low: int
    high: int


class Told(Observation):
    """No text."""

    hint: str = ""


class Foreign(Environment):
    """A server that is not ours."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def reset(self, seed: int | None = None, episode_id: str | None = None, **kw: Any) -> Told:
        self.secret = (seed or 0) % 10
        return Told(hint="guess")

    def step(self, action: Guess, timeout_s: float | None = None, **kw: Any) -> Told:
        hit = action.low <= self.secret <= action.high
        return Told(hint="in" if hit else "out", reward=float(hit), done=action.low == action.high)

    @property
    def state(self) -> State:
        return State()


def test_other_peoples_servers_are_gymnasium_envs_too() -> None:
    with up(create_app(Foreign, Guess, Told)) as url, OpenEnvClient(url) as env:
        assert json.loads(env.reset(seed=17)[0]) == {"hint": "guess"}
        assert "not" in env.step("[1")[0] or "error" in env.step("[1")[0]
        assert env.step("[1]")[0].startswith("error: an action is a JSON object")
        observation, reward, terminated, truncated, _ = env.step('{"low": 5, "high": 9}')
        assert (json.loads(observation), reward, terminated) == ({"hint": "in"}, 1.0, False)
        assert env.step('{"low": 5, "high": 5}')[1:4] == (0.0, True, False)
    say: dict[str, Any] = {
        "say": lambda text: {"low": int(text), "high": int(text)},
        "show": lambda o: o["hint"],
    }
    with up(create_app(Foreign, Guess, Told)) as url, OpenEnvClient(url, **say) as env:
        assert env.reset(seed=3)[0] == "guess"
        assert env.step("3")[:3] == ("in", 1.0, True)
