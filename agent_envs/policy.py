"""Who plays: a policy turns conversations into turns, many at a time."""

import json
import queue
import random
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeAlias, TypeVar

import gymnasium
from gymnasium.envs.registration import EnvSpec

from agent_envs.env import ToolEnv
from agent_envs.episode import frozen
from agent_envs.plain import to_plain
from agent_envs.sampling import sample
from agent_envs.streams import derive
from agent_envs.task import Task, TaskSource
from agent_envs.turns import Action, Malformed, Message, Move, Sample, ToolCall

Messages: TypeAlias = list[Message]
Answer: TypeAlias = tuple[Hashable, Action | Exception]
EnvLike: TypeAlias = str | EnvSpec | type[ToolEnv] | ToolEnv
"""An environment by its id, its class, or one of it."""

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


def check_policy(policy: object) -> None:
    """Raise TypeError, which says what to do, for what is no policy: a plain function above all."""
    if not isinstance(policy, Policy):
        raise TypeError(
            f"{policy!r:.80} is no Policy: wrap a function in ScriptedPolicy(f) if it takes one "
            "conversation, in BatchPolicy(f) if it takes a list of them"
        )


def check_action(answer: object) -> Action | Exception:
    """A policy's answer where it is well formed, else a TypeError that says what is wrong in it.

    A text becomes an Action; an exception stays what it is. What a native call names and passes
    may be anything that JSON has: it is the model's, see `native_move`.
    """
    return answer if isinstance(answer, Exception) else _tried(_checked, answer)


def native_move(calls: list[ToolCall]) -> Move:
    """The native calls of a checked action as a move, which shares nothing with them.

    Malformed where one names no tool, where they are too many, or where their arguments are nested
    too deeply. Arguments that are no object are left to the env, which refuses that call alone, as
    it does where a call is written as text.
    """
    if not all(isinstance(call.name, str) for call in calls):
        return Malformed("the name of a tool call must be a string")
    try:
        return frozen(calls)
    except ValueError as error:
        return Malformed(str(error))


def oracle(env: EnvLike, tasks: TaskSource | None = None) -> ScriptedPolicy:
    """Plays an environment's gold solutions. It finds the task by its prompt.

    Raises TypeError for what is no environment, ValueError where there are no tasks.
    """
    kind, own = _looked_up(env)
    source = own if tasks is None else tasks
    if source is None:
        raise ValueError(f"{kind.__name__} has no tasks of its own: give some, or one of its envs")
    by_prompt = {task.prompt: task for task in source}

    def act(messages: Messages) -> Action:
        return _say(kind.oracle(_find(by_prompt, messages), messages))

    return ScriptedPolicy(act)


def null() -> ScriptedPolicy:
    """Answers at once that it does not know."""
    return ScriptedPolicy(lambda messages: _say("I do not know."))


def randomly(env: EnvLike) -> ScriptedPolicy:
    """Calls tools with random arguments and answers at random; a function of the conversation.

    Raises TypeError for what is no environment.
    """
    tools = _looked_up(env)[0].tools

    def act(messages: Messages) -> Action:
        rng = random.Random(derive("random policy", json.dumps(messages, default=repr)))
        if tools and rng.random() < 0.7:
            tool = tools[rng.choice(sorted(tools))]
            arguments = sample(tool.schema["function"]["parameters"], rng)
            return _say([ToolCall(tool.name, arguments)])
        return _say(str(rng.randrange(10 ** rng.randrange(1, 9))))

    return ScriptedPolicy(act)


def _looked_up(env: object) -> tuple[type[ToolEnv], TaskSource | None]:
    """The class of an environment, and the tasks that it has."""
    if isinstance(env, str | EnvSpec):
        made: gymnasium.Env[Any, Any] = gymnasium.make(env)
        try:
            return _looked_up(made.unwrapped)
        finally:
            made.close()
    inner = env.unwrapped if isinstance(env, gymnasium.Env) else env
    kind = inner if isinstance(inner, type) else type(inner)
    if not issubclass(kind, ToolEnv):
        raise TypeError(f"{env!r:.80} is no id, no class and no instance of a ToolEnv")
    return kind, getattr(inner, "tasks", None)


def _find(by_prompt: dict[str, Task], messages: Messages) -> Task:
    prompt = next((m["content"] for m in messages if m["role"] == "user"), "")
    try:
        return by_prompt[prompt]
    except KeyError:
        raise KeyError(
            f"no task of the source has the prompt {prompt[:80]!r}; for an environment with tasks "
            "of its own: oracle(env), or oracle(type(env), env.tasks)"
        ) from None


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


def _action(turn: object) -> Action:
    if isinstance(turn, str):
        return Action(turn)
    if isinstance(turn, Action):
        return turn
    raise TypeError(f"a policy's turn is a str or an Action, not {turn!r:.80}")


def _checked(answer: object) -> Action:
    action = _action(answer)
    _check("text", action.text, str)
    _check("sample", action.sample, Sample | None)
    _check("cut", action.cut, bool)
    _check("calls", action.calls, list | None)
    for call in action.calls or ():
        _check("calls: an item", call, ToolCall)
        _check("calls: an id", call.id, str)
        try:
            to_plain([call.name, call.arguments])
        except TypeError as error:
            raise TypeError(f"Action.calls: {error}") from None
    return action


def _check(name: str, value: object, kind: Any) -> None:
    if not isinstance(value, kind):
        wanted = kind.__name__ if isinstance(kind, type) else str(kind)
        raise TypeError(f"Action.{name} is {value!r:.80}, not {wanted}")
