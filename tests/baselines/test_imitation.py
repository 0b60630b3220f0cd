"""Worksheets and demonstrations: what is taught, and which of it is learned."""

import random
from typing import Any

import gymnasium
import pytest
import torch

from agent_envs.baselines import chars, imitation
from agent_envs.baselines.chars import Chars
from agent_envs.baselines.imitation import (
    ask_until_two_agree,
    demonstrations,
    finetune,
    pretrain,
    transcribe,
)
from agent_envs.baselines.model import Likelihood, logprobs
from agent_envs.baselines.settings import Lesson
from agent_envs.baselines.transformer import Shape, Transformer
from agent_envs.env import ToolEnv
from agent_envs.turns import Message


def env(**kwargs: object) -> ToolEnv:
    made = gymnasium.make("agent/CalculatorChars-v0", **kwargs)  # type: ignore[arg-type]
    assert isinstance(made, ToolEnv)
    return made


def test_a_worksheet_holds_right_single_digit_sums() -> None:
    rng = random.Random(0)
    for _ in range(50):
        sheet = imitation._worksheet(rng)
        assert len(sheet) == 32 and chars.decode(chars.encode(sheet)) == sheet
        for line in sheet.split(";")[:-1]:
            terms, result = line.split("=")
            a, b = map(int, terms.split("+"))
            assert a + b == int(result) and a < 10 and b < 10


def test_the_oracle_is_transcribed_in_the_workshops_form() -> None:
    calculator = env()
    task = calculator.tasks.split("train", 0)[0]
    shown = demonstrations([calculator], [task], "oracle", 0)
    ((tokens, own),) = transcribe(shown[0], Chars())
    gold = task.data["answer"]
    text = f"{task.prompt}B{task.prompt[:-1]}|{gold}|{gold}|"
    assert chars.decode(tokens) == text
    taught = chars.decode(t for t, o in zip(tokens, own, strict=True) if o)
    assert taught == f"B{task.prompt[:-1]}|{gold}|"


def test_the_voting_teacher_asks_until_two_results_agree() -> None:
    liar = env(fault_rate=0.4, max_turns=12)
    tasks = liar.tasks.split("train", 0)
    shown = demonstrations([liar], tasks, "vote", 0)
    for trajectory in shown:
        results = [m["content"] for turn in trajectory.turns for m in turn.info["messages"]]
        assert len(set(results)) == len(results) - 1, "no two of the earlier results agreed"
        assert trajectory.turns[-1].action.text == results[-1]
        assert results[-1] in results[:-1]
    assert sum(bool(t.verdict and t.verdict.passed) for t in shown) >= 0.9 * len(shown)
    assert max(len(t.turns) for t in shown) > 3


def test_ask_until_two_agree() -> None:
    said: list[Message] = [{"role": "user", "content": "23+45="}]
    assert ask_until_two_agree(said) == "B23+45|"
    said += [{"role": "assistant", "content": "B23+45|"}, {"role": "tool", "content": "68|"}]
    assert ask_until_two_agree(said) == "B23+45|"
    said += [{"role": "assistant", "content": "B23+45|"}, {"role": "tool", "content": "68|"}]
    assert ask_until_two_agree(said) == "68|"


def test_a_teacher_that_nobody_knows_is_refused() -> None:
    calculator = env()
    with pytest.raises(ValueError, match="oracle or vote"):
        demonstrations([calculator], calculator.tasks.split("train", 0)[:1], "socrates", 0)


def test_lessons_teach_and_are_a_function_of_the_seed() -> None:
    calculator = env()
    shown = demonstrations([calculator], calculator.tasks.split("train", 0)[:5], "oracle", 0)
    lesson = Lesson(40, 8, 3e-3)
    models = [Transformer(Shape(width=32), seed=1) for _ in range(3)]
    tokens, own = (torch.tensor([x]) for x in transcribe(shown[0], Chars())[0])
    with torch.no_grad():
        before = logprobs(models[0], tokens)[own].mean()
    for model, seed in zip(models, (7, 7, 8), strict=True):
        torch.manual_seed(seed)
        pretrain(Likelihood(model), Lesson(3, 4, 1e-3), seed)
        finetune(Likelihood(model), lesson, shown, Chars(), seed)
    with torch.no_grad():
        assert logprobs(models[0], tokens)[own].mean() > before + 1
    assert torch.equal(models[0].head.weight, models[1].head.weight)
    assert not torch.equal(models[0].head.weight, models[2].head.weight)


def test_what_the_environment_says_is_not_taught() -> None:
    calculator = env()
    shown = demonstrations([calculator], calculator.tasks.split("train", 0)[:5], "oracle", 0)
    weights = []
    for content in ("68|", "00|"):
        for trajectory in shown:  # nothing of the teacher's comes after this
            trajectory.turns[-1].info["messages"] = [{"role": "tool", "content": content}]
        model = Transformer(Shape(width=32), seed=1)
        finetune(Likelihood(model), Lesson(3, 4, 1e-3), shown, Chars(), 0)
        weights.append(model.head.weight)
    assert torch.equal(*weights)


@pytest.mark.parametrize("whole", [True, False])
def test_lessons_are_learned_at_temperature_one_whatever_is_sampled_at(whole: bool) -> None:
    calculator = env()
    shown = demonstrations([calculator], calculator.tasks.split("train", 0)[:5], "oracle", 0)
    weights = []
    for temperature in (1.0, 0.5):
        model = Transformer(Shape(width=32), seed=1)
        learner = Likelihood(model, temperature, whole)
        pretrain(learner, Lesson(2, 4, 1e-3), 0)
        finetune(learner, Lesson(3, 4, 1e-3), shown, Chars(), 0)
        assert learner.temperature == temperature
        weights.append(model.head.weight)
    assert torch.equal(*weights)


def test_the_learning_rate_rises_over_the_warmup_and_falls_to_the_end() -> None:
    rates = []

    class Noted(torch.optim.AdamW):
        def step(self, closure: Any = None) -> Any:
            rates.append(self.param_groups[0]["lr"])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.optim, "AdamW", Noted)
        for lesson in (
            Lesson(5, 2, 6.0),
            Lesson(5, 2, 6.0, warmup=2),
            Lesson(5, 2, 6.0, warmup=2, decay=True),
        ):
            pretrain(Likelihood(Transformer(Shape(width=32), seed=1)), lesson, 0)
    assert rates[:10] == [6.0] * 5 + [3.0] + [6.0] * 4
    assert rates[10:] == pytest.approx([3.0, 6.0, 4.5, 3.0, 1.5])


def test_the_alphabet_holds_all_that_sums_lead_to() -> None:
    """A result may be below zero, by a fault or because the model subtracts."""
    assert len(chars.ALPHABET) == len(set(chars.ALPHABET)) == 17
    assert chars.decode(chars.encode("B1-4|-3|-3|?|")) == "B1-4|-3|-3|?|"
    with pytest.raises(ValueError, match="no characters"):
        chars.encode("What is 1+1?")
