"""Where the answer must not stand: in the prompt, and in the text of an error."""

import random
import re
from collections.abc import Iterator, Sequence

from agent_envs.env import ToolEnv
from agent_envs.task import Task
from agent_envs.testing.play import Player, Subject, draw_call, earn
from agent_envs.turns import Move, ToolCall

_NUMBER = re.compile(r"-?[0-9]+(?:[.,][0-9]+)*")
_AROUND = "\"'`()[]{}<>.,:;!?=*"
_MOST = 40
"""How many texts are answered after one observation."""


def prompts_do_not_tell(subject: Subject) -> None:
    """No number of a prompt, nor its last word, is the answer, but for an accident in fifty."""
    env = subject.make()
    for split in env.tasks.splits:
        levels: dict[int, list[Task]] = {}
        for task in _where_answers_count(subject, env, split, 200, 20):
            levels.setdefault(task.level, []).append(task)
        for tasks in levels.values():
            found = [(t, a) for t in tasks if (a := _passing(env, t, (), _in_prompt(t))) != ""]
            assert len(found) <= max(1, len(tasks) // 50), (
                f"the answer stands in the prompt in {len(found)} of {len(tasks)} tasks of "
                f"{split}: {found[0][1]!r} passes {found[0][0].id}. Leave it out; where the task "
                'is to choose from what the prompt shows, give it reads="choice"'
            )
    env.close()


def error_texts_do_not_tell(subject: Subject) -> None:
    """No word of what a tool says of a call that failed is the answer."""
    env = subject.make()
    for split in env.tasks.splits:
        for task in _where_answers_count(subject, env, split, 20, 4):
            tried: set[str] = set()
            for call, text in _failures(env, task):
                answers = [a for a in _words(text) if a not in tried][:_MOST]
                tried.update(answers)
                answer = _passing(env, task, (call,), answers)
                assert answer == "", (
                    f"the error {text!r:.120} of {call.name}() gives the answer away: {answer!r} "
                    f"passes {task.id}. Say what was wrong with the call, not what is right"
                )
    env.close()


def _where_answers_count(
    subject: Subject, env: ToolEnv, split: str, quick: int, slow: int
) -> list[Task]:
    """Tasks whose answer has to be found. Not where it is chosen from what is shown, nor where the
    state alone is graded: then no text can pass."""

    def careless(player: Player) -> Move:
        move = player.gold()
        return "no idea" if isinstance(move, str) else move

    tasks = subject.some(env, split, quick, slow)
    if earn(env, tasks[0], careless)[1].passed:
        return []
    return [task for task in tasks if task.reads != "choice"]


def _in_prompt(task: Task) -> list[str]:
    numbers = _NUMBER.findall(task.prompt)
    last = task.prompt.split()[-1:]
    answers = [
        *numbers,
        *(n.lstrip("-") for n in numbers),
        *last,
        *(x.strip(_AROUND) for x in last),
    ]
    return list(dict.fromkeys(filter(None, answers)))[:_MOST]


def _words(text: str) -> list[str]:
    words = [*_NUMBER.findall(text), *(word.strip(_AROUND) for word in text.split())]
    return list(dict.fromkeys(filter(None, words)))


def _failures(env: ToolEnv, task: Task) -> Iterator[tuple[ToolCall, str]]:
    """Calls that fail in a task, and what is said of them; each text once."""
    rng, seen = random.Random(task.id), set()
    calls = [ToolCall("no_such_tool", {})]
    for name in sorted(env.tools):
        calls += [draw_call(env, rng, name) for _ in range(6)]
        calls.append(ToolCall(name, {"nonsense": 1}))
    for call in calls:
        env.reset(seed=1, options={"task": task})
        result = env.call(call)
        if result.error is not None and not env.ended and result.content not in seen:
            seen.add(result.content)
            yield call, result.content


def _passing(env: ToolEnv, task: Task, calls: Sequence[ToolCall], answers: Sequence[str]) -> str:
    """The first of the answers that passes after some calls, or an empty text."""
    for answer in answers:
        env.reset(seed=1, options={"task": task})
        for call in calls:
            env.call(call)
        verdict = env.finish(answer)
        if verdict is not None and verdict.passed:
            return answer
    return ""
