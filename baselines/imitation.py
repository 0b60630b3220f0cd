"""How a model made from scratch comes to its first skill: worksheets, then demonstrations."""

import json
import random
from collections.abc import Callable, Sequence
from itertools import count
from typing import TypeAlias

import torch

from agent_envs.baselines import chars, renaming
from agent_envs.baselines.batch import Batch
from agent_envs.baselines.codec import Codec
from agent_envs.baselines.learning import rate
from agent_envs.baselines.model import Likelihood
from agent_envs.baselines.processes import learnable
from agent_envs.baselines.renaming import Renaming, same
from agent_envs.baselines.settings import Lesson
from agent_envs.env import ToolEnv
from agent_envs.policy import Messages, Policy, ScriptedPolicy, oracle
from agent_envs.rollout import rollout
from agent_envs.streams import derive
from agent_envs.task import Task
from agent_envs.trajectory import Trajectory
from agent_envs.turns import Action, ToolCall

Written: TypeAlias = tuple[list[int], list[bool]]
"""Tokens, and which of them are to be learned."""

FEW = 4
"""How many words are copied at first."""
WORKSHEET = 32
"""How many characters of a worksheet are read at once."""


def pretrain(model: Likelihood, lesson: Lesson, seed: int) -> None:
    """Teach single-digit addition from worksheets, `3+4=7;8+9=17;...`."""
    rng = random.Random(derive(seed, "worksheets"))

    def batch() -> list[Written]:
        sheets = [chars.encode(_worksheet(rng)) for _ in range(lesson.batch)]
        return [(sheet, [True] * len(sheet)) for sheet in sheets]

    _teach(model, lesson, batch)


def copying(
    model: Likelihood, lesson: Lesson, codec: Codec, texts: Sequence[str], words: int, seed: int
) -> None:
    """Teach to repeat what stands earlier in a conversation: pieces of texts, with numbers between
    their words. They grow from a few words to `words`: far things are found once near ones are."""
    rng = random.Random(derive(seed, "worksheets"))

    steps = count()

    def batch() -> list[Written]:
        most = FEW + (words - FEW) * next(steps) // lesson.steps
        return [_copy(codec, rng.choice(texts), most, rng) for _ in range(lesson.batch)]

    _teach(model, lesson, batch)


def finetune(
    model: Likelihood,
    lesson: Lesson,
    shown: Sequence[Trajectory],
    codec: Codec,
    seed: int,
    renamed: float = 0.0,
) -> None:
    """Teach the turns of demonstrations; what the environment says is read and not learned.

    `renamed`: how often one is told with other names and numbers, see `renaming.py`."""
    rng = random.Random(derive(seed, "demonstrations"))
    words = renaming.vocabulary(texts(shown)) if renamed else []
    plain = [transcribe(trajectory, codec) for trajectory in shown]
    places = [(i, part) for i, rows in enumerate(plain) for part in range(len(rows))]

    def row(episode: int, part: int) -> Written:
        if not renamed or rng.random() >= renamed:
            return plain[episode][part]
        rename = renaming.renaming(shown[episode], words, rng)
        return transcribe(shown[episode], codec, rename)[part]

    _teach(model, lesson, lambda: [row(*place) for place in rng.choices(places, k=lesson.batch)])


def demonstrations(
    envs: list[ToolEnv], tasks: Sequence[Task], teacher: str, seed: int
) -> list[Trajectory]:
    """Episodes of a teacher: `oracle`, or `vote`, which asks until two results agree."""
    return rollout(envs, _teacher(teacher, envs[0]), tasks, seed=derive(seed, "teacher"))


def transcribe(trajectory: Trajectory, codec: Codec, rename: Renaming = same) -> list[Written]:
    """A demonstration as tokens, and which of them are the teacher's: a row, or several where the
    codec shows the conversation anew at some turns. Earlier turns are then read, not learned."""
    messages = _renamed(trajectory.prompt, rename)
    rows = [_heard(codec.open(messages))]
    for turn in trajectory.turns:
        text = rename(spell(turn.action, trajectory))
        said = codec.write(text)
        messages.append({"role": "assistant", "content": text})
        heard, count = _renamed(turn.info["messages"], rename), len(messages)
        news = codec.follow(messages + heard, count, ended=True)
        messages += heard
        tokens, own = rows[-1]
        tokens += said + (news or [])
        own += [True] * len(said) + [False] * len(news or [])
        if news is None:
            rows.append(_heard(codec.open(messages)))
    return [(tokens, own) for tokens, own in rows if any(own)]


def _heard(tokens: list[int]) -> Written:
    return tokens, [False] * len(tokens)


