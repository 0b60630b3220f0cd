"""What can go wrong between us and a model's server, and what to do about each kind."""

import json
import random
import re
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any

LONGEST_WAIT = 300.0
"""The longest wait that a server may ask for, in seconds; one that asks for more is given up."""

_FIRST_WAIT, _LONGEST_BACKOFF = 0.5, 60.0
_PASSING = frozenset({408, 409, 425, 429})
_NEVER_BETTER = frozenset({401, 402, 403, 404, 405})
_TOO_LONG = re.compile(
    r"context.?(length|size|window)|maximum context|too many (input )?tokens|prompt is too long"
    r"|(input|prompt).{0,40}(exceeds?|longer than).{0,60}(tokens|length|limit)|string_above_max",
    re.IGNORECASE,
)
_FILTERED = re.compile(
    r"content.?(filter|policy|management)|responsible.?ai|moderation|flagged"
    r"|safety.(system|filter)",
    re.IGNORECASE,
)
_OUT_OF_MONEY = re.compile(r"insufficient_quota|billing|credit balance", re.IGNORECASE)


class ModelError(Exception):
    """A turn that the server did not give. The message says why, in one line, without the key."""

    passing = False
    """Whether the same request may work in a moment."""
    hopeless = False
    """Whether every other request will fail for the same reason."""
    after: float | None = None
    """How long the server asks to be left alone, in seconds."""


class TooLong(ModelError):
    """The conversation does not fit into the model's context any more."""


class Malformed(ModelError):
    """An answer that is none: not JSON, or without what has to be in it."""


class Unreachable(ModelError):
    """No connection, one that broke, or no answer in time."""

    passing = True


def refusal(status: int, headers: Mapping[str, str], body: bytes) -> ModelError:
    """What an HTTP status other than 200 means. `headers` have names in lower case."""
    code, said = _told(body)
    about = f"{code} {said}"
    error = ModelError(f"HTTP {status}: {said or 'the server does not say why'}")
    if status == 429 and _OUT_OF_MONEY.search(about):
        error.hopeless = True
    elif status in _PASSING or status >= 500:
        error.passing = True
        error.after = _asked_to_wait(headers)
    elif status in (400, 413, 422) and (status == 413 or _TOO_LONG.search(about)):
        return TooLong(str(error))
    elif _FILTERED.search(about):
        return ModelError("the server's content filter refused the conversation")
    elif 300 <= status < 400:
        error = ModelError(f"HTTP {status}: the server is elsewhere; give its final address")
        error.hopeless = True
    else:
        error.hopeless = status in _NEVER_BETTER
    return error


def pause(attempt: int, after: float | None, rng: random.Random) -> float:
    """How long to wait before a request is tried again, in seconds; `attempt` counts from 0.

    Exponential back-off from half a second to a minute, of which a random half is left out, so that
    those who were refused together do not come back together. What the server asked for is the
    least.
    """
    longest = min(_FIRST_WAIT * 2.0 ** min(attempt, 20), _LONGEST_BACKOFF)
    return (after or 0.0) + rng.uniform(longest / 2, longest)


def _asked_to_wait(headers: Mapping[str, str]) -> float | None:
    """`Retry-After` in seconds, or as a date; `retry-after-ms` where a server is more precise."""
    text = headers.get("retry-after", "").strip()
    milliseconds = headers.get("retry-after-ms", "").strip()
    for number, unit in ((milliseconds, 0.001), (text, 1.0)):
        if re.fullmatch(r"[0-9]{1,12}(\.[0-9]{1,12})?", number):
            return float(number) * unit
    try:
        return max(parsedate_to_datetime(text).timestamp() - time.time(), 0.0)
    except (ValueError, TypeError, OverflowError):
        return None


def _told(body: bytes) -> tuple[str, str]:
    """The code and the message of an error's body, in any of the forms that servers give it."""
    text = body[:65536].decode(errors="replace")
    try:
        told = json.loads(text)
    except (ValueError, RecursionError):
        told = None
    error = told.get("error", told) if isinstance(told, dict) else None
    if isinstance(error, dict):
        codes = (error.get("code"), error.get("type"))
        said = error.get("message") or error.get("detail") or error
        return " ".join(str(code) for code in codes if code), _short(said)
    if isinstance(error, str):
        return "", _short(error)
    return "", "" if text.lstrip().startswith("<") else _short(text)


def _short(text: Any) -> str:
    """At most 200 characters on one line."""
    line = " ".join(str(text)[:4000].split())
    return line if len(line) <= 200 else f"{line[:197]}..."
