"""TRL's GRPOTrainer on agent/Calculator-v0, for real and small: a model of 0.2 M parameters.

    python docs/adapters/train_trl.py            # about a minute on a CPU

The model is made on the spot and shown the gold solutions of four sums until it calls the tool by
itself; then GRPO goes on from there. With a model of your own, drop `make_tokenizer`, `make_model`
and `imitate`, and pass its name to `GRPOTrainer`.
"""

import os
from functools import partial
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")

import gymnasium
import torch
from datasets import Dataset
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM
from trl import GRPOConfig, GRPOTrainer
from trl.chat_template_utils import qwen2_5_chat_template

from agent_envs.adapters import trl

ENV_ID = "agent/Calculator-v0"
Messages = list[dict[str, Any]]

torch.set_num_threads(1)  # a model this small is slower on more


def conversation(row: dict[str, Any]) -> Messages:
    """A row's prompt with the gold solution after it, as the chat template takes it."""
    env: Any = gymnasium.make(ENV_ID, tool_docs=False)
    _, info = env.reset(seed=row["seed"], options={"task": row["task"]})
    messages = list(info["messages"])
    while not env.ended:
        move = env.oracle(env.task, messages)
        calls = move if isinstance(move, list) else []
        functions = [{"name": call.name, "arguments": call.arguments} for call in calls]
        said: dict[str, Any] = {"role": "assistant", "content": "" if calls else move}
        if calls:
            said["tool_calls"] = [{"type": "function", "function": f} for f in functions]
        messages += [said, *env.act(move)[4]["messages"]]
    return messages


def make_tokenizer(texts: list[str]) -> Any:
    """A byte-level BPE of 500 tokens with the chat template of Qwen2.5."""
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    bpe.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=480, initial_alphabet=alphabet))
    bpe.add_special_tokens(["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
    bpe.add_tokens([AddedToken(t, normalized=False) for t in ("<tool_call>", "</tool_call>")])
    return PreTrainedTokenizerFast(
        tokenizer_object=bpe,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        chat_template=qwen2_5_chat_template,
    )


def make_model(tokenizer: Any) -> Any:
    """Two layers of width 64."""
    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=len(tokenizer),
        hidden_size=64,
        intermediate_size=256,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=4,
        max_position_embeddings=2048,
        tie_word_embeddings=True,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=None,
    )
    return Qwen2ForCausalLM(config)


def imitate(model: Any, tokenizer: Any, demos: list[Messages], tools: list[Any]) -> float:
    """Show the model the demonstrations until it has them nearly by heart; returns the loss."""
    examples = []
    for demo in demos:
        whole = tokenizer.apply_chat_template(demo, tools=tools, return_dict=False)
        start = tokenizer.apply_chat_template(
            demo[:1], tools=tools, add_generation_prompt=True, return_dict=False
        )
        examples.append((torch.tensor([whole]), len(start)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    losses = [9.0]
    while sum(losses[-len(examples) :]) / len(examples) > 0.02 and len(losses) < 1000:
        ids, start = examples[len(losses) % len(examples)]
        labels = ids.clone()
        labels[:, :start] = -100
        loss = model(input_ids=ids, labels=labels).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses[-1]


def make_trainer(
    folder: str, trainer: type[Any] = GRPOTrainer, sums: int = 4, **config: Any
) -> Any:
    """A GRPOTrainer for the tiny model: groups of four, a batch of two sums."""
    rows = list(trl.rows(ENV_ID, level=0, n=sums))
    make = partial(trl.environment, ENV_ID, level=0, fault_rate=0.2, max_turns=4)
    demos = [conversation(row) for row in rows]
    texts = [message["content"] for demo in demos for message in demo]
    tokenizer = make_tokenizer([*texts, qwen2_5_chat_template, str(demos)])
    model = make_model(tokenizer)
    imitate(model, tokenizer, demos, [make().calculate])
    settings: dict[str, Any] = {
        "per_device_train_batch_size": 8,
        "num_generations": 4,
        "max_completion_length": 160,
        "max_tool_calling_iterations": 4,
        "max_steps": 2,
        "learning_rate": 1e-4,
        "logging_steps": 1,
        "report_to": "none",
        "save_strategy": "no",
        "use_cpu": True,
        "bf16": False,
        "gradient_checkpointing": False,
        "disable_tqdm": True,
    }
    return trainer(
        model=model,
        processing_class=tokenizer,
        environment_factory=make,
        train_dataset=Dataset.from_list(rows),
        reward_funcs=trl.reward(tokenizer),
        args=GRPOConfig(output_dir=folder, **(settings | config)),
    )


if __name__ == "__main__":
    trainer = make_trainer("runs/trl", max_steps=6)
    trainer.train()
    for entry in trainer.state.log_history:
        if "reward" in entry:
            print({key: entry[key] for key in ("reward", "tools/call_frequency", "loss")})
