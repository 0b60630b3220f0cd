"""ToolEnv: an environment for a policy that calls tools, one model turn a step."""

import copy
import inspect
import logging
import math
import os
import random
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
from gymnasium.envs.registration import EnvSpec
from gymnasium.error import ClosedEnvironmentError, InvalidAction, ResetNeeded

from agent_envs import history
from agent_envs.branching import Branching, checked_seed
from agent_envs.episode import Episode, Outcome, RngState, Text, frozen
from agent_envs.errors import BackendUnavailable, near, whole
from agent_envs.fault import FaultModel, FaultRate, corrupted
from agent_envs.play import failure, play
from agent_envs.protocol import PROTOCOLS, Protocol
from agent_envs.space import UnicodeText, clean
from agent_envs.streams import derive, draw
from agent_envs.task import Task, TasksLike, TaskSource, as_source
from agent_envs.tool import Tool, tools_of
from agent_envs.turns import FaultKind, Malformed, Message, Move, StepResult, ToolCall, ToolResult
from agent_envs.verdict import Verdict

MAX_BYTES = 65536
"""The longest observation and action, in bytes of UTF-8."""

logger = logging.getLogger("agent_envs")

_RETRY_AFTER = (0.1, 0.5)
_OPTIONS = frozenset({"task", "split", "level"})


