"""What was done to a sandbox, as a tree of actions: any point of it can be brought about again."""

import base64
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

LOST = "lost"
"""An interpreter was lost here: what follows cannot be replayed."""


@dataclass(frozen=True, eq=False)
class Step:
    """One action, after the one before it (None at the start)."""

    before: "Step | None"
    do: str
    arguments: dict[str, Any]
    digest: str = ""
    """Of the result that a replay must bring about again."""
    cells: int = 0
    """How many cells have run, this one included."""

    def chain(self) -> Iterator["Step"]:
        """This step, the one before it, and so on to the start."""
        step: Step | None = self
        while step is not None:
            yield step
            step = step.before


def after(before: Step | None, do: str, arguments: dict[str, Any], digest: str = "") -> Step:
    """The step that follows."""
    return Step(before, do, arguments, digest, cells_of(before) + (do == "run_python"))


def cells_of(step: Step | None) -> int:
    """How many cells have run up to here."""
    return step.cells if step else 0


def history(step: Step | None) -> list[dict[str, Any]]:
    """The actions from the start to here, as JSON has it; bytes are base64."""
    chain = list(step.chain()) if step else []
    return [to_plain(one) for one in reversed(chain)]


def to_plain(step: Step) -> dict[str, Any]:
    """One action as JSON has it."""
    plain = {**step.arguments, "do": step.do, "digest": step.digest}
    if isinstance(plain.get("data"), bytes):
        plain["data"] = base64.b64encode(plain["data"]).decode()
    return plain


def steps_of(actions: list[dict[str, Any]]) -> Step | None:
    """The last step of a `history`. Raises ValueError for anything else."""
    if not isinstance(actions, list | tuple):
        raise ValueError(f"a history is the list that box.history() gives, not {actions!r:.80}")
    step = None
    for action in actions:
        match action:
            case {"do": str(do), "digest": str(digest), **arguments} if _fit(do, arguments):
                if "data" in arguments:
                    arguments["data"] = base64.b64decode(arguments["data"], validate=True)
                step = after(step, do, arguments, digest)
            case _:
                raise ValueError(f"no action of a sandbox: {action!r:.80}")
    return step


def _fit(do: str, arguments: dict[str, Any]) -> bool:
    """Whether an action has its arguments, each of its type."""
    types = ARGUMENTS.get(do)
    return (
        types is not None
        and types.keys() == arguments.keys()
        and all(isinstance(arguments[name], kind) for name, kind in types.items())
    )


_SECONDS = int | float | None
ARGUMENTS: dict[str, dict[str, Any]] = {
    "run_python": {"code": str, "seconds": _SECONDS},
    "exec": {"command": str | list, "seconds": _SECONDS},
    "write_file": {"path": str, "data": str},
    LOST: {},
}
"""What each action takes, and of which types."""