def _renamed(messages: Messages, rename: Renaming) -> list[dict[str, str]]:
    return [{**message, "content": rename(message["content"])} for message in messages]


def texts(shown: Sequence[Trajectory]) -> list[str]:
    """What is said in demonstrations, message by message and turn by turn."""
    said = [spell(turn.action, t) for t in shown for turn in t.turns]
    heard = [m["content"] for t in shown for m in t.messages() if m["role"] != "assistant"]
    return said + heard


def spell(action: Action, trajectory: Trajectory) -> str:
    """A turn in the form of its protocol; the oracle says its moves without one."""
    if action.calls is None:
        return action.text
    write, between, close = _SPELLED[trajectory.provenance["protocol"]["name"]]
    return between.join(map(write, action.calls)) or f"{action.text}{close}"


def ask_until_two_agree(messages: Messages) -> str:
    """Calls the calculator until it has said the same thing twice, and answers that."""
    results = [m["content"] for m in messages if m["role"] == "tool"]
    if len(set(results)) < len(results):
        return str(results[-1])
    return f"B{messages[0]['content'].rstrip('=')}|"


def _in_chars(call: ToolCall) -> str:
    return f"B{next(iter(call.arguments.values()))}|"


def _in_hermes(call: ToolCall) -> str:
    body = {"name": call.name, "arguments": call.arguments}
    return f"<tool_call>\n{json.dumps(body, ensure_ascii=False)}\n</tool_call>"


_SPELLED: dict[str, tuple[Callable[[ToolCall], str], str, str]] = {
    "chars": (_in_chars, "", "|"),
    "hermes": (_in_hermes, "\n", ""),
}
"""By protocol: how a call is written, what stands between two, what closes an answer."""


def _teacher(name: str, env: ToolEnv) -> Policy:
    if name == "oracle":
        return oracle(env)
    if name == "vote":
        return ScriptedPolicy(ask_until_two_agree)
    raise ValueError(f"teacher={name!r}: oracle or vote")


def _worksheet(rng: random.Random) -> str:
    """As many whole single-digit sums as begin within its length, cut there."""
    text = ""
    while len(text) < WORKSHEET:
        a, b = rng.randrange(10), rng.randrange(10)
        text += f"{a}+{b}={a + b};"
    return text[:WORKSHEET]


def _copy(codec: Codec, text: str, words: int, rng: random.Random) -> Written:
    """A conversation whose answer is its question, from somewhere in the middle on."""
    piece = text.split(" ")
    start = rng.randrange(len(piece))
    piece = piece[start : start + rng.randrange(1, words + 1)]
    for _ in range(rng.randrange(1, 4)):
        number = str(rng.randrange(10 ** rng.randrange(1, 7)))
        piece.insert(rng.randrange(len(piece) + 1), number)
    first = rng.randrange(len(piece))
    wanted = " ".join(piece[first:] + piece[:first])
    asked = codec.open([{"role": "user", "content": " ".join(piece)}])
    answer = codec.write(wanted)
    return asked + answer, [False] * len(asked) + [True] * len(answer)


def _teach(model: Likelihood, lesson: Lesson, batch: Callable[[], list[Written]]) -> None:
    """Cross-entropy on the marked tokens, with AdamW (Loshchilov and Hutter, 2019); at temperature
    1, so that sampling at a lower one is closer to what the model finds likeliest."""
    device = model.model.weight.device
    sampled_at, model.temperature = model.temperature, 1.0
    optimizer = torch.optim.AdamW(learnable(model), lesson.learning_rate, weight_decay=0.01)
    for step in range(1, lesson.steps + 1):
        for group in optimizer.param_groups:
            group["lr"] = rate(lesson, step, lesson.steps)
        rows = _rows(batch(), device)
        loss = -model(rows)[rows.own].mean()
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        if lesson.max_grad_norm:
            torch.nn.utils.clip_grad_norm_(model.parameters(), lesson.max_grad_norm)
        optimizer.step()
    model.temperature = sampled_at


def _rows(written: Sequence[Written], device: torch.device) -> Batch:
    length = max(len(tokens) for tokens, _ in written)
    tokens = torch.tensor([t + [0] * (length - len(t)) for t, _ in written], device=device)
    own = torch.tensor([o + [False] * (length - len(o)) for _, o in written], device=device)
    own[:, 0] = False  # nothing comes before it to learn it from
    alone = torch.arange(len(written), device=device)
    nothing = torch.zeros(own.shape, device=device)
    return Batch(tokens, own, nothing, nothing, alone, torch.zeros_like(alone), nothing)
