"""TRL's GRPOTrainer with one tool, on a small Qwen2: `make FOLDER`, `train FOLDER STEPS EPISODES`.

`make` writes the model and its tokenizer, with TRL's template for Qwen3, and teaches it to call the
tool, so that both trainers play real episodes. `train` prints one JSON object.
"""

import glob
import json
import os
import random
import sys
import time
from pathlib import Path
from typing import Any

import torch
import trl
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

CONTROL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
TAGS = ["<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<think>", "</think>"]
GROUP = 16


def add(a: int, b: int) -> int:
    """Add two integers.

    Args:
        a: First integer.
        b: Second integer.

    Returns:
        The sum.
    """
    return a + b


def make(folder: Path, steps: int) -> None:
    """A tokenizer and a taught model, in `folder`."""
    tokenizer = _tokenizer()
    config = Qwen2Config(
        vocab_size=len(tokenizer),
        hidden_size=256,
        intermediate_size=1024,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=4096,
        tie_word_embeddings=True,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=None,
    )
    torch.manual_seed(0)
    model = Qwen2ForCausalLM(config)
    rng = random.Random(0)
    optimizer = torch.optim.AdamW(model.parameters(), 1.5e-3)
    for _ in range(steps):
        rows = [_demonstration(tokenizer, rng) for _ in range(8)]
        length = max(len(tokens) for tokens, _ in rows)
        padded = torch.tensor([t + [0] * (length - len(t)) for t, _ in rows])
        labels = torch.tensor([lab + [-100] * (length - len(lab)) for _, lab in rows])
        loss = model(padded, labels=labels).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def _tokenizer() -> Any:
    found = Path(trl.__file__).parent
    template = (found / "chat_templates" / "qwen3.jinja").read_text()
    sources = sorted(glob.glob(f"{found}/trainer/*.py"))[:12]
    corpus = [Path(name).read_text(errors="ignore") for name in sources] + [template] * 20
    tokenizer = Tokenizer(models.BPE())
    digits = pre_tokenizers.Digits(individual_digits=True)
    pieces = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([digits, pieces])
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=2048, special_tokens=CONTROL + TAGS, initial_alphabet=alphabet
    )
    tokenizer.train_from_iterator(corpus, trainer)
    plain = json.loads(tokenizer.to_str())
    for token in plain["added_tokens"]:  # TRL reads calls from text without control tokens
        token["special"] = token["content"] in CONTROL
    make_tokenizer: Any = PreTrainedTokenizerFast
    made = make_tokenizer(
        tokenizer_object=Tokenizer.from_str(json.dumps(plain)),
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
    )
    made.chat_template = template
    return made


def _demonstration(tokenizer: Any, rng: random.Random) -> tuple[list[int], list[int]]:
    a, b = rng.randrange(10, 100), rng.randrange(10, 100)
    asked = tokenizer.apply_chat_template(
        [{"role": "user", "content": f"What is {a}+{b}?"}],
        tools=[add],
        tokenize=False,
        add_generation_prompt=True,
        enable_thinking=False,
    )
    arguments = json.dumps({"name": "add", "arguments": {"a": a, "b": b}})
    parts = [
        (asked, False),
        (f"<tool_call>\n{arguments}\n</tool_call><|im_end|>", True),
        (f"\n<|im_start|>user\n<tool_response>\n{a + b}\n</tool_response><|im_end|>\n", False),
        ("<|im_start|>assistant\n<think>\n\n</think>\n\n", False),
        (f"{a + b}<|im_end|>", True),
    ]
    tokens: list[int] = []
    labels: list[int] = []
    for text, own in parts:
        ids = tokenizer(text, add_special_tokens=False)["input_ids"]
        tokens += ids
        labels += ids if own else [-100] * len(ids)
    return tokens, labels


def train(folder: Path, steps: int, episodes: int) -> dict[str, Any]:
    """GRPO over prompts x `GROUP` episodes; the first step is left out of the figures."""
    from datasets import arrow_dataset as arrow
    from trl import GRPOConfig, GRPOTrainer

    arrow.generate_fingerprint = lambda dataset: "adding"  # it cannot pickle some pyarrow's types
    seen: list[dict[str, float]] = []

    class Timed(GRPOTrainer):
        def _generate(self, prompts: Any) -> Any:
            began = time.perf_counter()
            out = super()._generate(prompts)
            own = sum(map(sum, out[2])) if out[2] else sum(map(len, out[1]))
            seen.append({"generation": time.perf_counter() - began, "own": own})
            return out

        def training_step(self, *args: Any, **kwargs: Any) -> Any:
            began = time.perf_counter()
            out = super().training_step(*args, **kwargs)
            seen[-1]["update"] = time.perf_counter() - began
            return out

    def reward(completions: Any, answer: Any, **others: Any) -> list[float]:
        ends = [(c[-1].get("content") or "").strip() for c in completions]
        return [float(end.endswith(a)) for end, a in zip(ends, answer, strict=True)]

    rng = random.Random(1)
    rows = []
    for _ in range(512):
        a, b = rng.randrange(10, 100), rng.randrange(10, 100)
        prompt = [{"role": "user", "content": f"What is {a}+{b}?"}]
        rows.append({"prompt": prompt, "answer": str(a + b)})
    config = GRPOConfig(
        output_dir=str(folder / "trl"),
        per_device_train_batch_size=episodes,
        num_generations=GROUP,
        max_completion_length=128,
        max_steps=steps,
        learning_rate=3e-4,
        beta=0.0,
        report_to="none",
        save_strategy="no",
        bf16=False,
        use_cpu=True,
        max_tool_calling_iterations=2,
        chat_template_kwargs={"enable_thinking": False},
        disable_tqdm=True,
        gradient_checkpointing=False,
    )
    trainer = Timed(
        model=Qwen2ForCausalLM.from_pretrained(folder, dtype=torch.float32),
        reward_funcs=reward,
        train_dataset=arrow.Dataset.from_list(rows),
        processing_class=PreTrainedTokenizerFast.from_pretrained(folder),
        args=config,
        tools=[add],
    )
    trainer.train()
    kept = seen[1:] or seen
    return {
        "version": trl.__version__,
        "own": sum(x["own"] for x in kept) / len(kept),
        "generation": sum(x["generation"] for x in kept) / len(kept),
        "update": sum(x["update"] for x in kept) / len(kept),
    }


if __name__ == "__main__":
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    if sys.argv[1] == "make":
        make(Path(sys.argv[2]), int(sys.argv[3]))
    else:
        print(json.dumps(train(Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))))
