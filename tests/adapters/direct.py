"""An episode played by hand, for comparison with the same one played through a framework."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from agent_envs.adapters.hosted import make
from agent_envs.trajectory import assistant_message
from agent_envs.turns import Action, Malformed, Message, Move, ToolCall, ToolResult

CALCULATOR, BANK = "agent/Calculator-v0", "bank_env:mine/Bank-v0"
TASKS = {CALCULATOR: "calculator/1/heldout/000", BANK: "heldout/3"}
"""An id that is ours and one of somebody else's, each with the task that the checks play."""

TRIES: dict[str, list[Move]] = {
    CALCULATOR: [
        [ToolCall("calculate", {"expression": "17*23"})],
        [ToolCall("calculate", {"expression": f"{n}+12"}) for n in (5, 6)],
    ],
    BANK: [
        [ToolCall("balance", {"name": "ada"})],
        [ToolCall("balance", {"name": name}) for name in ("bob", "dee")],
    ],
}
"""Calls that do no harm, among them a turn with two."""

NOISE = {"wrong": 0.3, "error": 0.3}
ERRORS: list[Move] = [
    [ToolCall("step", {})],
    [ToolCall("snapshot", {})],
    [ToolCall("close", {"now": True})],
    [ToolCall("calculate", {"expression": 7})],
    [ToolCall("balance", {"name": "nobody"})],
]
"""Calls that no environment carries out: no such tool, bad arguments, a tool that refuses."""


@dataclass
class Played:
    """What was done and what came of it, turn by turn."""

    opening: list[Message]
    moves: list[Move] = field(default_factory=list)
    observations: list[str] = field(default_factory=list)
    messages: list[list[Message]] = field(default_factory=list)
    results: list[list[ToolResult]] = field(default_factory=list)
    reward: float = 0.0
    passed: bool | None = None

    @property
    def calls(self) -> list[tuple[ToolCall, ToolResult]]:
        """All calls with their results, for hosts that make them one by one."""
        turns = zip(self.moves, self.results, strict=True)
        return [
            pair
            for move, results in turns
            if isinstance(move, list)
            for pair in zip(move, results, strict=True)
        ]

    @property
    def answer(self) -> str:
        """The last turn."""
        assert isinstance(self.moves[-1], str)
        return self.moves[-1]


def play(env_id: str, seed: int, errors: Sequence[Move] = (), **kwargs: Any) -> Played:
    """The id's task of `TASKS`: some errors first, some tries, then its gold solution."""
    return play_row(env_id, TASKS[env_id], seed, errors, **kwargs)


def play_row(
    env_id: str, task: str, seed: int, errors: Sequence[Move] = (), **kwargs: Any
) -> Played:
    """The same for any task."""
    env = make(env_id, **kwargs)
    _, info = env.reset(seed=seed, options={"task": task})
    played = Played(info["messages"])
    conversation = list(info["messages"])
    pending = [*errors, *TRIES[env_id]]
    while not env.ended:
        by_oracle = not pending
        move = env.oracle(env.task, conversation) if by_oracle else pending.pop(0)
        observation, reward, _, _, info = env.act(move)
        if by_oracle:  # which judges how far it is by its own turns
            said = Action("", calls=move) if isinstance(move, list) else Action(str(move))
            conversation += [assistant_message(said), *info["messages"]]
        played.moves.append(move)
        played.observations.append(observation)
        played.messages.append(info["messages"])
        played.results.append([result for _, result in info["calls"]])
        played.reward += reward
    verdict = info["verdict"]
    played.passed = verdict and verdict.passed
    env.close()
    return played


def as_text(move: Move) -> str:
    """A turn as a model writes it under the hermes protocol."""
    if isinstance(move, Malformed):
        raise TypeError("a malformed turn has no one text")
    if isinstance(move, str):
        return move
    bodies = (json.dumps({"name": c.name, "arguments": c.arguments}) for c in move)
    return "\n".join(f"<tool_call>\n{body}\n</tool_call>" for body in bodies)
