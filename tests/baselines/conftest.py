"""What the trainer's tests share: a small model, small runs, episodes made by hand."""

import importlib.util
from collections.abc import Callable
from typing import Any

import pytest

if importlib.util.find_spec("torch") is None:
    collect_ignore_glob = ["test_*.py"]
else:
    import torch

    from agent_envs.baselines.record import Record, Row
    from agent_envs.baselines.settings import Args, Lesson
    from agent_envs.baselines.transformer import Shape, Transformer
    from agent_envs.task import Task
    from agent_envs.verdict import Verdict

    Turns = list[tuple[list[int], list[int], float]]

    @pytest.fixture(autouse=True)
    def one_thread() -> None:
        """Sums come out the same on every machine that has the same kernels."""
        torch.set_num_threads(1)

    @pytest.fixture(params=["learned", "rope"])
    def model(request: pytest.FixtureRequest) -> Transformer:
        """An untrained model with either kind of positions."""
        return Transformer(Shape(layers=2, width=32, heads=4, positions=request.param), seed=3)

    @pytest.fixture
    def small() -> Callable[..., Args]:
        """Arguments of a run that takes a second or two; keywords change them."""

        def make(**changes: Any) -> Args:
            settings: dict[str, Any] = {
                "width": 32,
                "worksheets": Lesson(5, 8, 1e-3),
                "demonstrations": Lesson(60, 8, 5e-3),
                "updates": 4,
                "tasks": 2,
                "group": 4,
                "checkpoint_every": 1,
            }
            return Args(**(settings | changes))

        return make

    @pytest.fixture
    def episode() -> Callable[..., Record]:
        """A record made by hand: a prompt, then (own tokens, observation, reward) a turn."""

        def make(
            turns: Turns, *, name: str = "0.0", prompt: tuple[int, ...] = (1, 2), **changes: Any
        ) -> Record:
            row = Row()
            row.hear(list(prompt))
            for own, heard, _ in turns:
                row.begin_turn()
                for token in own:
                    row.say(token, -0.5, 0)
                row.hear(heard)
            rewards = [reward for _, _, reward in turns]
            passed = sum(rewards) >= 1
            settings: dict[str, Any] = {
                "episode_id": name,
                "group_id": name.partition(".")[0],
                "parent": None,
                "task": Task("t", "train", "1+1="),
                "seed": 0,
                "end_reason": "answer",
                "verdict": Verdict({"answer": float(passed)}, {"answer": 1.0}, passed),
                "valid": True,
                "row": row,
                "rewards": rewards,
                "components": [{"answer": reward} for reward in rewards],
            }
            return Record(**(settings | changes))

        return make
