"""Generation by vLLM, behind the interface of the trainer's own.

Its paged cache keeps what conversations have read, across turns, branches and groups that share a
prompt (Kwon et al., 2023, arXiv:2309.06180), until the weights change; on a GPU it replays graphs.
What it samples is not bit for bit what the learner computes: `tis` corrects for that.
"""

import os
from collections.abc import Hashable, Iterator
from typing import Any

from torch import Tensor

from agent_envs.baselines.codec import Codec
from agent_envs.baselines.conversations import Conversations, Drawn, Talk
from agent_envs.baselines.hf import HuggingFace

os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")  # the weights are handed over here

from vllm import LLM, SamplingParams, TokensPrompt
from vllm.sampling_params import RequestOutputKind

SEEDS = 2**63


class EnginePolicy(Conversations):
    """Plays with an engine of vLLM in this process, which has a copy of a model's weights."""

    def __init__(
        self, model: HuggingFace, path: str, codec: Codec, turn_limit: int, **settings: Any
    ) -> None:
        """`path`: where the model came from, a folder or a name on a hub. `settings`: more for
        `vllm.LLM`, such as `gpu_memory_utilization`. Raises ValueError for a model with adapters,
        and on a CPU for one whose head is its embedding: vLLM (0.32) keeps the old head there.
        """
        if hasattr(model.inner, "peft_config"):
            raise ValueError("policy.lora and policy.engine=vllm do not go together")
        embedding = model.inner.get_input_embeddings().weight
        tied = embedding is model.inner.get_output_embeddings().weight
        if tied and model.weight.device.type == "cpu":
            raise ValueError("vLLM on a CPU does not take new weights of a head that is tied")
        self.model = model
        kept = {"dtype": str(model.weight.dtype).removeprefix("torch."), "seed": 0} | settings
        self.llm = LLM(
            path,
            skip_tokenizer_init=True,
            max_model_len=model.sizes.context,
            logprobs_mode="processed_logprobs",
            **kept,
        )
        super().__init__(codec, turn_limit, model.sizes.context)

    def begin(self, seed: int, *, version: int = 0, temperature: float = 1.0) -> None:
        """See `Conversations`; the weights are copied anew."""
        for key in list(getattr(self, "_waiting", ())):
            self.cancel(key)
        super().begin(seed, version=version, temperature=temperature)
        self._asked: dict[str, Talk] = {}
        self._count = 0
        self.llm.collective_rpc("reload_weights", kwargs={"weights_iterator": self._weights()})
        self.llm.reset_prefix_cache()

    def _weights(self) -> Iterator[tuple[str, Tensor]]:
        for name, weight in self.model.inner.named_parameters():
            yield name, weight.detach()

    def write(self, talks: list[Talk]) -> Iterator[Drawn]:
        """See `Conversations`: a step of the engine, which has them all in hand."""
        asked = set(self._asked.values())
        for talk in talks:
            if talk not in asked:
                self._ask(talk)
        for output in self.llm.llm_engine.step():
            talk, told = self._asked[output.request_id], output.outputs[0]
            if output.finished:
                del self._asked[output.request_id]
            for token, logprobs in zip(told.token_ids, told.logprobs or (), strict=True):
                yield talk, token, logprobs[token].logprob

    def _ask(self, talk: Talk) -> None:
        """Hand over a conversation, whose turn it is, up to the end of the turn."""
        self._count += 1
        name = f"{self.version}/{self._count}"
        self._asked[name] = talk
        how = SamplingParams(
            temperature=self.temperature,
            seed=talk.dice.randrange(SEEDS),
            max_tokens=self.room(talk),
            stop_token_ids=[self.codec.end],
            ignore_eos=True,
            logprobs=0,
            detokenize=False,
            output_kind=RequestOutputKind.DELTA,
        )
        prompt = TokensPrompt(prompt_token_ids=talk.row.tokens[talk.base :])
        self.llm.llm_engine.add_request(name, prompt, how)

    def cancel(self, key: Hashable) -> None:
        """See `Policy`."""
        asked = [name for name, talk in self._asked.items() if talk.key == key]
        self.llm.llm_engine.abort_request(asked)
        for name in asked:
            del self._asked[name]
        super().cancel(key)
