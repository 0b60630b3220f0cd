"""How the workshop's model comes to its first skill: worksheets, then demonstrations."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from agent_envs.baselines import chars
from agent_envs.baselines.transformer import Transformer, logprobs
from agent_envs.env import ToolEnv
from agent_envs.policy import Messages, Policy, ScriptedPolicy, oracle
from agent_envs.rollout import rollout
from agent_envs.streams import derive
from agent_envs.task import Task
from agent_envs.trajectory import Trajectory
from agent_envs.turns import Action

WORKSHEET = 32
"""How many characters of a worksheet are read at once."""


@dataclass
class Lesson:
    """One way of teaching: how long, in what portions, how fast."""

    steps: int
    batch: int
    learning_rate: float


def pretrain(model: Transformer, lesson: Lesson, seed: int) -> None:
    """Teach single-digit addition from worksheets, `3+4=7;8+9=17;...`."""
    rng = random.Random(derive(seed, "worksheets"))

    def batch() -> tuple[Tensor, Tensor]:
        tokens = torch.tensor([chars.encode(_worksheet(rng)) for _ in range(lesson.batch)])
        return tokens, torch.ones_like(tokens, dtype=torch.bool)

    _teach(model, lesson, batch)


def finetune(model: Transformer, lesson: Lesson, shown: Sequence[Trajectory], seed: int) -> None:
    """Teach the turns of demonstrations; what the environment says is read and not learned."""
    rng = random.Random(derive(seed, "demonstrations"))
    rows = [transcribe(trajectory) for trajectory in shown]

    def batch() -> tuple[Tensor, Tensor]:
        chosen = rng.choices(rows, k=lesson.batch)
        length = max(len(tokens) for tokens, _ in chosen)
        padded = [
            (tokens + [chars.PAD] * (length - len(tokens)), own + [False] * (length - len(own)))
            for tokens, own in chosen
        ]
        return torch.tensor([t for t, _ in padded]), torch.tensor([o for _, o in padded])

    _teach(model, lesson, batch)


def demonstrations(
    env: ToolEnv, tasks: Sequence[Task], teacher: str, seed: int
) -> list[Trajectory]:
    """Episodes of a teacher: `oracle`, or `vote`, which asks until two results agree."""
    return rollout(env, _teacher(teacher, type(env)), tasks, seed=derive(seed, "teacher"))


def transcribe(trajectory: Trajectory) -> tuple[list[int], list[bool]]:
    """A demonstration as tokens, and which of them are the teacher's."""
    tokens = chars.encode("".join(m["content"] for m in trajectory.prompt))
    own = [False] * len(tokens)
    for turn in trajectory.turns:
        said = chars.encode(_written(turn.action))
        heard = chars.encode("".join(m["content"] for m in turn.info["messages"]))
        tokens += said + heard
        own += [True] * len(said) + [False] * len(heard)
    return tokens, own


def ask_until_two_agree(messages: Messages) -> str:
    """Calls the calculator until it has said the same thing twice, and answers that."""
    results = [m["content"] for m in messages if m["role"] == "tool"]
    if len(set(results)) < len(results):
        return str(results[-1])
    return f"B{messages[0]['content'].rstrip('=')}|"


def _teacher(name: str, env: type[ToolEnv]) -> Policy:
    if name == "oracle":
        return oracle(env)
    if name == "vote":
        return ScriptedPolicy(ask_until_two_agree)
    raise ValueError(f"teacher={name!r}: oracle or vote")


def _written(action: Action) -> str:
    """A turn in the workshop's form; the oracle says its moves without a protocol."""
    if action.calls is None:
        return action.text
    if not action.calls:
        return f"{action.text}|"
    return "".join(f"B{next(iter(call.arguments.values()))}|" for call in action.calls)


def _worksheet(rng: random.Random) -> str:
    """As many whole single-digit sums as begin within its length, cut there."""
    text = ""
    while len(text) < WORKSHEET:
        a, b = rng.randrange(10), rng.randrange(10)
        text += f"{a}+{b}={a + b};"
    return text[:WORKSHEET]


def _teach(model: Transformer, lesson: Lesson, batch: Callable[[], tuple[Tensor, Tensor]]) -> None:
    """Cross-entropy on the marked tokens, with AdamW (Loshchilov and Hutter, 2019)."""
    device = model.head.weight.device
    optimizer = torch.optim.AdamW(model.parameters(), lesson.learning_rate, weight_decay=0.01)
    for _ in range(lesson.steps):
        tokens, own = (x.to(device) for x in batch())
        own[:, 0] = False  # nothing comes before it to learn it from
        loss = -logprobs(model, tokens)[own].mean()
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
