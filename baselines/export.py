"""A trained model in a folder, as others read it: weights in safetensors, and the tokenizer."""

import dataclasses
import json
from pathlib import Path
from typing import Any

from agent_envs.baselines.codec import Codec
from agent_envs.baselines.model import Model
from agent_envs.baselines.transformer import Shape, Transformer

WEIGHTS, SHAPE = "model.safetensors", "config.json"


def export(model: Model, codec: Codec, folder: Path) -> None:
    """Write the model; one of `transformers` (or its adapters) in that library's own form."""
    folder.mkdir(parents=True, exist_ok=True)
    if isinstance(model, Transformer):
        from safetensors.torch import save_file

        save_file({n: w.contiguous() for n, w in model.state_dict().items()}, folder / WEIGHTS)
        (folder / SHAPE).write_text(json.dumps(dataclasses.asdict(model.shape), indent=1) + "\n")
    else:
        inner: Any = model.get_submodule("inner")
        inner.save_pretrained(folder)
    codec.save(folder)


def load(folder: Path) -> Transformer:
    """A `Transformer` that was exported."""
    from safetensors.torch import load_file

    model = Transformer(Shape(**json.loads((folder / SHAPE).read_text())))
    model.load_state_dict(load_file(folder / WEIGHTS))
    return model
