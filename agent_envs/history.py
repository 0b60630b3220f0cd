"""An episode as JSON: the reset, every move, and a digest of everything that was said."""

from collections.abc import Callable
from copy import deepcopy
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from gymnasium.envs.registration import EnvSpec

from agent_envs.episode import (
    BIT_GENERATORS,
    Episode,
    Log,
    Reseed,
    RngState,
    Text,
    digest,
    move_from_plain,
    move_to_plain,
)
from agent_envs.errors import SnapshotUnsupported
from agent_envs.turns import Malformed, Move

FORMAT = 1


Parse: TypeAlias = Callable[[str], Move]
"""How the env's protocol reads the text of a turn."""


class Start(NamedTuple):
    """How the episode was reset."""

    base: int
    number: int
    task_id: str
    digest: str
    rng: RngState
    rng_now: RngState
    """`np_random` where the history ends."""


def of(episode: Episode, spec: EnvSpec | None, parse: Parse) -> dict[str, Any]:
    """The history of an episode, the caller's to change.

    Raises SnapshotUnsupported where the environment failed in it.
    """
    links = list(episode.log.links()) if episode.log else []
    if episode.outcome.failed:
        raise SnapshotUnsupported("the environment failed in this episode: it has no history")
    return {
        "format": FORMAT,
        "env_id": spec.id if spec else "",
        "task": episode.task.id,
        "seed": episode.origin[0],
        "number": episode.origin[1],
        "rng": deepcopy(episode.origin[2]),
        "rng_now": deepcopy(episode.rng),
        "digest": digest(episode.start[:4]),
        "moves": [_told(link, parse) for link in links],
    }


def read(
    told: dict[str, Any], spec: EnvSpec | None
) -> tuple[Start, list[tuple[Move | Reseed, str]]]:
    """What a history says. Raises ValueError where it is none, or one of another env id."""
    match told:
        case {"format": int(version)} if version != FORMAT:
            raise ValueError(f"a history of format {version}; this is {FORMAT}")
        case {"env_id": str(env_id)} if spec and env_id and env_id != spec.id:
            raise ValueError(f"a history of {env_id}, not of {spec.id}")
        case {
            "format": int(),
            "env_id": str(),
            "task": str(task_id),
            "seed": int(base),
            "number": int(number),
            "rng": rng,
            "rng_now": now,
            "digest": str(said),
            "moves": [*moves],
        } if min(base, number) >= 0 and _is_rng_state(rng) and _is_rng_state(now):
            return Start(base, number, task_id, said, rng, now), [_entry(move) for move in moves]
    hint = " (or json.loads of its text)" if isinstance(told, str | bytes) else ""
    raise ValueError(f"not a history, as env.history() gives it{hint}: {told!r:.100}")


def compare(expected: str, said: tuple[str, float, bool, bool], number: int) -> None:
    """Raise SnapshotUnsupported where move `number` led to something else than it once did."""
    if digest(said) != expected:
        raise SnapshotUnsupported(
            f"replay differs at move {number}, which now says {said[0][:80]!r}: something "
            "volatile, or an env made with other arguments"
        )


def transcript(episode: Episode, parse: Parse) -> str:
    """The episode as lines for a person: what was said, after > what was done."""
    lines = [episode.start.observation]
    for link in episode.log.links() if episode.log else ():
        if link.outcome is not None and not isinstance(link.entry, Reseed):
            lines += [f"> {_brief(_move(link.entry, parse))}", link.outcome.observation]
    verdict = episode.outcome.verdict
    if verdict is not None:
        lines.append(f"[{'passed' if verdict.passed else 'failed'}, reward {verdict.total:g}]")
    return "\n".join(line for line in lines if line)


def _told(link: Log, parse: Parse) -> dict[str, Any]:
    if isinstance(link.entry, Reseed):
        return {"reseed": link.entry.seed}
    assert link.outcome is not None
    return {**move_to_plain(_move(link.entry, parse)), "digest": digest(link.outcome[:4])}


def _move(entry: Move | Text, parse: Parse) -> Move:
    return parse(entry.text) if isinstance(entry, Text) else entry


def _entry(move: Any) -> tuple[Move | Reseed, str]:
    match move:
        case {"reseed": int(seed)} if seed >= 0:
            return Reseed(seed), ""
        case {"digest": str(said)}:
            return move_from_plain(move), said
    raise ValueError(f"not a move of a history: {str(move)[:100]}")


def _is_rng_state(state: Any) -> bool:
    """Whether `np_random` can be brought to a state: it is restored only when somebody draws."""
    if isinstance(state, int):
        return state >= 0
    try:
        name = BIT_GENERATORS[BIT_GENERATORS.index(state["bit_generator"])]
        getattr(np.random, name)().state = state
    except (TypeError, ValueError, KeyError, AttributeError, OverflowError):
        return False
    return True


def _brief(move: Move) -> str:
    if isinstance(move, Malformed):
        return f"(malformed: {move.reason})"
    if isinstance(move, str):
        return move
    return "; ".join(
        f"{call.name}({', '.join(f'{k}={v!r}' for k, v in call.arguments.items())})"
        if isinstance(call.arguments, dict)
        else call.name
        for call in move
    )
