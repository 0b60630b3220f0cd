"""What docs/rows.py compares: a start, and two trainers that go on from it."""

import random
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import torch
from tokenizers import Tokenizer
from torch.nn.functional import cross_entropy
from torch.nn.utils.rnn import pad_sequence
from transformers import (
    AutoModelForCausalLM,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen2ForCausalLM,
)

from agent_envs.baselines import imitation
from agent_envs.baselines.bpe import BytePairs
from agent_envs.baselines.chat import load_tokenizer
from agent_envs.baselines.codec import Codec
from agent_envs.baselines.export import export
from agent_envs.baselines.grpo import Run
from agent_envs.baselines.model import Model
from agent_envs.baselines.settings import Args, Lesson, Player
from agent_envs.policy import oracle
from agent_envs.rollout import rollout

ENV = "agent/Calculator-v0"
LEVELS = (0, 1, 2)
"""Problems of a single call; the suite plays 3 and 4 too, which take several."""
UPDATES, TASKS, GROUP = 25, 10, 8
"""2,000 episodes."""
RATE = 3e-4
WRITTEN = 160
"""How many tokens an episode may have behind its prompt (TRL), or a turn (ours), at most."""
CONTEXT = 400
TURNS = 16

TEMPLATE = (
    "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% for call in m.tool_calls or [] %}"
    "<tool_call>\n{{ call.function | tojson }}\n</tool_call>{% endfor %}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
"""It describes no tools: the environment does, in the suite too."""
RESPONSE = {
    "defaults": {"role": "assistant"},
    "start_anchor": "<|assistant|>",
    "fields": {
        "tool_calls": {
            "open": "<tool_call>",
            "close_pattern": r"</tool_call>\s*",
            "repeats": True,
            "content": "json",
            "transform": {"type": "function", "function": "{content}"},
        },
        "content": {"close_pattern": r"<\|end\|>", "content": "text"},
    },
}
"""How TRL finds the calls in what was written."""


def halves() -> tuple[list[Any], list[Any]]:
    """The training tasks of some levels: those to be shown, and those to be practised."""
    with gymnasium.make(ENV) as env:
        every = env.get_wrapper_attr("tasks").split("train")
    tasks = [task for task in every if task.level in LEVELS]
    return tasks[::2], tasks[1::2]


def settings(folder: Path, **changes: Any) -> Args:
    """A run of our trainer with the model of a folder."""
    fixed: dict[str, Any] = {
        "env": ENV,
        "max_turns": TURNS,
        "policy": Player(kind="hf", path=str(folder)),
        "context": CONTEXT,
        "turn_limit": WRITTEN,
        "shown": 0,
        "worksheets": Lesson(0, 1, 0.0),
        "demonstrations": Lesson(0, 1, 0.0),
        "tasks": TASKS,
        "group": GROUP,
        "credit": "group_normalised",
        "learning_rate": RATE,
        "share": 32,
        "slots": 0,
        "rows": TASKS * GROUP,
    }
    return Args(**(fixed | changes))


def new_model(tokenizer: Any) -> Any:
    """Two layers of width 128."""
    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=64 * (len(tokenizer) // 64 + 1),
        hidden_size=128,
        intermediate_size=384,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=4,
        max_position_embeddings=CONTEXT,
        rope_parameters={"rope_type": "default", "rope_theta": 1000.0},
        initializer_range=0.06,
        tie_word_embeddings=False,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=None,
    )
    return Qwen2ForCausalLM(config)


def copying(model: Model, codec: Codec, sums: list[str], steps: int = 600) -> None:
    """Teach to repeat what stands earlier: a sum and some numbers, from any of them on."""
    dice = random.Random(0)
    optimizer = torch.optim.AdamW(model.parameters(), 2e-3)
    for _ in range(steps):
        sheets = [_sheet(codec, dice.choice(sums), dice) for _ in range(32)]
        tokens = pad_sequence([torch.tensor(asked + said) for asked, said in sheets], True)
        wanted = [torch.tensor([-100] * len(asked) + said) for asked, said in sheets]
        labels = pad_sequence(wanted, True, -100)
        loss = cross_entropy(model(tokens[:, :-1]).transpose(1, 2), labels[:, 1:])
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        optimizer.step()


def _sheet(codec: Codec, text: str, dice: random.Random) -> tuple[list[int], list[int]]:
    piece = [text]
    for _ in range(dice.randrange(1, 4)):
        number = str(dice.randrange(10 ** dice.randrange(1, 7)))
        piece.insert(dice.randrange(len(piece) + 1), number)
    first = dice.randrange(len(piece))
    asked = codec.open([{"role": "user", "content": " ".join(piece)}])
    return asked, codec.write(" ".join(piece[first:] + piece[:first]))


def make(out: Path) -> dict[str, Any]:
    """A tokenizer and a model, shown the gold solutions of one half of the training tasks."""
    shown, _ = halves()
    with gymnasium.make(ENV) as env:
        demos = rollout([env.unwrapped], oracle(env.unwrapped), shown)
    pairs = BytePairs.learn(imitation.texts(demos), 1024)
    names = {"eos_token": "<|end|>", "pad_token": "<|pad|>", "chat_template": TEMPLATE}
    backend = Tokenizer.from_str(pairs.tokenizer.to_str())
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, **names)
    new_model(tokenizer).save_pretrained(out / "raw")
    tokenizer.save_pretrained(out / "raw")
    with Run(settings(out / "raw"), out) as run:
        copying(run.model, run.codec, [call for task in shown for call in task.data["calls"]])
        imitation.finetune(run.likelihood, Lesson(400, 8, 1.5e-3), demos, run.codec, 0)
        export(run.model, run.codec, out / "model")
        return {"parameters": sum(weight.numel() for weight in run.model.parameters())}


