"""What may be earned without solving anything: nothing by silence, and no living by calls."""

import random
from collections.abc import Callable, Iterator
from itertools import chain, islice

from agent_envs.env import ToolEnv
from agent_envs.episode import MAX_CALLS
from agent_envs.task import Task
from agent_envs.testing.play import Player, Subject, draw_call, earn
from agent_envs.turns import Malformed, Move, ToolCall

GOLD = 1.0
"""What the gold solution of a task earns."""
EXACT = 1e-9
"""How far a sum of rewards may be off."""
_TRIES = 12
"""How many drawn calls of a tool are tried until one works out."""
_AGAIN = 4
"""How often a call is repeated to see whether it pays."""

_SILENT: dict[str, Callable[[Player], Move]] = {
    "ends at once without an answer": lambda player: "",
    "answers with a blank": lambda player: " ",
    "makes malformed turns to max_turns": lambda player: Malformed("made up"),
}


def silence_earns_nothing(subject: Subject) -> None:
    """Who does nothing and says nothing passes no task and is not paid."""
    env = subject.make()
    for split in env.tasks.splits:
        for task in subject.some(env, split, 300, 20):
            for name, choose in _SILENT.items():
                total, verdict = earn(env, task, choose)
                assert not verdict.passed and total <= EXACT, (
                    f"a policy that {name} earns {total:g} in {task.id} (passed: "
                    f"{verdict.passed}): without an answer grade() gets None, which is worth "
                    "nothing unless the state was brought about by calls"
                )
    env.close()


def calls_are_no_income(subject: Subject) -> None:
    """One call again and again earns less than solving the task, and solving it after that earns
    no more than solving it."""
    env = subject.make()
    for split in env.tasks.splits:
        for task in subject.some(env, split, 10, 1):
            gold = _gold_moves(env, task)
            for call in _sound_calls(env, task, gold):
                _check_income(subject, env, task, call, gold)
    env.close()


def _check_income(
    subject: Subject, env: ToolEnv, task: Task, call: ToolCall, gold: list[Move]
) -> None:
    some: Move = [call] * _AGAIN
    if not subject.quick and earn(env, task, _one_by_one([some]))[0] <= 0:
        return
    limit = min(MAX_CALLS, max(1, -(-env.max_calls // env.max_turns)))
    said = f"{call.name}({call.arguments!s:.60})"
    total, verdict = earn(env, task, lambda player: [call] * limit)
    assert verdict.passed or total < GOLD - EXACT, (
        f"calling {said} to the limit earns {total:g} in {task.id}, as much as solving it: a tool "
        "must not pay for the same thing twice, see pay()"
    )
    total = max(total, earn(env, task, _one_by_one([some, *gold]))[0])
    assert total <= GOLD + EXACT, (
        f"calling {said} again and again before solving {task.id} earns {total:g}, more than "
        "solving it: a tool must not pay for the same thing twice, see pay()"
    )


def _one_by_one(moves: list[Move]) -> Callable[[Player], Move]:
    """These moves, and then the end without an answer."""
    left = iter(moves)
    return lambda player: next(left, "")


def _gold_moves(env: ToolEnv, task: Task) -> list[Move]:
    moves: list[Move] = []

    def watch(player: Player) -> Move:
        moves.append(player.gold())
        return moves[-1]

    earn(env, task, watch)
    return moves


def _sound_calls(env: ToolEnv, task: Task, gold: list[Move]) -> Iterator[ToolCall]:
    """One call that works out for each tool, where one is found: drawn, or else gold."""
    rng = random.Random(task.id)
    golden = [call for move in gold if isinstance(move, list) for call in move]
    for name in sorted(env.tools):
        drawn = (draw_call(env, rng, name) for _ in range(_TRIES))
        known = (call for call in golden if call.name == name)
        yield from islice((c for c in chain(drawn, known) if _works(env, task, c)), 1)


def _works(env: ToolEnv, task: Task, call: ToolCall) -> bool:
    env.reset(seed=1, options={"task": task})
    return env.call(call).error is None
