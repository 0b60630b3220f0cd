"""The only loop that plays episodes: evaluation and every trainer use it."""

import logging
import math
import queue
import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from agent_envs.branching import checked_seed
from agent_envs.env import ToolEnv
from agent_envs.fleet import EnvsLike, Fleet
from agent_envs.policy import Policy, check_action, check_policy, native_move
from agent_envs.progress import Progress
from agent_envs.provenance import provenance
from agent_envs.snapshot import Snapshot
from agent_envs.streams import derive
from agent_envs.task import Task, TaskSource
from agent_envs.trajectory import EndReason, Trajectory
from agent_envs.turns import Action, Malformed, Move, StepResult, Turn
from agent_envs.worker import Worker

BranchPlan: TypeAlias = int | Callable[[Trajectory], Sequence[tuple[int, int]]]

_POLL = 0.001
"""How long to wait for the policy while an env may also have something to say, in seconds."""
_IDLE = 0.05

logger = logging.getLogger("agent_envs")


def rollout(
    envs: EnvsLike,
    policy: Policy,
    tasks: Sequence[Task | str],
    *,
    group: int = 1,
    branch: BranchPlan | None = None,
    seed: int = 0,
    workers: int = 16,
    step_deadline: float = 60.0,
    episode_deadline: float = 600.0,
    on_episode: Callable[[Trajectory], None] | None = None,
    progress: bool | None = None,
    skip: Container[str] = (),
    keep: bool = True,
) -> list[Trajectory]:
    """Play `group` episodes of each task, many at once; env steps overlap with the policy's work.

    `envs`: an id, an EnvSpec or a factory, from which up to `workers` envs are made here and
    closed again; or an env or a list of envs, which stay the caller's (one that hung is closed and
    a new one made with the same arguments goes on in its place, in the list too). Wrappers are
    taken off: what is played is the ToolEnv inside, so that TimeLimit, say, limits nothing here;
    use `max_turns`.

    `branch`: an int k, or a function of a finished trajectory that gives (turn, k) pairs: k
    continuations from the state before that turn (0 is the first), by rollback in the env that
    played it. A child holds only its own turns and is not branched again. A state that could not
    be captured has none.

    Every episode's seed is a hash of (`seed`, task index, number in the group), so the result does
    not depend on `workers` or on what finishes first. Members of a group start from the same
    state. `step_deadline` and `episode_deadline` are in seconds: an env that overruns the first is
    given up as infrastructure; an episode that overruns the second is graded as it stands.

    Infrastructure failures, errors of the policy and cancelled episodes are marked and not
    `valid`. `on_episode` is called as each one ends. `progress` shows a line on standard error;
    None shows it on a terminal. Returns task by task, in group order, each episode followed by its
    branches. Ctrl-C cancels what runs and raises KeyboardInterrupt; the caller's envs are idle by
    then. Raises KeyError for a task id that the env has not, TypeError and ValueError for arguments
    that are none, and what making an env raised once none is left to play on. What a policy gives
    as a turn and is none is an error of the policy in that episode.

    `skip`: ids of episodes that are not played (`"3.0"`: task 3, number 0), as where a run is gone
    on with; the others come out as they would have. `keep=False` returns nothing and holds nothing
    that was handed to `on_episode`. A `tasks` that is no list or tuple is not copied but looked
    into as it is played, so that it may be longer than memory.
    """
    if group < 1 or workers < 1:
        raise ValueError(f"group={group}, workers={workers}: at least 1")
    check_policy(policy)
    _check_tasks(tasks)
    _check_branch(branch)
    seed = checked_seed(seed)
    limits = _Limits(
        _seconds("step_deadline", step_deadline), _seconds("episode_deadline", episode_deadline)
    )
    if not tasks:
        return []
    total = len(tasks) * group
    shown = Progress(total) if progress or (progress is None and _on_terminal()) else None
    with Fleet(envs, min(workers, total)) as fleet:
        todo = _planned(tasks, fleet.envs[0].tasks, group, skip)
        run = _Rollout(fleet, policy, todo, group, branch, seed, limits, on_episode, shown, keep)
        return run.play()


def _planned(
    tasks: Sequence[Task | str], source: TaskSource, group: int, skip: Container[str]
) -> Iterator[tuple[int, int, Task]]:
    """Each episode to play: the index of its task, its number in the group, the task.

    Ids in a list are looked up at once: an unknown one is an error before anything is played.
    """
    if isinstance(tasks, list | tuple):
        tasks = [task if isinstance(task, Task) else source[task] for task in tasks]

    def planned() -> Iterator[tuple[int, int, Task]]:
        for i, task in enumerate(tasks):
            known = task if isinstance(task, Task) else source[task]
            for g in range(group):
                if f"{i}.{g}" not in skip:
                    yield i, g, known

    return planned()


