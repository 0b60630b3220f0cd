"""The verifier of browser episodes: asked once, on bytes, and nothing is paid by halves."""

import sqlite3
from typing import NamedTuple

import pytest

from agent_envs.verifiers.browser import COMPONENTS, VERSION, judge


class Said(NamedTuple):
    passed: bool
    components: dict[str, float]
    reason: str = ""


ALL = dict.fromkeys(COMPONENTS, 1.0)


def test_all_of_it_passes() -> None:
    report = judge(lambda: Said(True, ALL))
    assert report.passed and report.components == ALL and VERSION


@pytest.mark.parametrize("missing", COMPONENTS)
def test_a_missing_component_fails_whatever_the_family_says(missing: str) -> None:
    report = judge(lambda: Said(True, ALL | {missing: 0.0}))
    assert not report.passed and report.components[missing] == 0.0


@pytest.mark.parametrize("value", [0.5, 2.0, float("nan")])
def test_a_component_is_all_or_nothing(value: float) -> None:
    assert not judge(lambda: Said(True, ALL | {"state": value})).passed


def test_a_broken_database_fails_the_task() -> None:
    def check() -> Said:
        db = sqlite3.connect(":memory:")
        try:
            db.deserialize(b"no database" * 100)
            db.execute("SELECT * FROM events")
        finally:
            db.close()
        return Said(True, ALL)

    report = judge(check)
    assert not report.passed and "broken" in report.reason
    assert report.components == dict.fromkeys(COMPONENTS, 0.0)


def test_a_bug_is_no_verdict() -> None:
    def check() -> Said:
        raise KeyError("family")

    with pytest.raises(KeyError):
        judge(check)
