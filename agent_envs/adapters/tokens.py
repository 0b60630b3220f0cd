"""Numbers for learners that know no text: an env as MultiDiscrete turns and observations.

    env = Tokenized(gymnasium.make("agent/CalculatorChars-v0"), Letters("0123456789+B|"), turn=8)
    env = DtypeObservation(FlattenObservation(env), np.float32)     # one-hot, as a Box

The second line, with Gymnasium's own wrappers, is for networks that want floats.
For RLlib register a function that makes one (`docs/adapters/train_rllib.py`); anything that learns
on a Gymnasium env takes it as it is. A learner without memory sees the end of the conversation,
its own turns included, and not the last observation alone.
"""

from collections.abc import Sequence
from typing import Any, Protocol

import gymnasium
import numpy as np
from gymnasium.spaces import MultiDiscrete
from gymnasium.utils import RecordConstructorArgs
from numpy.typing import NDArray

from agent_envs.snapshot import Snapshot

Ids = NDArray[np.int64]
PAD = 0
"""The id that fills up a turn after its end, and a window before its start."""


class Codec(Protocol):
    """Text to ids and back; ids run from 1 to `size` - 1, 0 is `PAD`."""

    size: int

    def encode(self, text: str) -> Sequence[int]:
        """The ids of a text."""

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids."""


class Letters:
    """A codec of single characters: 1 is any other character, 2 the alphabet's first."""

    def __init__(self, alphabet: str = "".join(map(chr, range(32, 127))) + "\n") -> None:
        """Raises ValueError where a character stands twice."""
        if len(set(alphabet)) != len(alphabet):
            raise ValueError("a character stands twice in the alphabet")
        self.size = len(alphabet) + 2
        self._letters = "\ufffd" + alphabet
        self._ids = {letter: i for i, letter in enumerate(self._letters, 1)}

    def encode(self, text: str) -> list[int]:
        """See `Codec`."""
        return [self._ids.get(letter, 1) for letter in text]

    def decode(self, ids: Sequence[int]) -> str:
        """See `Codec`."""
        return "".join(self._letters[i - 1] for i in ids)


class Tokenized(gymnasium.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """A ToolEnv whose actions are `turn` ids and whose observations are `window` of them.

    An action's text ends before its first `PAD`. Snapshots keep the window: use this wrapper's
    `snapshot`, `rollback` and `release`, not those of the env inside.
    """

    def __init__(
        self,
        env: gymnasium.Env[str, str],
        codec: Codec | None = None,
        *,
        turn: int = 32,
        window: int = 256,
    ) -> None:
        """Raises ValueError for a turn or a window of no length."""
        RecordConstructorArgs.__init__(self, codec=codec, turn=turn, window=window)
        super().__init__(env)
        if turn < 1 or window < 1:
            raise ValueError(f"turn={turn}, window={window}: at least 1")
        self.codec = Letters() if codec is None else codec
        self.action_space = MultiDiscrete([self.codec.size] * turn)
        self.observation_space = MultiDiscrete([self.codec.size] * window)
        self._window = window
        self._seen: tuple[int, ...] = ()
        self._kept: dict[tuple[str, int], tuple[int, ...]] = {}

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Ids, dict[str, Any]]:
        """Start an episode."""
        text, info = self.env.reset(seed=seed, options=options)
        self._seen = ()
        return self._show(text), info

    def step(self, action: Ids) -> tuple[Ids, float, bool, bool, dict[str, Any]]:
        """Play the turn that an action spells."""
        ids = [int(i) for i in action]
        said = ids[: ids.index(PAD)] if PAD in ids else ids
        self._seen += tuple(said)
        text, reward, terminated, truncated, info = self.env.step(self.codec.decode(said))
        return self._show(text), float(reward), terminated, truncated, info

    def snapshot(self, *, on_refusal: str = "raise") -> Snapshot:
        """As `ToolEnv.snapshot`."""
        inner: Any = self.env.unwrapped
        taken: Snapshot = inner.snapshot(on_refusal=on_refusal)
        self._kept[taken.owner, taken.id] = self._seen
        return taken

    def rollback(
        self, snapshot: Snapshot | Sequence[Snapshot], *, seed: int | None = None
    ) -> tuple[Ids, dict[str, Any]]:
        """As `ToolEnv.rollback`."""
        inner: Any = self.env.unwrapped
        _, info = inner.rollback(snapshot, seed=seed)
        given = [snapshot] if isinstance(snapshot, Snapshot) else snapshot
        self._seen = next(self._kept[key] for s in given if (key := (s.owner, s.id)) in self._kept)
        return self._show(""), info

    def release(self, *snapshots: Snapshot) -> None:
        """As `ToolEnv.release`."""
        inner: Any = self.env.unwrapped
        inner.release(*snapshots)
        for snapshot in snapshots:
            self._kept.pop((snapshot.owner, snapshot.id), None)

    def _show(self, text: str) -> Ids:
        """The window after `text` was said."""
        self._seen = (*self._seen, *self.codec.encode(text))[-self._window :]
        shown = np.full(self._window, PAD, dtype=np.int64)
        if self._seen:
            shown[-len(self._seen) :] = self._seen
        return shown
