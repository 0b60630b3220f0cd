"""Settings that have a name: what each changes of `Args`."""

from typing import Any

from agent_envs.baselines.settings import Lesson, Player

_SCRATCH: dict[str, Any] = {
    "positions": "rope",
    "tool_docs": False,
    "share": 32,
    "slots": 0,
    "clip_high": 0.28,
    "draws": 4,
    "learning_rate": 6e-4,
    "examination": 4,
}
"""A small transformer with a tokenizer of its own: what it can do it was shown by the oracle."""

_WORKSHEETS = Lesson(1200, 32, 2e-3, warmup=50, max_grad_norm=1.0)
"""Copying comes all at once, after some 600 steps; without it names and numbers are guessed."""

PRESETS: dict[str, dict[str, Any]] = {
    # As published: GRPO as in the paper, 8 sums x 8 episodes an update.
    "workshop": {"credit": "group_normalised"},
    # Ours, in as many updates: groups that teach nothing are replaced, every turn is credited with
    # what it changed, and the steps are larger.
    "workshop-best": {"credit": "turn_values", "draws": 6, "learning_rate": 1e-3},
    # Two-digit sums in words: the call is JSON, the answer a copy of the tool's result.
    "calculator": _SCRATCH
    | {
        "env": "agent/Calculator-v0",
        "policy": Player(kind="bpe", vocabulary=512, rope_base=1000.0),
        "context": 160,
        "turn_limit": 48,
        "practice": 1000,
        "shown": 100,
        "worksheets": Lesson(600, 32, 1.5e-3),
        "demonstrations": Lesson(200, 8, 1.5e-3),
    },
    # Small functions: written to a file, tested, done.
    "code": _SCRATCH
    | {
        "env": "agent/Code-v0",
        "policy": Player(kind="bpe", vocabulary=1024, rope_base=10_000.0),
        "layers": 3,
        "context": 768,
        "turn_limit": 256,
        "practice": 480,
        "shown": 400,
        "worksheets": _WORKSHEETS,
        "demonstrations": Lesson(225, 16, 2e-3, warmup=20, decay=True, max_grad_norm=1.0),
        "draws": 1,
        "learning_rate": 1e-4,
        "rows": 32,
        "workers": 32,
    },
    # Questions to one table: look at the tables, answer with a query.
    "sql": _SCRATCH
    | {
        "env": "agent/SQL-v0",
        "policy": Player(kind="bpe", vocabulary=1024, rope_base=1000.0),
        "layers": 3,
        "context": 512,
        "turn_limit": 128,
        "practice": 4000,
        "shown": 3000,
        "worksheets": _WORKSHEETS,
        "demonstrations": Lesson(230, 32, 2e-3, warmup=20, decay=True, max_grad_norm=1.0),
        "threads": 2,
        "updates": 50,
        "tasks": 48,
        "draws": 1,
        "blame": 0.2,
        "learning_rate": 6e-3,
        "warmup": 4,
        "decay": True,
        "relative": True,
        "rows": 32,
        "workers": 192,
    },
    # Something to be read off a page, or to be changed: find it in three or four clicks.
    "browser": _SCRATCH
    | {
        "env": "agent/Browser-v0",
        "arguments": {"page_chars": 1600},
        "policy": Player(kind="bpe", vocabulary=1024, memory=1, rope_base=10_000.0),
        "max_turns": 8,
        "context": 1536,
        "turn_limit": 224,
        "practice": 1500,
        "shown": 600,
        "worksheets": _WORKSHEETS,
        "demonstrations": Lesson(360, 16, 2e-3, warmup=20, decay=True, max_grad_norm=1.0),
        "examination": 0,
        "draws": 1,
        "learning_rate": 1e-4,
        "rows": 32,
        "workers": 8,
    },
}

PUBLISHED_MODEL: dict[str, Any] = {
    "worksheets": Lesson(0, 1, 0.0),
    "demonstrations": Lesson(0, 1, 0.0),
    "practice": 0,
    "shown": 0,
    "tool_docs": True,
    "context": 4096,
    "turn_limit": 512,
    "rows": 8,
    "tasks": 8,
    "updates": 40,
    "blame": 1.0,
    "learning_rate": 1e-6,
    "warmup": 0,
    "decay": False,
    "relative": False,
}
"""What `policy=hf` changes of a preset: it is told about its tools, and not taught from scratch."""
