"""A short tour: graded episodes with faults, rollbacks, who gets paid, and an agent that learns.

Every line is played as it is printed; nothing is stored. It takes seconds, and where torch is
installed a minute or two more for the training.
"""

import argparse
from collections.abc import Callable
from typing import Any

from agent_envs.cli import page
from agent_envs.cli.browsing import browser
from agent_envs.cli.coding import coding
from agent_envs.cli.common import Failed, make, note, print_json, table
from agent_envs.cli.page import Say
from agent_envs.cli.plan import make_players
from agent_envs.cli.querying import querying
from agent_envs.cli.tally import row, summary
from agent_envs.cli.workshop import workshop
from agent_envs.env import ToolEnv
from agent_envs.policy import Policy, ScriptedPolicy, oracle
from agent_envs.rollout import rollout
from agent_envs.snapshot import Snapshot
from agent_envs.task import Task
from agent_envs.trajectory import Trajectory
from agent_envs.turns import Action, Message, StepResult, ToolCall, ToolResult

ENV_ID = "agent/Calculator-v0"
FAULT_RATE = 0.3


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What may be left out."""
    parser.add_argument("--no-training", action="store_true", help="leave the training out")


def run(arguments: argparse.Namespace) -> int:
    """Show one part after the other."""
    say: Say = note if arguments.json else print
    left_out = {"workshop"} if arguments.no_training else set()
    told = {name: part(say) for name, part in PARTS.items() if name not in left_out}
    if arguments.json:
        print_json(told)
    return 0


# -- 1: episodes -----------------------------------------------------------------------------------


def episodes(say: Say) -> list[dict[str, Any]]:
    """The oracle on three held-out tasks, each under the first seed that spoils a result."""
    page.heading(say, "1. Graded episodes, with a tool that lies")
    page.prose(
        say,
        f"{ENV_ID}: a model reads a task, calls tools turn by turn, and gives an answer. Here the "
        f"oracle plays, which knows the way. {FAULT_RATE:.0%} of the calculator's results are made "
        "wrong on purpose: nothing in them shows it, and the truth is kept for the trainer.",
    )
    env = make(ENV_ID, split="heldout", fault_rate=FAULT_RATE)
    shown = []
    for level in (0, 3, 4):
        episode = _spoiled(env, env.tasks.split("heldout", level)[0])
        _show(say, episode)
        passed = bool(episode.verdict and episode.verdict.passed)
        faults = sum(result.fault is not None for result in _results(episode))
        shown.append({"task": episode.task.id, "passed": passed, "faults": faults})
    env.close()
    return shown


def _spoiled(env: ToolEnv, task: Task) -> Trajectory:
    """The oracle's episode under the first seed under which a result is spoiled."""
    player = oracle(type(env), env.tasks)

    def play(seed: int) -> Trajectory:
        return rollout([env], player, [task], seed=seed, progress=False)[0]

    return play(_first_seed(lambda seed: any(result.fault for result in _results(play(seed)))))


def _results(episode: Trajectory) -> list[ToolResult]:
    return [result for turn in episode.turns for _, result in turn.info["calls"]]


def _show(say: Say, episode: Trajectory) -> None:
    page.task(say, episode.task)
    for turn in episode.turns:
        for call, result in turn.info["calls"]:
            page.called(say, call, result)
    page.answered(say, episode.turns[-1].action.text, episode.verdict)


# -- 2: branches -----------------------------------------------------------------------------------


def branches(say: Say) -> dict[str, Any]:
    """A snapshot before the last call of an episode, and three ways to go on from there."""
    page.heading(say, "2. A snapshot in mid-episode, and two rollbacks")
    page.prose(
        say,
        "This player believes its tool: it answers with the last result. The seed is the first one "
        "that spoils just that result.",
    )
    env = make(ENV_ID, split="heldout", fault_rate=FAULT_RATE)
    last = _up_to_the_last_call(say, env)
    page.rule(say, "snapshot")
    kept = env.snapshot()
    first = env.act([last])
    page.called(say, last, _result(first))
    believed = _finish(say, env, _result(first).content)

    page.rule(say, "rollback: the same call again, and this time a second opinion")
    env.rollback(kept)
    again = env.act([last])
    page.called(say, last, _result(again))
    page.remark(say, f"the step is the same as before in every part: {page.yes(again == first)}")
    opinion = env.call(last)
    page.called(say, last, opinion)
    page.remark(say, "a new call is a new draw of the noise")
    asked_twice = _finish(say, env, opinion.content)

    seed = _lucky_seed(env, kept, last)
    page.rule(say, f"rollback with seed={seed}: the same state and call, other noise")
    env.rollback(kept, seed=seed)
    other = env.call(last)
    same = other.content == _result(first).truth
    page.called(say, last, other)
    page.remark(say, f"what the fault hid; only the noise has changed: {page.yes(same)}")
    reseeded = _finish(say, env, other.content)
    env.close()
    passed = {"believed": believed, "asked_twice": asked_twice, "reseeded": reseeded}
    return {"same_again": again == first, "only_noise_changed": same, "passed": passed}


