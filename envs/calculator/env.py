"""The calculator environments: one tool, exact answers, results that can be made to lie."""

import re
from functools import lru_cache

from agent_envs.env import ToolEnv
from agent_envs.envs.calculator.cheats import CHARS, HERMES
from agent_envs.envs.calculator.evaluate import evaluate, render
from agent_envs.envs.calculator.tasks import CalculatorTasks, CharsTasks
from agent_envs.task import Task
from agent_envs.tool import tool
from agent_envs.turns import Message, Move, ToolCall
from agent_envs.verdict import Verdict
from agent_envs.verifiers.answer import VERSION, is_correct

_NUMBER = re.compile(r"(?!-0$)-?(?:0|[1-9][0-9]*)(?:\.[0-9]*[1-9])?")
"""A number as `render` writes it."""


class Calculator(ToolEnv):
    """Problems in words, solved with a calculator; the answer must be the exact number.

    A task's `data` is `{"answer": "68", "calls": ["23+45"]}`: gold, and the oracle's calls, which
    may be left out.
    """

    tasks = CalculatorTasks()
    weights = {"answer": 1.0, "calls": 0.0}
    inline = True
    letters = {"B": "calculate"}
    cheats = HERMES
    verifier = "agent_envs.verifiers.answer"

    def setup(self, task: Task) -> None:
        """Nothing to build. ValueError for a task whose private data are not as said above."""
        match task.data:
            case {"answer": str()}:
                return
        raise ValueError(f'task {task.id!r}: its data must be {{"answer": "68"}}, a number as text')

    @tool
    def calculate(self, expression: str) -> str:
        """Work out an arithmetic expression, exactly.

        Args:
            expression: Numbers, + - * / // % **, parentheses, abs, ceil, floor, max, min,
                round(x, digits), sqrt.
        """
        return _calculated(expression)

    def grade(self, answer: str | None) -> Verdict:
        """Whether the answer is the gold number; `calls` counts all calls made, at weight 0."""
        right = is_correct(self.task, answer, self.task.data["answer"])
        components = {"answer": float(right), "calls": float(self.calls)}
        return Verdict(components, self.weights, right, VERSION)

    def corrupt(self, kind: str, call: ToolCall, content: str, u: float) -> str:
        """Another number in the same form: off by a few last places, or cut short.

        Unchanged where there is none."""
        if not _NUMBER.fullmatch(content):
            return content
        return _neighbour(content, u) if kind == "wrong" else _prefix(content, u)

    @staticmethod
    def oracle(task: Task, messages: list[Message]) -> Move:
        """The gold calls one after the other, whatever they gave, and then the gold answer."""
        turn = sum(message["role"] == "assistant" for message in messages)
        calls = task.data.get("calls", [])
        if turn < len(calls):
            return [ToolCall("calculate", {"expression": calls[turn]})]
        answer: str = task.data["answer"]
        return answer


class CalculatorChars(Calculator):
    """Bare sums for a model that reads and writes characters: `23+45=`, `B23+45|`, `68|`."""

    tasks = CharsTasks()
    inline = True
    cheats = CHARS


@lru_cache(maxsize=4096)
def _calculated(expression: str) -> str:
    """The result as text. A group of episodes asks the same things again and again."""
    return render(evaluate(expression))


def _neighbour(content: str, u: float) -> str:
    """A number 1 to 9 units of the last place away: as many decimals, the same sign or zero."""
    whole, _, decimals = content.lstrip("-").partition(".")
    units, places = int(whole + decimals), len(decimals)
    near = [n for n in range(max(0, units - 9), units + 10) if n != units]
    if places:
        near = [n for n in near if n % 10]
    other = near[int(u * len(near))]
    digits = f"{other:0{places + 1}}"
    sign = "-" if content[0] == "-" and other else ""
    return f"{sign}{digits[:-places]}.{digits[-places:]}" if places else sign + digits


def _prefix(content: str, u: float) -> str:
    """A beginning that is a number in canonical form itself, if there is one."""
    starts = (content[:length] for length in range(1, len(content)))
    numbers = [start for start in starts if _NUMBER.fullmatch(start)]
    return numbers[int(u * len(numbers))] if numbers else content
