"""What a verification comes to."""

from dataclasses import dataclass


@dataclass(frozen=True)
class TestResult:
    """One test: whether it passed, and if not, why."""

    __test__ = False

    name: str
    passed: bool
    reason: str = ""
    """Of a hidden test it says how it failed, not what was expected."""


@dataclass(frozen=True)
class Report:
    """All tests that were to be run, in order. One that could not be run has failed."""

    results: list[TestResult]

    @property
    def passed(self) -> bool:
        """Whether all passed, and there was at least one."""
        return bool(self.results) and all(result.passed for result in self.results)

    @property
    def fraction(self) -> float:
        """The share that passed, from 0 to 1."""
        return sum(result.passed for result in self.results) / max(1, len(self.results))