def _up_to_the_last_call(say: Say, env: ToolEnv) -> ToolCall:
    """Play a word problem up to the call that the episode's seed will spoil; returns that call."""
    task = env.tasks.split("heldout", 3)[0]
    calls = _gold_calls(env, task)
    env.reset(seed=_unlucky_seed(env, task, calls), options={"task": task})
    page.task(say, task)
    for call in calls[:-1]:
        page.called(say, call, env.call(call))
    return calls[-1]


def _gold_calls(env: ToolEnv, task: Task) -> list[ToolCall]:
    played = rollout([env], oracle(type(env), env.tasks), [task], progress=False)[0]
    return [call for turn in played.turns for call, _ in turn.info["calls"]]


def _unlucky_seed(env: ToolEnv, task: Task, calls: list[ToolCall]) -> int:
    """The first seed that spoils the last of the calls only, and not that call made once more."""
    wanted = [None] * (len(calls) - 1) + ["wrong", None]

    def spoils(seed: int) -> bool:
        env.reset(seed=seed, options={"task": task})
        return [env.call(call).fault for call in [*calls, calls[-1]]] == wanted

    return _first_seed(spoils)


def _lucky_seed(env: ToolEnv, kept: Snapshot, call: ToolCall) -> int:
    """The first seed under which a call from a kept state is sound; tried out in forks."""

    def is_sound(seed: int) -> bool:
        with env.fork(kept, seed=seed) as twin:
            fault = twin.call(call).fault
        return fault is None

    return _first_seed(is_sound)


def _first_seed(fits: Callable[[int], bool]) -> int:
    for seed in range(1000):
        if fits(seed):
            return seed
    raise Failed("1,000 seeds and none shows what the demo is about: are faults injected at all?")


def _result(step: StepResult) -> ToolResult:
    result: ToolResult = step[4]["calls"][0][1]
    return result


def _finish(say: Say, env: ToolEnv, answer: str) -> bool:
    verdict = env.finish(answer)
    page.answered(say, answer, verdict)
    return bool(verdict and verdict.passed)


# -- 3: who is paid --------------------------------------------------------------------------------


def players(say: Say) -> dict[str, Any]:
    """The success of several players on held-out tasks, with a reliable and a lying tool."""
    reliable = make(ENV_ID, split="heldout")
    lying = make(ENV_ID, split="heldout", fault_rate=FAULT_RATE)
    tasks = reliable.tasks.split("heldout")
    cheats = make_players(reliable, "cheats")
    page.heading(say, "3. Who gets paid")
    page.prose(say, f"All {len(tasks)} held-out tasks for each; the cheats are {_all(cheats)}.")
    lineup: dict[str, list[Policy]] = {
        "oracle": [oracle(type(reliable), reliable.tasks)],
        "believes its tool": [believer(reliable)],
        "calls at random": list(make_players(reliable, "random").values()),
        "says it does not know": list(make_players(reliable, "null").values()),
        f"{len(cheats)} cheats": list(cheats.values()),
    }
    told: dict[str, Any] = {}
    for name, policies in lineup.items():
        told[name] = {
            "reliable": _success([reliable], policies, tasks),
            "lying": _success([lying], policies, tasks),
        }
    rows = [[name, *(f"{rate:.1%}" for rate in rates.values())] for name, rates in told.items()]
    head = ["solved by", "reliable tool", f"{FAULT_RATE:.0%} wrong"]
    say(table(head, rows, "  "))
    reliable.close()
    lying.close()
    return told


def _success(envs: list[ToolEnv], policies: list[Policy], tasks: tuple[Task, ...]) -> float:
    played = [one for p in policies for one in rollout(envs, p, tasks, progress=False)]
    rate: float = summary([row(episode) for episode in played])["success_rate"]
    return rate


def believer(env: ToolEnv) -> ScriptedPolicy:
    """Makes the gold calls and answers with the last result, whatever it is."""
    by_prompt = {task.prompt: task for task in env.tasks}

    def act(messages: list[Message]) -> Action:
        prompt = next(m["content"] for m in messages if m["role"] == "user")
        move = env.oracle(by_prompt[prompt], messages)
        if isinstance(move, list):
            return Action("", calls=move)
        return Action(messages[-1]["content"], calls=[])

    return ScriptedPolicy(act)


def _all(names: dict[str, Policy]) -> str:
    return ", ".join(name.replace("_", " ") for name in names)


PARTS: dict[str, Callable[[Say], Any]] = {
    "episodes": episodes,
    "branches": branches,
    "players": players,
    "coding": coding,
    "querying": querying,
    "browser": browser,
    "workshop": workshop,
}
"""What is shown, in order: each writes its part and returns its figures for `--json`."""