def _check_tasks(tasks: Any) -> None:
    if isinstance(tasks, str | Task) or not isinstance(tasks, Sequence):
        raise TypeError(f"tasks={tasks!r:.80}: a list of tasks or of their ids, even of one")


def _check_branch(branch: Any) -> None:
    if branch is None or callable(branch):
        return
    if isinstance(branch, bool) or not isinstance(branch, int):
        raise TypeError(f"branch={branch!r:.80}: a number, or a function of a trajectory")
    if branch < 0:
        raise ValueError(f"branch={branch}: how many continuations of each state, from 0 up")


def _seconds(name: str, value: Any) -> float:
    try:
        seconds = float(value)
    except (TypeError, ValueError):
        seconds = math.nan
    if not seconds >= 0:  # NaN is neither
        raise ValueError(f"{name}={value!r:.80}: a number of seconds from 0 up")
    return seconds


def _on_terminal() -> bool:
    """Whether standard error is one: it may be missing, or closed."""
    try:
        return sys.stderr.isatty()
    except (AttributeError, ValueError):
        return False


@dataclass
class _Limits:
    step: float
    episode: float


@dataclass(eq=False)
class _Lane:
    """One env, the episode that it plays, and what it keeps for the ones to come."""

    env: ToolEnv
    index: int
    episode: Trajectory | None = None
    order: tuple[int, ...] = ()
    until: float = 0.0
    """When the episode's time is up (time.monotonic)."""
    busy_until: float | None = None
    """When the running step's time is up; None while the env is idle."""
    worker: Worker | None = None
    asked: bool = False
    """Whether the policy owes this episode a turn."""
    action: Action | None = None
    closing: EndReason | None = None
    """Why the episode is being graded early."""
    start: tuple[int, Snapshot] | None = None
    """The state that a group starts from, and the index of its task."""
    marks: list[Snapshot] = field(default_factory=list)
    """The states before each turn, where they may be branched from."""
    branches: deque[tuple[Trajectory, int, int, tuple[int, ...], Snapshot]] = field(
        default_factory=deque
    )


_Then: TypeAlias = Callable[[_Lane, Any], None]
_Event: TypeAlias = tuple[_Lane, ToolEnv, _Then, Any, BaseException | None]


