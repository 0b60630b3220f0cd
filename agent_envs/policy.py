"""Who plays: a policy turns conversations into turns, many at a time."""

import json
import queue
import random
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from agent_envs.sampling import sample
from agent_envs.streams import derive
from agent_envs.task import Task, TaskSource
from agent_envs.turns import Action, Malformed, Message, Move, ToolCall

if TYPE_CHECKING:
    from agent_envs.env import ToolEnv

Messages: TypeAlias = list[Message]
Answer: TypeAlias = tuple[Hashable, Action | Exception]


class Policy(ABC):
    """Conversations in, turns out. One `rollout` at a time uses a policy.

    A conversation is handed over whole at every turn and only ever grows under one key, so that
    a policy may keep what it worked out for the key's past.
    """

    @abstractmethod
    def submit(self, key: Hashable, messages: Messages) -> None:
        """Ask for the next turn of the conversation called `key`; returns at once."""

    @abstractmethod
    def collect(self, timeout: float) -> list[Answer]:
        """The turns that are ready, after at most `timeout` seconds; an exception for one that
        failed. A policy that works on the caller's thread does a piece of its work here."""

    def cancel(self, key: Hashable) -> None:
        """Forget a key; also called once when its episode has ended."""


class ScriptedPolicy(Policy):
    """A plain function of one conversation, called when the turn is collected."""

    def __init__(self, act: Callable[[Messages], Action | str]) -> None:
        self._act = act
        self._asked: dict[Hashable, Messages] = {}

    def submit(self, key: Hashable, messages: Messages) -> None:
        """See `Policy`."""
        self._asked[key] = messages

    def collect(self, timeout: float) -> list[Answer]:
        """See `Policy`."""
        asked, self._asked = self._asked, {}
        return [(key, _tried(self._act, messages)) for key, messages in asked.items()]

    def cancel(self, key: Hashable) -> None:
        """See `Policy`."""
        self._asked.pop(key, None)


class BatchPolicy(Policy):
    """A function from a batch of conversations to turns, on a thread of its own.

    It is called with whatever waits, up to `max_batch`, while environments step. An exception
    fails the turns of that batch alone.
    """

    def __init__(
        self, act: Callable[[list[Messages]], Sequence[Action | str]], max_batch: int = 256
    ) -> None:
        self._act = act
        self._max_batch = max_batch
        self._asked: dict[Hashable, Messages] = {}
        self._ready: queue.SimpleQueue[Answer] = queue.SimpleQueue()
        self._wake = threading.Condition()
        self._closed = False
        self._thread: threading.Thread | None = None

    def submit(self, key: Hashable, messages: Messages) -> None:
        """See `Policy`."""
        with self._wake:
            self._asked[key] = messages
            self._wake.notify()
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, daemon=True)
            self._thread.start()

    def collect(self, timeout: float) -> list[Answer]:
        """See `Policy`."""
        answers: list[Answer] = []
        try:
            answers.append(
                self._ready.get(timeout=timeout) if timeout else self._ready.get_nowait()
            )
            while True:
                answers.append(self._ready.get_nowait())
        except queue.Empty:
            return answers

    def cancel(self, key: Hashable) -> None:
        """See `Policy`."""
        with self._wake:
            self._asked.pop(key, None)

    def close(self) -> None:
        """End the thread."""
        with self._wake:
            self._closed = True
            self._wake.notify()

    def _work(self) -> None:
        while True:
            with self._wake:
                self._wake.wait_for(lambda: self._asked or self._closed)
                if self._closed:
                    return
                keys = list(self._asked)[: self._max_batch]
                batch = [self._asked.pop(key) for key in keys]
            for answer in self._answers(keys, batch):
                self._ready.put(answer)

    def _answers(self, keys: list[Hashable], batch: list[Messages]) -> list[Answer]:
        try:
            turns = list(self._act(batch))
            if len(turns) != len(batch):
                raise ValueError(f"the policy gave {len(turns)} turns for {len(batch)} prompts")
        except Exception as error:
            return [(key, error) for key in keys]
        return [(key, _action(turn)) for key, turn in zip(keys, turns, strict=True)]


def oracle(env: "type[ToolEnv]", tasks: TaskSource | None = None) -> ScriptedPolicy:
    """Plays an environment's gold solutions. It finds the task by its prompt."""
    by_prompt = {task.prompt: task for task in tasks or env.tasks}

    def act(messages: Messages) -> Action:
        return _say(env.oracle(_find(by_prompt, messages), messages))

    return ScriptedPolicy(act)


def null() -> ScriptedPolicy:
    """Answers at once that it does not know."""
    return ScriptedPolicy(lambda messages: _say("I do not know."))


def randomly(env: "type[ToolEnv]") -> ScriptedPolicy:
    """Calls tools with random arguments and answers at random; a function of the conversation."""

    def act(messages: Messages) -> Action:
        rng = random.Random(derive("random policy", json.dumps(messages, default=repr)))
        if env.tools and rng.random() < 0.7:
            tool = env.tools[rng.choice(sorted(env.tools))]
            names = [n for n in tool.params if n in tool.required or rng.random() < 0.5]
            arguments = {name: sample(tool.params[name], rng) for name in names}
            return _say([ToolCall(tool.name, arguments)])
        return _say(str(rng.randrange(10 ** rng.randrange(1, 9))))

    return ScriptedPolicy(act)


def _find(by_prompt: dict[str, Task], messages: Messages) -> Task:
    prompt = next(m["content"] for m in messages if m["role"] == "user")
    try:
        return by_prompt[prompt]
    except KeyError:
        raise KeyError(f"no task of the source has the prompt {prompt[:80]!r}") from None


def _say(move: Move) -> Action:
    """A move as a policy with native tool calls makes it: it needs no protocol."""
    if isinstance(move, Malformed):
        raise TypeError("a scripted policy makes calls or answers")
    return Action(move, calls=[]) if isinstance(move, str) else Action("", calls=move)


def _tried(act: Callable[[Messages], Action | str], messages: Messages) -> Action | Exception:
    try:
        return _action(act(messages))
    except Exception as error:
        return error


def _action(turn: Action | str) -> Action:
    return turn if isinstance(turn, Action) else Action(turn)
