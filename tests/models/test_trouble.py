"""How long to wait, and what a refusal means."""

import random
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from agent_envs.models.trouble import TooLong, pause, refusal


def test_the_back_off_grows_and_two_clients_part() -> None:
    waits = [[pause(n, None, random.Random(seed)) for n in range(12)] for seed in range(50)]
    for n in range(12):
        longest = min(0.5 * 2**n, 60.0)
        assert all(longest / 2 <= wait[n] <= longest for wait in waits)
        assert len({wait[n] for wait in waits}) == 50
    assert pause(10_000, None, random.Random(0)) <= 60.0


def test_what_the_server_asked_for_is_the_least() -> None:
    assert 7.0 < pause(0, 7.0, random.Random(0)) <= 7.5


@pytest.mark.parametrize(
    ("headers", "low", "high"),
    [
        ({"retry-after": "7"}, 7.0, 7.0),
        ({"retry-after": "0.25"}, 0.25, 0.25),
        ({"retry-after-ms": "1500", "retry-after": "2"}, 1.5, 1.5),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0.0, 0.0),
    ],
)
def test_retry_after(headers: dict[str, str], low: float, high: float) -> None:
    after = refusal(429, headers, b"").after
    assert after is not None and low <= after <= high


def test_retry_after_as_a_date() -> None:
    date = format_datetime(datetime.now(UTC) + timedelta(hours=10))
    after = refusal(429, {"retry-after": date}, b"").after
    assert after is not None and 9 * 3600 < after <= 10 * 3600


@pytest.mark.parametrize("text", ["", "soon", "-5", "1e400", "9" * 50, "Wed, 99 Oct"])
def test_a_retry_after_that_is_none(text: str) -> None:
    error = refusal(503, {"retry-after": text}, b"")
    assert error.after is None and error.passing


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (b'{"error": {"message": "m", "code": "c"}}', "m"),
        (b'{"error": "text"}', "text"),
        (b'{"message": "m", "object": "error"}', "m"),
        (b'{"detail": "d"}', "d"),
        (b'{"error": {"message": ["a", {}]}}', "['a', {}]"),
        (b"plain", "plain"),
        (b"<html>", "the server does not say why"),
        (b"", "the server does not say why"),
        (b"\xff\xfe", "\ufffd\ufffd"),
        (b"[" * 100_000, "[" * 197 + "..."),
        (b'{"error": {"message": "' + b"x" * 900 + b'"}}', "x" * 197 + "..."),
    ],
)
def test_what_a_server_says_is_told_in_one_line(body: bytes, told: str) -> None:
    assert str(refusal(418, {}, body)) == f"HTTP 418: {told}"


def test_a_refusal_that_concerns_one_request_only() -> None:
    error = refusal(400, {}, b'{"error": "temperature must be below 2"}')
    assert not error.passing and not error.hopeless and not isinstance(error, TooLong)
