"""The MCP server against the SDK's own client: in process, over stdio, and over HTTP."""

import asyncio
import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from mcp import Client, MCPError, StdioServerParameters

from agent_envs.adapters.hosted import make
from agent_envs.adapters.mcp import server
from tests.adapters.direct import BANK, CALCULATOR, ERRORS, NOISE, TASKS, Played, play

IDS = [CALCULATOR, BANK]


async def drive(client: Any, played: Played) -> None:
    """Play what was played by hand, and find the same."""
    for call, result in played.calls:
        said = await client.call_tool(call.name, call.arguments)
        assert [block.text for block in said.content] == [result.content]
        assert said.is_error == (result.error is not None)
    assert (await read(client, "verdict"))["ended"] is False
    said = await client.call_tool("answer", {"text": played.answer})
    assert (said.content[0].text, said.is_error) == ("the episode is over", False)
    verdict = await read(client, "verdict")
    assert (verdict["ended"], verdict["reward"]) == (True, played.reward)
    assert verdict["verdict"]["passed"] == played.passed


async def read(client: Any, name: str) -> dict[str, Any]:
    """A resource of the episode."""
    text = (await client.read_resource(f"episode://{name}")).contents[0].text
    value: dict[str, Any] = json.loads(text)
    return value


def served(env_id: str, seed: int = 3, **kwargs: Any) -> Any:
    """A client in this process."""
    return Client(server(env_id, task=TASKS[env_id], seed=seed, make=kwargs), cache=None)


@pytest.mark.parametrize("seed", [3, 4])
@pytest.mark.parametrize("env_id", IDS)
def test_an_episode_is_the_same_as_by_hand(env_id: str, seed: int) -> None:
    played = play(env_id, seed, ERRORS, fault_rate=NOISE)
    assert any(result.error for _, result in played.calls)

    async def go() -> None:
        async with served(env_id, seed, fault_rate=NOISE) as client:
            await drive(client, played)

    asyncio.run(go())


def test_a_gold_solution_passes() -> None:
    assert all(play(env_id, 3).passed for env_id in IDS)


@pytest.mark.parametrize("env_id", IDS)
def test_only_the_tools_and_the_answer_are_listed(env_id: str) -> None:
    async def go() -> None:
        async with served(env_id) as client:
            tools = (await client.list_tools()).tools
            schemas = {s["function"]["name"]: s["function"] for s in make(env_id).tool_schemas}
            assert [tool.name for tool in tools] == [*schemas, "answer"]
            for tool in tools[:-1]:
                assert tool.description == schemas[tool.name]["description"]
                assert tool.input_schema == schemas[tool.name]["parameters"]
            prompt = await client.get_prompt("task")
            said = [message.content.text for message in prompt.messages]
            assert said == [play(env_id, 3).opening[-1]["content"]]

    asyncio.run(go())


def test_after_the_end_every_call_is_an_error_and_changes_nothing() -> None:
    async def go() -> None:
        async with served(CALCULATOR) as client:
            await client.call_tool("answer", {"text": "wrong"})
            before = await read(client, "verdict")
            for name, arguments in (
                ("calculate", {"expression": "1+1"}),
                ("answer", {"text": "2"}),
            ):
                said = await client.call_tool(name, arguments)
                assert said.is_error and "over" in said.content[0].text
            assert await read(client, "verdict") == before
            assert before["reward"] == 0.0

    asyncio.run(go())


def test_a_malformed_answer_ends_nothing() -> None:
    async def go() -> None:
        async with served(CALCULATOR) as client:
            for arguments in ({}, {"text": 4}, {"text": "4", "more": 1}):
                assert (await client.call_tool("answer", arguments)).is_error
            assert (await read(client, "verdict"))["ended"] is False

    asyncio.run(go())


def test_a_state_goes_on_elsewhere_by_its_history() -> None:
    played = play(BANK, 3)

    async def go() -> None:
        async with served(BANK) as client:
            for call, _ in played.calls:
                await client.call_tool(call.name, call.arguments)
            history = await read(client, "history")
        env = make(BANK, tool_docs=False)
        env.replay(history)
        verdict = env.finish(played.answer)
        assert verdict and verdict.passed
        async with Client(server(BANK, history=history), cache=None) as client:
            await client.call_tool("answer", {"text": played.answer})
            assert (await read(client, "verdict"))["verdict"]["passed"]

    asyncio.run(go())


def test_what_there_is_not_is_refused() -> None:
    async def go() -> None:
        async with Client(server(CALCULATOR, task="no/such"), cache=None) as client:
            with pytest.raises(MCPError, match="no/such"):
                await client.call_tool("calculate", {"expression": "1"})
            with pytest.raises(MCPError, match="no prompt"):
                await client.get_prompt("other")
            with pytest.raises(MCPError, match="no resource"):
                await client.read_resource("episode://other")

    asyncio.run(go())


def test_over_stdio_a_process_is_an_episode() -> None:
    played = play(BANK, 5, ERRORS, fault_rate=NOISE)
    given = ["--task", TASKS[BANK], "--seed", "5", "--make", json.dumps({"fault_rate": NOISE})]
    command = ["-m", "agent_envs.adapters.mcp", BANK, *given]

    async def go() -> None:
        import os

        env = dict(os.environ)
        for _ in range(2):
            started = StdioServerParameters(command=sys.executable, args=command, env=env)
            async with Client(started, cache=None) as client:
                await drive(client, played)

    asyncio.run(go())


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """A server over HTTP."""
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "agent_envs.adapters.mcp", BANK, "--http", str(port)]
    process = subprocess.Popen([*command, "--make", json.dumps({"fault_rate": NOISE})])
    try:
        for _ in range(300):
            with closing(socket.socket()) as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.terminate()
        process.wait()


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_over_http_many_play_at_once(url: str, mode: str) -> None:
    async def one(name: str, seed: int) -> None:
        where = f"{url}?episode={mode}{name}&task={TASKS[BANK]}&seed={seed}"
        async with Client(where, cache=None, mode=mode) as client:
            await drive(client, play(BANK, seed, ERRORS, fault_rate=NOISE))

    async def go() -> None:
        await asyncio.gather(*(one(str(i), i // 2) for i in range(6)))

    asyncio.run(go())


def test_over_http_a_session_will_do_and_nothing_will_not(url: str) -> None:
    async def go() -> None:
        async with Client(f"{url}?task={TASKS[BANK]}&seed=1", cache=None, mode="legacy") as client:
            await drive(client, play(BANK, 1, ERRORS, fault_rate=NOISE))
        async with Client(url, cache=None) as client:
            with pytest.raises(MCPError, match="episode=NAME"):
                await client.call_tool("balance", {"name": "ada"})
        async with Client(f"{url}?episode=x&sed=1", cache=None) as client:
            with pytest.raises(MCPError, match="sed"):
                await client.call_tool("balance", {"name": "ada"})

    asyncio.run(go())


def test_beyond_the_limit_the_oldest_episode_is_closed() -> None:
    from agent_envs.adapters.sessions import Sessions

    async def go() -> None:
        sessions = Sessions(CALCULATOR, 2, {}, {"seed": 1})
        first = await sessions.get("a", {})
        assert await sessions.get("b", {}) is not first
        assert await sessions.get("a", {}) is first
        await sessions.get("c", {})
        assert not first.hosted.env.closed
        with pytest.raises(ValueError, match="another name"):
            await sessions.get("b", {})
        await asyncio.gather(*(sessions.get(name, {}) for name in "defg"))
        assert first.hosted.env.closed
        sessions.close()
        assert (await sessions.get("g", {})).hosted.env.closed

    asyncio.run(go())
