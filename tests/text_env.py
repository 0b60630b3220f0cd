"""Small text environments for test_space_envs.py, which workers of any start method can import.

`gymnasium.make("text_env:test/Echo-v0")` needs this folder on the import path.
"""

from typing import Any

import gymnasium
from gymnasium.spaces import Dict, Discrete, Tuple

from agent_envs.space import UnicodeText, clean

Note = dict[str, Any]


class EchoEnv(gymnasium.Env[str, str]):
    """Says what it is told. "!" at the end of an action terminates, "?" truncates."""

    def __init__(self, max_bytes: int = 64, dirty: bool = False) -> None:
        self.observation_space = UnicodeText(max_bytes)
        self.action_space = UnicodeText(64)
        self.dirty = dirty

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        return f"épisode {self.np_random.integers(1000)}\n", {"said": None}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        ended, cut = action.endswith("!"), action.endswith("?")
        said = action + "\0" if self.dirty else action
        return said, float(len(action)), ended, cut, {"said": action}


class NoteEnv(gymnasium.Env[Note, Note]):
    """Text beside and below other spaces, in observations and actions."""

    def __init__(self) -> None:
        self.observation_space = Dict(
            note=UnicodeText(64), pair=Tuple([UnicodeText(7), Discrete(9)])
        )
        self.action_space = Dict(note=UnicodeText(64), number=Discrete(9))

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Note, dict[str, Any]]:
        super().reset(seed=seed)
        return {"note": "néu\n", "pair": ("", 0)}, {}

    def step(self, action: Note) -> tuple[Note, float, bool, bool, dict[str, Any]]:
        head = clean(action["note"], 7)
        return {"note": action["note"], "pair": (head, action["number"])}, 0.0, False, False, {}


gymnasium.register("test/Echo-v0", entry_point="text_env:EchoEnv")
gymnasium.register("test/Note-v0", entry_point="text_env:NoteEnv")
