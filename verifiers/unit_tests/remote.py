"""What stands for a graded package among its tests: modules, classes and objects that only ask.

An object of the package's is never equal to a plain value, nor less or more, whatever it says: a
test that expects 3 wants an int. Among themselves the package's objects say what they like.
"""

import functools
import types
from collections.abc import Callable, Iterator, Sequence
from importlib.machinery import ModuleSpec
from typing import Any

from agent_envs.verifiers.unit_tests.asking import exception, questions
from agent_envs.verifiers.unit_tests.codec import pack

classes: dict[int, type] = {}
objects: dict[int, Any] = {}
early: dict[tuple[str, str], Any] = {}
"""Modules, and attributes of modules, that were asked for before the tests were loaded. Good only
as long as nothing but imports has been asked."""


def question(what: str, *arguments: Any) -> Any:
    """Ask the package, and return its value or raise its exception."""
    if what != "import":
        early.clear()
    answer = questions.ask([what, *pack(list(arguments), number)])
    if "raised" not in answer:
        return questions.value(answer, stand_in)
    if "object" not in answer:
        raise exception(answer["raised"], answer["text"], may_end=arguments[:1] == ("next",))
    raise questions.value({"value": answer["object"]}, functools.partial(stand_in, text=answer))


def number(value: Any) -> dict[str, int]:
    """What names an object of the package's. Raises TypeError for objects of a test's."""
    ref = vars(value).get("_ref") if hasattr(value, "__dict__") else None
    if ref is None:
        raise TypeError(f"a test's {type(value).__name__} cannot be given to the graded code")
    return {"ref": ref}


def stand_in(tree: dict[str, Any], text: dict[str, Any] | None = None) -> Any:
    """The local stand-in for an object: always the same for the same one."""
    ref = int(tree["ref"])
    if "class" in tree:
        return class_of(tree)
    if ref not in objects:
        if "module" in tree:
            objects[ref] = RemoteModule(str(tree["module"]), ref)
        else:
            kind = class_of(tree["of"])
            arguments = [str(text["text"])] if text else []
            one: Any = kind.__new__(kind, *arguments)
            vars(one)["_ref"] = ref
            objects[ref] = one
    return objects[ref]


def class_of(tree: dict[str, Any]) -> type:
    """The local stand-in for a class, with those of its bases."""
    ref = int(tree["ref"])
    if ref not in classes:
        found = dict.fromkeys(base for shown in tree["bases"] for base in bases_of(shown))
        bases = tuple(found) or (Remote,)
        methods = frozenset(map(str, tree["methods"]))
        classes[ref] = RemoteClass(str(tree["class"]), bases, {"_ref": ref, "_methods": methods})
    return classes[ref]


def bases_of(shown: Any) -> tuple[type, ...]:
    """A base of a class: one of the package's, or by name a built-in exception."""
    if isinstance(shown, str):
        return (RemoteError, type(exception(shown, "")))
    return (class_of(shown),)


class RemoteClass(type):
    """A class of the package's: calling it, and its attributes, are questions."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        if issubclass(cls, BaseException):
            return super().__call__(*args, **kwargs)
        return question("call", cls, None, args, kwargs)

    def __getattr__(cls, name: str) -> Any:
        return ask_attribute(cls, name)

    def __setattr__(cls, name: str, value: Any) -> None:
        question("set", cls, name, value)


def ask_attribute(owner: Any, name: str) -> Any:
    """An attribute; names of the language's own are never asked for."""
    if name.startswith("__") or "_ref" not in vars(owner):
        raise AttributeError(f"no attribute {name}")
    return question("get", owner, name)


def asking(name: str) -> Callable[..., Any]:
    """A special method that is a question."""
    return lambda self, *others: question("operate", name, self, *others)


def asking_right(name: str) -> Callable[..., Any]:
    """As `asking`, for the right side of an operator."""
    return lambda self, other: question("operate", name, other, self)


def comparing(name: str) -> Callable[[Any, Any], Any]:
    """A comparison: only objects of the package's are compared by it."""

    def compare(self: Any, other: Any) -> Any:
        if not isinstance(other, Remote):
            return NotImplemented
        return question("operate", name, self, other)

    return compare


class Remote:
    """An object of the package's."""

    _methods: frozenset[str] = frozenset()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return question("call", self, None, args, kwargs)

    def __getattr__(self, name: str) -> Any:
        if name in type(self)._methods:
            return lambda *args, **kwargs: question("call", self, name, args, kwargs)
        return ask_attribute(self, name)

    def __setattr__(self, name: str, value: Any) -> None:
        question("set", self, name, value)

    def __iter__(self) -> Iterator[Any]:
        return iter(question("operate", "list", self))

    def __enter__(self) -> Any:
        return question("operate", "enter", self)

    def __exit__(self, *error: Any) -> None:
        question("operate", "exit", self)


for _name in "len next str repr bool hash abs int float format neg".split():
    setattr(Remote, f"__{_name}__", asking(_name))
for _name in "getitem setitem delitem contains".split():
    setattr(Remote, f"__{_name}__", asking(_name))
for _name in "add sub mul truediv floordiv mod pow and or xor".split():
    _operator = _name + "_" if _name in ("and", "or") else _name
    setattr(Remote, f"__{_name}__", asking(_operator))
    setattr(Remote, f"__r{_name}__", asking_right(_operator))
for _name in "eq ne lt le gt ge".split():
    setattr(Remote, f"__{_name}__", comparing(_name))


class RemoteError:
    """What exceptions of the package's have beside their message."""

    def __getattr__(self, name: str) -> Any:
        return ask_attribute(self, name)


class RemoteModule(types.ModuleType):
    """A module of the package's. A star import takes nothing from it."""

    __all__: Sequence[str] = ()

    def __init__(self, name: str, ref: int) -> None:
        super().__init__(name)
        vars(self)["_ref"] = ref

    def __getattr__(self, name: str) -> Any:
        known = early.get((self.__name__, name))
        return ask_attribute(self, name) if known is None else known

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("__") or isinstance(value, types.ModuleType):
            vars(self)[name] = value  # the import system's own
        else:
            question("set", self, name, value)


class Finder:
    """Finds the package's modules by asking; an import that fails there fails here."""

    def __init__(self, tops: Sequence[str]) -> None:
        self.tops = frozenset(tops)

    def owns(self, name: str) -> bool:
        """Whether a module is the package's."""
        return name.partition(".")[0] in self.tops

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """For modules of the package's only."""
        if not self.owns(name):
            return None
        return ModuleSpec(name, self, is_package=True)  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> types.ModuleType:
        """The stand-in."""
        module = early.get((spec.name, "")) or question("import", spec.name)
        if not isinstance(module, RemoteModule):
            questions.give_up(f"{spec.name} is no module")
        return module

    def exec_module(self, module: types.ModuleType) -> None:
        """There is nothing to run here."""
