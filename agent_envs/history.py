"""An episode as JSON: the reset, every move, and a digest of everything that was said."""

from typing import Any, NamedTuple

from gymnasium.envs.registration import EnvSpec

from agent_envs.episode import Episode, Reseed, RngState, digest, move_from_plain, move_to_plain
from agent_envs.errors import SnapshotUnsupported
from agent_envs.turns import Malformed, Move

FORMAT = 1


class Start(NamedTuple):
    """How the episode was reset."""

    base: int
    number: int
    task_id: str
    digest: str
    rng: RngState


def of(episode: Episode, spec: EnvSpec | None) -> dict[str, Any]:
    """The history of an episode; SnapshotUnsupported where the environment failed in it."""
    links = list(episode.log.links()) if episode.log else []
    if episode.outcome[4]["infrastructure_error"]:
        raise SnapshotUnsupported("the environment failed in this episode: it has no history")
    return {
        "format": FORMAT,
        "env_id": spec.id if spec else "",
        "task": episode.task.id,
        "seed": episode.origin[0],
        "number": episode.origin[1],
        "rng": episode.origin[2],
        "digest": digest(episode.start[:4]),
        "moves": [
            {"reseed": link.entry.seed}
            if isinstance(link.entry, Reseed)
            else {**move_to_plain(link.entry), "digest": digest(link.said or _NOTHING)}
            for link in links
        ],
    }


def read(
    told: dict[str, Any], spec: EnvSpec | None
) -> tuple[Start, list[tuple[Move | Reseed, str]]]:
    """What a history says. Raises ValueError where it is none, or one of another env id."""
    try:
        if told["format"] != FORMAT:
            raise ValueError(f"a history of format {told['format']!r}; this is {FORMAT}")
        if spec and told["env_id"] and told["env_id"] != spec.id:
            raise ValueError(f"a history of {told['env_id']}, not of {spec.id}")
        start = Start(told["seed"], told["number"], told["task"], told["digest"], told["rng"])
        return start, [_entry(move) for move in told["moves"]]
    except (KeyError, TypeError) as error:
        raise ValueError(f"not a history: {error!r}") from None


def compare(expected: str, said: tuple[str, float, bool, bool], number: int) -> None:
    """Raise SnapshotUnsupported where move `number` led to something else than it once did."""
    if digest(said) != expected:
        raise SnapshotUnsupported(
            f"replay differs at move {number}, which now says {said[0][:80]!r}: something volatile, "
            "or an env made with other arguments"
        )


def transcript(episode: Episode) -> str:
    """The episode as lines for a person: what was said, after > what was done."""
    lines = [episode.start[0]]
    for link in episode.log.links() if episode.log else ():
        if link.said is not None and not isinstance(link.entry, Reseed):
            lines += [f"> {_brief(link.entry)}", link.said[0]]
    verdict = episode.outcome[4]["verdict"]
    if verdict is not None:
        lines.append(f"[{'passed' if verdict.passed else 'failed'}, reward {verdict.total:g}]")
    return "\n".join(line for line in lines if line)


_NOTHING = ("", 0.0, False, False)


def _entry(move: dict[str, Any]) -> tuple[Move | Reseed, str]:
    if "reseed" in move:
        return Reseed(int(move["reseed"])), ""
    return move_from_plain({k: v for k, v in move.items() if k != "digest"}), move["digest"]


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