class ToolEnv(Branching):
    """The base class of every environment: an action is the whole text of one model turn.

    A subclass writes `tasks`, `weights`, `setup`, `grade` and its tools, and keeps what changes
    in an episode in `self.state`, one frozen dataclass. Where the state is no plain value it
    writes `save`, `load`, `drop` and `teardown` too.
    """

    metadata: dict[str, Any] = {"render_modes": ["ansi"], "render_fps": 1}

    tasks: TaskSource
    """Where tasks come from, unless `make(..., tasks=...)` says otherwise."""
    weights: dict[str, float] = {"answer": 1.0}
    """The reward components and what each counts; constant for an id."""
    components: tuple[str, ...] = ("answer",)
    """The names of `weights`, derived."""
    inline: bool = False
    """Whether a step takes microseconds, so that `rollout` need not use a thread. Read from the
    class's own body: a subclass does not inherit it."""
    letters: Mapping[str, str] = {}
    """For the `chars` protocol: which letter calls which tool."""
    cheats: Mapping[str, Callable[[list[Message]], str]] = {}
    """Policies that try to be paid without solving the task; every one must score 0."""
    verifier: str = ""
    """The dotted module of the grader, for provenance; the env's own module if empty."""
    version: str = "1"

    tools: dict[str, Tool] = {}
    """By name, derived from the methods decorated with `@tool`."""
    tool_schemas: list[dict[str, Any]]
    """The tools in OpenAI's function-tool format."""
    protocol: Protocol
    faults: FaultModel
    split: str
    level: int | None
    max_turns: int
    max_calls: int
    tool_docs: bool
    bound_tools: dict[str, Callable[..., Any]]

    # -- what a subclass writes --------------------------------------------------------------------

    def setup(self, task: Task) -> None:
        """Build the state of a fresh episode, from the task alone: the seed moves only noise."""

    def grade(self, answer: str | None) -> Verdict:
        """Judge the episode. `answer` is None where none was given."""
        raise NotImplementedError(f"{type(self).__name__} has no grade()")

    def teardown(self) -> None:
        """Free the live state: before the next setup, on close, and after a setup that failed.

        Called by `close` from another thread it must make a running call return."""

    def corrupt(self, kind: FaultKind, call: ToolCall, content: str, u: float) -> str:
        """A spoiled result (`kind` is "wrong" or "truncated") that has the form of a sound one.

        `u` in [0, 1) is the only source of chance. Returning `content` means no fault."""
        return corrupted(kind, content, u)

    @staticmethod
    def oracle(task: Task, messages: list[Message]) -> Move:
        """The next move of a gold solution, given the conversation so far."""
        raise NotImplementedError("this environment ships no oracle")

    # -- making one --------------------------------------------------------------------------------

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.tools = tools_of(cls, _reserved())
        cls.components = tuple(cls.weights)

    def __init__(
        self,
        *,
        split: str = "train",
        level: int | None = None,
        tasks: TasksLike | None = None,
        fault_rate: FaultRate = 0.0,
        protocol: str = "hermes",
        max_turns: int = 16,
        max_calls: int = 32,
        tool_docs: bool = True,
        max_snapshots: int | None = None,
        render_mode: str | None = None,
    ) -> None:
        """See `gymnasium.make`: all of these hold for the env's life and have a JSON form.

        `split`, `level`: which tasks `reset` draws from. `tasks`: a source, a `.jsonl` path or a
        list of dicts instead of the env's own. `fault_rate`: one number (the rate of `wrong`) or a
        mapping of kind to rate. `protocol`: a name in `PROTOCOLS`. `max_turns` truncates;
        calls over `max_calls` get `limit`. `tool_docs=False` leaves the system message out.
        `max_snapshots`: how many states are kept. Raises ValueError or KeyError, saying what fits.
        """
        super().__init__(max_snapshots)
        max_turns, max_calls = whole("max_turns", max_turns, 1), whole("max_calls", max_calls, 0)
        if protocol not in list(PROTOCOLS):
            raise ValueError(f"no protocol {protocol!r}; there are {sorted(PROTOCOLS)}")
        if tool_docs not in (True, False):
            raise ValueError(f"tool_docs={tool_docs!r}: True or False")
        modes = self.metadata.get("render_modes", [])
        if render_mode is not None and render_mode not in modes:
            raise ValueError(f"render_mode={render_mode!r}: None, or one of {list(modes)}")
        if tasks is not None:
            self.tasks = as_source(tasks)
        self.split, self.level, self.max_turns, self.max_calls = split, level, max_turns, max_calls
        self.tasks.split(split, level)
        self.render_mode = render_mode
        self.observation_space = UnicodeText(MAX_BYTES)
        self.action_space = UnicodeText(MAX_BYTES)
        self.tool_docs = tool_docs
        self.tool_schemas = [copy.deepcopy(t.schema) for t in self.tools.values()]
        self.weights = dict(self.weights)
        self.protocol = PROTOCOLS[protocol](self.tools, self.letters)
        self.faults = FaultModel(fault_rate)
        self.bound_tools = {name: t.fn.__get__(self) for name, t in self.tools.items()}
        self._remake_with(fault_rate=self.faults.to_plain(), tasks=self.tasks)
        self._paid: dict[str, float] | None = None  # by component, while a step runs
        self._setting_up = False

    @property
    def spec(self) -> EnvSpec | None:
        """What made this env; its arguments are brought to their plain JSON form."""
        return self._spec

    @spec.setter
    def spec(self, spec: EnvSpec | None) -> None:
        if spec is not None:
            spec.kwargs = {name: self._plain_argument(name, x) for name, x in spec.kwargs.items()}
        self._spec = spec

    def _plain_argument(self, name: str, value: Any) -> Any:
        if name == "fault_rate":
            return self.faults.to_plain()
        if name == "tasks" and value is not None:
            is_path = isinstance(value, str | os.PathLike)
            return os.fspath(value) if is_path else self.tasks.to_plain()
        return value.item() if isinstance(value, np.generic) else value

    # -- Gymnasium ---------------------------------------------------------------------------------

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        """Start an episode. `options`: `task` (an id or a Task), or `split` and `level`.

        Without a seed the series that the last seed began goes on: episode n runs under
        hash(seed, n). Raises BackendUnavailable after three tries; under a vector environment,
        where that would end all of it, the episode is truncated at its first step instead.
        """
        if self.closed:
            raise ClosedEnvironmentError("this env is closed; make a new one")
        chosen = _checked_options(options)
        rng: int | None
        if seed is not None:
            base, number = rng, _ = checked_seed(seed), 0
        elif self._series is not None:
            base, number, rng = self._series[0], self._series[1] + 1, None
        else:
            base, number = rng, _ = int.from_bytes(os.urandom(7), "little"), 0
        streams = derive(base, number)
        self._start(base, number, streams, self._choose(streams, chosen), rng)
        return self._last_words()

    def step(self, action: str) -> StepResult:
        """One turn of the model as text: `act` of what the protocol reads in it."""
        if not isinstance(action, str):
            raise InvalidAction(f"an action is the text of a turn, not a {type(action).__name__}")
        return self._act(self.protocol.parse(action), Text(action)).result()

    def render(self) -> str:
        """The episode so far, as text."""
        return history.transcript(self._need(), self._read)

    def close(self) -> None:
        """Free everything, snapshots included; from another thread it ends a running step."""
        if self.closed:
            return
        self.closed = True
        self._shelf.clear()
        self._tear_down()

    # -- moves -------------------------------------------------------------------------------------

    def act(self, move: Move) -> StepResult:
        """Play calls, a final answer or a malformed turn. Raises ResetNeeded after the end."""
        try:
            kept, move = frozen(move), frozen(move)
        except ValueError as error:
            kept = move = Malformed(str(error))
        return self._act(move, kept).result()

    def call(self, call: ToolCall) -> ToolResult:
        """A turn of one call. After the end, a result with `error="limit"`."""
        if self.ended:
            return ToolResult("error: the episode is over", "limit")
        calls = self.act([call])[4]["calls"]
        result = calls[0][1] if calls else ToolResult("error: the environment failed", "failed")
        assert isinstance(result, ToolResult)
        return result

    def finish(self, answer: str = "") -> Verdict | None:
        """End with an answer, or without one; after the end, the verdict that it ended with.

        None where the environment failed."""
        episode = self._need()
        if not episode.ended:
            self.act(answer)
        return episode.outcome.verdict and episode.outcome.verdict.copy()

    @property
    def task(self) -> Task:
        """The current episode's task."""
        return self._need().task

    @property
    def turn(self) -> int:
        """How many turns were played."""
        return self._need().turn

    @property
    def calls(self) -> int:
        """How many calls were made, those without such a tool or with bad arguments included."""
        return self._need().calls

    @property
    def ended(self) -> bool:
        """Whether the episode is over."""
        return self._need().ended

    # -- for tools ---------------------------------------------------------------------------------

    def rng(self, stream: str) -> random.Random:
        """A generator keyed by the episode's seed, the stream's name and the calls so far.

        Not in `setup`, which depends on the task alone: derive from `task.id` there.
        """
        if self._setting_up:
            raise RuntimeError("setup() must not draw from rng(): use derive(task.id, ...)")
        episode = self._need()
        return random.Random(derive(episode.seed, stream, episode.calls))

    def pay(self, component: str, amount: float) -> None:
        """Add to a reward component of the running step, before its weight."""
        if self._paid is None:
            raise RuntimeError("pay() is for tools, while a step runs")
        if component not in self.weights:
            raise ValueError(f"no reward component {component!r}; there are {self.components}")
        total = self._paid.get(component, 0.0) + amount
        if not math.isfinite(total):
            raise ValueError(f"pay({component!r}, {amount}): rewards are finite")
        self._paid[component] = total

    def end(self) -> None:
        """End the episode after this turn, graded without an answer."""
        self._need().ending = True

    def take_pay(self, verdict: Verdict | None) -> tuple[float, dict[str, float]]:
        """What tools and the verdict paid in this step: the reward, and its weighted components."""
        components = dict.fromkeys(self.components, 0.0)
        if not self._paid and verdict is None:
            return 0.0, components
        for given in (self._paid, verdict and verdict.components):
            for name, amount in given.items() if given else ():
                components[name] += self.weights[name] * amount
        return sum(components.values(), 0.0), components

    # -- inside ------------------------------------------------------------------------------------

    def _act(self, move: Move, kept: Move | Text) -> Outcome:
        """Play a move; `kept` is the log's copy of it."""
        episode = self._need()
        if episode.ended:
            raise ResetNeeded("the episode is over: call reset()")
        episode.turn += 1
        self._paid = {}
        try:
            if episode.outcome.failed:
                raise BackendUnavailable(episode.outcome.failed)
            outcome = play(self, episode, move)
        except BackendUnavailable as error:
            outcome = failure(self, episode, str(error))
        except Exception as error:  # one exception would end a whole vector environment
            if not self.closed:
                logger.exception("a bug in %s: this episode does not count", type(self).__name__)
            outcome = failure(self, episode, repr(error))
        except BaseException as error:  # Ctrl-C: what was half done is not gone on with
            episode.note(kept, failure(self, episode, repr(error)))
            raise
        finally:
            self._paid = None
        episode.note(kept, outcome)
        return outcome

    def _read(self, text: str) -> Move:
        return self.protocol.parse(text)

    def _task_called(self, task_id: str) -> Task:
        return self.tasks[task_id]

    def _choose(self, seed: int, options: Mapping[str, Any]) -> Task:
        """The task that the options name, or one drawn from a stream of its own."""
        task = options.get("task")
        if isinstance(task, Task):
            return task
        if isinstance(task, str):
            return self._task_called(task)
        if task is not None:
            raise ValueError(f"options: task={task!r:.80}; a Task, or the id of one as text")
        pool = self.tasks.split(options.get("split", self.split), options.get("level", self.level))
        return pool[int(draw(seed, "task", 0) * len(pool))]

    def _start(
        self, base: int, number: int, streams: int, task: Task, rng: RngState | None
    ) -> None:
        text, messages = self._opening(task)
        if rng is not None:
            self._set_rng(rng)
        self._series = (base, number)
        self._tear_down()
        self._episode = None
        failed = self._set_up(task)
        if failed:
            text, messages = f"the environment failed: {failed}", []
        nothing = dict.fromkeys(self.components, 0.0)
        said = Outcome(
            text, 0.0, False, False, task.id, 0, [], nothing, messages, None, None, failed
        )
        origin = (base, number, self._rng_state())
        self._episode = Episode(task, base, number, streams, said, said, origin)

    def _opening(self, task: Task) -> tuple[str, list[Message]]:
        """The first observation and the same as messages. ValueError where they are too long."""
        text, messages = task.prompt, [{"role": "user", "content": task.prompt}]
        if self.tool_docs and self.protocol.docs:
            text = f"{self.protocol.docs}\n\n{text}"
            messages.insert(0, {"role": "system", "content": self.protocol.docs})
        if clean(text, MAX_BYTES) != text:
            raise ValueError(f"task {task.id!r}: its prompt is over {MAX_BYTES} bytes, or no text")
        return text, messages

    def _set_up(self, task: Task) -> str | None:
        """Run `setup`, three times if need be; what still fails is raised, or returned as text
        where an exception would end a whole vector environment."""
        self._setting_up = True
        try:
            for wait in (*_RETRY_AFTER, None):
                try:
                    self._set_up_once(task)
                    return None
                except BackendUnavailable as error:
                    if wait is None and _under_a_vector():
                        return str(error)
                    if wait is None or self.closed:
                        raise
                    time.sleep(wait)
        finally:
            self._setting_up = False
        return None

    def _set_up_once(self, task: Task) -> None:
        """Run `setup`; nothing of it is left where it fails, or where `close` came meanwhile."""
        self._live = True
        try:
            self.setup(task)
        except BaseException:
            self._tear_down()
            raise
        if self.closed:
            self.teardown()
            raise ClosedEnvironmentError("this env was closed while it was set up")

    def _tear_down(self) -> None:
        if self._live:
            self._live = False
            self.teardown()


def _checked_options(options: Any) -> Mapping[str, Any]:
    """The options of a reset. ValueError where they are no dict, or have another key."""
    if options is None:
        return {}
    if not isinstance(options, Mapping):
        raise ValueError(f"options={options!r:.80}; a dict that may have {_one_of(_OPTIONS)}")
    for key in options:
        if key not in _OPTIONS:
            hint = near(str(key), _OPTIONS)
            raise ValueError(f"options: no key {key!r:.80}{hint}; there are {_one_of(_OPTIONS)}")
    return options


def _one_of(names: Iterable[str]) -> str:
    return ", ".join(map(repr, sorted(names)))


def _reserved() -> set[str]:
    """The names that a tool's method must not have: it would hide something of ToolEnv."""
    annotated = (inspect.get_annotations(c) for c in ToolEnv.__mro__)
    return set(dir(ToolEnv)).union(*annotated)


def _under_a_vector() -> bool:
    """Whether a Gymnasium vector environment is among the callers: it tells its envs in no way."""
    frame = sys._getframe(1)
    while frame.f_back is not None:
        frame = frame.f_back
        if str(frame.f_globals.get("__name__")).startswith("gymnasium.vector."):
            return True
    return False
