r"""A trained model in a folder, as others read it: weights in safetensors, and the tokenizer.

agent-envs train calculator --set export=true --out runs/one
agent-envs eval agent/Calculator-v0 --policy python:agent_envs.baselines.export:play=runs/one/model

So is any folder of `transformers` that lies here played: `load` is for those of our own alone.
"""

import dataclasses
import json
from pathlib import Path
from typing import Any

from agent_envs.baselines.chars import Chars
from agent_envs.baselines.codec import Codec
from agent_envs.baselines.model import Model
from agent_envs.baselines.policy import TokenPolicy
from agent_envs.baselines.transformer import Shape, Transformer
from agent_envs.env import ToolEnv

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


def play(env: ToolEnv, folder: str) -> TokenPolicy:
    """The likeliest turns of the model in a folder, cut where its context ends: what `agent-envs
    eval` and `bench --suite` take as a policy. A `Transformer` that was exported, or any model of
    `transformers` with a chat template, which is told of the tools by the environment alone.

    Raises OSError for a folder without one, ValueError for a model or an environment that it
    cannot read.
    """
    path = Path(folder)
    published = "model_type" in json.loads((path / SHAPE).read_text())
    model, codec = _published(folder) if published else _exported(env, path)
    policy = TokenPolicy(model, codec, model.sizes.context, slots=1, share=32)
    policy.begin(0, temperature=0.0)
    return policy


def _exported(env: ToolEnv, folder: Path) -> tuple[Model, Codec]:
    model, codec = load(folder), _codec(env, folder)
    if codec.size != model.shape.vocabulary:
        raise ValueError(
            f"{folder}: {model.shape.vocabulary} tokens in the model, {codec.size} here"
        )
    return model, codec


def _published(folder: str) -> tuple[Model, Codec]:
    from agent_envs.baselines import chat, hf

    return hf.load(folder), chat.Chat(chat.load_tokenizer(folder))


def _codec(env: ToolEnv, folder: Path) -> Codec:
    if env.protocol.name == "chars":
        return Chars()
    from agent_envs.baselines.bpe import NAME, BytePairs

    return BytePairs.load(folder / NAME)
