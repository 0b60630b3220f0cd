"""Which tool results go wrong, how often, and how."""

from collections.abc import Mapping
from numbers import Real
from typing import Any, TypeAlias, get_args

from agent_envs.streams import draw
from agent_envs.turns import FaultKind, ToolResult

FaultRate: TypeAlias = float | Mapping[FaultKind, float]

KINDS: tuple[FaultKind, ...] = get_args(FaultKind)

_REPLACEMENTS = {
    "error": ToolResult("error: the tool failed; try again", "failed", "error"),
    "timeout": ToolResult("error: the tool timed out; try again", "timeout", "timeout"),
}


class FaultModel:
    """Rates of the injected faults, from 0 to 1; a plain number is the rate of `wrong`.

    `error` and `timeout` replace the call, which then has no side effect. `wrong`, `stale` (the
    tool's previous sound result) and `truncated` change the result of a call that was made, unless
    it fails by itself. Whether and how call number `index` of an episode goes wrong depends on the
    episode's seed and the index alone. Raises ValueError for rates that are none,
    or that add up to more than 1.
    """

    def __init__(self, rate: FaultRate = 0.0) -> None:
        given: Mapping[Any, Any] = rate if isinstance(rate, Mapping) else {"wrong": rate}
        unknown = [kind for kind in given if kind not in KINDS]
        if unknown:
            raise ValueError(f"fault_rate: no fault kind {unknown}; there are {list(KINDS)}")
        rates = {kind: _rate(kind, given.get(kind, 0.0)) for kind in KINDS}
        if sum(rates.values()) > 1 + 1e-9:
            raise ValueError(f"fault_rate: the rates add up to {sum(rates.values())}, over 1")
        self.rates: dict[FaultKind, float] = {kind: x for kind, x in rates.items() if x}

    def pick(self, seed: int, index: int) -> FaultKind | None:
        """The fault of call number `index` under an episode's seed, if any."""
        if not self.rates:
            return None
        u = draw(seed, "fault", index)
        for kind, rate in self.rates.items():
            if u < rate:
                return kind
            u -= rate
        return None

    @staticmethod
    def replacement(kind: FaultKind) -> ToolResult | None:
        """What stands in for a call that a fault of this kind replaces; None for other kinds."""
        stands_in = _REPLACEMENTS.get(kind)
        return stands_in and ToolResult(stands_in.content, stands_in.error, stands_in.fault)

    def to_plain(self) -> FaultRate:
        """The JSON form, as `fault_rate` takes it."""
        if self.rates.keys() <= {"wrong"}:
            return self.rates.get("wrong", 0.0)
        return self.rates.copy()


def _rate(kind: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, Real) or not 0 <= float(value) <= 1:
        raise ValueError(f"fault_rate: {kind!r} is {value!r}; a number from 0 to 1")
    return float(value)


def corrupted(kind: FaultKind, content: str, u: float) -> str:
    """A spoiled result for any content: cut short, or with one digit changed.

    A text without digits has no wrong version that looks sound: it comes back as it is. `u` in
    [0, 1) is the only source of chance.
    """
    if kind == "truncated":
        return content[: 1 + int(u * (len(content) - 1))] if len(content) > 1 else content
    places = [i for i, c in enumerate(content) if c in "0123456789"]
    if not places:
        return content
    place = places[int(u * len(places))]
    other = (int(content[place]) + 1 + int(u * 7919 % 9)) % 10
    before, after = content[:place][-1:], content[place + 1 : place + 2]
    if other == 0 and after.isdigit() and not before.isdigit():
        other = int(content[place]) % 9 + 1  # a leading zero would give it away
    return f"{content[:place]}{other}{content[place + 1 :]}"
