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
        for name, value in self.components.items():
            if not math.isfinite(value):
                raise ValueError(f"reward component {name!r} is {value}: rewards are finite")

    @property
    def total(self) -> float:
        """The weighted sum; a component without a weight counts nothing."""
        return sum(self.weights.get(name, 0.0) * x for name, x in self.components.items())

    def to_dict(self) -> dict[str, Any]:
        """The JSON form, with the total spelled out."""
        return {
            "components": self.components,
            "weights": self.weights,
            "passed": self.passed,
            "version": self.version,
            "total": self.total,
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "Verdict":
        """The inverse of `to_dict`; the total is worked out anew."""
        return cls(data["components"], data["weights"], data["passed"], data["version"])
