"""Every kind of model: what was sampled is what is trained, turn after turn and after updates."""

import copy
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_envs.baselines.batch import collate
from agent_envs.baselines.chars import Chars
from agent_envs.baselines.codec import Codec
from agent_envs.baselines.model import Likelihood, Model
from agent_envs.baselines.policy import TokenPolicy
from agent_envs.baselines.processes import learnable
from agent_envs.baselines.record import Record
from agent_envs.baselines.transformer import Shape, Transformer
from agent_envs.env import ToolEnv
from agent_envs.policy import Messages
from agent_envs.rollout import rollout
from agent_envs.turns import Action

tokenizers = pytest.importorskip("tokenizers", reason="pip install '.[hf]'")
transformers = pytest.importorskip("transformers", reason="pip install '.[hf]'")

from agent_envs.baselines import bpe, chat, hf  # noqa: E402

TEXTS = [
    "Add 67 and 90. Answer with the number alone.",
    '<tool_call>\n{"name": "calculate", "arguments": {"expression": "67+90"}}\n</tool_call>',
]
PLAIN = (
    "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
FORGETFUL = PLAIN.replace(
    "m.content }}", "m.content[:2] if m.role == 'assistant' else m.content }}"
)


ENV = "agent/Calculator-v0"


class Playing(NamedTuple):
    """A model, its codec, and an environment that it can play in."""

    model: Model
    codec: Codec
    env: str


def tokenizer(template: str = PLAIN) -> Any:
    """A small tokenizer of `transformers` with a chat template."""
    text = bpe.BytePairs.learn(TEXTS, 330).tokenizer.to_str()
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizers.Tokenizer.from_str(text),
        eos_token="<|end|>",
        pad_token="<|end|>",
        chat_template=template,
    )


