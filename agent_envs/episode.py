"""What the base class knows of a running episode, and the log from which it can be replayed."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from agent_envs.plain import MAX_DEPTH, has_lone_surrogate
from agent_envs.task import Task
from agent_envs.turns import Malformed, Message, Move, StepResult, ToolCall, ToolResult
from agent_envs.verdict import Verdict

MAX_CALLS = 64
"""How many calls a turn may have."""
BIT_GENERATORS = ("PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64")
"""Numpy's, by name: a state names the one that it is of."""

RngState: TypeAlias = int | dict[str, Any]
"""Of `np_random`: the seed where nothing was drawn yet, else the generator's state."""


class Text(NamedTuple):
    """A log entry: the whole text of a turn, read again by the protocol when it is looked at."""

    text: str


@dataclass(slots=True, frozen=True)
class Reseed:
    """A log entry: from here on the streams run under another base seed."""

    seed: int


Calls: TypeAlias = list[tuple[ToolCall | None, ToolResult]]


class Outcome(NamedTuple):
    """What a step said, kept for rollbacks; callers get copies that they may change."""

    observation: str
    reward: float
    terminated: bool
    truncated: bool
    task_id: str
    turn: int
    calls: Calls
    components: dict[str, float]
    messages: list[Message]
    verdict: Verdict | None = None
    end_reason: str | None = None
    failed: str | None = None
    """What of ours broke, if something did."""

    def info(self) -> dict[str, Any]:
        """The info dict: the same keys on every step of every environment."""
        return {
            "task_id": self.task_id,
            "turn": self.turn,
            "calls": [(call and copied(call), result.copy()) for call, result in self.calls],
            "reward_components": self.components.copy(),
            "messages": list(map(dict.copy, self.messages)),
            "verdict": self.verdict and self.verdict.copy(),
            "end_reason": self.end_reason,
            "infrastructure_error": self.failed,
        }

    def result(self) -> StepResult:
        """The same as Gymnasium's five."""
        return self.observation, self.reward, self.terminated, self.truncated, self.info()


class Log(NamedTuple):
    """A list that grows at its end and shares its past: one link an entry, none ever changed."""

    past: "Log | None"
    entry: Move | Text | Reseed
    outcome: Outcome | None
    """What the entry led to; None for a reseed, which says nothing."""

    def links(self) -> Iterator["Log"]:
        """All links, oldest first."""
        links = []
        link: Log | None = self
        while link is not None:
            links.append(link)
            link = link.past
        return reversed(links)


@dataclass
class Episode:
    """Every field is replaced, never changed in place: a shallow copy is a snapshot."""

    task: Task
    base: int
    """The seed that was given to `reset`."""
    number: int
    """How many episodes `reset()` without a seed has started since then."""
    seed: int
    """The seed of all streams: a hash of the two above."""
    start: Outcome
    outcome: Outcome
    """The last one; `rollback` returns it again."""
    origin: tuple[int, int, RngState]
    """Base seed, number and `np_random` at the reset; a later reseed changes the fields above."""
    turn: int = 0
    calls: int = 0
    last: dict[str, str] = field(default_factory=dict)
    """The previous sound result of each tool, for faults of kind `stale`."""
    ended: bool = False
    ending: bool = False
    """A tool has asked for the end."""
    log: Log | None = None
    snapshot: int | None = None
    """The snapshot that this state descends from."""
    rng: RngState = 0

    def note(self, move: "Move | Text", outcome: Outcome) -> None:
        """Log a move and what it led to."""
        self.log = Log(self.log, move, outcome)
        self.outcome = outcome
        self.ended = outcome.terminated or outcome.truncated

    def copy(self) -> "Episode":
        """A shallow copy; faster than `copy.copy`, and taken at every snapshot and rollback."""
        twin = object.__new__(Episode)
        twin.__dict__.update(self.__dict__)
        return twin


def frozen(move: Move) -> Move:
    """A copy of a move that nobody can change any more: tools and callers may alter arguments.

    Raises ValueError for a turn of no calls or too many, for arguments nested too deeply and for
    lone surrogates; TypeError for what is no move.
    """
    if not isinstance(move, list):
        if isinstance(move, str):
            return _sound(move)
        if isinstance(move, Malformed):
            return move
        raise TypeError(f"a move is calls, an answer or Malformed, not {move!r:.100}")
    if not 0 < len(move) <= MAX_CALLS:
        raise ValueError(f"a turn has 1 to {MAX_CALLS} calls")
    return [_frozen_call(call) for call in move]


def copied(call: ToolCall) -> ToolCall:
    """A copy of a call that shares nothing that can be changed."""
    return ToolCall(call.name, own_arguments(call.arguments), call.id)


def own_arguments(arguments: Any) -> Any:
    """A copy of a call's arguments; quick where none of them is a list or an object."""
    if type(arguments) is dict:
        for value in arguments.values():
            if isinstance(value, _CONTAINERS):
                break
        else:
            return arguments.copy()
    return _copied(arguments, MAX_DEPTH)


def _frozen_call(call: Any) -> ToolCall:
    if not (isinstance(call, ToolCall) and isinstance(call.name, str)):
        raise TypeError(f"a call is a ToolCall with a name, not {call!r:.100}")
    return ToolCall(call.name, _copied(call.arguments, MAX_DEPTH), str(call.id or ""))


def _copied(value: Any, depth: int) -> Any:
    if isinstance(value, _CONTAINERS):
        if depth == 0:
            raise ValueError(f"arguments nested over {MAX_DEPTH} levels deep")
        if isinstance(value, list):
            return [_copied(x, depth - 1) for x in value]
        return {name: _copied(x, depth - 1) for name, x in value.items()}
    return _sound(value) if isinstance(value, str) else value


def _sound(text: str) -> str:
    if not text.isascii() and has_lone_surrogate(text):
        raise ValueError("a lone surrogate, which is no character")
    return text


_CONTAINERS = (dict, list)


def digest(said: tuple[str, float, bool, bool]) -> str:
    """A hash of what a step said: observation, reward and both flags."""
    observation, reward, terminated, truncated = said
    text = repr((observation, float(reward), bool(terminated), bool(truncated)))
    return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=12).hexdigest()


def move_to_plain(move: Move) -> dict[str, Any]:
    """The JSON form of a move."""
    if isinstance(move, list):
        return {"calls": [[c.name, _copied(c.arguments, MAX_DEPTH), c.id] for c in move]}
    if isinstance(move, Malformed):
        return {"malformed": move.reason}
    return {"answer": move}


def move_from_plain(data: dict[str, Any]) -> Move:
    """The inverse of `move_to_plain`. Raises ValueError for anything else."""
    match data:
        case {"calls": [*calls]}:
            return [_call_from_plain(c) for c in calls]
        case {"malformed": str(reason)}:
            return Malformed(reason)
        case {"answer": str(answer)}:
            return answer
    raise ValueError(f"not a move: {str(data)[:100]}")


def _call_from_plain(data: Any) -> ToolCall:
    match data:
        case [str(name), arguments, str(call_id)]:
            return ToolCall(name, arguments, call_id)
    raise ValueError(f"not a call: {str(data)[:100]}")
