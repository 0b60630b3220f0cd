"""Between conversations and tokens: what a kind of model reads and writes."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path

from agent_envs.policy import Messages


class Codec(ABC):
    """How a conversation is written in tokens.

    A turn is never made into tokens again once it was sampled: `open` is for a conversation that a
    policy meets, `follow` for what is said to it after a turn of its own.
    """

    size: int
    """How many tokens there are."""
    end: int
    """The token that closes a turn of the model."""
    memory: int = 0
    """How many of the last messages of tools are shown; 0 for all."""

    @abstractmethod
    def open(self, messages: Messages) -> list[int]:
        """A whole conversation, up to where the model begins to write."""

    @abstractmethod
    def follow(self, messages: Messages, heard: int, *, ended: bool) -> list[int] | None:
        """What comes after the model's last turn, up to where it writes again. The turn is message
        number `heard` - 1; `ended` says whether it was closed by `end`.

        None where the model is to be shown the conversation in another way than it was: then it is
        opened anew.
        """

    @abstractmethod
    def write(self, text: str) -> list[int]:
        """A turn as the model should write it, the end included."""

    @abstractmethod
    def read(self, tokens: Sequence[int]) -> str:
        """The text of a turn."""

    @abstractmethod
    def digest(self) -> str:
        """A hash of all that decides which token is what, for provenance."""

    def save(self, folder: Path) -> None:  # noqa: B027
        """Leave in a folder what is needed to make this codec again, if anything is."""
