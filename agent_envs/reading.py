"""Turns and verdicts from their JSON form, every field checked: a file may come from anywhere.

Everything here raises ValueError, which names the field that is not what it should be.
"""

import sys
from collections.abc import Callable, Collection
from types import NoneType
from typing import Any, TypeVar, get_args

from agent_envs.turns import Action, Error, FaultKind, Message, Sample, ToolCall, ToolResult, Turn
from agent_envs.verdict import Verdict

T = TypeVar("T")

_ERRORS = (None, *get_args(Error))
_FAULTS = (None, *get_args(FaultKind))
_NOT_FINITE = frozenset({"inf", "-inf", "nan"})
_IN_EVERY_INFO: dict[str, tuple[type, ...]] = {
    "task_id": (str,),
    "turn": (int,),
    "end_reason": (str, NoneType),
    "infrastructure_error": (str, NoneType),
}
"""What an env's own `info` has beside messages, calls, verdict and components, where it has it."""


def told(data: Any, name: str, *kinds: type) -> Any:
    """The field of an object, which is of one of the `kinds` exactly: true is no int."""
    if type(data) is not dict:
        raise ValueError(f"a {type(data).__name__} where an object with {name!r} belongs")
    if name not in data:
        raise ValueError(f"{name!r} is missing")
    _check_kind(data[name], name, kinds)
    return data[name]


def choice(data: Any, name: str, allowed: Collection[str | None]) -> Any:
    """The field of an object, which is one of a closed set."""
    value = told(data, name, str, NoneType)
    if value not in allowed:
        raise ValueError(f"no {name} {value!r:.80}")
    return value


def messages_of(data: Any, name: str) -> list[Message]:
    """A field that is a list of chat messages."""
    return _each(data, name, _message)


def verdict_of(data: Any) -> Verdict | None:
    """The field `verdict`. Its total is worked out anew."""
    verdict = told(data, "verdict", dict, NoneType)
    return None if verdict is None else _inside("verdict", _verdict, verdict)


def turns_of(data: Any) -> list[Turn]:
    """The field `turns`."""
    return _each(data, "turns", _turn)


def _message(data: Any) -> Message:
    told(data, "role", str)
    told(data, "content", str)
    return dict(data)


def _verdict(data: Any) -> Verdict:
    for name in ("components", "weights"):
        _check_numbers(data, name)
    told(data, "passed", bool)
    told(data, "version", str)
    return Verdict.from_dict(data)


def _turn(data: Any) -> Turn:
    action = _inside("action", _action, told(data, "action", dict))
    reward = told(data, "reward", int, float)
    _check_finite(reward, "reward")
    info = _inside("info", _info, told(data, "info", dict))
    return Turn(action, told(data, "observation", str), reward, info)


def _action(data: Any) -> Action:
    sample = told(data, "sample", dict, NoneType)
    return Action(
        told(data, "text", str),
        None if sample is None else _inside("sample", _sample, sample),
        told(data, "cut", bool),
        None if told(data, "calls", list, NoneType) is None else _each(data, "calls", _native_call),
    )


def _native_call(data: Any) -> ToolCall:
    """A call as the model made it: what it took for a name may be anything."""
    anything = (str, dict, list, int, float, bool, NoneType)
    return ToolCall(
        told(data, "name", *anything), told(data, "arguments", *anything), told(data, "id", str)
    )


def _sample(data: Any) -> Sample:
    tokens = _items(data, "tokens", int)
    logprobs = [_logprob(x) for x in _items(data, "logprobs", int, float, str)]
    return Sample(tokens, logprobs, told(data, "version", int))


def _logprob(value: Any) -> float:
    """A number, or the name of one that JSON has not."""
    if type(value) is str and value not in _NOT_FINITE:
        raise ValueError(f"logprobs holds {value!r:.80}, which is no number")
    try:
        return float(value)
    except OverflowError:
        raise ValueError("logprobs holds a number that is too large") from None


def _info(data: Any) -> dict[str, Any]:
    for name, kinds in _IN_EVERY_INFO.items():
        if name in data:
            told(data, name, *kinds)
    if "reward_components" in data:
        _check_numbers(data, "reward_components")
    calls, messages = _each(data, "calls", _call_and_result), messages_of(data, "messages")
    return {**data, "calls": calls, "messages": messages, "verdict": verdict_of(data)}


def _call_and_result(pair: Any) -> tuple[ToolCall | None, ToolResult]:
    if type(pair) is not list or len(pair) != 2:
        raise ValueError("no pair of a call and its result")
    call, result = pair
    if call is not None:
        told(call, "name", str)
    return call and _native_call(call), ToolResult(
        told(result, "content", str),
        choice(result, "error", _ERRORS),
        choice(result, "fault", _FAULTS),
        told(result, "truth", str, NoneType),
    )


def _inside(name: str, read: Callable[[Any], T], data: Any) -> T:
    try:
        return read(data)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


def _each(data: Any, name: str, read: Callable[[Any], T]) -> list[T]:
    items = enumerate(told(data, name, list))
    return [_inside(f"{name}[{number}]", read, item) for number, item in items]


def _items(data: Any, name: str, *kinds: type) -> list[Any]:
    """A field that is a list of such things; a copy."""
    items = told(data, name, list)
    for item in items:
        if type(item) not in kinds:
            _check_kind(item, f"what {name} holds", kinds)
    return list(items)


def _check_kind(value: Any, name: str, kinds: tuple[type, ...]) -> None:
    if type(value) not in kinds:
        should = " or ".join("null" if kind is NoneType else kind.__name__ for kind in kinds)
        raise ValueError(f"{name} is of type {type(value).__name__}, not {should}")


def _check_numbers(data: Any, name: str) -> None:
    """A field that is an object of finite numbers; a grader may have paid true for 1."""
    for key, value in told(data, name, dict).items():
        _check_kind(value, f"{name}: {key!r:.80}", (int, float, bool))
        _check_finite(value, f"{name}: {key!r:.80}")


def _check_finite(value: float, name: str) -> None:
    if not abs(value) <= sys.float_info.max:  # the other way round NaN would pass
        raise ValueError(f"{name} is no finite number that a float can hold")
