"""One turn, played: run the calls, inject the faults, grade at the end, and say what happened."""

import logging
from typing import TYPE_CHECKING, Any, TypeAlias

from agent_envs.episode import Episode
from agent_envs.errors import BackendUnavailable, ToolError
from agent_envs.space import clean
from agent_envs.streams import draw
from agent_envs.task import Task
from agent_envs.turns import Error, Malformed, Message, Move, StepResult, ToolCall, ToolResult
from agent_envs.verdict import Verdict

if TYPE_CHECKING:
    from agent_envs.env import ToolEnv

logger = logging.getLogger("agent_envs")

Calls: TypeAlias = list[tuple[ToolCall | None, ToolResult]]

_ALL_RESULTS = 60_000
"""How many bytes the results of one turn may come to; the rest of an observation is for tags."""


def play(env: "ToolEnv", episode: Episode, move: Move, paid: dict[str, float]) -> StepResult:
    """What a move leads to. `paid` collects what tools pay in, before weights.

    Raises BackendUnavailable where something of ours is down, and what an env's grader raises.
    """
    failed = episode.outcome[4]["infrastructure_error"]
    if failed:
        return failure(env, episode, failed)
    text = ""
    messages: list[Message] = []
    calls: Calls = []
    if isinstance(move, list):
        limit = _ALL_RESULTS // len(move)
        results = [_run(env, episode, call, limit) for call in move]
        text = env.protocol.say(move, results)
        messages = env.protocol.messages(move, results)
        calls.extend(zip(move, results, strict=True))
    elif isinstance(move, Malformed):
        text = env.protocol.refuse(move.reason)
        messages = [{"role": "user", "content": text}]
        calls = [(None, ToolResult(text, "parse"))]
    reason = _end_reason(env, episode, move)
    verdict = None
    if reason is not None:
        verdict = _grade(env, move if isinstance(move, str) and move else None)
        for name, value in verdict.components.items():
            paid[name] += value
    components = {name: env.weights[name] * amount for name, amount in paid.items()}
    info = new_info(env, episode.task, episode.turn, calls, components, messages, verdict, reason)
    truncated = reason == "max_turns"
    return text, sum(components.values()), reason is not None and not truncated, truncated, info


def failure(env: "ToolEnv", episode: Episode, error: str) -> StepResult:
    """The end of an episode in which something of ours broke: truncated, never graded."""
    info = new_info(env, episode.task, episode.turn, reason="infrastructure", failed=error)
    return "the environment failed; this episode does not count", 0.0, False, True, info


def new_info(
    env: "ToolEnv",
    task: Task,
    turn: int,
    calls: Calls | None = None,
    components: dict[str, float] | None = None,
    messages: list[Message] | None = None,
    verdict: Verdict | None = None,
    reason: str | None = None,
    failed: str | None = None,
) -> dict[str, Any]:
    """The info dict, with the same keys on every step of every environment."""
    return {
        "task_id": task.id,
        "turn": turn,
        "calls": calls or [],
        "reward_components": components or dict.fromkeys(env.components, 0.0),
        "messages": messages or [],
        "verdict": verdict,
        "end_reason": reason,
        "infrastructure_error": failed,
    }


def _end_reason(env: "ToolEnv", episode: Episode, move: Move) -> str | None:
    if isinstance(move, str):
        return "answer" if move else "done"
    if episode.ending:
        return "done"
    return "max_turns" if episode.turn >= env.max_turns else None


def _grade(env: "ToolEnv", answer: str | None) -> Verdict:
    verdict = env.grade(answer)
    unknown = verdict.components.keys() - env.weights.keys()
    if unknown:
        raise ValueError(f"grade() gave components {sorted(unknown)} that have no weight")
    return verdict


def _run(env: "ToolEnv", episode: Episode, call: ToolCall, limit: int) -> ToolResult:
    """One call: counted, checked, perhaps spoiled, its texts cleaned where they enter."""
    if episode.ending:
        return ToolResult("error: the episode is over", "limit")
    if episode.calls >= env.max_calls:
        return ToolResult(f"error: no more than {env.max_calls} calls; answer now", "limit")
    index = episode.calls
    episode.calls += 1
    call.name, call.id = clean(str(call.name), 64), clean(call.id, 256)
    tool = env.tools.get(call.name)
    if tool is None:
        names = ", ".join(env.tools)
        return _problem("unknown_tool", f"no tool {call.name!r}; there are {names}", limit)
    problem = tool.problem(call.arguments)
    if problem is not None:
        return _problem("bad_arguments", problem, limit)
    kind = env.faults.pick(episode.seed, index)
    if kind is None:
        result = _invoke(env, call)
    else:
        result = env.faults.replacement(kind) or _spoil(env, episode, call, kind, index)
    result.content = clean(result.content, limit)
    if result.error is None:
        episode.last = result.content if result.truth is None else clean(result.truth, limit)
    return result


def _problem(error: Error, text: str, limit: int) -> ToolResult:
    return ToolResult(clean(f"error: {text}", limit), error)


def _spoil(env: "ToolEnv", episode: Episode, call: ToolCall, kind: Any, index: int) -> ToolResult:
    """Make the call, then change its result, unless it failed or has no such change."""
    result = _invoke(env, call)
    if result.error is not None:
        return result
    truth = result.content
    if kind == "stale":
        result.content = truth if episode.last is None else episode.last
    else:
        u = draw(episode.seed, "fault content", index)
        result.content = env.corrupt(kind, call, truth, u)
    if result.content != truth:
        result.fault, result.truth = kind, truth
    return result


def _invoke(env: "ToolEnv", call: ToolCall) -> ToolResult:
    try:
        out = env.bound_tools[call.name](**call.arguments)
    except BackendUnavailable:
        raise
    except ToolError as error:
        return ToolResult(f"error: {error}", "failed")
    except TimeoutError as error:
        return ToolResult(f"error: timed out: {error}", "timeout")
    except Exception as error:
        if env.closed:
            raise BackendUnavailable("the env was closed during the call") from error
        logger.exception("the tool %s failed; raise ToolError to tell the model why", call.name)
        return ToolResult(f"error: {call.name} failed ({type(error).__name__})", "failed")
    return out if isinstance(out, ToolResult) else ToolResult(str(out))
