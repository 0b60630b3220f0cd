"""Conversations as the chat template of a model writes them."""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jinja2 import TemplateError
from tokenizers import Tokenizer
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from agent_envs.baselines.codec import Codec
from agent_envs.policy import Messages

_PROBE = (
    'Call it:\n\n<tool_call>\n{"a": [1, -23.5]}\n</tool_call>\n\n  naïve 漢字 🙂\tdon\'t </think>\n'
)


class Chat(Codec):
    """A tokenizer with a chat template. Only what is new is made into tokens at a turn."""

    def __init__(
        self,
        tokenizer: Any,
        tools: Sequence[dict[str, Any]] = (),
        *,
        thinking: bool = False,
        append: bool = False,
    ) -> None:
        """`tools`: schemas that the template shall describe. `thinking`: what the template is told
        as `enable_thinking`. `append`: go on where all that the template leaves out later is what
        it had put before the turn itself, like the empty thoughts of Qwen3. Raises ValueError for
        a tokenizer without a template."""
        if not tokenizer.chat_template:
            raise ValueError("this tokenizer has no chat template; use an instruct model")
        self.tokenizer, self._tools = tokenizer, list(tools) or None
        self._more, self._append = {"enable_thinking": thinking}, append
        self.size = len(tokenizer)
        self.end = self._end_of_turn()

    def open(self, messages: Messages) -> list[int]:
        """See `Codec`."""
        return self._encode(self._render(messages))

    def follow(self, messages: Messages, heard: int, *, ended: bool) -> list[int] | None:
        """See `Codec`."""
        past, said = messages[: heard - 1], messages[heard - 1]["content"]
        whole, begun = self._render(messages), self._render(past)
        close = self.tokenizer.decode([self.end])
        least = len(self._render(past, begin=False)) if self._append else len(begun)
        for length in range(len(begun), least - 1, -1):  # how much of the opening is left
            start = begun[:length] + said
            if whole.startswith(start + close):
                return self._encode(whole[len(start) + (len(close) if ended else 0) :])
        return None

    def write(self, text: str) -> list[int]:
        """See `Codec`."""
        return [*self._encode(text), self.end]

    def read(self, tokens: Sequence[int]) -> str:
        """See `Codec`."""
        kept = tokens[:-1] if tokens and tokens[-1] == self.end else tokens
        text: str = self.tokenizer.decode(
            list(kept), skip_special_tokens=False, clean_up_tokenization_spaces=False
        )
        return text

    def digest(self) -> str:
        """A hash of the tokenizer, its template, and what the template is told."""
        backend = self.tokenizer.backend_tokenizer.to_str()
        told = repr((backend, self.tokenizer.chat_template, self._tools, self._more))
        return hashlib.sha256(told.encode()).hexdigest()[:16]

    def save(self, folder: Path) -> None:
        """See `Codec`. Raises ValueError where what was saved makes other tokens."""
        self.tokenizer.save_pretrained(folder)
        if load_tokenizer(str(folder)).encode(_PROBE) != self.tokenizer.encode(_PROBE):
            raise ValueError(f"the tokenizer in {folder} makes other tokens than it made here")

    def _render(self, messages: Messages, begin: bool = True) -> str:
        try:
            text: str = self.tokenizer.apply_chat_template(
                messages,
                tools=self._tools,
                tokenize=False,
                add_generation_prompt=begin,
                **self._more,
            )
        except TemplateError as error:
            raise ValueError(f"the chat template refuses this conversation: {error}") from None
        return text

    def _end_of_turn(self) -> int:
        """The token that the template writes after what the model said."""
        asked = [{"role": "user", "content": "?"}, {"role": "assistant", "content": "Quite so"}]
        after = self._render(asked, begin=False).rpartition("Quite so")[2]
        tokens = self._encode(after)
        return tokens[0] if tokens else int(self.tokenizer.eos_token_id)

    def _encode(self, text: str) -> list[int]:
        ids: list[int] = self.tokenizer.encode(text, add_special_tokens=False)
        return ids


def load_tokenizer(path: str, **more: Any) -> Any:
    """The tokenizer of a folder or a name. Where the library would put one of its own in place of
    the one that lies in the folder, the latter is taken, and ValueError raised if that fails."""
    tokenizer = AutoTokenizer.from_pretrained(path, **more)
    file = Path(path) / "tokenizer.json"
    if not file.exists():
        return tokenizer
    wanted = Tokenizer.from_file(str(file)).encode(_PROBE, add_special_tokens=False).ids
    for _ in range(2):
        if tokenizer.encode(_PROBE, add_special_tokens=False) == wanted:
            return tokenizer
        tokenizer = PreTrainedTokenizerFast.from_pretrained(path)
    raise ValueError(f"transformers does not load {file} as it is: its tokens are others")