class _Rollout:
    """The state of one call of `rollout`: a loop over what envs and the policy have to say."""

    def __init__(
        self,
        fleet: Fleet,
        policy: Policy,
        todo: Iterator[tuple[int, int, Task]],
        group: int,
        branch: BranchPlan | None,
        seed: int,
        limits: _Limits,
        on_episode: Callable[[Trajectory], None] | None,
        progress: Progress | None,
        keep: bool,
    ) -> None:
        self.fleet, self.policy, self.seed, self.limits = fleet, policy, seed, limits
        self.on_episode, self.progress = on_episode, progress
        self.group, self.branch, self.todo, self.keep = group, branch, todo, keep
        self.lanes = [_Lane(env, i) for i, env in enumerate(fleet.envs)]
        self.by_key: dict[str, _Lane] = {}
        self.events: queue.SimpleQueue[_Event] = queue.SimpleQueue()
        self.done: list[tuple[tuple[int, ...], Trajectory]] = []

    def play(self) -> list[Trajectory]:
        """Run to the end."""
        try:
            for lane in self.lanes:
                self._next(lane)
            while any(lane.episode for lane in self.lanes):
                self._hear_policy()
                self._hear_envs()
                self._watch_clock()  # after the envs: a policy may have worked for long in here
        finally:
            self._wind_up()
        return [episode for _, episode in sorted(self.done, key=lambda pair: pair[0])]

    # -- one lane: next episode -> ask -> step -> ask ... -> end ---------------------------------

    def _next(self, lane: _Lane) -> None:
        """Start the lane's next episode: a branch of the last one, or the next task."""
        lane.episode = None
        if lane.branches:
            self._start_branch(lane)
        elif (planned := next(self.todo, None)) is not None:
            self._start_task(lane, *planned)
        else:
            return
        lane.until = time.monotonic() + self.limits.episode

    def _start_branch(self, lane: _Lane) -> None:
        parent, turn, k, order, snapshot = lane.branches.popleft()
        seed = derive(self.seed, "branch", *order)
        name = f"{parent.episode_id}/{turn}.{k}"
        prompt = parent.messages(turn)
        lane.episode = Trajectory(
            name, parent.group_id, parent.task, seed, prompt, (parent.episode_id, turn)
        )
        lane.order = order
        self._launch(lane, lambda env: (None, env.rollback(snapshot, seed=seed)[1]), self._started)

    def _start_task(self, lane: _Lane, i: int, g: int, task: Task) -> None:
        lane.env.release(*lane.marks)
        lane.marks = []
        seed = derive(self.seed, i, g)
        lane.episode = Trajectory(f"{i}.{g}", str(i), task, seed, [])
        lane.order = (i, g)
        start = lane.start
        if start is not None and start[0] == i:
            again = start[1]
            self._launch(lane, lambda env: (None, env.rollback(again, seed=seed)[1]), self._started)
            return
        if start is not None:
            lane.env.release(start[1])
        lane.start = None
        share = self.group > 1

        def begin(env: ToolEnv) -> tuple[Snapshot | None, dict[str, Any]]:
            info = env.reset(seed=seed, options={"task": task})[1]
            return (env.snapshot(on_refusal="mark") if share else None), info

        self._launch(lane, begin, self._started)

    def _started(self, lane: _Lane, result: tuple[Snapshot | None, dict[str, Any]]) -> None:
        snapshot, info = result
        episode = _playing(lane)
        if snapshot is not None and snapshot.refused is None:
            lane.start = (lane.order[0], snapshot)
        if not episode.prompt:
            episode.prompt = info["messages"]
        episode.provenance = provenance(lane.env)
        if info["infrastructure_error"]:
            self._end(lane, "infrastructure", info["infrastructure_error"])
        else:
            self._ask(lane)

    def _ask(self, lane: _Lane) -> None:
        if time.monotonic() > lane.until:
            self._grade_early(lane, "deadline", Action("", cut=True))
            return
        episode = _playing(lane)
        self.by_key[episode.episode_id] = lane
        lane.asked = True
        self.policy.submit(episode.episode_id, episode.messages())

    def _answered(self, lane: _Lane, given: object) -> None:
        lane.asked = False
        answer = check_action(given)
        if isinstance(answer, Exception):
            self._end(lane, "policy_error", repr(answer))
        elif answer.cut and not answer.text:
            self._grade_early(lane, "token_limit", answer)
        else:
            self._step(lane, answer)

    def _step(self, lane: _Lane, action: Action) -> None:
        lane.action = action
        move = move_of(lane.env, action)  # here: what a policy says is no doing of the env's
        mark = self.branch is not None and _playing(lane).parent is None

        def step(env: ToolEnv) -> tuple[Snapshot | None, StepResult]:
            before = env.snapshot(on_refusal="mark") if mark else None
            return before, env.act(move)

        self._launch(lane, step, self._stepped)

    def _grade_early(self, lane: _Lane, reason: EndReason, action: Action) -> None:
        lane.closing, lane.action = reason, action
        self._launch(lane, lambda env: (None, env.act("")), self._stepped)

    def _stepped(self, lane: _Lane, result: tuple[Snapshot | None, StepResult]) -> None:
        before, (observation, reward, terminated, truncated, info) = result
        episode = _playing(lane)
        assert lane.action is not None
        if before is not None:
            lane.marks.append(before)
        episode.turns.append(Turn(lane.action, observation, reward, info))
        if not (terminated or truncated):
            self._ask(lane)
            return
        episode.verdict = info["verdict"]
        failed = info["infrastructure_error"]
        reason = lane.closing if lane.closing and not failed else info["end_reason"]
        self._end(lane, reason, failed)

    def _end(self, lane: _Lane, reason: EndReason, error: str | None = None) -> None:
        episode = _playing(lane)
        episode.end_reason, episode.error, lane.closing = reason, error, None
        self.by_key.pop(episode.episode_id, None)
        self.policy.cancel(episode.episode_id)
        if self.keep:
            self.done.append((lane.order, episode))
        lane.episode = None
        if self.branch is not None and episode.valid and episode.parent is None:
            self._plan_branches(lane, episode)
        if self.on_episode:
            self.on_episode(episode)
        if self.progress:
            self.progress.add(episode)
        if lane in self.lanes:
            self._next(lane)

    def _plan_branches(self, lane: _Lane, episode: Trajectory) -> None:
        assert self.branch is not None
        if callable(self.branch):
            plan = self.branch(episode)
        else:
            plan = [(turn, self.branch) for turn in range(len(lane.marks))]
        planned: Counter[int] = Counter()
        for turn, count in plan:
            if not 0 <= turn < len(lane.marks):
                raise ValueError(f"branch: {episode.episode_id} has no turn {turn}")
            if count < 0:
                raise ValueError(f"branch: {count} continuations of turn {turn}; from 0 up")
            first = planned[turn]
            planned[turn] += count
            if lane.marks[turn].refused is None:
                for k in range(first, first + count):
                    order = (*lane.order, turn, k)
                    lane.branches.append((episode, turn, k, order, lane.marks[turn]))

    # -- the three sources of events ---------------------------------------------------------------

    def _launch(self, lane: _Lane, job: Callable[[ToolEnv], Any], then: _Then) -> None:
        """Run a job on the lane's env: here where it takes microseconds, else on its thread.

        `then` gets the lane and the result when the loop comes round to them.
        """
        env = lane.env
        lane.busy_until = time.monotonic() + self.limits.step
        if vars(type(env)).get("inline", False):
            try:
                result = job(env)
            except Exception as error:
                self.events.put((lane, env, then, None, error))
            else:
                self.events.put((lane, env, then, result, None))
            return
        if lane.worker is None:
            lane.worker = Worker()
        lane.worker.submit(lambda: job(env), lambda r, e: self.events.put((lane, env, then, r, e)))

    def _hear_envs(self) -> None:
        wait = not any(lane.asked for lane in self.lanes)
        while True:
            try:
                lane, env, then, result, error = self.events.get(block=wait, timeout=_IDLE)
            except queue.Empty:
                return
            wait = False
            if env is not lane.env or lane.busy_until is None:
                continue  # a step that came back after its deadline
            lane.busy_until = None
            if error is not None:
                self._give_up(lane, repr(error))
            else:
                then(lane, result)

    def _hear_policy(self) -> None:
        if not any(lane.asked for lane in self.lanes):
            return
        if not self.events.empty():
            timeout = 0.0
        else:
            timeout = _POLL if any(lane.busy_until for lane in self.lanes) else _IDLE
        for key, answer in _pairs(self.policy, self.policy.collect(timeout)):
            lane = self.by_key.get(str(key))
            if lane is not None and lane.asked:
                self._answered(lane, answer)

    def _watch_clock(self) -> None:
        now = time.monotonic()
        for lane in self.lanes[:]:
            if lane.busy_until is not None and now > lane.busy_until:
                self._give_up(lane, f"a step took over {self.limits.step:g} s")
            elif lane.asked and now > lane.until:
                lane.asked = False
                self.policy.cancel(_playing(lane).episode_id)
                self._grade_early(lane, "deadline", Action("", cut=True))

    def _give_up(self, lane: _Lane, why: str) -> None:
        """The env hung or raised: its episode does not count, and another env goes on."""
        lane.busy_until, lane.start = None, None
        lane.marks, lane.branches = [], deque()
        if lane.worker is not None:
            lane.worker.close()
            lane.worker = None
        try:
            lane.env = self.fleet.replace(lane.env, lane.index)
        except Exception as error:
            logger.warning("no new env (%r): going on with %d", error, len(self.lanes) - 1)
            self.lanes.remove(lane)
            self._end(lane, "infrastructure", why)
            if not self.lanes and next(self.todo, None) is not None:
                raise
        else:
            self._end(lane, "infrastructure", why)

    def _wind_up(self) -> None:
        for lane in self.lanes:
            if lane.episode is not None:  # only where the loop was left by an exception
                lane.episode.end_reason = "cancelled"
                self.policy.cancel(lane.episode.episode_id)
            if lane.worker is not None:
                lane.worker.close()
        if self.progress:
            self.progress.close()
        self._let_steps_end()
        for lane in self.lanes:
            lane.env.release(*lane.marks, *([lane.start[1]] if lane.start else []))

    def _let_steps_end(self) -> None:
        """An env has one caller at a time: the caller's own are handed back idle. (Those made here
        are closed, which ends their steps.)"""
        running = {lane.env for lane in self.lanes if lane.worker and lane.busy_until}
        running.difference_update(self.fleet.made)
        while running or not self.events.empty():
            try:
                _, env, _, result, _ = self.events.get(timeout=_IDLE)
                running.discard(env)
                if result and result[0]:
                    env.release(result[0])
            except queue.Empty:
                now = time.monotonic()
                for lane in self.lanes:
                    if lane.env in running and now > (lane.busy_until or 0):
                        running.remove(lane.env)
                        self.fleet.replace(lane.env, lane.index)


def move_of(env: ToolEnv, action: Action) -> Move:
    """What an action comes down to: the host's native calls, or what the env's protocol reads."""
    if action.calls is None or action.cut:
        return env.protocol.parse(action.text, cut=action.cut)
    if action.calls:
        return native_move(action.calls)
    return action.text.strip() or Malformed("an empty turn; call a tool or give the final answer")


def _pairs(policy: Policy, answers: Any) -> Sequence[tuple[Any, Any]]:
    """What `collect` gave. TypeError where nobody can tell whose answers they are."""
    if isinstance(answers, list | tuple) and all(
        isinstance(answer, tuple | list) and len(answer) == 2 for answer in answers
    ):
        return answers
    raise TypeError(
        f"{type(policy).__name__}.collect() gave {answers!r:.80}: a list of pairs of a key and an "
        "Action (or an Exception), empty where no turn is ready"
    )


def _playing(lane: _Lane) -> Trajectory:
    assert lane.episode is not None
    return lane.episode
