"""MCP: an env's tools as a server, an episode a session.

    python -m agent_envs.adapters.mcp agent/Calculator-v0 --task calculator/0/heldout/000 --seed 7
    python -m agent_envs.adapters.mcp agent/Calculator-v0 --http 8000

Over stdio a connection is an episode, which the options choose. Over HTTP it is a session, and
where the client has none (newer ones have not), the URL: /mcp?episode=NAME&task=ID&seed=N.

The model sees the env's tools and `answer`, which ends the episode; a call that did not work out
is a result with `isError`. The host has the prompt `task` and two resources: `episode://verdict`
and `episode://history`, the state as JSON: for --history, and for `replay` of an env made with
`tool_docs=False`. Needs mcp 2.3.
"""

import argparse
import asyncio
import json
from pathlib import Path
from typing import Any

import mcp_types as types
from mcp import MCPError
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

from agent_envs import aio
from agent_envs.adapters.sessions import Session, Sessions
from agent_envs.plain import parse_json, to_plain

_RESOURCES = {
    "episode://verdict": "The reward so far, and the verdict once the episode is over",
    "episode://history": "The state of the episode, for ToolEnv.replay",
}


class EnvServer:
    """The handlers of one server."""

    def __init__(self, env_id: str, sessions: Sessions) -> None:
        self.sessions = sessions
        self.server = Server(
            f"agent-envs {env_id}",
            on_list_tools=self.list_tools,
            on_call_tool=self.call_tool,
            on_list_prompts=self.list_prompts,
            on_get_prompt=self.get_prompt,
            on_list_resources=self.list_resources,
            on_read_resource=self.read_resource,
        )

    async def list_tools(self, ctx: Any, params: Any) -> Any:
        """The env's tools and `answer`, nothing else."""
        tools = [
            types.Tool(name=t["name"], description=t["description"], input_schema=t["parameters"])
            for t in self.sessions.tools
        ]
        return types.ListToolsResult(tools=tools)

    async def call_tool(self, ctx: Any, params: Any) -> Any:
        """Play a turn of one call."""
        session = await self._session(ctx)
        async with session.lock:
            result = await aio.run(session.call, params.name, params.arguments or {})
        if session.hosted.failed:
            raise MCPError(types.INTERNAL_ERROR, f"the environment failed: {session.hosted.failed}")
        content = [types.TextContent(type="text", text=result.content)]
        return types.CallToolResult(content=content, is_error=result.error is not None)

    async def list_prompts(self, ctx: Any, params: Any) -> Any:
        """One: what is to be done."""
        about = "What is to be done in this episode"
        return types.ListPromptsResult(prompts=[types.Prompt(name="task", description=about)])

    async def get_prompt(self, ctx: Any, params: Any) -> Any:
        """The episode's task."""
        if params.name != "task":
            raise MCPError(types.INVALID_PARAMS, f"no prompt {params.name!r}; there is 'task'")
        session = await self._session(ctx)
        said = types.TextContent(type="text", text=session.hosted.env.task.prompt)
        message = types.PromptMessage(role="user", content=said)
        return types.GetPromptResult(messages=[message])

    async def list_resources(self, ctx: Any, params: Any) -> Any:
        """Verdict and history."""
        listed = [types.Resource(uri=u, name=u, description=d) for u, d in _RESOURCES.items()]
        return types.ListResourcesResult(resources=listed)

    async def read_resource(self, ctx: Any, params: Any) -> Any:
        """One of them, as JSON."""
        if params.uri not in _RESOURCES:
            raise MCPError(types.INVALID_PARAMS, f"no resource {params.uri}; {list(_RESOURCES)}")
        session = await self._session(ctx)
        read = session.outcome if params.uri == "episode://verdict" else session.hosted.env.history
        async with session.lock:
            text = json.dumps(to_plain(await aio.run(read)))
        held = types.TextResourceContents(uri=params.uri, mime_type="application/json", text=text)
        return types.ReadResourceResult(contents=[held])

    async def _session(self, ctx: Any) -> Session:
        try:
            if ctx.request is None:
                return await self.sessions.get("", {})
            query = dict(ctx.request.query_params)
            name = query.pop("episode", "") or ctx.request.headers.get("mcp-session-id", "")
            if not name:
                raise ValueError("name the episode in the URL: /mcp?episode=NAME")
            return await self.sessions.get(name, query)
        except ValueError as error:
            raise MCPError(types.INVALID_PARAMS, str(error)) from error


def server(env_id: str, *, most: int = 64, make: Any = None, **chosen: Any) -> Any:
    """A low-level MCP server for an id, to run on any transport.

    `make`: what the env is made with. `chosen`: the `task`, `seed` or `history` of an episode that
    no URL chooses. At most `most` episodes run at once: beyond it the one that rested longest is
    closed. Raises ValueError where the env has a tool called `answer`.
    """
    return _served(env_id, most, make or {}, chosen).server


def _served(env_id: str, most: int, make: dict[str, Any], chosen: dict[str, Any]) -> EnvServer:
    return EnvServer(env_id, Sessions(env_id, most, make, chosen))


async def _serve_stdio(served: Any) -> None:
    async with stdio_server() as (read, write):
        await served.run(read, write, served.create_initialization_options())


def main() -> None:
    """Serve an id; see the module's docstring."""
    parser = argparse.ArgumentParser(prog="python -m agent_envs.adapters.mcp")
    parser.add_argument("id", help="as `agent-envs list` shows them")
    parser.add_argument("--task", help="a task's id; without it the seed chooses one")
    parser.add_argument("--seed", type=int)
    parser.add_argument("--history", type=Path, help="a JSON file: go on from that state")
    parser.add_argument("--make", type=parse_json, default={}, help="arguments of make, as JSON")
    parser.add_argument("--http", type=int, metavar="PORT", help="serve HTTP instead of stdio")
    args = parser.parse_args()
    history = parse_json(args.history.read_text()) if args.history else None
    chosen = {"task": args.task, "seed": args.seed, "history": history}
    served = _served(args.id, 64, args.make, chosen)
    try:
        if args.http is None:
            asyncio.run(_serve_stdio(served.server))
        else:
            import uvicorn

            app = served.server.streamable_http_app()
            uvicorn.run(app, host="127.0.0.1", port=args.http)
    finally:
        served.sessions.close()


if __name__ == "__main__":
    main()
