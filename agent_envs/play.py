"""One turn, played: run the calls, inject the faults, grade at the end, and say what happened."""

import logging
from typing import TYPE_CHECKING

from agent_envs.episode import Calls, Episode, Outcome, own_arguments
from agent_envs.errors import BackendUnavailable, ToolError
from agent_envs.space import clean
from agent_envs.streams import draw
from agent_envs.turns import Error, FaultKind, Malformed, Message, Move, ToolCall, ToolResult
from agent_envs.verdict import Verdict

if TYPE_CHECKING:
    from agent_envs.env import ToolEnv

logger = logging.getLogger("agent_envs")

_ALL_RESULTS = 60_000
"""How many bytes the results of one turn may come to; the rest of an observation is for tags."""


def play(env: "ToolEnv", episode: Episode, move: Move) -> Outcome:
    """What a move leads to.

    Raises BackendUnavailable where something of ours is down, and what an env's grader raises.
    """
    text = ""
    messages: list[Message] = []
    calls: Calls = []
    if isinstance(move, list):
        limit = _ALL_RESULTS // len(move)
        results = []
        for call in move:
            result = _run(env, episode, call, limit)
            results.append(result)
            calls.append((call, result))
        text = env.protocol.say(move, results)
        messages = env.protocol.messages(move, results)
    elif isinstance(move, Malformed):
        text = clean(env.protocol.refuse(move.reason), _ALL_RESULTS)
        messages = [{"role": "user", "content": text}]
        calls = [(None, ToolResult(text, "parse"))]
    reason = _end_reason(env, episode, move)
    verdict = None if reason is None else _grade(env, move)
    reward, components = env.take_pay(verdict)
    truncated = reason == "max_turns"
    return Outcome(
        text,
        reward,
        reason is not None and not truncated,
        truncated,
        episode.task.id,
        episode.turn,
        calls,
        components,
        messages,
        verdict,
        reason,
    )


def failure(env: "ToolEnv", episode: Episode, error: str) -> Outcome:
    """The end of an episode in which something of ours broke: truncated, never graded."""
    said = "the environment failed; this episode does not count"
    nothing = dict.fromkeys(env.components, 0.0)
    where = (episode.task.id, episode.turn)
    return Outcome(said, 0.0, False, True, *where, [], nothing, [], None, "infrastructure", error)


def _end_reason(env: "ToolEnv", episode: Episode, move: Move) -> str | None:
    if isinstance(move, str):
        return "answer" if move else "done"
    if episode.ending:
        return "done"
    return "max_turns" if episode.turn >= env.max_turns else None


def _grade(env: "ToolEnv", move: Move) -> Verdict:
    verdict = env.grade(move if isinstance(move, str) and move else None)
    if not verdict.components.keys() <= env.weights.keys():
        unknown = sorted(verdict.components.keys() - env.weights.keys())
        raise ValueError(f"grade() gave components {unknown} that have no weight")
    return verdict


def _run(env: "ToolEnv", episode: Episode, call: ToolCall, limit: int) -> ToolResult:
    """One call: counted, checked, perhaps spoiled, its texts cleaned where they enter."""
    if call.id:
        call.id = clean(str(call.id), 256)
    tool = env.tools.get(call.name)
    if tool is None:
        call.name = clean(call.name, 64)
    if episode.ending:
        return ToolResult("error: the episode is over", "limit")
    index = episode.calls
    if index >= env.max_calls:
        return ToolResult(f"error: no more than {env.max_calls} calls; answer now", "limit")
    episode.calls = index + 1
    if tool is None:
        return _problem("unknown_tool", f"no tool {call.name!r}; there are {[*env.tools]}", limit)
    problem = tool.problem(call.arguments)
    if problem is not None:
        return _problem("bad_arguments", problem, limit)
    kind = env.faults.pick(episode.seed, index)
    result = (kind and env.faults.replacement(kind)) or _invoke(env, call)
    result.content = clean(result.content, limit)
    if result.error is None:
        if env.faults.rates:
            sound = result.content
            if kind is not None:
                _spoil(env, episode, call, result, kind, limit)
            episode.last = {**episode.last, call.name: sound}
    return result


def _problem(error: Error, text: str, limit: int) -> ToolResult:
    return ToolResult(clean(f"error: {text}", limit), error)


def _spoil(
    env: "ToolEnv",
    episode: Episode,
    call: ToolCall,
    result: ToolResult,
    kind: FaultKind,
    limit: int,
) -> None:
    """Change a sound result, unless the fault has no such change to make."""
    truth = result.content
    if kind == "stale":
        shown = episode.last.get(call.name, truth)
    else:
        u = draw(episode.seed, "fault content", episode.calls - 1)
        shown = clean(env.corrupt(kind, call, truth, u), limit)
    if shown != truth:
        result.content, result.fault, result.truth = shown, kind, truth


def _invoke(env: "ToolEnv", call: ToolCall) -> ToolResult:
    try:
        out = env.bound_tools[call.name](**own_arguments(call.arguments))
    except BackendUnavailable:
        raise
    except ToolError as error:
        return ToolResult(f"error: {error}", "failed")
    except TimeoutError as error:
        return ToolResult(f"error: timed out: {error}", "timeout")
    except (Exception, SystemExit) as error:
        if env.closed:
            raise BackendUnavailable("the env was closed during the call") from error
        logger.exception("the tool %s failed; raise ToolError to tell the model why", call.name)
        return ToolResult(f"error: {call.name} failed ({type(error).__name__})", "failed")
    if isinstance(out, ToolResult):  # a copy: the tool may give one object twice
        return ToolResult(out.content, out.error)
    return ToolResult(str(out))