def ours(start: Path, seed: int, out: Path) -> dict[str, Any]:
    """Our trainer's figures; the model in `out`."""
    calls = []

    class Counted(Run):
        def episodes(self, *args: Any) -> Any:
            records, values = super().episodes(*args)
            calls.extend(r.verdict.components["calls"] for r in records if r.verdict)
            return records, values

    with Counted(settings(start, seed=seed), out) as run:
        run.train_tasks = halves()[1]
        rows = [run.update(number) for number in range(1, UPDATES + 1)]
        export(run.model, run.codec, out / "model")
    return {
        "episodes": int(sum(row["episodes"] + row["continuations"] for row in rows)),
        "calls": int(sum(calls)),
        "tokens": int(sum(row["own_tokens"] for row in rows)),
        "invalid": int(sum(row["invalid"] for row in rows)),
        "reward": [round(row["reward"], 4) for row in rows],
    }


def theirs(start: Path, seed: int, out: Path) -> dict[str, Any]:
    """TRL's figures; the model in `out`."""
    from datasets import arrow_dataset

    from agent_envs.adapters import trl

    arrow_dataset.generate_fingerprint = lambda dataset: "rows"  # some pyarrow's types don't pickle
    told: dict[str, Any] = {"episodes": 0, "calls": 0, "tokens": 0, "invalid": 0, "reward": []}
    tokenizer = load_tokenizer(str(start))
    tokenizer.response_template = RESPONSE
    practised = {task.id for task in halves()[1]}
    rows = [row for row in trl.rows(ENV, seed=seed, tool_docs=True) if row["task"] in practised]
    trainer = counting(told)(
        model=AutoModelForCausalLM.from_pretrained(start, dtype=torch.float32),
        processing_class=tokenizer,
        environment_factory=partial(trl.environment, ENV, max_turns=TURNS),
        train_dataset=arrow_dataset.Dataset.from_list(rows),
        reward_funcs=trl.reward(tokenizer),
        args=their_settings(seed, out / "trl"),
    )
    trainer.train()
    trainer.model.save_pretrained(out / "model")
    load_tokenizer(str(start)).save_pretrained(out / "model")
    return told


def counting(told: dict[str, Any]) -> Any:
    """TRL's trainer, which adds up what it plays."""
    from trl import GRPOTrainer

    class Counted(GRPOTrainer):
        def _generate(self, prompts: Any) -> Any:
            found = super()._generate(prompts)
            told["episodes"] += len(prompts)
            told["tokens"] += sum(map(sum, found[2]))
            told["calls"] += sum(m["role"] == "tool" for said in found[3] for m in said)
            return found

        def _calculate_rewards(self, *args: Any) -> Any:
            rewards = super()._calculate_rewards(*args)
            told["invalid"] += int(rewards.isnan().sum())
            told["reward"].append(round(float(rewards.nanmean()), 4))
            return rewards

    return Counted


def their_settings(seed: int, out: Path) -> Any:
    """The same run as `settings`, in TRL's words."""
    from trl import GRPOConfig

    return GRPOConfig(
        output_dir=str(out),
        seed=seed,
        per_device_train_batch_size=TASKS * GROUP,
        num_generations=GROUP,
        max_steps=UPDATES,
        max_completion_length=WRITTEN,
        max_tool_calling_iterations=TURNS - 1,
        learning_rate=RATE,
        lr_scheduler_type="constant",
        logging_steps=1,
        report_to="none",
        save_strategy="no",
        use_cpu=True,
        bf16=False,
        gradient_checkpointing=False,
        disable_tqdm=True,
    )
