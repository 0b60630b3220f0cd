"""Who plays: a model and its codec, made from the settings of a run."""

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from agent_envs.baselines import checkpoint
from agent_envs.baselines.chars import Chars
from agent_envs.baselines.codec import Codec
from agent_envs.baselines.conversations import Conversations
from agent_envs.baselines.model import Model
from agent_envs.baselines.policy import TokenPolicy
from agent_envs.baselines.settings import Args
from agent_envs.baselines.transformer import Shape, Transformer
from agent_envs.streams import derive

KINDS = ("chars", "bpe", "hf")
ENGINES = ("own", "vllm")

Texts = Callable[[], Sequence[str]]
"""What is read and written in an environment, where a tokenizer is to be made from it."""


def make(args: Args, out: Path, texts: Texts, tools: list[dict[str, Any]]) -> tuple[Model, Codec]:
    """The model, untrained or as it was published, and its codec. A tokenizer that a run in `out`
    has made already is taken from there.

    Raises ValueError for a kind that there is not, OSError where a model's files are missing.
    """
    if args.policy.kind == "chars":
        return _small(args, Chars())
    if args.policy.kind == "bpe":
        return _small(args, _byte_pairs(args, out, texts, tools))
    return _published(args, tools)


def policy(args: Args, model: Any, codec: Codec, slots: int) -> Conversations:
    """Who generates with a model. Raises ImportError where vLLM is wanted and not installed."""
    if args.policy.engine == "vllm":
        if find_spec("vllm") is None:
            raise ImportError("policy.engine=vllm: pip install 'agent-envs[hf,vllm]' (on Linux)")
        from agent_envs.baselines.vllm import EnginePolicy

        path, settings = args.policy.path, args.policy.engine_settings
        return EnginePolicy(model, path, codec, args.turn_limit, **settings)
    return TokenPolicy(model, codec, args.turn_limit, slots, share=args.share)


def _small(args: Args, codec: Codec) -> tuple[Model, Codec]:
    size = (codec.size, args.layers, args.width, args.heads, args.context)
    shape = Shape(*size, args.positions, args.policy.rope_base)
    return Transformer(shape, derive(args.seed, "weights")), codec


def _byte_pairs(args: Args, out: Path, texts: Texts, tools: list[dict[str, Any]]) -> Codec:
    from agent_envs.baselines.bpe import NAME, BytePairs, call_phrases

    if (out / NAME).exists() and (out / checkpoint.NAME).exists():
        return BytePairs.load(out / NAME)
    size, memory = args.policy.vocabulary, args.policy.memory
    codec = BytePairs.learn(texts(), size, memory, call_phrases(tools))
    codec.save(out)
    return codec


def _published(args: Args, tools: list[dict[str, Any]]) -> tuple[Model, Codec]:
    from agent_envs.baselines import chat, hf

    path, more = hf.source(args.policy.path)
    tokenizer = chat.load_tokenizer(path, **more)
    told = tools if args.policy.native_tools else ()
    how = {"thinking": args.policy.thinking, "append": args.policy.append}
    codec = chat.Chat(tokenizer, told, **how)
    seed = derive(args.seed, "weights") % 2**63
    return hf.load(args.policy.path, args.context, args.policy.lora, seed), codec