def qwen(size: int, seed: int = 0) -> Any:
    """A small model whose queries share their keys."""
    config = transformers.Qwen2Config(
        vocab_size=size,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=256,
        tie_word_embeddings=True,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        made = transformers.Qwen2ForCausalLM(config)
    with torch.no_grad():
        for weight in made.parameters():
            weight.mul_(3 if weight.dim() > 1 else 1)  # else all tokens are as likely
    return made


def make(kind: str) -> Playing:
    """One of the kinds, untrained."""
    if kind == "chars":
        return Playing(Transformer(Shape(width=32), seed=3), Chars(), "agent/CalculatorChars-v0")
    if kind == "bpe":
        codec = bpe.BytePairs.learn(TEXTS, 330)
        shape = Shape(codec.size, 2, 32, 4, 256, "rope", 1000.0)
        return Playing(Transformer(shape, seed=1), codec, ENV)
    template = FORGETFUL if kind == "forgetful" else PLAIN
    chatting = chat.Chat(tokenizer(template))
    inner = qwen(chatting.size)
    if kind == "lora":
        inner = hf.adapted(inner, 4)
    return Playing(hf.HuggingFace(inner), chatting, ENV)


KINDS = ("chars", "bpe", "hf", "lora", "forgetful")
pytestmark = pytest.mark.filterwarnings("ignore:this chat template rewrites:RuntimeWarning")


def play(policy: TokenPolicy, env: str, branch: int | None = 1) -> list[Record]:
    """Two tasks, four episodes each, and a branch at every turn."""
    made = [gymnasium.make(env, max_turns=3, tool_docs=False).unwrapped for _ in range(8)]
    envs = [one for one in made if isinstance(one, ToolEnv)]
    tasks = envs[0].tasks.split("train", 0)[:2]
    played = rollout(envs, policy, tasks, group=4, branch=branch, seed=5)
    return [policy.record(trajectory) for trajectory in played]


@pytest.mark.parametrize("kind", KINDS)
def test_what_was_sampled_is_what_is_trained(kind: str) -> None:
    model, codec, env = make(kind)
    policy = TokenPolicy(model, codec, turn_limit=6, share=0 if kind == "chars" else 4)
    learners = [Likelihood(model, whole=whole) for whole in (True, False)]
    optimizer = torch.optim.SGD(learnable(model), 0.05)
    for version in (1, 2, 3):
        policy.begin(version, version=version)
        records = play(policy, env)
        assert version > 1 or max(len(r.rewards) for r in records) > 1
        batch = collate(records, [[1.0] * len(r.rewards) for r in records], share=4)
        assert batch.shared.max() >= 3
        assert {v for r in records for v in r.row.versions} == {version, -1}
        for learner in learners:
            new = learner(batch)
            off = (new - batch.old)[batch.own].exp() - 1
            assert off.abs().max() <= 1e-4, learner.whole
            optimizer.zero_grad()
            new[batch.own].mean().backward()
        before = [w.detach().clone() for w in learnable(model)]
        optimizer.step()
        assert any(not torch.equal(a, b) for a, b in zip(before, learnable(model), strict=True))


@pytest.mark.parametrize("kind", KINDS)
def test_sharing_prompts_leaves_the_gradient_as_it_is(kind: str) -> None:
    model, codec, env = make(kind)
    policy = TokenPolicy(model, codec, turn_limit=6)
    records = play(policy, env)
    found = []
    for share, whole in ((4, False), (0, False), (0, True)):
        learner = Likelihood(model, whole=whole)
        batch = collate(records, [[1.0] * len(r.rewards) for r in records], share=share)
        model.zero_grad()
        for part in batch.parts(5):  # groups are cut
            (learner(part)[part.own].sum() / batch.own.sum()).backward()
        found.append([w.grad.clone() for w in learnable(model) if w.grad is not None])
    for other in found[1:]:
        for a, b in zip(found[0], other, strict=True):
            torch.testing.assert_close(a, b, atol=1e-6, rtol=1e-4)


def answer(policy: TokenPolicy, key: str, messages: Messages) -> Action:
    """Ask one conversation and wait."""
    policy.submit(key, messages)
    for _ in range(100):
        for _, action in policy.collect(0.0):
            assert isinstance(action, Action)
            return action
    raise AssertionError("no answer")


@pytest.mark.parametrize("kind", ["chars", "bpe", "hf", "lora"])
def test_a_turn_costs_its_new_tokens_alone(kind: str) -> None:
    """However long the conversation is: nothing is read twice."""
    model, codec, _ = make(kind)
    policy = TokenPolicy(model, codec, turn_limit=5)
    talk: Messages = [{"role": "user", "content": "23+45="}]
    told = len(codec.open(talk))
    for turn in range(6):
        before = policy.fed
        action = answer(policy, "k", talk)
        assert action.sample is not None
        last = 1 if turn else 0  # the last token of a turn is read with what follows it
        assert policy.fed - before == told + last + len(action.sample.tokens) - 1
        talk += [{"role": "assistant", "content": action.text}, {"role": "tool", "content": "6|"}]
        news = codec.follow(talk, len(talk) - 1, ended=action.sample.tokens[-1] == codec.end)
        assert news is not None
        told = len(news)


@pytest.mark.parametrize("kind", ["chars", "bpe", "hf"])
def test_a_prompt_that_a_group_waits_with_is_read_once(kind: str) -> None:
    model, codec, _ = make(kind)
    policy = TokenPolicy(model, codec, turn_limit=4, share=4)
    prompt: Messages = [{"role": "user", "content": "23+45="}]
    for key in range(5):
        policy.submit(key, prompt)
    turns = [a for _ in range(9) for _, a in policy.collect(0.0) if isinstance(a, Action)]
    assert len(turns) == 5
    written = sum(len(a.sample.tokens) - 1 for a in turns if a.sample)
    assert policy.fed == len(codec.open(prompt)) + 4 * 1 + written


def test_whoever_reads_for_others_may_be_cancelled() -> None:
    model, codec, _ = make("bpe")
    policy = TokenPolicy(model, codec, turn_limit=4, share=4)
    prompt: Messages = [{"role": "user", "content": "23+45="}]
    for key in range(3):
        policy.submit(key, prompt)
    policy.cancel(0)
    turns = [key for _ in range(9) for key, _ in policy.collect(0.0)]
    assert sorted(map(str, turns)) == ["1", "2"]


@pytest.mark.parametrize("kind", ["bpe", "hf"])
def test_idle_slots_make_no_difference(kind: str) -> None:
    model, codec, env = make(kind)
    rows = []
    for share in (0, 4):
        policy = TokenPolicy(model, codec, turn_limit=6, share=share)
        policy.begin(3)
        rows.append([(r.row.tokens, r.row.own) for r in play(policy, env)])
    assert rows[0] == rows[1]


# -- chat templates --------------------------------------------------------------------------------


def test_where_a_template_rewrites_the_past_a_new_row_begins() -> None:
    model, codec, _ = make("forgetful")
    policy = TokenPolicy(model, codec, turn_limit=5)
    talk: Messages = [{"role": "user", "content": "23+45="}]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for _ in range(3):
            action = answer(policy, "k", talk)
            row = policy._talks["k"].row
            assert row.before(len(row.spans) - 1) == codec.open(talk)
            talk += [{"role": "assistant", "content": action.text}]
            talk += [{"role": "tool", "content": "68"}]
    assert len(row.restarts) == 2 and len(row.spans) == 3
    assert [str(w.message)[:13] for w in caught] == ["this chat tem"]
    assert not any(row.own[place] for place in row.restarts)


def test_a_template_that_keeps_the_past_goes_on() -> None:
    codec = chat.Chat(tokenizer())
    talk: Messages = [{"role": "user", "content": "1"}, {"role": "assistant", "content": "ab"}]
    talk.append({"role": "tool", "content": "3"})
    for ended in (True, False):
        said = codec.write("ab") if ended else codec.write("ab")[:-1]
        news = codec.follow(talk, 2, ended=ended)
        assert news is not None
        assert codec.open(talk[:1]) + said + news == codec.open(talk)
    assert codec.end == codec.tokenizer.convert_tokens_to_ids("<|end|>")


def test_empty_thoughts_may_stay_where_a_template_leaves_them_out() -> None:
    """As with Qwen3: they are written before a turn, and not shown again later."""
    template = PLAIN.replace("<|assistant|>{% endif %}", "<|assistant|><think></think>{% endif %}")
    talk: Messages = [{"role": "user", "content": "1"}, {"role": "assistant", "content": "ab"}]
    talk.append({"role": "tool", "content": "3"})
    for said in ("ab", "", "|>"):
        talk[1]["content"] = said
        assert chat.Chat(tokenizer(template)).follow(talk, 2, ended=True) is None
        codec = chat.Chat(tokenizer(template), append=True)
        news = codec.follow(talk, 2, ended=True)
        assert news is not None
        assert codec.tokenizer.decode(news) == "<|tool|>3<|end|><|assistant|><think></think>"
    other = chat.Chat(tokenizer(FORGETFUL), append=True)
    assert other.follow([talk[0], {"role": "assistant", "content": "abc"}], 2, ended=True) is None


def test_a_conversation_that_a_template_refuses_costs_its_own_episode() -> None:
    refusing = tokenizer("{{ raise_exception('no tools here') if messages[1:] }}" + PLAIN)
    model, codec, _ = make("hf")
    policy = TokenPolicy(model, codec, turn_limit=3)
    codec.tokenizer.chat_template = refusing.chat_template  # type: ignore[attr-defined]
    policy.submit("k", [{"role": "user", "content": "1"}, {"role": "user", "content": "2"}])
    ((_, failure),) = policy.collect(0.0)
    assert isinstance(failure, ValueError) and "no tools here" in str(failure)


def test_a_tokenizer_comes_back_as_it_was_or_not_at_all(tmp_path: Path) -> None:
    codec = chat.Chat(tokenizer())
    codec.save(tmp_path)
    again = chat.Chat(chat.load_tokenizer(str(tmp_path)))
    assert again.open([{"role": "user", "content": TEXTS[1]}]) == codec.open(
        [{"role": "user", "content": TEXTS[1]}]
    )
    assert again.digest() == codec.digest()
    assert chat.Chat(tokenizer(FORGETFUL)).digest() != codec.digest()
    config = tmp_path / "tokenizer_config.json"
    config.write_text(config.read_text().replace("PreTrainedTokenizerFast", "Qwen2Tokenizer"))
    found = chat.load_tokenizer(str(tmp_path))  # the library would put another in its place
    assert found.encode(TEXTS[1]) == codec.tokenizer.encode(TEXTS[1])


def test_a_tokenizer_without_a_template_is_refused() -> None:
    bare = tokenizer()
    bare.chat_template = None
    with pytest.raises(ValueError, match="no chat template"):
        chat.Chat(bare)


# -- byte pairs ------------------------------------------------------------------------------------

_LEARNED = bpe.BytePairs.learn(TEXTS, 330)


@settings(max_examples=100)
@given(st.text())
def test_any_text_comes_back_from_its_tokens(text: str) -> None:
    tokens = _LEARNED.write(text)
    assert _LEARNED.read(tokens) == text
    assert tokens.count(_LEARNED.end) == 1 and max(tokens) < _LEARNED.size


_TOOL = {"function": {"name": "add", "parameters": {"properties": {"a": {}, "b": {}}}}}
_PHRASES = bpe.call_phrases([_TOOL])
_PHRASED = bpe.BytePairs.learn(TEXTS, 330, phrases=_PHRASES)


@given(st.lists(st.one_of(st.text(), st.sampled_from(_PHRASES))))
def test_a_text_with_such_phrases_comes_back_too(pieces: list[str]) -> None:
    text = "".join(pieces)
    assert _PHRASED.read(_PHRASED.write(text)) == text


def test_control_tokens_in_a_text_are_text() -> None:
    tokens = _LEARNED.open([{"role": "tool", "content": "x<|end|><|assistant|>y"}])
    assert tokens.count(_LEARNED.end) == 1
    assert tokens.count(_LEARNED.open([])[0]) == 1


def test_a_tokenizer_is_a_function_of_its_texts(tmp_path: Path) -> None:
    again = bpe.BytePairs.learn(reversed(TEXTS), 330)
    assert again.digest() == _LEARNED.digest()
    assert bpe.BytePairs.learn(TEXTS[:1], 330).digest() != _LEARNED.digest()
    _LEARNED.save(tmp_path)
    assert bpe.BytePairs.load(tmp_path / bpe.NAME).digest() == _LEARNED.digest()
    with pytest.raises(ValueError, match="not a tokenizer"):
        bpe.BytePairs(tokenizers.Tokenizer(tokenizers.models.BPE()))


# -- models of transformers ------------------------------------------------------------------------


def test_our_attention_gives_the_logits_of_the_library() -> None:
    inner = qwen(300)
    tokens = torch.randint(300, (2, 40), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        wanted = inner(input_ids=tokens).logits
        got = hf.HuggingFace(inner)(tokens)
    torch.testing.assert_close(got, wanted, atol=1e-5, rtol=1e-5)


def test_only_adapters_are_learned_and_a_seed_draws_them() -> None:
    one, two, three = (hf.adapted(qwen(300), 4, seed) for seed in (1, 1, 2))
    weights = [[w for w in m.parameters() if w.requires_grad] for m in (one, two, three)]
    assert 0 < sum(w.numel() for w in weights[0]) < sum(w.numel() for w in one.parameters()) / 2
    assert all(torch.equal(a, b) for a, b in zip(weights[0], weights[1], strict=True))
    assert any(not torch.equal(a, b) for a, b in zip(weights[0], weights[2], strict=True))


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda config: setattr(config, "sliding_window", 8), "looks back 8"),
        (lambda config: setattr(config, "final_logit_softcapping", 30.0), "bends its logits"),
    ],
)
def test_a_model_of_another_kind_is_refused(spoil: Callable[[Any], None], message: str) -> None:
    inner = qwen(300)
    spoil(inner.config)
    with pytest.raises(ValueError, match=message):
        hf.HuggingFace(inner)


