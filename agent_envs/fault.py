"""Which tool results go wrong, how often, and how."""

import math
from collections.abc import Mapping
from typing import TypeAlias, get_args

from agent_envs.streams import draw
from agent_envs.turns import FaultKind, ToolResult

FaultRate: TypeAlias = float | Mapping[FaultKind, float]

KINDS: tuple[FaultKind, ...] = get_args(FaultKind)

_REPLACEMENTS = {
    "error": ToolResult("error: the tool failed; try again", "failed", "error"),
    "timeout": ToolResult("error: the tool timed out; try again", "timeout", "timeout"),
}


class FaultModel:
    """Rates of the injected faults; a plain number is the rate of `wrong`.

    `error` and `timeout` replace the call, which then has no side effect. `wrong`, `stale` (the
    previous sound result) and `truncated` change the result of a call that was made. Whether and
    how call number `index` of an episode goes wrong depends on the episode's seed and the index
    alone. A call that fails by itself is left as it is.
    """

    def __init__(self, rate: FaultRate = 0.0) -> None:
        rates = dict(rate) if isinstance(rate, Mapping) else {"wrong": rate}
        unknown = sorted(set(rates) - set(KINDS))
        if unknown:
            raise ValueError(f"fault_rate: no fault kind {unknown}; there are {list(KINDS)}")
        for kind, value in rates.items():
            if not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
                raise ValueError(f"fault_rate: {kind!r} is {value!r}; a number from 0 to 1")
        if sum(rates.values()) > 1 + 1e-9:
            raise ValueError(f"fault_rate: the rates add up to {sum(rates.values())}, over 1")
        self.rates: dict[FaultKind, float] = {k: float(rates[k]) for k in KINDS if rates.get(k)}

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

    def to_plain(self) -> float | dict[str, float]:
        """The JSON form, as `fault_rate` takes it."""
        if set(self.rates) <= {"wrong"}:
            return self.rates.get("wrong", 0.0)
        return {str(kind): rate for kind, rate in self.rates.items()}
