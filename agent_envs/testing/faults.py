"""A faulty result: nobody can tell it from a sound one, and it does not give the truth away."""

import random
import re
from collections import defaultdict
from collections.abc import Iterator

from agent_envs.env import ToolEnv
from agent_envs.testing.play import Player, Subject
from agent_envs.turns import ToolCall, ToolResult

_NUMBER = re.compile(r"(?<![\w.])[-+]?[0-9]+(?:,[0-9]{3})*(?:\.[0-9]+)?")
_LONG = 3
"""From how many characters on a truth inside a wrong result is no chance."""
_ENOUGH = 5
"""Of fewer sound results nobody can say what form they all have."""


def faults_keep_the_form(subject: Subject) -> None:
    """`corrupt` is a pure function that keeps the form of a result and hides what it was."""
    sound: defaultdict[str, list[set[str]]] = defaultdict(list)
    wrong: defaultdict[str, list[str]] = defaultdict(list)
    episodes = 20 if subject.quick else 5
    env = subject.make(max_turns=50)
    for call, result in _results(env, episodes):
        sound[call.name].append(_forms(result.content))
    env.close()
    env = subject.make(fault_rate={"wrong": 0.6, "truncated": 0.4}, max_turns=50)
    for call, result in _results(env, episodes):
        if result.fault is not None:
            sound[call.name].append(_forms(str(result.truth)))
            for shown in (result.content, *_versions(env, call, result)):
                _check(call, result, shown, set().union(*sound[call.name]))
                if result.fault == "wrong":
                    wrong[call.name].append(shown)
    env.close()
    for name, texts in wrong.items():
        _check_nothing_is_lost(name, sound[name], texts)


def _results(env: ToolEnv, episodes: int) -> Iterator[tuple[ToolCall, ToolResult]]:
    """What comes of the calls that work out, in some drawn episodes."""
    for seed in range(episodes):
        env.reset(seed=seed)
        rng, player = random.Random(seed), Player(env)
        for _ in range(8):
            if not env.ended:
                info = player.move(rng)[4]
                failed = info["infrastructure_error"]
                assert failed is None, f"corrupt() or a tool broke an episode: {failed}"
                yield from (pair for pair in info["calls"] if pair[0] and pair[1].error is None)


def _versions(env: ToolEnv, call: ToolCall, result: ToolResult) -> Iterator[str]:
    """What else `corrupt` might have made of a result."""
    truth = str(result.truth)
    for u in (0.0, 0.3, 0.999):
        spoiled = [env.corrupt(result.fault or "wrong", call, truth, u) for _ in range(2)]
        assert type(spoiled[0]) is str, f"corrupt() gives a {type(spoiled[0]).__name__}, not a text"
        assert spoiled[0] == spoiled[1], "corrupt() must depend on its arguments alone"
        if spoiled[0] != truth:
            yield spoiled[0]


def _check(call: ToolCall, result: ToolResult, shown: str, sound: set[str]) -> None:
    truth = str(result.truth)
    assert shown or "nothing" in sound, (
        f"a {result.fault} result of {call.name} is empty, which no sound one was, and so is told "
        f"by its form: keep a part of {truth!r:.80}"
    )
    if result.fault == "wrong":
        assert not _gives_away(shown, truth), (
            f"a wrong result gives the right one away: {shown!r:.80} for {truth!r:.80}"
        )
    odd = sorted(_kinds(shown) - _kinds(truth) - sound)
    assert not odd, (
        f"a {result.fault} result has {odd}, which no sound one of {call.name} had, and so is told "
        f"by its form: {shown!r:.80} for {truth!r:.80}"
    )


def _gives_away(shown: str, truth: str) -> bool:
    """Whether a wrong result holds the right one, or says the same in other words."""
    if len(truth) >= _LONG and re.search(rf"(?<!-){re.escape(truth)}", shown):
        return True
    if re.search(rf"(?<![\w.-]){re.escape(truth)}(?![\w.])", shown):
        return True
    return _meaning(shown) == _meaning(truth)


def _meaning(text: str) -> tuple[list[str], list[str]]:
    """The values of the numbers in a text, and its words."""
    values = []
    for number in _NUMBER.findall(text):
        whole, _, decimals = number.lstrip("-+").replace(",", "").partition(".")
        value = f"{whole.lstrip('0')}.{decimals.rstrip('0')}"
        values.append(f"-{value}" if number[0] == "-" and value != "." else value)
    return values, _NUMBER.sub("#", text).casefold().split()


def _check_nothing_is_lost(name: str, sound: list[set[str]], shown: list[str]) -> None:
    """What every sound result has, most wrong ones have too."""
    if len(sound) < _ENOUGH:
        return
    for form in sorted(set.intersection(*sound)):
        without = [text for text in shown if form not in _forms(text)]
        assert len(without) <= len(shown) / 2, (
            f"every sound result of {name} has {form!r}, and most wrong ones have not, so that "
            f"they are told by their form: {without[0]!r:.80}. See corrupt()"
        )


def _forms(text: str) -> set[str]:
    """The kinds of characters of a text, and how its numbers are written."""
    forms = _kinds(text) or {"nothing"}
    for number in _NUMBER.findall(text):
        forms.add("thousands commas" if "," in number else "digits")
        forms.add(f"{len(number.partition('.')[2])} decimals")
    return forms


def _kinds(text: str) -> set[str]:
    """What kinds of characters a text has: letters, digits, and every other one for itself."""
    return {"letters" if c.isalpha() else "digits" if c.isdigit() else c for c in text}