def test_a_model_that_does_not_read_as_its_library_says_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    inner = qwen(300)
    forward = type(inner).forward

    def scaled(self: Any, *args: Any, **kwargs: Any) -> Any:
        found = forward(self, *args, **kwargs)
        found.logits = found.logits * 1.1
        return found

    monkeypatch.setattr(type(inner), "forward", scaled)
    with pytest.raises(ValueError, match="does not read as transformers"):
        hf.HuggingFace(inner)


def test_a_copy_of_a_model_is_another_model() -> None:
    model = hf.HuggingFace(qwen(300))
    other = copy.deepcopy(model)
    with torch.no_grad():
        next(iter(other.parameters())).zero_()
    tokens = torch.arange(10)[None]
    with torch.no_grad():
        assert not torch.allclose(model(tokens), other(tokens))


def test_old_pages_go_out_of_sight(tmp_path: Path) -> None:
    codec = bpe.BytePairs.learn(TEXTS, 330, memory=1)
    talk = [{"role": "user", "content": "find it"}]
    first = codec.open(talk)
    talk += [{"role": "assistant", "content": "look"}, {"role": "tool", "content": "page 1"}]
    assert codec.follow(talk, 2, ended=True) == _LEARNED.follow(talk, 2, ended=True)
    talk += [{"role": "assistant", "content": "on"}, {"role": "tool", "content": "page 2"}]
    assert codec.follow(talk, 4, ended=True) is None, "page 1 was seen and is not any more"
    assert codec.open(talk) == _LEARNED.open([m for m in talk if m["content"] != "page 1"])
    talk += [{"role": "assistant", "content": "hm"}]
    assert codec.follow(talk, 6, ended=True) == _LEARNED.follow(talk, 6, ended=True)
    assert codec.open(talk)[: len(first) - 1] == first[:-1], "the prompt stays"
    codec.save(tmp_path)
    again = bpe.BytePairs.load(tmp_path / bpe.NAME)
    assert again.memory == 1 and again.digest() == codec.digest() != _LEARNED.digest()
