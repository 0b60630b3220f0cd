"""TextArena's GuessTheNumber, without wrappers: what a copy of the whole env costs."""

import copy
from collections.abc import Callable
from typing import Any

import textarena  # type: ignore[import-not-found]


def deepcopies(env: Any) -> Callable[[int], int]:
    """Copies of an env as it stands; a unit is one."""

    def run(count: int) -> int:
        for _ in range(count):
            copy.deepcopy(env)
        return count

    return run


def fresh() -> Any:
    """An env that was just reset."""
    env = textarena.make("GuessTheNumber-v0-raw")
    env.reset(num_players=1, seed=0)
    return env


def after_two_guesses() -> Any:
    """An env in the middle of an episode."""
    env = fresh()
    wrong = [n for n in (3, 4, 5) if n != env.state.game_state["game_number"]]
    for guess in wrong[:2]:
        env.get_observation()
        if env.step(f"[{guess}]")[0]:
            raise RuntimeError("the episode is over after two wrong guesses: adapt this file")
    return env


MEASURES = {
    "deepcopies": deepcopies(fresh()),
    "deepcopies after two guesses": deepcopies(after_two_guesses()),
}
