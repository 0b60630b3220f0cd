"""A byte-level tokenizer of our own, made from the texts of an environment."""

import hashlib
import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from agent_envs.baselines.codec import Codec
from agent_envs.policy import Messages

NAME = "tokenizer.json"
ROLES = ("system", "user", "assistant", "tool")
_PAD, _END = "<|pad|>", "<|end|>"
_CONTROL = [_PAD, _END, *(f"<|{role}|>" for role in ROLES)]
_TAGS = _OPEN, _CLOSE = ("<tool_call>", "</tool_call>")


class BytePairs(Codec):
    """Messages one after the other: a token for the role, the content, a token for the end.

    Byte-level byte pairs (Sennrich et al., 2016, arXiv:1508.07909; on bytes as in Radford et al.,
    2019, section 2.2), each digit a token of its own. Any text has tokens and comes back from them
    as it was. What looks like a control token in a text is text.
    """

    def __init__(self, tokenizer: Tokenizer, memory: int = 0) -> None:
        """`memory`: how many of the environment's last messages are kept in sight, while the prompt
        and all turns stay; 0 for all. Raises ValueError for a tokenizer that `learn` did not make.
        """
        tokenizer.encode_special_tokens = True
        numbers = list(range(len(_CONTROL)))
        if [tokenizer.token_to_id(control) for control in _CONTROL] != numbers:
            raise ValueError("not a tokenizer that this trainer made")
        self.tokenizer, self.size = tokenizer, tokenizer.get_vocab_size()
        self.memory = memory
        _, self.end, *roles = numbers
        self._role = dict(zip(ROLES, roles, strict=True))

    @classmethod
    def learn(
        cls, texts: Iterable[str], size: int, memory: int = 0, phrases: Iterable[str] = ()
    ) -> "BytePairs":
        """Made from texts, with at most `size` tokens; all 256 bytes are among them, and each of
        the `phrases` is one."""
        tokenizer = Tokenizer(models.BPE())
        digits = pre_tokenizers.Digits(individual_digits=True)
        pieces = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([digits, pieces])
        tokenizer.decoder = decoders.ByteLevel()
        trainer = trainers.BpeTrainer(
            vocab_size=size,
            special_tokens=list(dict.fromkeys([*_CONTROL, *_TAGS, *phrases])),
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        )
        tokenizer.train_from_iterator(sorted(set(texts)), trainer)
        return cls(_with_plain_phrases(tokenizer), memory)

    @classmethod
    def load(cls, path: Path) -> "BytePairs":
        """The one that `save` wrote. Raises OSError or ValueError where there is none."""
        plain = json.loads(path.read_text())
        memory = plain.pop("memory", 0)
        return cls(Tokenizer.from_str(json.dumps(plain)), memory)

    def save(self, folder: Path) -> None:
        """See `Codec`."""
        folder.mkdir(parents=True, exist_ok=True)
        made = folder / f"{NAME}.{os.getpid()}"
        made.write_text(self._saved())
        made.replace(folder / NAME)

    def open(self, messages: Messages) -> list[int]:
        """See `Codec`."""
        shown = self._in_sight(messages)
        return [t for m in shown for t in self._message(m)] + [self._role["assistant"]]

    def follow(self, messages: Messages, heard: int, *, ended: bool) -> list[int] | None:
        """See `Codec`. None where something is forgotten that was seen."""
        seen = self._in_sight(messages[:heard])
        if self._in_sight(messages)[: len(seen)] != seen:
            return None
        closing = [] if ended else [self.end]
        return closing + self.open(messages[heard:])

    def write(self, text: str) -> list[int]:
        """See `Codec`."""
        return [*self._encode(text), self.end]

    def read(self, tokens: Sequence[int]) -> str:
        """See `Codec`. Bytes that are no UTF-8, as where a turn was cut, become U+FFFD."""
        kept = tokens[:-1] if tokens and tokens[-1] == self.end else tokens
        text: str = self.tokenizer.decode(list(kept), skip_special_tokens=False)
        return text

    def digest(self) -> str:
        """A hash of the tokenizer as it is saved."""
        return hashlib.sha256(self._saved().encode()).hexdigest()[:16]

    def _saved(self) -> str:
        text: str = self.tokenizer.to_str()
        return json.dumps(json.loads(text) | {"memory": self.memory}) if self.memory else text

    def _in_sight(self, messages: Messages) -> list[dict[str, str]]:
        """What is not forgotten."""
        told = [i for i, message in enumerate(messages) if message["role"] == "tool"]
        gone = set(told[: -self.memory]) if self.memory else set()
        return [message for i, message in enumerate(messages) if i not in gone]

    def _message(self, message: dict[str, str]) -> list[int]:
        return [self._role[message["role"]], *self._encode(message["content"]), self.end]

    def _encode(self, text: str) -> list[int]:
        ids: list[int] = self.tokenizer.encode(text, add_special_tokens=False).ids
        return ids


def call_phrases(tools: Iterable[dict[str, Any]]) -> list[str]:
    """What is the same in all calls of a tool: how it begins and ends, and its parameters' names.

    So a turn is about as many tokens as it has decisions."""
    found = [f"}}}}\n{_CLOSE}"]
    for tool in tools:
        function = tool["function"]
        found.append(f'{_OPEN}\n{{"name": "{function["name"]}", "arguments": {{')
        found += [f'"{name}": ' for name in function["parameters"]["properties"]]
    return found


def _with_plain_phrases(tokenizer: Tokenizer) -> Tokenizer:
    """Phrases are tokens, but no control tokens: models and texts may write them."""
    plain = json.loads(tokenizer.to_str())
    for token in plain["added_tokens"]:
        token["special"] = token["content"] in _CONTROL
    return Tokenizer.from_str(json.dumps(plain))
