"""Who plays: a policy turns conversations into turns, many at a time."""

import json
import queue
import random
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from agent_envs.sampling import sample
from agent_envs.streams import derive
from agent_envs.task import Task, TaskSource
from agent_envs.turns import Action, Malformed, Message, Move, ToolCall

if TYPE_CHECKING:
    from agent_envs.env import ToolEnv

Messages: TypeAlias = list[Message]
Answer: TypeAlias = tuple[Hashable, Action | Exception]

T = TypeVar("T")


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

    def cancel(self, key: Hashable) -> None:  # noqa: B027
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
        return [(key, _tried(self._turn, messages)) for key, messages in asked.items()]

    def cancel(self, key: Hashable) -> None:
        """See `Policy`."""
        self._asked.pop(key, None)

    def _turn(self, messages: Messages) -> Action:
        return _action(self._act(messages))


class BatchPolicy(Policy):
    """A function from a batch of conversations to turns, on a thread of its own.

    It is called with whatever waits, up to `max_batch`, while environments step. An exception
    fails the turns of that batch alone. `close` ends the thread.
    """

    def __init__(
        self, act: Callable[[list[Messages]], Sequence[Action | str]], max_batch: int = 256
    ) -> None:
        if max_batch < 1:
            raise ValueError(f"max_batch={max_batch}: at least 1")
        self._act = act
        self._max_batch = max_batch
        self._asked: dict[Hashable, Messages] = {}
        self._tickets: dict[Hashable, object] = {}
        """One for each key that waits: it may be asked anew with an old answer on its way."""
        self._ready: queue.SimpleQueue[tuple[object, Answer]] = queue.SimpleQueue()
        self._wake = threading.Condition()
        self._closed = False
        self._thread: threading.Thread | None = None

    def submit(self, key: Hashable, messages: Messages) -> None:
        """See `Policy`. Raises RuntimeError after `close`."""
        with self._wake:
            if self._closed:
                raise RuntimeError("this policy is closed; make a new one")
            self._asked[key], self._tickets[key] = messages, object()
            self._wake.notify()
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, daemon=True)
                self._thread.start()

    def collect(self, timeout: float) -> list[Answer]:
        """See `Policy`."""
        answers = self._take(timeout)
        while not self._ready.empty():
            answers += self._take(0.0)
        return answers

    def cancel(self, key: Hashable) -> None:
        """See `Policy`."""
        with self._wake:
            self._asked.pop(key, None)
            self._tickets.pop(key, None)

    def close(self) -> None:
        """End the thread, after the batch that it is at; what waits is not answered."""
        with self._wake:
            self._closed = True
            self._asked.clear()
            self._tickets.clear()
            self._wake.notify()

    def _take(self, timeout: float) -> list[Answer]:
        """The next answer, unless its key was cancelled or asked anew meanwhile."""
        try:
            ticket, answer = self._ready.get(block=timeout > 0, timeout=timeout)
        except queue.Empty:
            return []
        with self._wake:
            if self._tickets.get(answer[0]) is not ticket:
                return []
            del self._tickets[answer[0]]
        return [answer]

    def _work(self) -> None:
        while True:
            with self._wake:
                self._wake.wait_for(lambda: self._asked or self._closed)
                if self._closed:
                    return
                keys = list(self._asked)[: self._max_batch]
                batch = [self._asked.pop(key) for key in keys]
                tickets = [self._tickets[key] for key in keys]
            for ticket, key, turn in zip(tickets, keys, self._turns(batch), strict=True):
                self._ready.put((ticket, (key, turn)))

    def _turns(self, batch: list[Messages]) -> list[Action | Exception]:
        """A turn or an exception for each; nothing that `act` does ends the thread."""
        try:
            given = self._act(batch.copy())
            if isinstance(given, str):
                raise TypeError("a batch policy gives a list of turns, not one text")
            turns = list(given)
            if len(turns) != len(batch):
                raise ValueError(f"the policy gave {len(turns)} turns for {len(batch)} prompts")
            return [_tried(_action, turn) for turn in turns]
        except BaseException as error:
            failed = error if isinstance(error, Exception) else RuntimeError(repr(error))
            return [failed] * len(batch)


def oracle(env: "type[ToolEnv]", tasks: TaskSource | None = None) -> ScriptedPolicy:
    """Plays an environment's gold solutions. It finds the task by its prompt."""
    by_prompt = {task.prompt: task for task in (env.tasks if tasks is None else tasks)}

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
            arguments = sample(tool.schema["function"]["parameters"], rng)
            return _say([ToolCall(tool.name, arguments)])
        return _say(str(rng.randrange(10 ** rng.randrange(1, 9))))

    return ScriptedPolicy(act)


def _find(by_prompt: dict[str, Task], messages: Messages) -> Task:
    prompt = next((m["content"] for m in messages if m["role"] == "user"), "")
    try:
        return by_prompt[prompt]
    except KeyError:
        raise KeyError(f"no task of the source has the prompt {prompt[:80]!r}") from None


def _say(move: Move) -> Action:
    """A move as a policy with native tool calls makes it: it needs no protocol."""
    if isinstance(move, Malformed):
        raise TypeError("a scripted policy makes calls or answers")
    return Action(move, calls=[]) if isinstance(move, str) else Action("", calls=move)


def _tried(act: Callable[[T], Action], given: T) -> Action | Exception:
    try:
        return act(given)
    except Exception as error:
        return error


def _action(turn: Action | str) -> Action:
    if isinstance(turn, str):
        return Action(turn)
    if isinstance(turn, Action):
        return turn
    raise TypeError(f"a policy's turn is a str or an Action, not {turn!r:.80}")
