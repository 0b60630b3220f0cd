"""vLLM behind the trainer's interface: what it samples is what the learner computes."""

import json
from pathlib import Path
from typing import Any

import gymnasium
import pytest
import torch
import transformers
from tokenizers import Tokenizer

from agent_envs.baselines import bpe, chat, hf
from agent_envs.baselines.batch import collate
from agent_envs.baselines.model import Likelihood
from agent_envs.baselines.processes import learnable
from agent_envs.baselines.record import Record
from agent_envs.baselines.train import main
from agent_envs.baselines.vllm import EnginePolicy
from agent_envs.policy import Messages
from agent_envs.rollout import rollout
from agent_envs.turns import Action

ENV = "agent/Calculator-v0"
TEXTS = [
    "Add 67 and 90. Answer with the number alone.",
    '<tool_call>\n{"name": "calculate", "arguments": {"expression": "67+90"}}\n</tool_call>',
]
TEMPLATE = (
    "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
LIMIT = 6
ENGINE = {
    "enforce_eager": True,
    "max_num_seqs": 16,
    "max_num_batched_tokens": 1 << 14,  # a seed and a prompt in pieces is an error on a CPU (0.32)
    "kv_cache_memory_bytes": 1 << 28,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small model of `transformers` that lies in a folder, with its tokenizer."""
    path = tmp_path_factory.mktemp("model")
    text = bpe.BytePairs.learn(TEXTS, 330).tokenizer.to_str()
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_str(text),
        eos_token="<|end|>",
        pad_token="<|end|>",
        chat_template=TEMPLATE,
    )
    config = transformers.Qwen2Config(
        vocab_size=len(tokenizer),
        hidden_size=128,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=1024,
        tie_word_embeddings=False,
    )
    torch.manual_seed(0)
    model = transformers.Qwen2ForCausalLM(config)
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(3 if weight.dim() > 1 else 1)  # else all tokens are as likely
    model.save_pretrained(path)
    tokenizer.save_pretrained(path)
    return path


@pytest.fixture(scope="module")
def policy(folder: Path) -> EnginePolicy:
    """An engine that plays that model."""
    codec = chat.Chat(chat.load_tokenizer(str(folder)))
    return EnginePolicy(hf.load(str(folder)), str(folder), codec, LIMIT, **ENGINE)


def play(policy: EnginePolicy, branch: int | None = 1) -> list[Record]:
    """Two tasks, four episodes each, and a branch at every turn."""
    envs: Any = [gymnasium.make(ENV, max_turns=3) for _ in range(8)]
    tasks = list(envs[0].unwrapped.tasks.split("train"))[:2]
    played = rollout(envs, policy, tasks, group=4, branch=branch, progress=False)
    return [policy.record(trajectory) for trajectory in played]


def furthest(policy: EnginePolicy, records: list[Record]) -> float:
    """How far sampled and computed log-probs are apart, at most."""
    batch = collate(records, [[0.0] * len(r.rewards) for r in records], "cpu", 0)
    likelihood = Likelihood(policy.model, policy.temperature or 1.0)
    with torch.no_grad():
        computed = likelihood(batch)
    return float((computed - batch.old)[batch.own].abs().max())


@pytest.mark.parametrize("temperature", [1.0, 0.5, 0.0])
def test_what_was_sampled_is_what_is_learned(policy: EnginePolicy, temperature: float) -> None:
    policy.begin(3, version=7, temperature=temperature)
    records = play(policy)
    assert len(records) == 8 + 24 and all(r.valid for r in records)
    assert max(len(r.row.spans) for r in records) == 3
    assert all(1 <= end - start <= LIMIT for r in records for start, end in r.row.spans)
    assert {v for r in records for v in r.row.versions} == {-1, 7}
    assert furthest(policy, records) < 1e-4
    group = [r for r in records if r.group_id == "0" and r.parent is None]
    firsts = {tuple(r.row.tokens[slice(*r.row.spans[0])]) for r in group}
    assert len(group) == 4
    assert len(firsts) == 1 if temperature == 0 else len(firsts) > 1


def test_new_weights_are_played_at_once(policy: EnginePolicy) -> None:
    policy.begin(3)
    before = play(policy, branch=None)
    with torch.no_grad():
        for weight in learnable(policy.model):
            weight.mul_(1.05)
    assert furthest(policy, before) > 1e-3
    policy.begin(3, version=1)
    assert furthest(policy, play(policy)) < 1e-4


def test_a_seed_samples_the_same_again(policy: EnginePolicy) -> None:
    said = []
    for seed in (5, 5, 6):
        policy.begin(seed)
        said.append([r.row.tokens for r in play(policy, branch=None)])
    assert said[0] == said[1] != said[2]


def test_what_is_cancelled_never_answers(policy: EnginePolicy) -> None:
    policy.begin(0)
    prompt: Messages = [{"role": "user", "content": "Add 1 and 2."}]
    for key in "ab":
        policy.submit(key, prompt)
    policy.collect(0.0)
    policy.cancel("a")
    answers: dict[str, Action | Exception] = {}
    while "b" not in answers:
        answers |= {str(key): answer for key, answer in policy.collect(0.0)}
    assert set(answers) == {"b"}
    policy.submit("c", prompt)
    policy.begin(0)  # in the middle of a turn
    assert policy.collect(0.0) == []


def test_what_the_engine_would_not_notice_is_refused(folder: Path) -> None:
    codec = chat.Chat(chat.load_tokenizer(str(folder)))
    with pytest.raises(ValueError, match=r"policy\.lora and policy\.engine=vllm"):
        EnginePolicy(hf.load(str(folder), lora=2), str(folder), codec, LIMIT)
    tied = hf.load(str(folder))
    tied.inner.lm_head.weight = tied.inner.get_input_embeddings().weight
    with pytest.raises(ValueError, match="head that is tied"):
        EnginePolicy(tied, str(folder), codec, LIMIT)


def test_a_run_from_the_command_line(folder: Path, tmp_path: Path) -> None:
    settings = {
        "policy": "hf",
        "policy.path": str(folder),
        "policy.engine": "vllm",
        **{f"policy.engine_settings.{key}": value for key, value in ENGINE.items()},
        "context": 1024,
        "turn_limit": LIMIT,
        "updates": 2,
        "tasks": 2,
        "group": 4,
        "tis": 2.0,
        "learning_rate": 1e-3,
    }
    sets = [x for name, value in settings.items() for x in ("--set", f"{name}={value}")]
    main(["calculator", "--out", str(tmp_path), *sets])
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert [line["update"] for line in lines if "episodes" in line] == [1, 2]
