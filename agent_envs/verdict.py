"""What a grader says of an episode."""

import math
from dataclasses import dataclass
from typing import Any


@dataclass(slots=True)
class Verdict:
    """Named reward components and the weights that make them one number.

    `passed` is whether the task was solved; shaping components never change it. `version` is the
    verifier's own, so that two verdicts can be compared.
    """

    components: dict[str, float]
    weights: dict[str, float]
    passed: bool
    version: str = "1"

    def __post_init__(self) -> None:
        """Raises ValueError for a component, a weight or a total that is no finite number."""
        if math.isfinite(self.total + sum(self.weights.values())):  # is not if one of them is not
            return
        for what, numbers in (("component", self.components), ("weight", self.weights)):
            for name, value in numbers.items():
                if not math.isfinite(value):
                    raise ValueError(f"reward {what} {name!r} is {value}: rewards are finite")
        raise ValueError(f"the reward adds up to {self.total}: rewards are finite")

    @property
    def total(self) -> float:
        """The weighted sum; a component without a weight counts nothing."""
        weights, total = self.weights, 0.0
        for name, x in self.components.items():
            total += weights.get(name, 0.0) * x
        return total

    def copy(self) -> "Verdict":
        """Another verdict that says the same and shares nothing."""
        return Verdict(dict(self.components), dict(self.weights), self.passed, self.version)

    def to_dict(self) -> dict[str, Any]:
        """The JSON form, with the total spelled out."""
        return {
            "components": dict(self.components),
            "weights": dict(self.weights),
            "passed": self.passed,
            "version": self.version,
            "total": self.total,
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "Verdict":
        """The inverse of `to_dict`; the total is worked out anew."""
        return cls(data["components"], data["weights"], data["passed"], data["version"])
