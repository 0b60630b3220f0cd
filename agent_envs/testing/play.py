"""What the checks share: making envs, drawing moves, playing them, and saying what came out."""

import contextlib
import importlib
import logging
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import gymnasium
from gymnasium.error import UnregisteredEnv

from agent_envs.env import ToolEnv
from agent_envs.plain import to_plain
from agent_envs.sampling import sample
from agent_envs.task import Task
from agent_envs.turns import Malformed, Message, Move, StepResult, ToolCall
from agent_envs.verdict import Verdict

FAULTS = {"wrong": 0.2, "stale": 0.15, "error": 0.1, "timeout": 0.1, "truncated": 0.1}

Maker = Callable[..., ToolEnv]


@dataclass(frozen=True)
class Subject:
    """The environment under test: how to make one, and how hard to try."""

    make: Maker
    name: str
    examples: int
    """Hypothesis examples for the laws."""
    depth: int
    """How deep a line of snapshots is tried."""
    tasks: int | None
    """How many tasks of each split the oracle and the cheats play; None for all."""

    @classmethod
    def of(cls, env: str | Maker, examples: int, depth: int, tasks: int | None) -> "Subject":
        """From an id or a factory that takes the arguments of `make`.

        Raises ValueError for an id that is not registered, TypeError for what is neither."""
        if isinstance(env, str):
            return cls(_by_id(env), env, examples, depth, tasks)
        if isinstance(env, gymnasium.Env) or not callable(env):
            raise TypeError(
                f"{env!r:.80}: give the kit an id or a class, from which it makes many envs itself"
            )
        return cls(env, getattr(env, "__name__", repr(env)), examples, depth, tasks)

    @cached_property
    def quick(self) -> bool:
        """Whether a step takes microseconds, as the class says; the others are tried less often."""
        env = self.make()
        env.close()
        return bool(vars(type(env)).get("inline", False))

    def some(self, env: ToolEnv, split: str, quick: int, slow: int) -> list[Task]:
        """Up to `quick` tasks of a split, or `slow` where the env is not quick, evenly spread."""
        tasks = env.tasks.split(split)[: self.tasks]
        count = min(len(tasks), quick if self.quick else slow)
        return [tasks[i * len(tasks) // count] for i in range(count)]


def _by_id(env_id: str) -> Maker:
    module, _, name = env_id.rpartition(":")
    try:
        if module:
            importlib.import_module(module)
        gymnasium.spec(name)
    except (UnregisteredEnv, ModuleNotFoundError) as error:
        raise ValueError(
            f"{error} Import the module that registers it first, or write 'module:{name}'"
        ) from None
    return lambda **kwargs: _unwrapped(gymnasium.make(env_id, **kwargs))


def _unwrapped(env: Any) -> ToolEnv:
    tool_env = env.unwrapped
    assert isinstance(tool_env, ToolEnv), f"{tool_env} is no ToolEnv: derive its class from ToolEnv"
    return tool_env


def episode(env: ToolEnv, seed: int, episodes: int = 1) -> list[Any]:
    """What an env says to drawn moves in a series of episodes."""
    out: list[Any] = []
    for number in range(episodes):
        out.append(env.reset(seed=None if number else seed)[0])
        rng, player = random.Random(seed + number), Player(env)
        while not env.ended:
            out.append(said(player.move(rng)))
    return out


def said(result: StepResult) -> Any:
    """A step's outcome as plain data that can be compared."""
    return to_plain(list(result))


def make_with(subject: Subject, **arguments: Any) -> ToolEnv:
    """An env made with arguments that every env takes; AssertionError where it does not."""
    try:
        return subject.make(**arguments)
    except TypeError as error:
        raise AssertionError(
            f"it cannot be made with {sorted(arguments)}: give __init__ a **kwargs and pass it on "
            f"to super().__init__(**kwargs) ({error})"
        ) from error


def draw_move(env: ToolEnv, rng: random.Random, conversation: list[Message]) -> Move:
    """A move that a careless model might make: sound calls, the gold move, and all kinds of bad."""
    kind = rng.random()
    if kind < 0.25:
        with contextlib.suppress(Exception):
            return env.oracle(env.task, conversation)
    if kind < 0.85 and env.tools:
        return [draw_call(env, rng) for _ in range(rng.choice((1, 1, 1, 2)))]
    if kind < 0.9:
        return [ToolCall("no_such_tool", {})]
    if kind < 0.96 and env.tools:
        return [ToolCall(rng.choice(sorted(env.tools)), {"nonsense": rng.random()})]
    return Malformed("made up") if kind < 0.99 else "an answer \u00e9\n"


def draw_call(env: ToolEnv, rng: random.Random, name: str = "") -> ToolCall:
    """A call, of any tool or of the one named, whose arguments fit the schema."""
    tool = env.tools[name or rng.choice(sorted(env.tools))]
    return ToolCall(tool.name, sample(tool.schema["function"]["parameters"], rng))


class Player:
    """Plays moves on an env and keeps the conversation, as the oracle needs it.

    It begins with the episode's opening, wherever the episode stands: the gold moves are the ones
    that surely do something.
    """

    def __init__(self, env: ToolEnv) -> None:
        self.env = env
        self.conversation: list[Message] = env._need().start.info()["messages"]

    def play(self, move: Move) -> StepResult:
        """One move."""
        result = self.env.act(move)
        self.conversation += [{"role": "assistant", "content": ""}, *result[4]["messages"]]
        return result

    def move(self, rng: random.Random) -> StepResult:
        """One drawn move."""
        return self.play(draw_move(self.env, rng, self.conversation))

    def gold(self) -> Move:
        """The oracle's next move; the end of the episode where it has none any more."""
        with contextlib.suppress(Exception):
            return self.env.oracle(self.env.task, self.conversation)
        return ""


def earn(env: ToolEnv, task: Task, choose: Callable[[Player], Move]) -> tuple[float, Verdict]:
    """What an episode of chosen moves is paid in all, and its verdict."""
    env.reset(seed=1, options={"task": task})
    player, total = Player(env), 0.0
    while not env.ended:
        _, reward, _, _, info = player.play(choose(player))
        total += reward
    failed, verdict = info["infrastructure_error"], info["verdict"]
    assert failed is None, f"an episode of {task.id} broke: {explain(env, failed)}"
    assert isinstance(verdict, Verdict)
    return total, verdict


def explain(env: ToolEnv, failed: str) -> str:
    """What broke an episode or a tool, in plain words where it is a common slip."""
    with contextlib.suppress(Exception):
        given = env.grade(None)
        if not isinstance(given, Verdict):
            return f"grade() returns {given!r:.60}: it must return a Verdict, on every way out"
    if env.state is None and "'NoneType' object" in failed:
        return f"{failed:.400}; setup() never sets self.state: the episode's state goes there"
    return failed[:400]


def probe(env: ToolEnv, seed: int, moves: int = 4) -> list[Any]:
    """What an env says to some drawn moves, to a final answer, and to `reset()` after that."""
    rng = random.Random(seed)
    player = Player(env)
    out = []
    for _ in range(moves):
        if env.ended:
            break
        out.append(said(player.move(rng)))
    out.append(to_plain(env.finish("no idea")))
    out += [env.np_random.random(), env.reset()[0], env.np_random.random()]
    return out


@contextlib.contextmanager
def logged_errors() -> Iterator[list[str]]:
    """The errors that the package logs meanwhile: bugs of an env that a step must not raise."""
    found: list[str] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            error = record.exc_info[1] if record.exc_info else None
            found.append(f"{record.getMessage():.200}: {error!r:.300}")

    logger = logging.getLogger("agent_envs")
    handler, before = Keep(logging.ERROR), (logger.propagate, logger.level, logger.manager.disable)
    logger.addHandler(handler)
    logger.propagate, logger.manager.disable = False, logging.NOTSET
    logger.setLevel(logging.ERROR)
    try:
        yield found
    finally:
        logger.removeHandler(handler)
        logger.propagate, _, logger.manager.disable = before
        logger.setLevel(before[1])
