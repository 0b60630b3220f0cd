"""Demonstrations with other names: consistent, of the same form, only what was copied."""

import random
import re
from pathlib import Path
from typing import Any

import gymnasium

from agent_envs.baselines.bpe import BytePairs
from agent_envs.baselines.grpo import Run
from agent_envs.baselines.imitation import demonstrations, finetune, texts, transcribe
from agent_envs.baselines.model import Likelihood
from agent_envs.baselines.renaming import copied, renaming, same, vocabulary
from agent_envs.baselines.settings import Args, Lesson
from agent_envs.baselines.transformer import Shape, Transformer
from agent_envs.env import ToolEnv
from agent_envs.task import Task
from agent_envs.trajectory import Trajectory
from agent_envs.turns import Action, ToolCall, Turn

HERMES: dict[str, Any] = {"protocol": {"name": "hermes"}}


def look_up(name: str = "Greta Xu", code: str = "KT-75020") -> Trajectory:
    """An episode made by hand: a name from the prompt, a code from a page."""
    page = {"role": "tool", "content": f'[5] link "{name}"\n  code: "{code}"\n  seen: "55 days"'}
    calls = [ToolCall("fill", {"ref": 5, "text": name}), ToolCall("scroll", {"to": "bottom"})]
    info: dict[str, Any] = {"messages": [page], "calls": []}
    turns = [
        Turn(Action("", calls=calls), page["content"], 0.0, info),
        Turn(Action(code), "", 1.0, {"messages": [], "calls": []}),
    ]
    task = Task("one", "train", f"The code of {name}?")
    prompt = [{"role": "user", "content": task.prompt}]
    return Trajectory("0", "0", task, 0, prompt, turns=turns, provenance=HERMES)


def shown() -> list[Trajectory]:
    made = gymnasium.make("agent/Calculator-v0", tool_docs=False)
    assert isinstance(made, ToolEnv)
    return demonstrations([made], made.tasks.split("train", 0)[:6], "oracle", 0)


def test_what_was_heard_and_said_again_is_copied() -> None:
    assert copied(look_up()) == ["Greta Xu", "KT-75020"], "not the number 5, nor a word of its own"


def test_a_name_is_another_one_everywhere_and_keeps_its_form() -> None:
    episode, words = look_up(), vocabulary(["green table", "Lamps 12"])
    assert words == ["green", "lamps", "table"]
    seen = set()
    for seed in range(20):
        rename = renaming(episode, words, random.Random(seed))
        prompt = rename(episode.prompt[0]["content"])
        name = re.fullmatch(r"The code of ([A-Z][a-z]+ [A-Z][a-z]+)\?", prompt)
        assert name, prompt
        page = rename(episode.turns[0].info["messages"][0]["content"])
        code = rename(episode.turns[1].action.text)
        assert re.fullmatch(r"[A-Z]{2}-\d{5}", code)
        assert page == f'[5] link "{name[1]}"\n  code: "{code}"\n  seen: "55 days"'
        seen.add(code)
    assert len(seen) == 20


def test_an_episode_without_copies_stays_as_it_is() -> None:
    episode = look_up()
    episode.turns = [Turn(Action("nothing"), "", 0.0, {"messages": [], "calls": []})]
    assert renaming(episode, ["green"], random.Random(0)) is same


def test_a_transcript_is_renamed_as_a_whole() -> None:
    episodes = shown()
    codec = BytePairs.learn(texts(episodes), 300)
    rename = renaming(episodes[0], vocabulary(texts(episodes)), random.Random(1))
    answer = episodes[0].turns[-1].action.text
    ((tokens, own),) = transcribe(episodes[0], codec, rename)
    said = codec.tokenizer.decode(tokens, skip_special_tokens=False)
    assert len(own) == len(tokens) and sum(own) > 0
    assert rename(answer) != answer and said.count(rename(answer)) == 2 and answer not in said


def test_a_lesson_with_other_names_is_another_and_a_function_of_the_seed() -> None:
    episodes = shown()
    codec = BytePairs.learn(texts(episodes), 300)

    def weights(renamed: float) -> list[float]:
        model = Transformer(Shape(codec.size, 1, 32, 2, 160, "rope"), seed=0)
        finetune(Likelihood(model, 1.0), Lesson(3, 4, 1e-3), episodes, codec, 0, renamed)
        found: list[float] = model.head.weight.flatten().tolist()
        return found

    assert weights(0.5) == weights(0.5) != weights(0.0)


def test_the_environment_gets_arguments_of_its_own(tmp_path: Path) -> None:
    with Run(Args(arguments={"max_calls": 3}), tmp_path) as run:
        assert {env.max_calls for env in [*run.envs, *run.exams["heldout"]]} == {3}


def test_a_demonstration_has_a_row_for_every_view_of_it() -> None:
    episode = look_up()
    page, more = episode.turns[0].info["messages"][0], {"role": "tool", "content": "nothing new"}
    info: dict[str, Any] = {"messages": [more], "calls": []}
    wait = Turn(Action("", calls=[ToolCall("wait", {})]), "nothing new", 0.0, info)
    episode.turns.insert(1, wait)
    codec = BytePairs.learn([*texts([episode])], 300, memory=1)
    rows = transcribe(episode, codec)
    said = [codec.tokenizer.decode(tokens, skip_special_tokens=False) for tokens, _ in rows]
    taught = [
        codec.tokenizer.decode([t for t, own in zip(*row, strict=True) if own]) for row in rows
    ]
    assert len(rows) == 2
    assert page["content"] in said[0] and page["content"] not in said[1]
    assert "fill" in taught[0] and "wait" in taught[0] and "nothing new" in said[1]
    assert "KT-75020" in taught[1] and "fill" not in taught[1] and "fill" in said[1]
