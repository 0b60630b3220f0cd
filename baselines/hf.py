"""Causal language models of `transformers`, with LoRA by `peft` where it is asked for."""

import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, AutoModelForCausalLM, GgufConfig, PreTrainedModel

from agent_envs.baselines.attention import Sizes, View
from agent_envs.baselines.model import Model

ATTENTION = "agent_envs"
PROBE = 24
"""How many tokens are read to see that a model works as its library says."""


class HuggingFace(Model):
    """A `PreTrainedModel` that reads through a `View`: its own attention is replaced by ours.

    That suits models which hand their attention over (Llama, Qwen, Mistral, SmolLM and their
    like), without windows and logits of a special kind; `check` says whether one is such a model.
    """

    def __init__(self, inner: Any, context: int = 0) -> None:
        """`inner`: the model, or the PeftModel around it. `context`: at most so many tokens; 0 for
        what the model was made for. Raises ValueError where the model does not read as it should.
        """
        super().__init__()
        self.inner = inner.eval()  # dropout would make what is learned another model
        base: PreTrainedModel = inner.get_base_model() if hasattr(inner, "peft_config") else inner
        self._base: list[Any] = [base]  # in a list, so that its weights are not counted twice
        config = base.config.get_text_config()
        longest = int(config.max_position_embeddings)
        self._context = min(context or longest, longest)
        self.check()
        base.set_attn_implementation(ATTENTION)

    @property
    def head(self) -> nn.Module:  # type: ignore[override]
        """See `Model`."""
        found: nn.Module = self._base[0].get_output_embeddings()
        return found

    @property
    def sizes(self) -> Sizes:
        """See `Model`."""
        config = self._base[0].config.get_text_config()
        width = (
            getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        )
        heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
        return Sizes(config.num_hidden_layers, heads, width, self._context)

    def hidden(self, tokens: Tensor, positions: Tensor, view: View) -> Tensor:
        """See `Model`."""
        places = positions.expand(len(tokens), -1)
        decoder = self._base[0].get_decoder()
        found: Tensor = decoder(
            input_ids=tokens, position_ids=places, use_cache=False, view=view
        ).last_hidden_state
        return found

    def layers(self) -> Iterable[nn.Module]:
        """See `Model`."""
        found: Iterable[nn.Module] = self._base[0].get_decoder().layers
        return found

    @torch.no_grad()
    def check(self) -> None:
        """Raise ValueError unless our attention gives the logits of the library's own."""
        base = self._base[0]
        config = base.config.get_text_config()
        window = getattr(config, "sliding_window", None)
        if window and window < self._context:
            raise ValueError(f"{type(base).__name__} looks back {window} tokens: set context to it")
        if getattr(config, "final_logit_softcapping", None):
            raise ValueError(f"{type(base).__name__} bends its logits: not taken by this trainer")
        count = min(PROBE, self._context)
        tokens = torch.arange(2 * count, device=self.weight.device).view(2, count) % 256
        base.set_attn_implementation("eager")
        wanted = base(input_ids=tokens, use_cache=False).logits
        base.set_attn_implementation(ATTENTION)
        off = (self(tokens) - wanted).abs().max() / wanted.abs().max()
        if not off < (1e-3 if wanted.dtype == torch.float32 else 5e-2):
            raise ValueError(
                f"{type(base).__name__} does not read as transformers would have it (logits are "
                f"{off:.1e} off): this trainer takes models like Llama, Qwen, Mistral or SmolLM"
            )


def load(path: str, context: int = 0, lora: int = 0, seed: int = 0) -> HuggingFace:
    """A model from a folder, a GGUF file, or by its name on a hub, in float32. `lora`: the rank of
    adapters that are trained in place of the weights, first drawn by `seed`; 0 for none.

    Raises OSError where there is no such model, ValueError for one that is not of the kind.
    """
    folder, more = source(path)
    if more:
        more["quantization_config"] = GgufConfig(dequantize=True, **more)
    inner = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, **more)
    return HuggingFace(adapted(inner, lora, seed) if lora else inner, context)


def adapted(inner: Any, rank: int, seed: int = 0) -> Any:
    """A model with low-rank adapters at all its linear layers (Hu et al., 2021, arXiv:2106.09685);
    alpha is twice the rank, and only they are trained."""
    from peft import LoraConfig, get_peft_model

    config = LoraConfig(
        task_type="CAUSAL_LM", r=rank, lora_alpha=2 * rank, target_modules="all-linear"
    )
    with warnings.catch_warnings(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        warnings.filterwarnings("ignore", "`is_gradient_checkpointing`", FutureWarning)
        return get_peft_model(inner, config)


def source(path: str) -> tuple[str, dict[str, Any]]:
    """Where `transformers` shall look, and for a GGUF file its name."""
    file = Path(path)
    if file.suffix == ".gguf":
        return str(file.parent), {"gguf_file": file.name}
    return path, {}


def _attend(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: None,
    scaling: float | None = None,
    *,
    view: View,
    **others: Any,
) -> tuple[Tensor, None]:
    """Attention as `transformers` calls it."""
    layer: Any = module.layer_idx
    return view.attend(layer, query, key, value, scaling).transpose(1, 2), None


AttentionInterface.register(ATTENTION, _attend)
