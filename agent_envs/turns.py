"""The plain data of one turn: what the policy did, which tools it called, what came back."""

from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

Message: TypeAlias = dict[str, Any]
"""A chat message: `role`, `content`, and for a tool's answer `name` and `tool_call_id`."""

Error: TypeAlias = Literal["parse", "unknown_tool", "bad_arguments", "timeout", "failed", "limit"]
"""Why a call did not work out."""

FaultKind: TypeAlias = Literal["wrong", "error", "timeout", "stale", "truncated"]
"""How an injected fault spoils a result."""


@dataclass(slots=True)
class ToolCall:
    """A tool's name and its arguments; `id` is the host's own, carried back untouched."""

    name: str
    arguments: dict[str, Any]
    id: str = ""


@dataclass(slots=True)
class ToolResult:
    """What came of a call. A policy sees `content` alone; the rest is for logs and graders."""

    content: str
    error: Error | None = None
    fault: FaultKind | None = None
    """The injected fault, if one was."""
    truth: str | None = None
    """What the tool had said before a fault changed it; None where no fault did."""

    def copy(self) -> "ToolResult":
        """Another result that says the same."""
        return ToolResult(self.content, self.error, self.fault, self.truth)


@dataclass(slots=True, frozen=True)
class Malformed:
    """A turn that is neither calls nor an answer. It costs a turn and is never graded."""

    reason: str


Move: TypeAlias = list[ToolCall] | str | Malformed
"""What a turn comes down to: calls, a final answer, or neither."""

StepResult: TypeAlias = tuple[str, float, bool, bool, dict[str, Any]]
"""Gymnasium's five: observation, reward, terminated, truncated, info."""


@dataclass(slots=True)
class Sample:
    """How a turn was sampled: equally long token ids and log-probs, and the weights' version."""

    tokens: list[int]
    logprobs: list[float]
    version: int = 0

    def __post_init__(self) -> None:
        if len(self.tokens) != len(self.logprobs):
            raise ValueError(f"{len(self.tokens)} tokens but {len(self.logprobs)} log-probs")


@dataclass(slots=True)
class Action:
    """One turn of the policy. A trainer's `sample` is carried to the trajectory untouched."""

    text: str
    sample: Sample | None = None
    cut: bool = False
    """The policy's token limit ended this turn; with no text, there is no room for another."""
    calls: list[ToolCall] | None = None
    """The calls of a policy whose host parses them natively, where an empty list makes `text` the
    final answer. None leaves it all to the protocol."""


@dataclass(slots=True)
class Turn:
    """One action with what followed."""

    action: Action
    observation: str
    reward: float
    info: dict[str, Any] = field(repr=False)
