"""What runs around the tests, in their sandbox, where no graded code ever runs.

The graded code is asked through the host: a run that needs an answer ends with its questions, and
the host runs it again from the same state once it has the answers. So a test runs to its end only
when all that it asks is known.
"""

import ast
import builtins
import functools
import json
import linecache
import os
import traceback
from collections.abc import Callable
from typing import Any, NoReturn

from agent_envs.verifiers.unit_tests.codec import Other, no_objects, pack, refuse, unpack, write

home = functools.cache(os.getcwd)
"""Where the session began: it is asked for before any test runs."""
ORDER = ".order"
TEST = "<test>"
PENDING = "_Pending"
LONGEST_TEXT = 1000
MOST_ASKED = 500
"""Questions of one run."""
MOST_MISSED = 20_000
"""How often one run may lack an answer."""
ENDS = (StopIteration, StopAsyncIteration)


class Pending(BaseException):
    """An answer is missing: what needs it cannot be run yet."""


class Enough(BaseException):
    """The run is of no more use: there are many questions, or an answer that there will not be."""


class Questions:
    """What a run asks, what it has been told, and what came of that."""

    def __init__(self) -> None:
        self.answers: dict[str, Any] = {}
        self.asked: dict[str, None] = {}
        self.broken = ""
        self.asks = self.missed = 0
        self.in_order = False
        """Whether an answer depends on all questions before it."""

    def start(self, answers: dict[str, Any], *, in_order: bool) -> None:
        """Begin a run."""
        self.__init__()  # type: ignore[misc]
        self.answers, self.in_order = answers, in_order

    def ask(self, question: Any) -> dict[str, Any]:
        """The answer: `value`, or `raised`. Raises Pending or Enough."""
        self.asks += 1
        key = json.dumps([self.asks, question] if self.in_order else question)
        answer = self.answers.get(key)
        if answer is None:
            self.miss(key)
        if "broken" in answer:
            self.give_up(answer["broken"])
        return dict(answer)

    def miss(self, key: str) -> NoReturn:
        """Note a question that has no answer yet. Raises Pending or Enough."""
        self.missed += 1
        if not (self.in_order and self.asked):
            self.asked.setdefault(key)
        if len(self.asked) >= MOST_ASKED or self.missed >= MOST_MISSED:
            raise Enough
        raise Pending

    def value(self, answer: dict[str, Any], other: Other = no_objects) -> Any:
        """What an answer holds. What cannot be read breaks the test; it raises nothing in it."""
        try:
            return unpack(answer["value"], other)
        except ValueError as error:
            return self.give_up(f"the value cannot be read: {error}")

    def give_up(self, why: str) -> NoReturn:
        """The test has failed, whatever it goes on to do. Raises Enough."""
        self.broken = self.broken or why or "the graded code broke off"
        raise Enough


questions = Questions()


def answer(work: Callable[[Any], None], text: str | None = None) -> None:
    """Do what the order says, with all printing thrown away, and write what came of it to stdout:
    `asks`, or else `failed` with the `detail`, or else `passed`.

    The order is a JSON text, or else in its file.
    """
    if text is None:
        with open(f"{home()}/{ORDER}", encoding="utf-8") as file:
            text = file.read()
    order = json.loads(text)
    reply = os.dup(1)
    null = os.open("/dev/null", os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)
    os.close(null)
    questions.start(order["answers"], in_order=order["in_order"])
    said: dict[str, Any] = {"passed": True}
    try:
        work(order)
    except BaseException as error:
        said = {"failed": type(error).__name__, "detail": detail(error)}
    if questions.asked:
        said = {"asks": list(questions.asked)}
    elif questions.broken:
        said = {"failed": questions.broken, "detail": questions.broken}
    elif not questions.asks and order["must_ask"]:
        said = {"failed": "it never asks", "detail": "the test never calls the graded code"}
    write(reply, said)


def detail(error: BaseException) -> str:
    """The line of the test that failed, and how."""
    lines = [f.line for f in traceback.extract_tb(error.__traceback__) if f.line]
    try:
        said = "".join(traceback.format_exception_only(error)).strip()
    except BaseException:  # a message may ask too
        said = type(error).__name__
    return f"{lines[-1] if lines else ''}\n{said}".strip()[:LONGEST_TEXT]


def check(order: dict[str, Any]) -> None:
    """Run assert tests in HumanEval's form: the prompt's own code, then the tests, then `check`.

    Only the entry point asks, under both its names.
    """
    names: dict[str, Any] = {"__name__": "test", PENDING: Pending}
    run(order["prompt"], "<prompt>", names)
    names[order["entry"]] = candidate
    run(order["test"], TEST, names)
    names[order["entry"]] = candidate
    names["check"](candidate)


def candidate(*args: Any, **kwargs: Any) -> Any:
    """Stands for the entry point. Arguments are copied, so what it does to them is not seen."""
    answer = questions.ask(pack((args, kwargs), refuse))
    if "raised" in answer:
        raise exception(answer["raised"], answer["text"])
    return questions.value(answer)


def exception(name: Any, text: Any, *, may_end: bool = False) -> Exception:
    """A built-in exception by name, RuntimeError for what is none; or a base that a text makes.

    The name is the graded code's word, so it is RuntimeError too where the test's own loops would
    take it for their end; but for `next`, which `may_end`.
    """
    kind = getattr(builtins, str(name), None)
    if not (isinstance(kind, type) and issubclass(kind, Exception)):
        kind = RuntimeError
    if issubclass(kind, ENDS) and not may_end:
        kind = RuntimeError
    for base in kind.__mro__:
        try:
            return base(str(text))  # type: ignore[no-any-return]
        except TypeError:
            continue
    return RuntimeError(str(text))


def run(source: str, name: str, names: dict[str, Any]) -> None:
    """Execute source; its lines can be shown in a traceback."""
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    tree = ast.parse(source, name)
    if not questions.in_order:
        tree = ast.fix_missing_locations(GoOn().visit(tree))
    exec(compile(tree, name, "exec"), names)


class GoOn(ast.NodeTransformer):
    """Lets a run go on after an assert, or a round of a loop, that lacks an answer: so that it
    collects more questions at once. A run that lacks none is not changed by it.
    """

    def visit_Assert(self, node: ast.Assert) -> ast.Try:
        """`try: assert ...` / `except Pending: pass`."""
        return ast.copy_location(_where_answered([node]), node)

    def visit_For(self, node: ast.For) -> ast.For:
        """The same around the body."""
        self.generic_visit(node)
        node.body = [ast.copy_location(_where_answered(node.body), node)]
        return node


def _where_answered(body: list[ast.stmt]) -> ast.Try:
    handler = ast.ExceptHandler(ast.Name(PENDING, ast.Load()), None, [ast.Pass()])
    return ast.Try(body, [handler], [], [])
