"""Demonstrations told with other names and numbers: what was copied has to be copied again."""

import random
import re
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from agent_envs.trajectory import Trajectory
from agent_envs.turns import Action

Renaming: TypeAlias = Callable[[str], str]
"""A text of a conversation, as it is with other names and numbers."""

_RUN = re.compile(r"\d+|[^\W\d_]+")
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


def same(text: str) -> str:
    """Nothing is renamed."""
    return text


def vocabulary(texts: Iterable[str]) -> list[str]:
    """The words that names are made of, in lower case."""
    return sorted({w.lower() for t in texts for w in _RUN.findall(t) if w.isalpha()})


def renaming(trajectory: Trajectory, words: Sequence[str], dice: random.Random) -> Renaming:
    """What the teacher said and had heard before, as an argument or an answer, gets another form
    wherever it stands in the conversation: other words, other digits, as many of them."""
    others = {value: _other(value, words, dice) for value in copied(trajectory)}
    if not others:
        return same
    places = _places(others)
    return lambda text: places.sub(lambda found: others[found[0]], text)


def copied(trajectory: Trajectory) -> list[str]:
    """The arguments and answers in an episode that stand, whole, in what was said before them."""
    heard = "\n".join(message["content"] for message in trajectory.prompt)
    found: dict[str, None] = {}
    for turn in trajectory.turns:
        values = (v for v in _values(turn.action) if len(v) > 1 and _RUN.search(v))
        found |= dict.fromkeys(
            v for v in values if re.search(rf"(?<!\w){re.escape(v)}(?!\w)", heard)
        )
        heard += "\n" + "\n".join(message["content"] for message in turn.info["messages"])
    return list(found)


def _places(values: Iterable[str]) -> re.Pattern[str]:
    """Where one of them stands, whole; the longest of those that begin there."""
    longest_first = sorted(values, key=len, reverse=True)
    return re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, longest_first))})(?!\w)")


def _values(action: Action) -> list[str]:
    """What a turn says in words: the texts among its arguments, or the answer."""
    if not action.calls:
        return [action.text]
    arguments = (value for call in action.calls for value in call.arguments.values())
    return [value for value in arguments if isinstance(value, str)]


def _other(value: str, words: Sequence[str], dice: random.Random) -> str:
    def exchange(run: re.Match[str]) -> str:
        old = run[0]
        if old.isdigit():
            return "".join(dice.choice("0123456789") for _ in old)
        if old.isupper() and len(old) < 4:
            return "".join(dice.choice(_LETTERS) for _ in old).upper()
        new = dice.choice(words) if dice.random() < 0.5 else _syllables(dice)
        return new.capitalize() if old[0].isupper() else new

    return _RUN.sub(exchange, value)


def _syllables(dice: random.Random) -> str:
    """A word that nobody has heard."""
    return "".join(dice.choice(_LETTERS) for _ in range(dice.randrange(2, 8)))
