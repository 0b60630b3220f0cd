"""verl's agent loop: its own token merging, with a scripted server behind it."""

import asyncio
from typing import Any

import hydra
import pytest
from omegaconf import OmegaConf
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast
from verl.experimental.agent_loop.agent_loop import (
    DictConfigWrap,
    ToolListWrap,
    _agent_loop_registry,
)
from verl.workers.rollout.replica import TokenOutput

from agent_envs.adapters import hosted, verl
from agent_envs.errors import BackendUnavailable
from tests.adapters.direct import BANK, CALCULATOR, ERRORS, NOISE, TASKS, as_text, play

TEMPLATE = (
    "{% if tools %}<|im_start|>system\nTools: {{ tools | tojson }}<|im_end|>\n{% endif %}"
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    """A token a byte."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    bpe = Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(alphabet)}, merges=[]))
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    bpe.add_special_tokens(["<|im_start|>", "<|im_end|>", "<|endoftext|>"])
    return PreTrainedTokenizerFast(
        tokenizer_object=bpe,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        chat_template=TEMPLATE,
    )


class Server:
    """As much of verl's server client as a loop uses; it writes the given turns."""

    def __init__(self, tokenizer: Any, turns: list[str], ends: bool = True) -> None:
        self.tokenizer, self.turns, self.ends = tokenizer, list(turns), ends
        self.prompts: list[list[int]] = []
        self.written: list[list[int]] = []

    async def generate(self, request_id: str, prompt_ids: list[int], **_: Any) -> Any:
        self.prompts.append(list(prompt_ids))
        text = self.turns.pop(0) + ("<|im_end|>" if self.ends else "")
        ids = self.tokenizer.encode(text, add_special_tokens=False)
        self.written.append(ids)
        return TokenOutput(token_ids=ids, log_probs=[-0.5] * len(ids), stop_reason="completed")


def played_by_verl(tokenizer: Any, server: Any, room: int = 4000, **extra: Any) -> Any:
    """The output for a row, of a loop made as verl's workers make it."""
    rollout = {"prompt_length": 8000, "response_length": room}
    config = {"actor_rollout_ref": {"rollout": rollout}, "data": {}}

    async def go() -> Any:
        loop = hydra.utils.instantiate(
            config=_agent_loop_registry["agent_envs"],
            trainer_config=DictConfigWrap(config=OmegaConf.create(config)),
            server_manager=server,
            tokenizer=tokenizer,
            processor=None,
            hf_model_type=None,
            dataset_cls=None,
            data_config=DictConfigWrap(OmegaConf.create({})),
            tools=ToolListWrap([]),
        )
        return await loop.run({"temperature": 1.0}, raw_prompt=[], extra_info=extra)

    return asyncio.run(go())


def episode(env_id: str, seed: int, **make: Any) -> dict[str, Any]:
    """A row's `extra_info`."""
    make = {"tool_docs": False, **make}
    return {"env_id": env_id, "task": TASKS[env_id], "seed": seed, "make": make}


@pytest.mark.parametrize("seed", [3, 4])
@pytest.mark.parametrize("env_id", [CALCULATOR, BANK])
def test_a_group_is_the_same_as_by_hand(tokenizer: Any, env_id: str, seed: int) -> None:
    played = play(env_id, seed, ERRORS, fault_rate=NOISE, tool_docs=False)
    for _ in range(2):
        server = Server(tokenizer, [as_text(move) for move in played.moves])
        extra = episode(env_id, seed, fault_rate=NOISE)
        output = played_by_verl(tokenizer, server, room=8000, **extra)
        assert output.reward_score == played.reward
        assert output.extra_fields["reward_extra_info"] == {"passed": float(bool(played.passed))}
        whole = tokenizer.decode(output.prompt_ids + output.response_ids)
        for message in [*played.opening, *(m for ms in played.messages for m in ms)]:
            assert f"<|im_start|>{message['role']}\n{message['content']}<|im_end|>" in whole
        check_tokens(tokenizer, server, output)


def check_tokens(tokenizer: Any, server: Server, output: Any) -> None:
    """What the model wrote carries loss, token for token, and nothing else does."""
    assert len(output.response_mask) == len(output.response_ids) == len(output.response_logprobs)
    own = [i for i, m in zip(output.response_ids, output.response_mask, strict=True) if m]
    assert own == [i for ids in server.written for i in ids]
    whole = output.prompt_ids + output.response_ids
    assert server.prompts[0] == output.prompt_ids
    assert all(whole[: len(prompt)] == prompt for prompt in server.prompts)


def test_an_answer_that_fills_the_response_is_cut(tokenizer: Any) -> None:
    answer = play(CALCULATOR, 1).answer
    server = Server(tokenizer, [answer], ends=False)
    room = len(tokenizer.encode(answer))
    output = played_by_verl(tokenizer, server, room=room, **episode(CALCULATOR, 1))
    assert output.reward_score == 0.0
    server = Server(tokenizer, [answer])
    assert played_by_verl(tokenizer, server, **episode(CALCULATOR, 1)).reward_score == 1.0


def test_a_full_response_ends_the_episode_graded(tokenizer: Any) -> None:
    call = '<tool_call>{"name": "calculate", "arguments": {"expression": "1+1"}}</tool_call>'
    room = len(tokenizer.encode(call)) + 5
    output = played_by_verl(tokenizer, Server(tokenizer, [call]), room, **episode(CALCULATOR, 1))
    assert len(output.response_ids) <= room
    assert output.reward_score == 0.0


def test_no_tool_but_the_envs_is_shown(tokenizer: Any) -> None:
    server = Server(tokenizer, ["no idea"])
    output = played_by_verl(tokenizer, server, **episode(BANK, 1))
    prompt = tokenizer.decode(output.prompt_ids)
    assert '"balance"' in prompt and '"transfer"' in prompt
    assert not any(f'"{name}"' in prompt for name in ("step", "close", "snapshot"))


def test_an_environment_that_fails_is_tried_again(
    tokenizer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    played = play(BANK, 3)
    kind = type(hosted.make(BANK))
    real, fails = kind.grade, [2]

    def flaky(self: Any, answer: Any) -> Any:
        if fails[0]:
            fails[0] -= 1
            raise BackendUnavailable("start the daemon")
        return real(self, answer)

    monkeypatch.setattr(kind, "grade", flaky)
    turns = [as_text(move) for move in played.moves]
    output = played_by_verl(tokenizer, Server(tokenizer, turns * 3), **episode(BANK, 3))
    assert output.reward_score == 1.0
    fails[0] = 3
    with pytest.raises(BackendUnavailable, match="daemon"):
        played_by_verl(tokenizer, Server(tokenizer, turns * 3), **episode(BANK, 3))


def test_rows_are_what_a_dataset_needs() -> None:
    [first, second] = verl.rows(BANK, n=2, split="heldout", make={"max_turns": 4})
    assert {first["agent_name"], second["agent_name"]} == {"agent_envs"}
    assert first["extra_info"]["task"] != second["extra_info"]["task"]
    assert first["extra_info"]["make"] == {"tool_docs": False, "max_turns": 4}
    assert [message["role"] for message in first["prompt"]] == ["user"]
