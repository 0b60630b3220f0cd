"""What the tools say of tests, and how a result goes wrong without losing its form."""

import re

from agent_envs.fault import corrupted
from agent_envs.verifiers.unit_tests import TestResult

_TEST = re.compile(r"(passed|failed): ((?:[^:\n]|::)*)(?:: .*)?")


def reported(results: list[TestResult]) -> str:
    """`1 of 2 visible tests pass`, and a line for each of them."""
    passed = sum(result.passed for result in results)
    lines = [
        f"passed: {r.name}" if r.passed else f"failed: {r.name}: {' '.join(r.reason.split())}"
        for r in results
    ]
    return "\n".join([f"{passed} of {len(results)} visible tests pass", *lines])


def flipped(content: str, u: float) -> str:
    """A report in which one test that passed failed, or the other way round."""
    head, *lines = content.split("\n")
    places = [i for i, line in enumerate(lines) if _TEST.fullmatch(line)]
    if not places:
        return content
    place = places[int(u * len(places))]
    found = _TEST.fullmatch(lines[place])
    assert found is not None
    now, change = ("passed", 1) if found[1] == "failed" else ("failed", -1)
    lines[place] = f"{now}: {found[2]}" + (": out of time" if now == "failed" else "")
    count, _, rest = head.partition(" ")
    return "\n".join([f"{int(count) + change} {rest}", *lines])


def shortened(content: str, u: float) -> str:
    """The first lines, or of one line the beginning."""
    lines = content.split("\n")
    if len(lines) > 1:
        return "\n".join(lines[: 1 + int(u * (len(lines) - 1))])
    return corrupted("truncated", content, u)


def altered(content: str, u: float) -> str:
    """Another digit, or else another truth value."""
    digits = [i for i, c in enumerate(content) if c in "0123456789"]
    if digits:
        place = digits[int(u * len(digits))]
        other = str((int(content[place]) + 1 + int(u * 7919 % 9)) % 10)
        return content[:place] + other + content[place + 1 :]
    for one, other in (("True", "False"), ("False", "True")):
        if one in content:
            return content.replace(one, other, 1)
    return corrupted("wrong", content, u)
